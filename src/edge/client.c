#include "edge/client.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "edge/edge.h"
#include "edge/exchange.h"
#include "edge/request.h"
#include "edge/tunnel.h"
#include "edge/upstream.h"

#define TO(s) (1u << (s))

static const unsigned client_may[] = {
        [CLIENT_HEAD] = TO(CLIENT_ROUTE) | TO(CLIENT_DIAL) | TO(CLIENT_EXCHANGE) | TO(CLIENT_REPLY) |
                        TO(CLIENT_LINGER) | TO(CLIENT_CLOSED),
        [CLIENT_ROUTE] = TO(CLIENT_HEAD) | TO(CLIENT_CLOSED),
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

/* ---- ending ---- */

static void on_gone(struct task *t)
{
        free(CONTAINER_OF(t, struct client, gone));
}

void client_close(struct client *c)
{
        struct edge *e = c->edge;

        if (c->state == CLIENT_CLOSED)
                return;
        exchange_done(c);
        client_go(c, CLIENT_CLOSED);
        timer_clear(&c->timer);
        stream_done(&c->stream);
        block_drop(&e->blocks, &c->in);
        flow_done(&c->x.up, &e->blocks);
        flow_done(&c->x.down, &e->blocks);
        list_remove(&c->node);
        e->client_count--;
        loop_post(e->loop, &c->gone);
        edge_check_stopped(e);
}

void client_cut(struct client *c)
{
        if (c->state != CLIENT_CLOSED)
                stream_abort(&c->stream);
        client_close(c);
}

/* ---- timers: armed late and left armed; when one fires early the rest is waited for ---- */

static void arm(struct client *c, int what, unsigned ms)
{
        c->timer_for = what;
        timer_set(c->edge->loop, &c->timer, ms);
}

static void arm_idle(struct client *c)
{
        uint64_t now = clock_mono_ms();

        c->timer_for = TIMER_IDLE;
        c->idle_since_ms = now;
        if (!timer_is_armed(&c->timer) || c->timer.due_ms > now + c->edge->limits->idle_timeout_ms)
                timer_set(c->edge->loop, &c->timer, c->edge->limits->idle_timeout_ms);
}

void client_arm_wait(struct client *c, unsigned ms)
{
        arm(c, TIMER_WAIT, ms);
}

static void on_idle_timer(struct client *c)
{
        uint64_t now = clock_mono_ms(), due = c->idle_since_ms + c->edge->limits->idle_timeout_ms;

        if (now < due)
                timer_set(c->edge->loop, &c->timer, due - now);
        else
                client_close(c);
}

static void refuse_slow_head(struct client *c)
{
        c->x.persists = false;
        c->x.request_ended = true;
        client_answer(c, &(struct answer){.kind = ANSWER_API,
                                          .status = 408,
                                          .message = "request head took too long",
                                          .says_close = true});
        client_advance(c);
}

static void on_timer(struct timer *t)
{
        struct client *c = CONTAINER_OF(t, struct client, timer);

        switch (c->timer_for) {
        case TIMER_NONE: break;
        case TIMER_IDLE: on_idle_timer(c); break;
        case TIMER_FIRST:
        case TIMER_END: client_close(c); break;
        case TIMER_HEAD: refuse_slow_head(c); break;
        case TIMER_WAIT:
                c->timer_for = TIMER_NONE;
                request_on_wait_over(c);
                break;
        }
}

/* ---- steps ---- */

static void refuse_head(struct client *c, const struct http1_head *h)
{
        c->x.persists = false;
        c->x.request_ended = true; /* where it ends is not known: nothing behind it is looked at */
        client_answer(c, &(struct answer){.kind = ANSWER_API,
                                          .status = h->status_hint ? h->status_hint : 400,
                                          .message = h->why ? h->why : "malformed request",
                                          .says_close = true});
}

static void read_head(struct client *c)
{
        struct edge *e = c->edge;
        enum http1_step step;
        size_t used;

        if (c->in.len == 0) {
                if (e->is_stopping)
                        client_close(c);
                else if (c->timer_for != TIMER_FIRST && c->timer_for != TIMER_IDLE)
                        arm_idle(c);
                return;
        }
        if (!c->head_len && !head_scan_is_due(&c->scan, block_at(&c->in), c->in.len))
                return;
        e->head = (struct http1_head){0};
        step = http1_parse_request(&e->head, block_at(&c->in), c->in.len, &used);
        if (step == HTTP1_MORE) {
                if (c->timer_for != TIMER_HEAD && c->timer_for != TIMER_FIRST)
                        arm(c, TIMER_HEAD, e->limits->head_timeout_ms);
                else
                        c->timer_for = TIMER_HEAD; /* the first head's time runs from the connection on */
                return;
        }
        c->timer_for = TIMER_NONE;
        if (step != HTTP1_DONE) {
                refuse_head(c, &e->head);
                return;
        }
        c->head_len = used;
        c->scan = (struct head_scan){0};
        request_begin(c, &e->head);
}

/* The answer is out: what follows on this connection? */
static void go_on_after_answer(struct client *c)
{
        if (c->is_ended) {
                client_close(c);
        } else if (!c->x.request_ended) {
                c->drained_bytes = 0;
                arm(c, TIMER_END, c->edge->limits->drain_timeout_ms);
                client_go(c, CLIENT_DRAIN);
        } else if (c->x.persists && !c->edge->is_stopping) {
                c->timer_for = TIMER_NONE;
                client_go(c, CLIENT_HEAD);
        } else {
                stream_shutdown_write(&c->stream);
                arm(c, TIMER_END, c->edge->limits->drain_timeout_ms);
                client_go(c, CLIENT_LINGER);
        }
}

void client_finish(struct client *c)
{
        block_drop(&c->edge->blocks, &c->x.up.out); /* what upstream did not want of the request */
        exchange_done(c);
        go_on_after_answer(c);
}

static void write_reply(struct client *c)
{
        switch (flow_flush(&c->x.down, &c->edge->blocks, &c->stream)) {
        case FLOW_FULL: break;
        case FLOW_DEAD: client_close(c); break;
        default: client_finish(c); break;
        }
}

static void drain(struct client *c)
{
        struct http1_body *body = &c->x.up.body;

        while (c->in.len && !http1_body_is_done(body)) {
                struct str data;
                size_t used = 0;
                enum http1_step step = http1_body_feed(body, block_at(&c->in), c->in.len, &used, &data);

                block_consume(&c->in, used);
                c->drained_bytes += used;
                if (step == HTTP1_BAD || step == HTTP1_TOO_BIG || c->drained_bytes > c->edge->limits->drain_bytes_max) {
                        c->x.persists = false;
                        c->x.request_ended = true;
                        go_on_after_answer(c);
                        return;
                }
        }
        if (http1_body_is_done(body)) {
                c->x.request_ended = true;
                go_on_after_answer(c);
        }
}

static void linger(struct client *c)
{
        block_consume(&c->in, c->in.len);
        if (c->is_ended)
                client_close(c);
}

static void update_wants(struct client *c)
{
        struct upstream *u = c->x.upstream;
        uint32_t want = 0;

        if (c->state == CLIENT_CLOSED || c->state == CLIENT_TUNNEL)
                return;
        if (!c->is_ended && block_room(&c->in) >= BLOCK_READ_MIN)
                want |= EPOLLIN;
        if (c->x.down.out.len)
                want |= EPOLLOUT;
        client_want(c, want);
        block_tidy(&c->edge->blocks, &c->in);
        if (!u)
                return;
        want = 0;
        if (!u->is_ended && !c->x.down.out.len && block_room(&u->in) >= BLOCK_READ_MIN)
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
                case CLIENT_HEAD: read_head(c); break;
                case CLIENT_EXCHANGE: exchange_step(c); break;
                case CLIENT_TUNNEL: tunnel_step(c); break;
                case CLIENT_REPLY: write_reply(c); break;
                case CLIENT_DRAIN: drain(c); break;
                case CLIENT_LINGER: linger(c); break;
                case CLIENT_ROUTE:
                case CLIENT_DIAL:
                case CLIENT_CLOSED: break;
                }
        } while (c->state != before);
        update_wants(c);
}

void client_resume(struct client *c)
{
        assert(c->state == CLIENT_ROUTE || c->state == CLIENT_DIAL);
        c->timer_for = TIMER_NONE;
        client_go(c, CLIENT_HEAD);
        client_advance(c);
}

void client_dialled(struct client *c, enum wait_result result, int fd)
{
        c->x.dial_wait = result;
        if (result == WAIT_OVER) {
                c->x.upstream = upstream_create(c->edge, fd, c->x.sandbox, c->x.port);
                if (c->x.upstream)
                        c->x.upstream->client = c;
                else
                        c->x.dial_wait = WAIT_UNAVAILABLE;
        }
        client_resume(c);
}

void client_answer(struct client *c, const struct answer *a)
{
        struct edge *e = c->edge;

        block_consume(&c->in, c->head_len);
        c->head_len = 0;
        c->scan = (struct head_scan){0};
        c->x.status = answer_status(a);
        buf_reset(&e->out);
        client_go(c, CLIENT_REPLY);
        if (answer_write(a, &e->out) < 0 || flow_say(&c->x.down, &e->blocks, &e->out, &c->stream) == FLOW_DEAD)
                client_close(c);
        else
                c->x.down.is_ended = true;
}

/* ---- events ---- */

void client_want(struct client *c, uint32_t want)
{
        if (c->is_parked && want) {
                if (loop_add(c->edge->loop, &c->stream.io, 0) < 0)
                        return; /* out of memory: it stays parked until its upstream ends */
                c->is_parked = false;
        }
        stream_want(&c->stream, want);
}

void client_park(struct client *c)
{
        stream_want(&c->stream, 0);
        loop_del(&c->stream.io);
        c->is_parked = true;
}

ssize_t client_fill(struct client *c)
{
        uint8_t *at;
        size_t room;
        ssize_t n;

        if (block_need(&c->edge->blocks, &c->in) < 0)
                return -ENOMEM;
        room = block_space(&c->in, &at);
        n = stream_read(&c->stream, at, room);
        if (n > 0)
                c->in.len += (size_t)n;
        return n;
}

/* false: the client is gone, and so is c. */
static bool fill(struct client *c)
{
        ssize_t n = client_fill(c);

        if (n > 0 || n == -EAGAIN)
                return true;
        /* A client that leaves does not wait for its answer; one that has it, or is being told, may hang up first. */
        c->is_ended = true;
        if (n < 0 || c->state < CLIENT_REPLY) {
                client_close(c);
                return false;
        }
        return true;
}

static void on_stream(struct stream *s, uint32_t events)
{
        struct client *c = CONTAINER_OF(s, struct client, stream);

        if (c->state == CLIENT_TUNNEL) {
                tunnel_on_client(c, events);
                return;
        }
        if ((events & (EPOLLERR | EPOLLHUP)) && !(events & EPOLLIN)) {
                client_close(c);
                return;
        }
        if ((events & EPOLLIN) && !fill(c))
                return;
        client_advance(c);
}

static void refuse_connection(int fd, bool is_tls)
{
        static const char full[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                                   "Content-Length: 45\r\nConnection: close\r\n\r\n"
                                   "{\"code\":503,\"message\":\"too many connections\"}";

        if (!is_tls)
                (void)!write(fd, full, sizeof(full) - 1); /* best effort: it is new, so it fits or is gone */
        close_fd(&fd);
}

void client_accept(struct edge *e, int fd, struct tls_context *tls)
{
        struct client *c;

        if (e->client_count >= e->clients_max) {
                refuse_connection(fd, tls != NULL);
                return;
        }
        c = calloc(1, sizeof(*c));
        if (!c) {
                close_fd(&fd);
                return;
        }
        c->edge = e;
        c->gone.run = on_gone;
        c->timer.on = on_timer;
        if (stream_init(&c->stream, e->loop, fd, tls, on_stream) < 0) {
                stream_done(&c->stream);
                free(c);
                return;
        }
        list_push_back(&e->clients, &c->node);
        e->client_count++;
        arm(c, TIMER_FIRST, e->limits->head_timeout_ms);
        stream_want(&c->stream, EPOLLIN);
}

void client_stop(struct client *c)
{
        if (c->state == CLIENT_HEAD && c->in.len == 0)
                client_close(c);
}
