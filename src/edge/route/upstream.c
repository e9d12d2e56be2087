#include "edge/route/upstream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "edge/limits/limits.h"
#include "edge/route/routes.h"
#include "edge/route/visit.h"
#include "io/listener.h"

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
        u->pool->idle_count--;
        if (u->sandbox)
                u->sandbox->idle_count--;
        else
                u->pool->api_idle_count--;
}

void upstream_close(struct upstream *u)
{
        upstream_leave_idle(u);
        u->visit = NULL;
        stream_done(&u->stream);
        block_drop(u->pool->blocks, &u->in);
        loop_post(u->pool->loop, &u->gone);
}

static void upstream_on_stream(struct stream *s, uint32_t events)
{
        struct upstream *u = CONTAINER_OF(s, struct upstream, stream);

        if (u->visit)
                u->visit->ops->on_upstream(u->visit, events);
        else
                upstream_close(u); /* an idle server hung up or speaks unasked: of no use either way */
}

struct upstream *upstream_create(struct upstream_pool *p, int fd, struct routed_sandbox *s, uint16_t port)
{
        const int on = 1;
        struct upstream *u;

        u = calloc(1, sizeof(*u));
        if (!u) {
                close_fd(&fd);
                return NULL;
        }
        u->pool = p;
        u->sandbox = s;
        u->port = port;
        u->gone.run = upstream_gone;
        if (stream_init(&u->stream, p->loop, fd, NULL, upstream_on_stream) < 0) {
                free(u);
                return NULL;
        }
        if (s)
                (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        return u;
}

struct upstream *upstream_to_role(struct upstream_pool *p, enum upstream_role role, int *ret_error)
{
        struct upstream *u;
        int fd, r;

        r = connect_unix(p->role_paths[role], &fd);
        if (r == 0) {
                u = upstream_create(p, fd, NULL, (uint16_t)role);
                if (u)
                        return u;
                r = -ENOMEM;
        }
        *ret_error = r;
        return NULL;
}

struct upstream *upstream_reuse(struct upstream_pool *p, struct routed_sandbox *s, uint16_t port)
{
        struct list *idle = s ? &s->idle : &p->api_idle;

        LIST_EACH (node,
                   idle) { /* the connection used last comes first: the server is least likely to have closed it */
                struct upstream *u = LIST_ENTRY(node, struct upstream, idle);

                if (u->port == port) {
                        upstream_leave_idle(u);
                        u->is_reused = true;
                        return u;
                }
        }
        return NULL;
}

static void upstream_plan_sweep(struct upstream_pool *p, uint64_t now, uint64_t at)
{
        p->sweep_ms = at > now + SWEEP_MS ? at : now + SWEEP_MS;
        timer_set(p->loop, &p->sweep_timer, p->sweep_ms - now);
}

/* Connections with different waits are in one list, so the sweep looks at all of them, once a second at most. */
static void upstream_on_sweep(struct timer *t)
{
        struct upstream_pool *p = CONTAINER_OF(t, struct upstream_pool, sweep_timer);
        uint64_t now = clock_mono_ms(), next = UINT64_MAX;

        LIST_EACH (node, &p->idle_lru) {
                struct upstream *u = LIST_ENTRY(node, struct upstream, lru);

                if (u->idle_until_ms <= now)
                        upstream_close(u);
                else if (u->idle_until_ms < next)
                        next = u->idle_until_ms;
        }
        if (next != UINT64_MAX)
                upstream_plan_sweep(p, now, next);
}

void upstream_keep(struct upstream *u)
{
        struct upstream_pool *p = u->pool;
        struct routed_sandbox *s = u->sandbox;
        uint64_t now = clock_mono_ms();

        u->visit = NULL;
        if (p->is_closing ||
            (s ? s->idle_count >= p->limits->idle_sandbox_max : p->api_idle_count >= p->limits->idle_api_max)) {
                upstream_close(u);
                return;
        }
        if (p->idle_count >= p->limits->idle_total_max)
                upstream_close(LIST_ENTRY(p->idle_lru.next, struct upstream, lru));
        block_tidy(p->blocks, &u->in);
        upstream_want(u, EPOLLIN);
        u->idle_until_ms = now + (upstream_is_ours(u) ? p->limits->idle_ours_ms : p->limits->idle_users_ms);
        list_push_front(s ? &s->idle : &p->api_idle, &u->idle);
        list_push_back(&p->idle_lru, &u->lru);
        p->idle_count++;
        if (s)
                s->idle_count++;
        else
                p->api_idle_count++;
        if (!timer_is_armed(&p->sweep_timer) || p->sweep_ms > u->idle_until_ms + SWEEP_MS)
                upstream_plan_sweep(p, now, u->idle_until_ms);
}

void upstream_drop_idle(struct routed_sandbox *s)
{
        while (!list_is_empty(&s->idle))
                upstream_close(LIST_ENTRY(s->idle.next, struct upstream, idle));
}

void upstream_want(struct upstream *u, uint32_t want)
{
        if (u->is_parked && want) {
                if (loop_add(u->pool->loop, &u->stream.io, 0) < 0)
                        return; /* out of memory: the connection stays parked until the client's end closes it */
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

static ssize_t upstream_read(struct upstream *u)
{
        uint8_t *at;
        size_t room;
        ssize_t n;

        if (block_need(u->pool->blocks, &u->in) < 0)
                return -ENOMEM;
        room = block_space(&u->in, &at);
        n = stream_read(&u->stream, at, room);
        if (n > 0)
                u->in.len += (size_t)n;
        return n;
}

ssize_t upstream_fill(struct upstream *u)
{
        ssize_t n = upstream_read(u);

        if (n <= 0 && n != -EAGAIN)
                u->input = n == 0 ? UPSTREAM_ENDED : UPSTREAM_FAILED;
        return n;
}

void upstream_pool_init(struct upstream_pool *p, const struct upstream_pool_options *o)
{
        p->loop = o->loop;
        p->limits = o->limits;
        p->blocks = o->blocks;
        memcpy(p->role_paths, o->role_paths, sizeof(p->role_paths));
        list_init(&p->api_idle);
        list_init(&p->idle_lru);
        p->sweep_timer = (struct timer){.on = upstream_on_sweep};
}

void upstream_pool_done(struct upstream_pool *p)
{
        timer_clear(&p->sweep_timer);
        while (!list_is_empty(&p->idle_lru))
                upstream_close(LIST_ENTRY(p->idle_lru.next, struct upstream, lru));
}
