/* rpc.h - calls in the Connect protocol: bodies and envelopes in, one message or a stream of them out.
 *
 * A method gets a struct rpc with the decoded request and answers once: rpc_reply() or rpc_fail() at any later
 * time, or, streaming, rpc_open(), rpc_send()..., rpc_end().  After the answer is complete the rpc may be gone: do
 * not touch it. on_gone is called once when the exchange is over in whatever way; there the method releases what it
 * holds. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "envd/rpc/fault.h"
#include "envd/rpc/users.h"
#include "http/server.h"
#include "io/loop.h"

#define RPC_MESSAGE_MAX (32u << 20)
#define RPC_TIMEOUT_DIGITS_MAX 10

struct handler_context;
struct rpc;

enum rpc_kind { RPC_UNARY, RPC_SERVER_STREAM, RPC_CLIENT_STREAM };

/* How far the answer is.
 *
 *   NONE ──rpc_open()──▶ STREAMING ──rpc_end(), rpc_fail(), the client leaves──▶ DONE
 *     └──────────────rpc_reply(), rpc_fail(), the client leaves────────────────────▲ */
enum rpc_answer {
        RPC_ANSWER_NONE,
        RPC_ANSWER_STREAMING, /* the head is sent, messages follow */
        RPC_ANSWER_DONE,      /* nothing more is sent */
};

struct rpc_method {
        const char *path;
        enum rpc_kind kind;
        void (*run)(struct rpc *rpc); /* client streams: called once per message, see rpc_next() */
};

struct rpc {
        struct handler_context *context;
        void *service; /* what the methods of its service work on, see rpc_serve() */
        struct http_request *rq;
        const struct rpc_method *method;
        const json_t *in; /* the request message (of a client stream: the current one); borrowed from the call */
        char *user_name;  /* owned; of the Basic header, NULL: the default user */
        bool has_timeout;
        uint64_t timeout_ms;
        void *state;                          /* of the method */
        void (*on_gone)(struct rpc *rpc);     /* releases state; may be NULL */
        void (*on_drain)(struct rpc *rpc);    /* the output queue has room again; may be NULL */
        void (*on_deadline)(struct rpc *rpc); /* NULL: the call fails with deadline_exceeded */
        enum rpc_answer answer;
        /* only for rpc.c */
        struct timer deadline;
        struct task advance;
        struct buf pending; /* client stream: bytes not yet made into messages */
        bool is_waiting;    /* client stream: the method works on a message */
        bool is_ended;      /* client stream: no more bytes follow */
};

/* Serve the request: takes user_name.  service: struct process_table for methods of process.Process, struct watchers
 * for those that watch, NULL for the others. */
void rpc_serve(struct handler_context *context, void *service, struct http_request *rq, const struct rpc_method *method,
               char *user_name);

/* Is the client an old one, which fails on fields that it does not know?  Entries for old clients are short, and
 * answers say so in a header. */
bool rpc_is_legacy(const struct http_request *rq);

/* The user on whose behalf the call is made.  -1 with unauthenticated. */
int rpc_user(const struct rpc *rpc, struct user *ret, struct fault *f);
/* The same, and the path expanded for that user.  *ret_path is malloc'd. */
int rpc_user_path(const struct rpc *rpc, const char *path, struct user *ret, char **ret_path, struct fault *f);

void rpc_reply(struct rpc *rpc, json_t *out);             /* steals; NULL: out of memory */
void rpc_reply_text(struct rpc *rpc, struct str message); /* the message as JSON */
void rpc_fail(struct rpc *rpc, const struct fault *f);
void rpc_failf(struct rpc *rpc, enum connect_code code, const char *fmt, ...) PRINTF(3, 4);

void rpc_open(struct rpc *rpc);             /* 200, the stream begins */
int rpc_send(struct rpc *rpc, json_t *msg); /* steals; one envelope; 0 or negative errno: the client is gone */
void rpc_end(struct rpc *rpc);              /* the stream ends well */
void rpc_next(struct rpc *rpc);             /* client stream: done with the message, give the next */

/* A Connect error outside of any call (a wrong user name found before routing). */
void rpc_refuse(struct http_request *rq, enum connect_code code, const char *fmt, ...) PRINTF(3, 4);
