#include "edge/route/upstream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>

#include "base/clock.h"
#include "edge/proxy/edge_client.h"
#include "edge/proxy/edge.h"
#include "edge/proxy/proxy_exchange.h"
#include "edge/route/routes.h"
#include "edge/http1/tunnel.h"

#define SWEEP_MS 1000u

static bool upstream_is_ours(const struct upstream *u)
{
        return !u->sandbox || u->port == ENVD_PORT;
}

static void upstream_gone(struct task *t)
{
        free(CONTAINER_OF(t, struct upstream, gone));
}

static void upstream_leave_idle(struct upstream *u)
{
        if (!list_is_hooked(&u->idle))
                return;
        list_remove(&u->idle);
        list_remove(&u->lru);
        u->edge->idle_count--;
        if (u->sandbox)
                u->sandbox->idle_count--;
        else
                u->edge->api_idle_count--;
}

void upstream_close(struct upstream *u)
{
        upstream_leave_idle(u);
        u->client = NULL;
        stream_done(&u->stream);
        block_drop(&u->edge->blocks, &u->in);
        loop_post(u->edge->loop, &u->gone);
}

static void upstream_on_stream(struct stream *s, uint32_t events)
{
        struct upstream *u = CONTAINER_OF(s, struct upstream, stream);

        if (!u->client)
                upstream_close(u); /* it hung up, or speaks unasked: of no use either way */
        else if (u->client->state == CLIENT_TUNNEL)
                tunnel_on_upstream(u->client, events);
        else
                proxy_exchange_on_upstream(u->client, events);
}

struct upstream *upstream_create(struct edge *e, int fd, struct routed_sandbox *s, uint16_t port)
{
        const int on = 1;
        struct upstream *u;

        u = calloc(1, sizeof(*u));
        if (!u) {
                close_fd(&fd);
                return NULL;
        }
        u->edge = e;
        u->sandbox = s;
        u->port = port;
        u->gone.run = upstream_gone;
        if (stream_init(&u->stream, e->loop, fd, NULL, upstream_on_stream) < 0) {
                free(u);
                return NULL;
        }
        if (s)
                (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        return u;
}

struct upstream *upstream_to_control(struct edge *e, int *ret_error)
{
        struct upstream *u;
        int fd, r;

        r = connect_unix(e->api_path, &fd);
        if (r == 0) {
                u = upstream_create(e, fd, NULL, 0);
                if (u)
                        return u;
                r = -ENOMEM;
        }
        *ret_error = r;
        return NULL;
}

struct upstream *upstream_reuse(struct edge *e, struct routed_sandbox *s, uint16_t port)
{
        struct list *idle = s ? &s->idle : &e->api_idle;

        LIST_EACH (node, idle) { /* the one used last comes first: the least likely to be hung up on */
                struct upstream *u = LIST_ENTRY(node, struct upstream, idle);

                if (u->port == port) {
                        upstream_leave_idle(u);
                        u->is_reused = true;
                        return u;
                }
        }
        return NULL;
}

static void upstream_plan_sweep(struct edge *e, uint64_t now, uint64_t at)
{
        e->idle_sweep_ms = at > now + SWEEP_MS ? at : now + SWEEP_MS;
        timer_set(e->loop, &e->idle_timer, e->idle_sweep_ms - now);
}

/* Those with different waits are in one list, so the sweep looks at all of it; it runs once a second at most. */
static void upstream_on_sweep(struct timer *t)
{
        struct edge *e = CONTAINER_OF(t, struct edge, idle_timer);
        uint64_t now = clock_mono_ms(), next = UINT64_MAX;

        LIST_EACH (node, &e->idle_lru) {
                struct upstream *u = LIST_ENTRY(node, struct upstream, lru);

                if (u->idle_until_ms <= now)
                        upstream_close(u);
                else if (u->idle_until_ms < next)
                        next = u->idle_until_ms;
        }
        if (next != UINT64_MAX)
                upstream_plan_sweep(e, now, next);
}

void upstream_keep(struct upstream *u)
{
        struct edge *e = u->edge;
        struct routed_sandbox *s = u->sandbox;
        uint64_t now = clock_mono_ms();

        u->client = NULL;
        if (e->is_stopping ||
            (s ? s->idle_count >= e->limits->idle_sandbox_max : e->api_idle_count >= e->limits->idle_api_max)) {
                upstream_close(u);
                return;
        }
        if (e->idle_count >= e->limits->idle_total_max)
                upstream_close(LIST_ENTRY(e->idle_lru.next, struct upstream, lru));
        block_tidy(&e->blocks, &u->in);
        upstream_want(u, EPOLLIN);
        u->idle_until_ms = now + (upstream_is_ours(u) ? e->limits->idle_ours_ms : e->limits->idle_users_ms);
        list_push_front(s ? &s->idle : &e->api_idle, &u->idle);
        list_push_back(&e->idle_lru, &u->lru);
        e->idle_count++;
        if (s)
                s->idle_count++;
        else
                e->api_idle_count++;
        if (!timer_is_armed(&e->idle_timer) || e->idle_sweep_ms > u->idle_until_ms + SWEEP_MS)
                upstream_plan_sweep(e, now, u->idle_until_ms);
}

void upstream_drop_idle(struct routed_sandbox *s)
{
        while (!list_is_empty(&s->idle))
                upstream_close(LIST_ENTRY(s->idle.next, struct upstream, idle));
}

void upstream_want(struct upstream *u, uint32_t want)
{
        if (u->is_parked && want) {
                if (loop_add(u->edge->loop, &u->stream.io, 0) < 0)
                        return; /* out of memory: it stays parked, and the client's own end will end it */
                u->is_parked = false;
        }
        stream_want(&u->stream, want);
}

void upstream_park(struct upstream *u)
{
        stream_want(&u->stream, 0);
        loop_del(&u->stream.io);
        u->is_parked = true;
}

ssize_t upstream_fill(struct upstream *u)
{
        uint8_t *at;
        size_t room;
        ssize_t n;

        if (block_need(&u->edge->blocks, &u->in) < 0)
                return -ENOMEM;
        room = block_space(&u->in, &at);
        n = stream_read(&u->stream, at, room);
        if (n > 0)
                u->in.len += (size_t)n;
        return n;
}

void upstream_setup(struct edge *e)
{
        list_init(&e->api_idle);
        list_init(&e->idle_lru);
        e->idle_timer = (struct timer){.on = upstream_on_sweep};
}

void upstream_done(struct edge *e)
{
        timer_clear(&e->idle_timer);
        while (!list_is_empty(&e->idle_lru))
                upstream_close(LIST_ENTRY(e->idle_lru.next, struct upstream, lru));
}
