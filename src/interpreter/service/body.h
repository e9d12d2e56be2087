/* body.h - bodies of requests, within a budget of memory for all requests that are read or wait.
 *
 * A reservation is for the bytes of one body.  It goes along with what is made of the body (a run that waits), and is
 * dropped with that. */
#pragma once
#include <stddef.h>

#include "base/str.h"

struct http_request;

struct budget {
        size_t used, max;
};
struct reservation { /* zeroed: of nothing */
        struct budget *budget;
        size_t bytes;
};
void reservation_drop(struct reservation *r);

struct body_options {
        struct budget *budget; /* borrowed */
        size_t bytes_max;
        /* All of it, valid during the call.  Who keeps something of it takes *memory, and leaves it zeroed. */
        void (*on_body)(struct http_request *rq, struct str body, struct reservation *memory, void *arg);
        void (*on_full)(struct http_request *rq); /* instead: the budget is used up; answers */
        void *arg;
};
/* Uses rq->user and rq->on_close until one of the two is called.  Over bytes_max: 413, and a client that goes on sending is
 * cut.  -ENOMEM: nothing was begun. */
int body_read(struct http_request *rq, const struct body_options *opt);
