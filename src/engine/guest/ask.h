/* ask.h - a request on a channel that is answered later, possibly after the caller is gone. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/list.h"
#include "io/channel.h"

struct err;

struct client {                  /* one connected peer */
        struct channel *channel; /* NULL: gone */
        struct list asks;        /* struct ask: unanswered */
        struct list node;
        struct task free_task;
};

struct ask {
        struct list node;
        struct client *client; /* NULL: the caller is gone */
        json_int_t req;
        void (*on_orphan)(struct ask *a); /* the caller is gone; NULL: that changes nothing; called once */
        void *arg;                        /* theirs */
};

struct ask *ask_create(struct client *c, json_int_t req); /* NULL out of memory */
/* Answer and release; NULL asks are fine.  body's members become the answer's (it is used up; may be NULL); the fd rides
 * along when >= 0 and stays the caller's. */
void ask_ok(struct ask *a, json_t *body, int fd);
void ask_fail(struct ask *a, const struct err *err);
void client_orphan_asks(struct client *c); /* the peer is gone */
