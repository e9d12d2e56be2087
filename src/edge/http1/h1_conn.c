#include "edge/http1/h1_conn.h"

#include <errno.h>

#include "base/clock.h"
#include "edge/proxy/edge.h"
#include "edge/http2/h2_session.h"
#include "edge/proxy/request.h"
#include "edge/http1/tunnel.h"
#include "edge/route/upstream.h"

/* ---- timers: armed late and left armed; when one fires early the rest is waited for ---- */

static void arm(struct h1 *h, int what, unsigned ms)
{
        h->timer_for = what;
        timer_set(h->c.edge->loop, &h->timer, ms);
}

static void arm_idle(struct h1 *h)
{
        unsigned ms = h->c.edge->limits->idle_timeout_ms;
        uint64_t now = clock_mono_ms();

        h->timer_for = TIMER_IDLE;
        h->idle_since_ms = now;
        if (!timer_is_armed(&h->timer) || h->timer.due_ms > now + ms)
                timer_set(h->c.edge->loop, &h->timer, ms);
}

static void on_idle_timer(struct h1 *h)
{
        uint64_t now = clock_mono_ms(), due = h->idle_since_ms + h->c.edge->limits->idle_timeout_ms;

        if (now < due)
                timer_set(h->c.edge->loop, &h->timer, due - now);
        else
                client_close(&h->c);
}

static void refuse_slow_head(struct h1 *h)
{
        struct client *c = &h->c;

        c->x.persists = false;
        c->x.request_ended = true;
        client_answer(c, &(struct answer){.kind = ANSWER_API,
                                          .status = 408,
                                          .message = "request head took too long",
                                          .says_close = true});
        client_advance(c);
}

static uint64_t passed_bytes(const struct h1 *h)
{
        return h->c.x.up.sent_bytes + h->c.x.down.sent_bytes;
}

void h1_watch_half(struct h1 *h)
{
        h->half_bytes = passed_bytes(h);
        arm(h, TIMER_HALF, h->c.edge->limits->half_timeout_ms);
}

/* An end of a client looks the same whether it still listens or is gone. */
static void on_half_timer(struct h1 *h)
{
        if (passed_bytes(h) == h->half_bytes)
                client_cut(&h->c);
        else
                h1_watch_half(h);
}

static void on_timer(struct timer *t)
{
        struct h1 *h = CONTAINER_OF(t, struct h1, timer);

        switch (h->timer_for) {
        case TIMER_NONE: break;
        case TIMER_IDLE: on_idle_timer(h); break;
        case TIMER_FIRST:
        case TIMER_END: client_close(&h->c); break;
        case TIMER_HEAD: refuse_slow_head(h); break;
        case TIMER_HALF: on_half_timer(h); break;
        }
}

/* ---- steps ---- */

static void refuse_head(struct client *c, const struct http1_head *head)
{
        c->x.persists = false;
        c->x.request_ended = true; /* where it ends is not known: nothing behind it is looked at */
        client_answer(c, &(struct answer){.kind = ANSWER_API,
                                          .status = head->status_hint ? head->status_hint : 400,
                                          .message = head->why ? head->why : "malformed request",
                                          .says_close = true});
}

static void read_head(struct client *c)
{
        struct h1 *h = h1_of(c);
        struct edge *e = c->edge;
        enum http1_step step;
        size_t used;

        if (c->in.len == 0) {
                if (e->is_stopping)
                        client_close(c);
                else if (h->timer_for != TIMER_FIRST && h->timer_for != TIMER_IDLE)
                        arm_idle(h);
                return;
        }
        if (!c->head_len && !head_scan_is_due(&h->scan, block_at(&c->in), c->in.len))
                return;
        e->head = (struct http1_head){0};
        step = http1_parse_request(&e->head, block_at(&c->in), c->in.len, &used);
        if (step == HTTP1_MORE) {
                if (h->timer_for != TIMER_HEAD && h->timer_for != TIMER_FIRST)
                        arm(h, TIMER_HEAD, e->limits->head_timeout_ms);
                else
                        h->timer_for = TIMER_HEAD; /* the first head's time runs from the connection on */
                return;
        }
        h->timer_for = TIMER_NONE;
        if (step != HTTP1_DONE) {
                refuse_head(c, &e->head);
                return;
        }
        c->head_len = used;
        h->scan = (struct head_scan){0};
        request_begin(c, &e->head);
}

/* The answer is out: what follows on this connection? */
static void after_answer(struct client *c)
{
        struct h1 *h = h1_of(c);
        unsigned end_ms = c->edge->limits->drain_timeout_ms;

        if (c->is_ended) {
                client_close(c);
        } else if (!c->x.request_ended) {
                h->drained_bytes = 0;
                arm(h, TIMER_END, end_ms);
                client_go(c, CLIENT_DRAIN);
        } else if (c->x.persists && !c->edge->is_stopping) {
                h->timer_for = TIMER_NONE;
                client_go(c, CLIENT_HEAD);
        } else {
                stream_shutdown_write(&h->conn.stream);
                arm(h, TIMER_END, end_ms);
                client_go(c, CLIENT_LINGER);
        }
}

static void write_reply(struct client *c)
{
        switch (h1_flush(c)) {
        case FLOW_FULL: break;
        case FLOW_DEAD: client_close(c); break;
        default: client_finish(c); break;
        }
}

static void drain(struct client *c)
{
        struct h1 *h = h1_of(c);
        struct http1_body *body = &c->x.up.body;

        while (c->in.len && !http1_body_is_done(body)) {
                struct str data;
                size_t used = 0;
                enum http1_step step = http1_body_feed(body, block_at(&c->in), c->in.len, &used, &data);

                block_consume(&c->in, used);
                h->drained_bytes += used;
                if (step == HTTP1_BAD || step == HTTP1_TOO_BIG || h->drained_bytes > c->edge->limits->drain_bytes_max) {
                        c->x.persists = false;
                        c->x.request_ended = true;
                        after_answer(c);
                        return;
                }
        }
        if (http1_body_is_done(body)) {
                c->x.request_ended = true;
                after_answer(c);
        }
}

static void linger(struct client *c)
{
        block_consume(&c->in, c->in.len);
        if (c->is_ended)
                client_close(c);
}

static void step(struct client *c)
{
        switch (c->state) {
        case CLIENT_HEAD: read_head(c); break;
        case CLIENT_TUNNEL: tunnel_step(c); break;
        case CLIENT_REPLY: write_reply(c); break;
        case CLIENT_DRAIN: drain(c); break;
        case CLIENT_LINGER: linger(c); break;
        default: break;
        }
}

static void watch(struct client *c)
{
        uint32_t want = 0;

        if (!c->is_ended && block_room(&c->in) >= BLOCK_READ_MIN)
                want |= EPOLLIN;
        if (flow_waits(&c->x.down))
                want |= EPOLLOUT;
        h1_want(h1_of(c), want);
        block_tidy(&c->edge->blocks, &c->in);
}

static enum flow_step push(struct client *c, struct buf *prefix)
{
        return flow_pump(&c->x.up, &c->edge->blocks, &c->in, &c->head_len, prefix, &c->x.upstream->stream);
}

/* ---- events ---- */

void h1_want(struct h1 *h, uint32_t want)
{
        if (h->is_parked && want) {
                if (loop_add(h->c.edge->loop, &h->conn.stream.io, 0) < 0)
                        return; /* out of memory: it stays parked until its upstream ends */
                h->is_parked = false;
        }
        stream_want(&h->conn.stream, want);
}

void h1_park(struct h1 *h)
{
        stream_want(&h->conn.stream, 0);
        loop_del(&h->conn.stream.io);
        h->is_parked = true;
}

ssize_t h1_fill(struct h1 *h)
{
        struct client *c = &h->c;
        uint8_t *at;
        size_t room;
        ssize_t n;

        if (block_need(&c->edge->blocks, &c->in) < 0)
                return -ENOMEM;
        room = block_space(&c->in, &at);
        n = stream_read(&h->conn.stream, at, room);
        if (n > 0)
                c->in.len += (size_t)n;
        return n;
}

/* false: the client is gone, and so is h. */
static bool fill(struct h1 *h)
{
        ssize_t n = h1_fill(h);

        if (n > 0 || n == -EAGAIN)
                return true;
        /* A client that leaves does not wait for its answer; one that has it, or is being told, may hang up first. */
        h->c.is_ended = true;
        if (n < 0 || h->c.state < CLIENT_REPLY) {
                client_close(&h->c);
                return false;
        }
        return true;
}

/* Which protocol: TLS has settled it, without TLS the first line does.  That is no request of HTTP/1.1, and until it is
 * whole it is left to wait as if it were one. */
static bool is_h2(struct h1 *h)
{
        static const char preface[] = "PRI * HTTP/2.0\r\n";
        size_t n = sizeof(preface) - 1, have = h->c.in.len < n ? h->c.in.len : n;

        h->is_settled = true;
        if (stream_is_tls(&h->conn.stream))
                return str_is(stream_alpn(&h->conn.stream), "h2");
        if (memcmp(block_at(&h->c.in), preface, have) != 0)
                return false;
        h->is_settled = have == n;
        return have == n;
}

/* true: it is another's connection now. */
static bool settle(struct h1 *h)
{
        struct client *c = &h->c;

        if (!is_h2(h))
                return false;
        h2_take_over(c->edge, &h->conn.stream, block_at(&c->in), c->in.len);
        client_close(c);
        return true;
}

static void on_stream(struct stream *s, uint32_t events)
{
        struct h1 *h = CONTAINER_OF(s, struct h1, conn.stream);

        if (h->c.state == CLIENT_TUNNEL) {
                tunnel_on_client(&h->c, events);
                return;
        }
        if ((events & (EPOLLERR | EPOLLHUP)) && !(events & EPOLLIN)) {
                client_close(&h->c);
                return;
        }
        if ((events & EPOLLIN) && !fill(h))
                return;
        if (!h->is_settled && h->c.in.len && settle(h))
                return;
        client_advance(&h->c);
}

/* ---- coming and going ---- */

static void on_gone(struct task *t)
{
        free(CONTAINER_OF(t, struct h1, gone));
}

static void cut(struct client *c)
{
        stream_abort(&h1_of(c)->conn.stream);
}

static void release(struct client *c)
{
        struct h1 *h = h1_of(c);

        timer_clear(&h->timer);
        loop_post(c->edge->loop, &h->gone);
        conn_leave(&h->conn);
}

static const struct client_kind kind = {
        .name = "h1",
        .step = step,
        .watch = watch,
        .push = push,
        .interim = h1_interim,
        .switch_over = h1_switch_over,
        .begin = h1_begin,
        .pull = h1_pull,
        .flush = h1_flush,
        .shortcut = h1_shortcut,
        .say = h1_say,
        .after = after_answer,
        .cut = cut,
        .release = release,
};

static void conn_stop(struct conn *n)
{
        struct h1 *h = CONTAINER_OF(n, struct h1, conn);

        if (h->c.state == CLIENT_HEAD && h->c.in.len == 0)
                client_close(&h->c);
}

static void conn_cut(struct conn *n)
{
        client_cut(&CONTAINER_OF(n, struct h1, conn)->c);
}

void h1_create(struct edge *e, int fd, struct tls_context *tls)
{
        static const struct conn_ops ops = {.stop = conn_stop, .cut = conn_cut};
        struct h1 *h;

        h = calloc(1, sizeof(*h));
        if (!h) {
                close_fd(&fd);
                return;
        }
        client_setup(&h->c, e, &kind);
        h->gone.run = on_gone;
        h->timer.on = on_timer;
        if (stream_init(&h->conn.stream, e->loop, fd, tls, on_stream) < 0) {
                stream_done(&h->conn.stream);
                free(h);
                return;
        }
        conn_join(&h->conn, e, &ops);
        arm(h, TIMER_FIRST, e->limits->head_timeout_ms);
        stream_want(&h->conn.stream, EPOLLIN);
}
