/* feed.h - the edges' view of the sandboxes: answers `route`, `signed`, `token` and `wake`, tells every edge when one changes or ends. */
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "base/list.h"
#include "base/str.h"
#include "io/listener.h"
#include "io/loop.h"

#define FEED_EDGES_MAX 256

#define FEED_WAKES_MAX 4096 /* waiting, per edge; an edge asks once for each sandbox */

struct err;

struct feed_wake { /* one edge wants a sandbox to run; passed to its owner until feed_wake_answer() */
        struct list node;
        struct edge *edge;
        json_t *req; /* owned */
        void *job;   /* the owner's own */
};

struct feed_ops {
        json_t *(*find)(const char *id, void *arg); /* new reference to the route, or NULL */
        /* The id of the sandbox the URL with this query was signed for, borrowed, or NULL. */
        const char *(*signer)(const char *query, const char *operation, void *arg);
        /* The id of the sandbox that has this access token, borrowed, or NULL. */
        const char *(*bearer)(struct str token, void *arg);
        /* The message: id, port, access_token.  May be answered at once or later. */
        void (*wake)(struct feed_wake *w, const json_t *msg, void *arg);
        void (*forget)(struct feed_wake *w, void *arg); /* the edge is gone: w is, too, after this */
};

struct feed {
        struct loop *loop;
        struct listener listener;
        struct list edges; /* of struct edge, owned */
        size_t edge_count;
        const struct feed_ops *ops;
        void *arg;
};

void feed_init(struct feed *f, struct loop *loop, const struct feed_ops *ops, void *arg);
void feed_done(struct feed *f);
int feed_listen(struct feed *f, int fd); /* takes the listening fd */
int feed_accept(struct feed *f, int fd); /* takes the fd */

void feed_route(struct feed *f, json_t *route); /* stolen */
void feed_gone(struct feed *f, const char *id);
/* With the route as it is now, or with why not; w is gone afterwards. */
void feed_wake_answer(struct feed_wake *w, json_t *route, const struct err *err); /* route stolen */
