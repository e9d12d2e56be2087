/* api_exchange.h - one request with its answer, from the router to the last byte.
 *
 * A handler answers with one of answer_*(), now or later.  An answer may end the exchange at once: the handler does not touch
 * the exchange afterwards. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/auto.h"
#include "base/str.h"
#include "control/engine_link/engine_link.h"
#include "control/life/lives.h"
#include "http/server.h"

struct api;
struct err;
struct endpoint;
struct team;

#define API_ID_MAX 65 /* ids that are longer than any of ours are refused, not searched for */

struct api_exchange {
        struct api *api;
        struct http_request *rq;
        const struct endpoint *endpoint;
        struct team *team;     /* of the API key; NULL on open routes */
        char key_id[UUID_MAX]; /* of the row of that key; the key may be revoked meanwhile */
        char id[API_ID_MAX]; /* the sandbox that the path names, without a client suffix; or the sandbox that is being made */
        struct str segment;        /* the path's segment for another name in braces; raw, borrowed from rq */
        struct str segment2;       /* of the second such name, if the pattern has two */
        json_t *body;              /* owned; NULL: none */
        struct life_waiter waiter; /* for the end of a transition */
        struct image_taker taker;  /* for a copy */
        struct api_wish {          /* what the client asked for, while the request waits for its turn */
                int64_t timeout_s;
                bool with_memory;
                enum choice auto_pause;
                bool is_begun; /* the transition that the request waits for is its own */
        } wish;
        void *job;               /* of a handler that takes several steps; freed in on_over */
        struct engine_call call; /* of a handler that asks the engine directly */
        struct timer overdue;    /* there is no answer although every wait should have ended */
        /* The exchange is over; `is_complete`: the client has all of the answer.  NULL: nothing to do then. */
        void (*on_over)(struct api_exchange *x, bool is_complete);
};

/* The longest that an answer may take: longer than all that a handler may wait for, one after the other (the end of another
 * request's pause, the end of its own copy, and the disk). */
#define ANSWER_MS_MAX 3600000

/* The body, when there is one, has been parsed; headers and query are in x->rq. */
typedef void (*api_handler)(struct api_exchange *x);

void api_exchange_handle(struct api_exchange *x); /* call the endpoint's handler, which has ANSWER_MS_MAX */
void api_exchange_leave(struct api_exchange *x, bool is_complete); /* end all waits; on_over() is called, once */

void answer_json(struct api_exchange *x, unsigned status, json_t *body); /* body stolen */
/* More headers: a list that ends with {NULL, NULL}, at most 4. */
void answer_json_with(struct api_exchange *x, unsigned status, const struct http_header *more, json_t *body);
void answer_empty(struct api_exchange *x, unsigned status); /* 204, say */
/* {"code","message"} and, where `code` is not NULL, "error_code". */
void answer_error(struct api_exchange *x, unsigned status, const char *code, const char *fmt, ...) PRINTF(4, 5);
/* 503 with Retry-After: nothing was begun, and the same request may be sent again. */
void answer_later(struct api_exchange *x, unsigned again_s, const char *fmt, ...) PRINTF(3, 4);
/* The same with another code in the body than the status: for clients that go by it alone. */
void answer_error_as(struct api_exchange *x, unsigned status, int body_code, const char *code, const char *fmt, ...)
        PRINTF(5, 6);
void answer_err(struct api_exchange *x, const struct err *err); /* the status follows from the kind */
unsigned answer_status_of(const struct err *err);               /* this status */
json_t *answer_text(const char *msg);           /* a message as JSON, whatever bytes it has; NULL: no memory */
void answer_no_sandbox(struct api_exchange *x); /* 404 for x->id */
void answer_missing(struct api_exchange *x);    /* 404: the sandbox's files are not there */
void answer_in_transition(struct api_exchange *x,
                          const struct life *l); /* 409: the sandbox is being paused, killed, ... */
void answer_start_error(struct api_exchange *x,
                        const struct err *err); /* a sandbox could not be started, or begun again */
void answer_copy_error(struct api_exchange *x, const struct err *err); /* a sandbox could not be copied */
void answer_too_many(struct api_exchange *x, const struct err *err);   /* 429: as many run as may (lives_check_limit) */
/* For the router only: the answers to a preflight and to a wrong method. */
void answer_preflight(struct api_exchange *x);
void answer_wrong_method(struct api_exchange *x, const char *allow);
