/* client_conn.h - a client's connection: counted and ended.  Each starts as HTTP/1.1 (http1/h1_conn.h); one that speaks HTTP/2
 * is taken over by http2/h2_session.h. */
#pragma once
#include <stdbool.h>

#include "base/list.h"
#include "io/stream.h"

struct client_conn;
struct edge;

struct client_conn_ops {
        void (*stop)(struct client_conn *n); /* the role ends: close an idle connection, let a busy one finish */
        void (*cut)(struct client_conn *n);  /* end now, so that the client does not take it for a proper end */
};

struct client_conn {
        const struct client_conn_ops *ops;
        struct stream stream;
        struct edge *edge;
        struct list node; /* in edge->conns */
};

void client_conn_refuse(int fd, bool is_tls); /* too many connections: say so if that is possible, and close */
void client_conn_join(struct client_conn *n, struct edge *e,
                      const struct client_conn_ops *ops); /* the stream is there: count the connection */
void client_conn_leave(struct client_conn *n);            /* close at once, and count it no longer */
