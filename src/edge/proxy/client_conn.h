/* client_conn.h - a client's connection: accepted, counted, ended.  It starts as HTTP/1.1 (h1.h); when TLS settled on HTTP/2,
 * h2.h takes it over. */
#pragma once
#include <stdbool.h>

#include "base/list.h"
#include "io/stream.h"

struct client_conn;
struct edge;

struct client_conn_ops {
        void (*stop)(struct client_conn *n); /* the role ends: close what idles, let the others finish */
        void (*cut)(struct client_conn *n);  /* end now, and not as if it were a proper end */
};

struct client_conn {
        const struct client_conn_ops *ops;
        struct stream stream;
        struct edge *edge;
        struct list node; /* in edge->conns */
};

void client_conn_refuse(int fd, bool is_tls); /* too many connections: say so if that is possible, and close */
void client_conn_join(struct client_conn *n, struct edge *e,
                      const struct client_conn_ops *ops); /* its stream is there: it counts */
void client_conn_leave(struct client_conn *n);            /* closed at once; no longer counted */
