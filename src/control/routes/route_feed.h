/* route_feed.h - the channels to the edges: answers `route`, `signed`, `token` and `resume`, and tells every edge when a sandbox
 * changes or ends.  The answers come from the owner of the feed (route_server.h). */
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "base/list.h"
#include "base/str.h"
#include "io/listener.h"
#include "io/loop.h"

#define ROUTE_FEED_EDGES_MAX 256

#define EDGE_RESUMES_MAX 4096 /* sandboxes that one edge waits for; an edge asks once for each */

struct err;

struct edge_resume { /* one edge wants a sandbox to run; passed to the feed's owner until edge_resume_answer() */
        struct list node;
        struct edge_channel *edge;
        json_t *req; /* owned */
        void *job;   /* the feed owner's */
};

struct route_feed_ops {
        json_t *(*find)(const char *id, void *arg); /* new reference to the route, or NULL */
        /* The id of the sandbox the URL with this query was signed for, borrowed, or NULL. */
        const char *(*find_signature)(const char *query, const char *operation, void *arg);
        /* The id of the sandbox that has this access token, borrowed, or NULL. */
        const char *(*find_token)(struct str token, void *arg);
        /* The message: id, port, access_token.  May be answered at once or later. */
        void (*resume)(struct edge_resume *w, const json_t *msg, void *arg);
        void (*forget_resume)(struct edge_resume *w, void *arg); /* the edge is gone, and w is freed after this */
};

struct route_feed {
        struct loop *loop;
        struct listener listener;
        struct list edges; /* of struct edge_channel, owned */
        size_t edge_count;
        const struct route_feed_ops *ops;
        void *arg;
};

void route_feed_init(struct route_feed *f, struct loop *loop, const struct route_feed_ops *ops, void *arg);
void route_feed_done(struct route_feed *f);
int route_feed_listen(struct route_feed *f, int fd); /* takes the listening fd */
int route_feed_accept(struct route_feed *f, int fd); /* takes the fd */

void route_feed_tell_changed(struct route_feed *f, json_t *route); /* stolen */
void route_feed_tell_gone(struct route_feed *f, const char *id);
/* Answer with the route as it is now, or with the error; w is freed. */
void edge_resume_answer(struct edge_resume *w, json_t *route, const struct err *err); /* route stolen */
