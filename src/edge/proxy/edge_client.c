#include "edge/proxy/edge_client.h"

#include <assert.h>

#include "edge/proxy/edge.h"
#include "edge/proxy/proxy_exchange.h"
#include "edge/proxy/request.h"
#include "edge/route/routes.h"
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
        struct upstream *u = upstream_create(&c->edge->upstreams, fd, c->x.visit.sandbox, c->x.visit.port);

        if (!u) {
                c->x.visit.dial_result = WAIT_UNAVAILABLE;
                return;
        }
        u->visit = &c->x.visit;
        u->made_us = made_us;
        c->x.visit.upstream = u;
}

static void edge_client_dialled(struct edge_client *c, enum wait_result result, int fd, uint64_t made_us)
{
        if (result == WAIT_OVER && made_us < c->x.visit.sandbox->stopped_us) { /* made before the sandbox stopped */
                close_fd(&fd);
                result = WAIT_NOT_FOUND;
        }
        c->x.visit.dial_result = result;
        if (result == WAIT_OVER)
                edge_client_take_upstream(c, fd, made_us);
        edge_client_go_on(c);
}

/* ---- steps ---- */

static void edge_client_watch_upstream(struct edge_client *c)
{
        struct upstream *u = c->x.visit.upstream;
        uint32_t want = 0;

        if (!u)
                return;
        if (!upstream_is_over(u) && !flow_waits(&c->x.down) && block_room(&u->in) >= BLOCK_READ_MIN)
                want |= EPOLLIN;
        if (c->x.up.out.len && !exchange_is_refused(&c->x))
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

/* ---- what the visit hears (visit.h) ---- */

static struct edge_client *edge_client_of(struct visit *v)
{
        return CONTAINER_OF(v, struct edge_client, x.visit);
}

static void edge_client_visit_go_on(struct visit *v)
{
        edge_client_go_on(edge_client_of(v));
}

static void edge_client_visit_dialled(struct visit *v, enum wait_result result, int fd, uint64_t made_us)
{
        edge_client_dialled(edge_client_of(v), result, fd, made_us);
}

static bool edge_client_visit_repeat(struct visit *v)
{
        struct edge_client *c = edge_client_of(v);

        if (!proxy_exchange_repeats(c))
                return false;
        edge_client_go(c, CLIENT_ROUTE);
        return true;
}

static void edge_client_visit_cut(struct visit *v)
{
        edge_client_cut(edge_client_of(v));
}

static void edge_client_on_upstream(struct visit *v, uint32_t events)
{
        struct edge_client *c = edge_client_of(v);

        if (c->state == CLIENT_TUNNEL)
                c->kind->tunnel_upstream(c, events);
        else
                proxy_exchange_on_upstream(c, events);
}

void edge_client_setup(struct edge_client *c, struct edge *e, const struct edge_client_kind *kind)
{
        static const struct visit_ops ops = {
                .go_on = edge_client_visit_go_on,
                .dialled = edge_client_visit_dialled,
                .repeat = edge_client_visit_repeat,
                .cut = edge_client_visit_cut,
                .on_upstream = edge_client_on_upstream,
        };

        *c = (struct edge_client){.kind = kind, .edge = e, .wait = {.on = edge_client_on_wait}};
        c->x.visit = (struct visit){.ops = &ops, .table = &e->routes, .dialler = &e->dialler};
}
