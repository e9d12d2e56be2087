/* run.h - one execution that a client asked for: its code, and the stream of lines to the client.
 *
 * The head of the answer is sent when the run is made.  While nothing else is written, a keepalive line is every five
 * seconds.  A line of any size passes in pieces, as the client reads.  A run knows nothing of kernels; a context drives it
 * (context.h). */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/str.h"
#include "interpreter/service/body.h"
#include "io/loop.h"

struct context;
struct http_header;
struct http_request;
struct jupyter_message;

#define RUN_KEEPALIVE_MS 5000

struct run {
        struct list node; /* context's: in its queue */
        struct loop *loop;
        struct http_request *rq; /* NULL: the client is gone, or the answer is complete */
        char *code;              /* owned */
        size_t code_len;
        struct reservation memory; /* for the code, until the kernel has begun */
        json_t *variables;         /* owned: env_vars of this run; NULL: none */
        char *token;               /* owned: X-Access-Token; NULL: none */
        struct timer keepalive;
        struct buf lines; /* what the connection has not taken yet */
        struct buf
                late_error; /* a line: the error that the kernel answered, until it is known whether it was published */
        int64_t late_count; /* the count that the kernel answered; -1: none */
        bool has_count, has_error;
        unsigned put_backs; /* how often its kernel died before it was sent */
        bool is_ending;     /* every line is in `lines`; the run is its own */
        /* Set by the context.  The client left; run_is_full() is false again.  Not called any more after run_end(). */
        void (*on_gone)(struct run *run);
        void (*on_drain)(struct run *run);
        struct context *context;
};

/* Takes code and variables also on failure.  NULL: out of memory. */
struct run *run_create(struct loop *loop, char *code, size_t code_len, json_t *variables, struct str token);
struct run *run_free(struct run *run); /* cuts an answer that is not complete */

/* Begin the answer. */
void run_open(struct run *run, struct http_request *rq, const struct http_header *headers);
bool run_has_client(const struct run *run);
bool run_is_full(const struct run *run); /* the client reads too slowly: wait for on_drain */

void run_add_output(struct run *run, const struct jupyter_message *m); /* of the output channel */
void run_add_answer(struct run *run, const struct jupyter_message *m); /* execute_reply */
void run_add_error(struct run *run, const char *name, const char *value);
/* The last line.  Takes the run: it is freed when the client has taken the rest, or left. */
void run_end(struct run *run);
