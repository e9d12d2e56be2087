#include "edge/proxy/client_conn.h"

#include "edge/proxy/edge.h"
#include "edge/http1/h1_conn.h"

static void refuse(int fd, bool is_tls)
{
        static const char full[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                                   "Content-Length: 45\r\nConnection: close\r\n\r\n"
                                   "{\"code\":503,\"message\":\"too many connections\"}";

        if (!is_tls)
                (void)!write(fd, full, sizeof(full) - 1); /* best effort: it is new, so it fits or is gone */
        close_fd(&fd);
}

void conn_accept(struct edge *e, int fd, struct tls_context *tls)
{
        if (e->client_count >= e->clients_max)
                refuse(fd, tls != NULL);
        else
                h1_create(e, fd, tls);
}

void conn_join(struct conn *n, struct edge *e, const struct conn_ops *ops)
{
        n->edge = e;
        n->ops = ops;
        list_push_back(&e->conns, &n->node);
        e->client_count++;
}

void conn_leave(struct conn *n)
{
        stream_done(&n->stream);
        list_remove(&n->node);
        n->edge->client_count--;
        edge_check_stopped(n->edge);
}
