/* client.h - a little HTTP/1.1 client: one request per connection, plain TCP, the body in pieces.
 *
 * client_call() does a whole exchange; `struct call` is one in a poll loop of the caller's. */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"
#include "wire/http1.h"

struct err;

#define CLIENT_BODY_MAX (16u << 20)

struct client {
        char *host;    /* owned: as in the URL, for the Host header */
        char *address; /* owned: what to connect to */
        char port[6];
        unsigned patience_ms;       /* for a whole client_call(); 0: the usual */
        void (*on_tick)(void *arg); /* NULL: none; a few times a second while a client_call() waits */
        void *tick_arg;
        int cancel; /* borrowed: an fd that, once readable, ends a client_call() with -EINTR; -1: none */
};

/* "http://host[:port]"; other schemes are ERR_INVALID. */
int client_init(struct client *c, const char *url, struct err *err);
void client_done(struct client *c);

struct client_header {
        const char *name, *value; /* lists end with a NULL name */
};
struct client_request {
        const char *method, *target;
        const struct client_header *headers; /* NULL: none but the usual */
        const char *content_type;            /* NULL: no body */
        struct str body;
};

struct call {
        int fd; /* non-blocking; -1: none */
        struct buf out, in;
        bool has_head;
        unsigned status;
        char next_token[512]; /* X-Next-Token, "" when absent */
        struct http1_head head;
        struct http1_body body;
};

/* Connect (within a few seconds) and queue the request. */
int call_start(struct call *c, const struct client *client, const struct client_request *rq, struct err *err);
void call_done(struct call *c);
short call_events(const struct call *c); /* what to poll its fd for */
/* After poll: write, read, and hand over pieces of the body.  1: complete, 0: more to come, negative: failed. */
int call_pump(struct call *c, void (*on_data)(struct str piece, void *arg), void *arg, struct err *err);

/* The whole exchange.  *ret_body (init'd by the caller) gets the body; *ret_next may be NULL. */
int client_call(const struct client *c, const struct client_request *rq, unsigned *ret_status, struct buf *ret_body,
                char ret_next[512], struct err *err);
