#include "edge/proxy/edge_client.h"

#include <assert.h>

#include "edge/proxy/edge.h"
#include "edge/proxy/proxy_exchange.h"
#include "edge/proxy/request.h"
#include "edge/route/upstream.h"

#define TO(s) (1u << (s))

static const unsigned edge_client_may[] = {
        [CLIENT_HEAD] = TO(CLIENT_ROUTE) | TO(CLIENT_RESUME) | TO(CLIENT_DIAL) | TO(CLIENT_EXCHANGE) |
                        TO(CLIENT_REPLY) | TO(CLIENT_LINGER) | TO(CLIENT_CLOSED),
        [CLIENT_ROUTE] = TO(CLIENT_HEAD) | TO(CLIENT_CLOSED),
        [CLIENT_RESUME] = TO(CLIENT_HEAD) | TO(CLIENT_CLOSED),
        [CLIENT_DIAL] = TO(CLIENT_HEAD) | TO(CLIENT_CLOSED),
        [CLIENT_EXCHANGE] = TO(CLIENT_HEAD) | TO(CLIENT_TUNNEL) | TO(CLIENT_REPLY) | TO(CLIENT_DRAIN) |
                            TO(CLIENT_LINGER) | TO(CLIENT_CLOSED),
        [CLIENT_TUNNEL] = TO(CLIENT_CLOSED),
        [CLIENT_REPLY] = TO(CLIENT_HEAD) | TO(CLIENT_DRAIN) | TO(CLIENT_LINGER) | TO(CLIENT_CLOSED),
        [CLIENT_DRAIN] = TO(CLIENT_HEAD) | TO(CLIENT_LINGER) | TO(CLIENT_CLOSED),
        [CLIENT_LINGER] = TO(CLIENT_CLOSED),
        [CLIENT_CLOSED] = 0,
};

void edge_client_go(struct edge_client *c, enum edge_client_state next)
{
        assert(edge_client_may[c->state] & TO(next));
        c->state = next;
}

static void edge_client_on_wait(struct timer *t)
{
        struct edge_client *c = CONTAINER_OF(t, struct edge_client, wait);

        if (!c->is_waiting)
                return;
        c->is_waiting = false;
        request_on_wait_over(c);
}

void edge_client_setup(struct edge_client *c, struct edge *e, const struct edge_client_kind *kind)
{
        *c = (struct edge_client){.kind = kind, .edge = e, .wait = {.on = edge_client_on_wait}};
}

/* ---- ending ---- */

void edge_client_close(struct edge_client *c)
{
        struct edge *e = c->edge;

        if (c->state == CLIENT_CLOSED)
                return;
        proxy_exchange_done(c);
        edge_client_go(c, CLIENT_CLOSED);
        timer_clear(&c->wait);
        block_drop(&e->blocks, &c->in);
        flow_done(&c->x.up, &e->blocks);
        flow_done(&c->x.down, &e->blocks);
        c->kind->release(c);
}

void edge_client_cut(struct edge_client *c)
{
        if (c->state != CLIENT_CLOSED)
                c->kind->cut(c);
        edge_client_close(c);
}

void edge_client_finish(struct edge_client *c)
{
        block_drop(&c->edge->blocks, &c->x.up.out); /* what upstream did not want of the request */
        proxy_exchange_done(c);
        c->kind->after(c);
}

/* ---- waiting ---- */

void edge_client_arm_wait(struct edge_client *c, unsigned ms)
{
        c->is_waiting = true;
        timer_set(c->edge->loop, &c->wait, ms);
}

void edge_client_go_on(struct edge_client *c)
{
        assert(c->state == CLIENT_ROUTE || c->state == CLIENT_RESUME || c->state == CLIENT_DIAL);
        c->is_waiting = false;
        edge_client_go(c, CLIENT_HEAD);
        edge_client_advance(c);
}

static void edge_client_take_upstream(struct edge_client *c, int fd, uint64_t made_us)
{
        struct upstream *u = upstream_create(c->edge, fd, c->x.sandbox, c->x.port);

        if (!u) {
                c->x.dial_wait = WAIT_UNAVAILABLE;
                return;
        }
        u->client = c;
        u->made_us = made_us;
        c->x.upstream = u;
}

void edge_client_dialled(struct edge_client *c, enum visit_result result, int fd, uint64_t made_us)
{
        if (result == WAIT_OVER && made_us < c->x.sandbox->stopped_us) { /* it is of what ran before */
                close_fd(&fd);
                result = WAIT_NOT_FOUND;
        }
        c->x.dial_wait = result;
        if (result == WAIT_OVER)
                edge_client_take_upstream(c, fd, made_us);
        edge_client_go_on(c);
}

/* ---- steps ---- */

static void edge_client_watch_upstream(struct edge_client *c)
{
        struct upstream *u = c->x.upstream;
        uint32_t want = 0;

        if (!u)
                return;
        if (!u->is_ended && !flow_waits(&c->x.down) && block_room(&u->in) >= BLOCK_READ_MIN)
                want |= EPOLLIN;
        if (c->x.up.out.len && !c->x.request_broken)
                want |= EPOLLOUT;
        upstream_want(u, want);
        block_tidy(&c->edge->blocks, &u->in);
}

void edge_client_advance(struct edge_client *c)
{
        enum edge_client_state before;

        do {
                before = c->state;
                switch (c->state) {
                case CLIENT_HEAD:
                case CLIENT_TUNNEL:
                case CLIENT_REPLY:
                case CLIENT_DRAIN:
                case CLIENT_LINGER: c->kind->step(c); break;
                case CLIENT_EXCHANGE: proxy_exchange_step(c); break;
                case CLIENT_ROUTE:
                case CLIENT_RESUME:
                case CLIENT_DIAL:
                case CLIENT_CLOSED: break;
                }
        } while (c->state != before);
        if (c->state == CLIENT_CLOSED || c->state == CLIENT_TUNNEL)
                return;
        c->kind->watch(c);
        edge_client_watch_upstream(c);
}

void edge_client_answer(struct edge_client *c, const struct answer *a)
{
        block_consume(&c->in, c->head_len);
        c->head_len = 0;
        c->is_waiting = false;
        c->x.status = answer_status(a);
        edge_client_go(c, CLIENT_REPLY);
        if (c->kind->say(c, a) < 0)
                edge_client_close(c);
}
