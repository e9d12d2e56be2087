#include "edge/http1/tunnel.h"

#include <assert.h>
#include <errno.h>

#include "edge/http1/h1_conn.h"
#include "edge/proxy/edge.h"
#include "edge/route/upstream.h"

#define TO(s) (1u << (s))

enum pass { PASS_FINE, PASS_FAILED };

/* Write the bytes that wait. */
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
        if (!upstream_is_over(u) && block_room(&u->in) >= BLOCK_READ_MIN)
                upstream |= EPOLLIN;
        if (c->in.len)
                upstream |= EPOLLOUT;
        h1_conn_want(h1_of(c), client);
        upstream_want(u, upstream);
        block_tidy(pool, &c->in);
        block_tidy(pool, &u->in);
}

static const unsigned tunnel_may[] = {
        [TUNNEL_OPEN] = TO(TUNNEL_DOWN_ONLY) | TO(TUNNEL_UP_ONLY),
        [TUNNEL_DOWN_ONLY] = TO(TUNNEL_ENDED),
        [TUNNEL_UP_ONLY] = TO(TUNNEL_ENDED),
        [TUNNEL_ENDED] = 0,
};

static void tunnel_go(struct h1_conn *h, enum tunnel_state next)
{
        assert(tunnel_may[h->tunnel] & TO(next));
        h->tunnel = next;
}

/* The client sends no more, and all its bytes are passed on: pass its end on as well. */
static void tunnel_end_upward(struct h1_conn *h)
{
        if (h->tunnel != TUNNEL_OPEN && h->tunnel != TUNNEL_UP_ONLY)
                return;
        stream_shutdown_write(&h->c.x.visit.upstream->stream);
        tunnel_go(h, h->tunnel == TUNNEL_OPEN ? TUNNEL_DOWN_ONLY : TUNNEL_ENDED);
        h1_conn_watch_half(h);
}

/* The same for the upstream. */
static void tunnel_end_downward(struct h1_conn *h)
{
        if (h->tunnel != TUNNEL_OPEN && h->tunnel != TUNNEL_DOWN_ONLY)
                return;
        stream_shutdown_write(&h->conn.stream);
        tunnel_go(h, h->tunnel == TUNNEL_OPEN ? TUNNEL_UP_ONLY : TUNNEL_ENDED);
        h1_conn_watch_half(h);
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
        if (c->is_ended && !c->in.len)
                tunnel_end_upward(h1_of(c));
        if (upstream_is_over(u) && !u->in.len && !x->down.out.len)
                tunnel_end_downward(h1_of(c));
        if (h1_of(c)->tunnel == TUNNEL_ENDED)
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
        bool wants = !upstream_is_over(u) && block_room(&u->in) >= BLOCK_READ_MIN;

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
        }
        tunnel_step(c);
}
