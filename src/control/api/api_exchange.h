/* exchange.h - one request with its answer, from the router's hands to the last byte.
 *
 * A handler answers with one of answer_*(), now or later.  Answering may end the exchange before it returns: nothing of
 * it is touched afterwards. */
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

#define API_ID_MAX 65 /* longer ids than any of ours are refused, not searched for */

struct api_exchange {
        struct api *api;
        struct http_request *rq;
        const struct endpoint *endpoint;
        struct team *team;         /* who asks; NULL on open routes */
        char id[API_ID_MAX];       /* the sandbox named in the path, without a client suffix; or the one being made */
        struct str segment;        /* what stands in the path for another name in braces; raw, borrowed from rq */
        json_t *body;              /* owned; NULL: none */
        struct life_waiter waiter; /* for the end of a transition */
        struct image_taker taker;  /* for a copy */
        struct api_wish {          /* of what may have to wait for its turn */
                int64_t timeout_s;
                bool with_memory;
                enum choice auto_pause;
                bool is_begun; /* the transition that is waited for is the one that was asked for */
        } wish;
        void *job;               /* what takes several steps; its handler's own, freed in on_over */
        struct engine_call call; /* for what asks the engine directly */
        struct timer overdue;    /* no answer although every wait should have ended */
        /* The exchange is over; `is_complete`: the client has all of the answer.  NULL: nothing to do then. */
        void (*on_over)(struct api_exchange *x, bool is_complete);
};

/* The longest that an answer may take, above all that a handler waits for one after the other: to the end of another's
 * pause, to the end of its own copy, and until that is on disk. */
#define ANSWER_MS_MAX 3600000

/* The body, when there is one, has been parsed; headers and query are in x->rq. */
typedef void (*api_handler)(struct api_exchange *x);

void api_exchange_handle(struct api_exchange *x); /* by its endpoint's handler, within ANSWER_MS_MAX */
void api_exchange_leave(struct api_exchange *x,
                        bool is_complete); /* wait for nothing any more; on_over() is called, once */

void answer_json(struct api_exchange *x, unsigned status, json_t *body); /* body stolen */
/* More headers: a list that ends with {NULL, NULL}, at most 4. */
void answer_json_with(struct api_exchange *x, unsigned status, const struct http_header *more, json_t *body);
void answer_empty(struct api_exchange *x, unsigned status); /* 204, say */
/* {"code","message"} and, where `code` is not NULL, "error_code". */
void answer_error(struct api_exchange *x, unsigned status, const char *code, const char *fmt, ...) PRINTF(4, 5);
/* The same with another code in the body than the status: for clients that go by it alone. */
void answer_error_as(struct api_exchange *x, unsigned status, int body_code, const char *code, const char *fmt, ...)
        PRINTF(5, 6);
void answer_err(struct api_exchange *x, const struct err *err);          /* the status follows from the kind */
void answer_no_sandbox(struct api_exchange *x);                          /* 404 for x->id */
void answer_missing(struct api_exchange *x);                             /* 404: its files are not there */
void answer_in_transition(struct api_exchange *x, const struct life *l); /* 409: it is being paused, killed, ... */
void answer_start_error(struct api_exchange *x,
                        const struct err *err); /* of what was to start a sandbox, or begin it again */
void answer_copy_error(struct api_exchange *x, const struct err *err); /* of what was to take a copy of it */
void answer_too_many(struct api_exchange *x, const struct err *err);   /* 429: as many run as may (lives_check_limit) */
/* More of what only the router needs: the answer to a preflight, and to a wrong method. */
void answer_preflight(struct api_exchange *x);
void answer_wrong_method(struct api_exchange *x, const char *allow);
