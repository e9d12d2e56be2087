#include "edge/proxy/edge_client.h"

#include <assert.h>

#include "edge/proxy/edge.h"
#include "edge/proxy/proxy_exchange.h"
#include "edge/proxy/request.h"
#include "edge/route/upstream.h"

#define TO(s) (1u << (s))

static const unsigned client_may[] = {
        [CLIENT_HEAD] = TO(CLIENT_ROUTE) | TO(CLIENT_WAKE) | TO(CLIENT_DIAL) | TO(CLIENT_EXCHANGE) | TO(CLIENT_REPLY) |
                        TO(CLIENT_LINGER) | TO(CLIENT_CLOSED),
        [CLIENT_ROUTE] = TO(CLIENT_HEAD) | TO(CLIENT_CLOSED),
        [CLIENT_WAKE] = TO(CLIENT_HEAD) | TO(CLIENT_CLOSED),
        [CLIENT_DIAL] = TO(CLIENT_HEAD) | TO(CLIENT_CLOSED),
        [CLIENT_EXCHANGE] = TO(CLIENT_HEAD) | TO(CLIENT_TUNNEL) | TO(CLIENT_REPLY) | TO(CLIENT_DRAIN) |
                            TO(CLIENT_LINGER) | TO(CLIENT_CLOSED),
        [CLIENT_TUNNEL] = TO(CLIENT_CLOSED),
        [CLIENT_REPLY] = TO(CLIENT_HEAD) | TO(CLIENT_DRAIN) | TO(CLIENT_LINGER) | TO(CLIENT_CLOSED),
        [CLIENT_DRAIN] = TO(CLIENT_HEAD) | TO(CLIENT_LINGER) | TO(CLIENT_CLOSED),
        [CLIENT_LINGER] = TO(CLIENT_CLOSED),
        [CLIENT_CLOSED] = 0,
};

void client_go(struct client *c, enum client_state next)
{
        assert(client_may[c->state] & TO(next));
        c->state = next;
}

static void on_wait(struct timer *t)
{
        struct client *c = CONTAINER_OF(t, struct client, wait);

        if (!c->is_waiting)
                return;
        c->is_waiting = false;
        request_on_wait_over(c);
}

void client_setup(struct client *c, struct edge *e, const struct client_kind *kind)
{
        *c = (struct client){.kind = kind, .edge = e, .wait = {.on = on_wait}};
}

/* ---- ending ---- */

void client_close(struct client *c)
{
        struct edge *e = c->edge;

        if (c->state == CLIENT_CLOSED)
                return;
        exchange_done(c);
        client_go(c, CLIENT_CLOSED);
        timer_clear(&c->wait);
        block_drop(&e->blocks, &c->in);
        flow_done(&c->x.up, &e->blocks);
        flow_done(&c->x.down, &e->blocks);
        c->kind->release(c);
}

void client_cut(struct client *c)
{
        if (c->state != CLIENT_CLOSED)
                c->kind->cut(c);
        client_close(c);
}

void client_finish(struct client *c)
{
        block_drop(&c->edge->blocks, &c->x.up.out); /* what upstream did not want of the request */
        exchange_done(c);
        c->kind->after(c);
}

/* ---- waiting ---- */

void client_arm_wait(struct client *c, unsigned ms)
{
        c->is_waiting = true;
        timer_set(c->edge->loop, &c->wait, ms);
}

void client_resume(struct client *c)
{
        assert(c->state == CLIENT_ROUTE || c->state == CLIENT_WAKE || c->state == CLIENT_DIAL);
        c->is_waiting = false;
        client_go(c, CLIENT_HEAD);
        client_advance(c);
}

static void take_upstream(struct client *c, int fd, uint64_t made_us)
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

void client_dialled(struct client *c, enum wait_result result, int fd, uint64_t made_us)
{
        if (result == WAIT_OVER && made_us < c->x.sandbox->stopped_us) { /* it is of what ran before */
                close_fd(&fd);
                result = WAIT_NOT_FOUND;
        }
        c->x.dial_wait = result;
        if (result == WAIT_OVER)
                take_upstream(c, fd, made_us);
        client_resume(c);
}

/* ---- steps ---- */

static void watch_upstream(struct client *c)
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

void client_advance(struct client *c)
{
        enum client_state before;

        do {
                before = c->state;
                switch (c->state) {
                case CLIENT_HEAD:
                case CLIENT_TUNNEL:
                case CLIENT_REPLY:
                case CLIENT_DRAIN:
                case CLIENT_LINGER: c->kind->step(c); break;
                case CLIENT_EXCHANGE: exchange_step(c); break;
                case CLIENT_ROUTE:
                case CLIENT_WAKE:
                case CLIENT_DIAL:
                case CLIENT_CLOSED: break;
                }
        } while (c->state != before);
        if (c->state == CLIENT_CLOSED || c->state == CLIENT_TUNNEL)
                return;
        c->kind->watch(c);
        watch_upstream(c);
}

void client_answer(struct client *c, const struct answer *a)
{
        block_consume(&c->in, c->head_len);
        c->head_len = 0;
        c->is_waiting = false;
        c->x.status = answer_status(a);
        client_go(c, CLIENT_REPLY);
        if (c->kind->say(c, a) < 0)
                client_close(c);
}
