/* feed.h - the edges' view of the sandboxes: answers `route`, tells every edge when one changes or ends. */
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "base/list.h"
#include "io/listener.h"
#include "io/loop.h"

#define FEED_EDGES_MAX 256

struct feed {
        struct loop *loop;
        struct listener listener;
        struct list edges; /* of struct edge, owned */
        size_t edge_count;
        json_t *(*find)(const char *id, void *arg); /* new reference to the route, or NULL */
        void *arg;
};

void feed_init(struct feed *f, struct loop *loop, json_t *(*find)(const char *id, void *arg), void *arg);
void feed_done(struct feed *f);
int feed_listen(struct feed *f, int fd); /* takes the listening fd */
int feed_accept(struct feed *f, int fd); /* takes the fd */

void feed_route(struct feed *f, json_t *route); /* stolen */
void feed_gone(struct feed *f, const char *id);
