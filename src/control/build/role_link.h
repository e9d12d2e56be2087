/* role_link.h - control's channel to a role that runs only when it is needed: the builder, the puller.
 *
 * A call connects if there is no channel.  The supervisor holds the listening socket, so a connect succeeds whether the role
 * runs or not.  Without calls the channel is closed after a while, and the role may end.  A call whose channel is lost ends
 * with ERR_UNAVAILABLE: only the owner of the call knows whether to repeat it. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "io/channel.h"
#include "io/loop.h"

struct err;
struct role_link;

struct role_call { /* embedded in its owner; zeroed is fine */
        /* Called once, from the loop, never before role_call() returns.  Success: err NULL, answer borrowed, and *fd is the fd
         * that came with it, to be taken (TAKE_FD(*fd)); fd NULL: none.  Failure: answer NULL. */
        void (*on)(struct role_call *c, const json_t *answer, int *fd, const struct err *err);
        void (*on_event)(struct role_call *c, const json_t *event); /* facts about this call; NULL: not wanted */
        /* the link's own */
        struct role_link *link; /* NULL: not started */
        struct list node;
        uint64_t req;
};

struct role_link {
        struct loop *loop;
        const char *name; /* borrowed: "builder" */
        char *path;       /* owned */
        struct channel *channel;
        struct list calls, failed; /* of struct role_call */
        uint64_t last_req;
        struct timer idle;
        struct task fail_task;
};

int role_link_init(struct role_link *l, struct loop *loop, const char *name, const char *path); /* -ENOMEM */
void role_link_done(struct role_link *l); /* calls end, and their owners are not told; also zeroed */

/* Start a call: msg is an object with "op", stolen; fds stay the caller's.  c->on must be set, and c not under way. */
void role_call(struct role_link *l, struct role_call *c, json_t *msg, const int *fds, size_t nfds);
void role_call_cancel(struct role_call *c); /* fine when not under way; a late answer is dropped */
/* The same, and the role is told to stop: for requests that take long, of a role that knows "cancel" (the puller). */
void role_call_abort(struct role_call *c);
