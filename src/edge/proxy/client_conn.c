#include "edge/proxy/client_conn.h"

#include "edge/proxy/edge.h"

void client_conn_refuse(int fd, bool is_tls)
{
        static const char full[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                                   "Content-Length: 45\r\nConnection: close\r\n\r\n"
                                   "{\"code\":503,\"message\":\"too many connections\"}";

        if (!is_tls)
                (void)!write(fd, full,
                             sizeof(full) - 1); /* best effort: a new connection has room for the text, or is gone */
        close_fd(&fd);
}

void edge_check_stopped(struct edge *e)
{
        if (e->is_stopping && e->client_count == 0)
                loop_stop(e->loop);
}

void client_conn_join(struct client_conn *n, struct edge *e, const struct client_conn_ops *ops)
{
        n->edge = e;
        n->ops = ops;
        list_push_back(&e->conns, &n->node);
        e->client_count++;
}

void client_conn_leave(struct client_conn *n)
{
        stream_done(&n->stream);
        list_remove(&n->node);
        n->edge->client_count--;
        edge_check_stopped(n->edge);
}
