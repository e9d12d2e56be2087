/* client_conn.h - a client's connection: accepted, counted, ended.  It starts as HTTP/1.1 (h1.h); when TLS settled on HTTP/2,
 * h2.h takes it over. */
#pragma once
#include "base/list.h"
#include "io/stream.h"

struct conn;
struct edge;
struct tls_context;

struct conn_ops {
        void (*stop)(struct conn *n); /* the role ends: close what idles, let the others finish */
        void (*cut)(struct conn *n);  /* end now, and not as if it were a proper end */
};

struct conn {
        const struct conn_ops *ops;
        struct stream stream;
        struct edge *edge;
        struct list node; /* in edge->conns */
};

void conn_accept(struct edge *e, int fd, struct tls_context *tls);
void conn_join(struct conn *n, struct edge *e, const struct conn_ops *ops); /* its stream is there: it counts */
void conn_leave(struct conn *n);                                            /* closed at once; no longer counted */
