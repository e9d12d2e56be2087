/* exchange.h - one request with its answer, from the router to the last byte.
 *
 * A handler answers with one of tell_*(), now or later, or as a stream (http/server.h).  Before that it may ask the API and the
 * sandbox as often as it needs (ask.h).  An answer may end the exchange at once: the handler does not touch the exchange
 * afterwards. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "agent/exchange/agent.h"
#include "agent/exchange/budget.h"
#include "base/auto.h"
#include "base/list.h"
#include "base/str.h"
#include "http/server.h"

struct buf;
struct endpoint;
struct err;

#define EXCHANGE_KEY_MAX 512
#define EXCHANGE_ID_MAX 65 /* ids that are longer than any of ours name nothing */
#define EXCHANGE_TOKEN_MAX 256
#define EXCHANGE_DOMAIN_MAX 256

struct sandbox_facts { /* what the API says about the sandbox of the path (sandbox_find.h), or about the one just made */
        char id[EXCHANGE_ID_MAX];
        char token[EXCHANGE_TOKEN_MAX];   /* for envd; "": needs none */
        char traffic[EXCHANGE_TOKEN_MAX]; /* for ports that are not public; "": needs none */
        char domain[EXCHANGE_DOMAIN_MAX];
        json_t *shown; /* owned: all that the API said; NULL: nothing */
};

struct exchange {
        struct list node; /* in agent->exchanges */
        struct agent *agent;
        struct http_request *rq;
        const struct endpoint *endpoint;
        char key[EXCHANGE_KEY_MAX]; /* the caller's token */
        char id[EXCHANGE_ID_MAX];   /* the sandbox that the path names */
        struct str segment;         /* the path's segment for another name in braces; raw, borrowed from rq */
        json_t *body;               /* owned; NULL: none */
        size_t reserved;            /* of agent->body_bytes (budget.h) */
        size_t reserved_body;       /* of that: for the request's body, which stays to the end */
        size_t output;              /* of agent->output_bytes */
        bool is_stream;             /* the answer has no end of its own (exchange_may_stream()) */
        struct sandbox_facts sandbox;
        void (*next)(struct exchange *x);    /* sandbox_find.h: once the sandbox is known */
        void (*missing)(struct exchange *x); /* or that there is none; NULL: 404 */
        struct list asks;                    /* struct ask, under way */
        bool is_secret;                      /* the body */
        bool is_complete;                    /* it is over, and the client has all of the answer */
        void *job;                           /* of a handler that takes several steps */
        void (*job_free)(struct exchange *x);
        void (*on_drain)(struct exchange *x); /* of an answer that is a stream; NULL: nothing to do then */
};

/* The body, when there is one, has been parsed; headers and query are in x->rq. */
typedef void (*exchange_handler)(struct exchange *x);

struct exchange *exchange_create(struct agent *a, struct http_request *rq); /* freed with the request; NULL: answered */

/* 413 if it is too large, 503 if too much waits for this client already.  body stolen; NULL: out of memory. */
void tell_json(struct exchange *x, unsigned status, json_t *body);
/* The text of an answer in JSON, into an empty buf that is the caller's on success.  -E2BIG: too large for one; -ENOMEM. */
int json_answer_text(const json_t *body, struct buf *out);
void tell_text(struct exchange *x, unsigned status, struct str json); /* such a text; whatever its size is */
void tell_empty(struct exchange *x, unsigned status);                 /* 204, say */
/* {"error":{"code","message"}}; code NULL: that of the status. */
void tell_error(struct exchange *x, unsigned status, const char *code, const char *fmt, ...) PRINTF(4, 5);
void tell_err(struct exchange *x, const struct err *err); /* the status follows from the kind */
void tell_no_memory(struct exchange *x);
void tell_no_sandbox(struct exchange *x); /* 404 for x->id */
void tell_wrong_method(struct exchange *x, const char *allow);
void tell_preflight(struct exchange *x);
void tell_bytes(struct exchange *x, const char *content_type, const void *bytes, size_t n); /* 200 */
/* The head of a streamed answer. */
void tell_begin(struct exchange *x, unsigned status, const char *content_type, int64_t length);

/* The decoded value of a parameter of the query; *ret NULL: absent.  Negative: *err says why. */
int exchange_query(const struct exchange *x, const char *name, char **ret, struct err *err);
