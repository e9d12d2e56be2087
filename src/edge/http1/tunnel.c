#include "edge/http1/tunnel.h"

#include <errno.h>

#include "edge/proxy/edge.h"
#include "edge/http1/h1_conn.h"
#include "edge/route/upstream.h"

enum pass { PASS_FINE, PASS_FAILED };

/* Write what waits; the answer's head, if some of it is left, goes before it. */
static enum pass tunnel_pass_bytes(struct block *from, struct stream *to, uint64_t *sent)
{
        while (from->len) {
                ssize_t n = stream_write(to, block_at(from), from->len);

                if (n == -EAGAIN || n == 0)
                        return PASS_FINE;
                if (n < 0)
                        return PASS_FAILED;
                *sent += (uint64_t)n;
                block_consume(from, (size_t)n);
        }
        return PASS_FINE;
}

static void tunnel_update_wants(struct edge_client *c)
{
        struct upstream *u = c->x.visit.upstream;
        struct block_pool *pool = &c->edge->blocks;
        uint32_t client = 0, upstream = 0;

        if (!c->is_ended && block_room(&c->in) >= BLOCK_READ_MIN)
                client |= EPOLLIN;
        if (u->in.len || c->x.down.out.len)
                client |= EPOLLOUT;
        if (!u->is_ended && block_room(&u->in) >= BLOCK_READ_MIN)
                upstream |= EPOLLIN;
        if (c->in.len)
                upstream |= EPOLLOUT;
        h1_conn_want(h1_of(c), client);
        upstream_want(u, upstream);
        block_tidy(pool, &c->in);
        block_tidy(pool, &u->in);
}

void tunnel_step(struct edge_client *c)
{
        struct proxy_exchange *x = &c->x;
        struct upstream *u = x->visit.upstream;
        enum flow_step step = flow_flush(&x->down, &c->edge->blocks, &h1_of(c)->conn.stream);

        if (step == FLOW_DEAD || tunnel_pass_bytes(&c->in, &u->stream, &x->up.sent_bytes) == PASS_FAILED ||
            (step != FLOW_FULL &&
             tunnel_pass_bytes(&u->in, &h1_of(c)->conn.stream, &x->down.sent_bytes) == PASS_FAILED)) {
                edge_client_cut(c);
                return;
        }
        if (c->is_ended && !c->in.len && !x->tunnel_up_ended) {
                stream_shutdown_write(&u->stream);
                x->tunnel_up_ended = true;
                h1_conn_watch_half(h1_of(c));
        }
        if (u->is_ended && !u->in.len && !x->down.out.len && !x->tunnel_down_ended) {
                stream_shutdown_write(&h1_of(c)->conn.stream);
                x->tunnel_down_ended = true;
                h1_conn_watch_half(h1_of(c));
        }
        if (x->tunnel_up_ended && x->tunnel_down_ended)
                edge_client_close(c);
        else
                tunnel_update_wants(c);
}

void tunnel_on_client(struct edge_client *c, uint32_t events)
{
        bool wants = !c->is_ended && block_room(&c->in) >= BLOCK_READ_MIN;

        if ((events & (EPOLLERR | EPOLLHUP)) && !wants) {
                if (events & EPOLLERR)
                        edge_client_cut(c);
                else
                        h1_conn_park(h1_of(c));
                return;
        }
        if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
                ssize_t n = h1_conn_fill(h1_of(c));

                if (n < 0 && n != -EAGAIN) {
                        edge_client_cut(c);
                        return;
                }
                c->is_ended = n == 0;
        }
        tunnel_step(c);
}

void tunnel_on_upstream(struct edge_client *c, uint32_t events)
{
        struct upstream *u = c->x.visit.upstream;
        bool wants = !u->is_ended && block_room(&u->in) >= BLOCK_READ_MIN;

        if ((events & (EPOLLERR | EPOLLHUP)) && !wants) {
                if (events & EPOLLERR)
                        edge_client_cut(c);
                else
                        upstream_park(u);
                return;
        }
        if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
                ssize_t n = upstream_fill(u);

                if (n < 0 && n != -EAGAIN) {
                        edge_client_cut(c);
                        return;
                }
                u->is_ended = n == 0;
        }
        tunnel_step(c);
}
