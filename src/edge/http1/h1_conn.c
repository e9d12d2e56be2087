#include "edge/http1/h1_conn.h"

#include <errno.h>

#include "base/clock.h"
#include "edge/http1/tunnel.h"
#include "edge/http2/h2_session.h"
#include "edge/proxy/edge.h"
#include "edge/proxy/request.h"
#include "edge/route/upstream.h"

/* ---- timers: armed late and left armed; one that fires early is armed again for the rest of the time ---- */

static void h1_conn_arm_timer(struct h1_conn *h, int what, unsigned ms)
{
        h->timer_for = what;
        timer_set(h->c.edge->loop, &h->timer, ms);
}

static void h1_conn_arm_idle(struct h1_conn *h)
{
        unsigned ms = h->c.edge->limits->idle_timeout_ms;
        uint64_t now = clock_mono_ms();

        h->timer_for = TIMER_IDLE;
        h->idle_since_ms = now;
        if (!timer_is_armed(&h->timer) || h->timer.due_ms > now + ms)
                timer_set(h->c.edge->loop, &h->timer, ms);
}

static void h1_conn_on_idle_timer(struct h1_conn *h)
{
        uint64_t now = clock_mono_ms(), due = h->idle_since_ms + h->c.edge->limits->idle_timeout_ms;

        if (now < due)
                timer_set(h->c.edge->loop, &h->timer, due - now);
        else
                edge_client_close(&h->c);
}

static void h1_conn_refuse_slow_head(struct h1_conn *h)
{
        struct edge_client *c = &h->c;

        c->x.persists = false;
        exchange_request_ended(&c->x);
        edge_client_answer(c, &(struct answer){.kind = ANSWER_API,
                                               .status = 408,
                                               .message = "request head took too long",
                                               .says_close = true});
        edge_client_advance(c);
}

static uint64_t h1_conn_passed_bytes(const struct h1_conn *h)
{
        return h->c.x.up.sent_bytes + h->c.x.down.sent_bytes;
}

void h1_conn_watch_half(struct h1_conn *h)
{
        h->half_bytes = h1_conn_passed_bytes(h);
        h1_conn_arm_timer(h, TIMER_HALF, h->c.edge->limits->half_timeout_ms);
}

/* When a client has closed its half, the edge cannot see whether the client still reads or is gone. */
static void h1_conn_on_half_timer(struct h1_conn *h)
{
        if (h1_conn_passed_bytes(h) == h->half_bytes)
                edge_client_cut(&h->c);
        else
                h1_conn_watch_half(h);
}

static void h1_conn_on_timer(struct timer *t)
{
        struct h1_conn *h = CONTAINER_OF(t, struct h1_conn, timer);

        switch (h->timer_for) {
        case TIMER_NONE: break;
        case TIMER_IDLE: h1_conn_on_idle_timer(h); break;
        case TIMER_FIRST:
        case TIMER_END: edge_client_close(&h->c); break;
        case TIMER_HEAD: h1_conn_refuse_slow_head(h); break;
        case TIMER_HALF: h1_conn_on_half_timer(h); break;
        }
}

/* ---- steps ---- */

static void h1_conn_refuse_head(struct edge_client *c, const struct http1_head *head)
{
        c->x.persists = false;
        exchange_request_ended(&c->x); /* where the request ends is not known: nothing behind the head is looked at */
        edge_client_answer(c, &(struct answer){.kind = ANSWER_API,
                                               .status = head->status_hint ? head->status_hint : 400,
                                               .message = head->why ? head->why : "malformed request",
                                               .says_close = true});
}

static void h1_conn_read_head(struct edge_client *c)
{
        struct h1_conn *h = h1_of(c);
        struct edge *e = c->edge;
        enum http1_step step;
        size_t used;

        if (c->in.len == 0) {
                if (e->is_stopping)
                        edge_client_close(c);
                else if (h->timer_for != TIMER_FIRST && h->timer_for != TIMER_IDLE)
                        h1_conn_arm_idle(h);
                return;
        }
        if (!c->head_len && !head_scan_is_due(&h->scan, block_at(&c->in), c->in.len))
                return;
        e->head = (struct http1_head){0};
        step = http1_parse_request(&e->head, block_at(&c->in), c->in.len, &used);
        if (step == HTTP1_MORE) {
                if (h->timer_for != TIMER_HEAD && h->timer_for != TIMER_FIRST)
                        h1_conn_arm_timer(h, TIMER_HEAD, e->limits->head_timeout_ms);
                else
                        h->timer_for = TIMER_HEAD; /* the time for the first head runs since the connection was made */
                return;
        }
        h->timer_for = TIMER_NONE;
        if (step != HTTP1_DONE) {
                h1_conn_refuse_head(c, &e->head);
                return;
        }
        c->head_len = used;
        h->scan = (struct head_scan){0};
        request_begin(c, &e->head);
}

/* The answer is sent: what follows on this connection? */
static void h1_conn_after_answer(struct edge_client *c)
{
        struct h1_conn *h = h1_of(c);
        unsigned end_ms = c->edge->limits->drain_timeout_ms;

        if (c->is_ended) {
                edge_client_close(c);
        } else if (!exchange_is_sent(&c->x)) {
                h->drained_bytes = 0;
                h1_conn_arm_timer(h, TIMER_END, end_ms);
                edge_client_go(c, CLIENT_DRAIN);
        } else if (c->x.persists && !c->edge->is_stopping) {
                h->timer_for = TIMER_NONE;
                exchange_reset(&c->x);
                edge_client_go(c, CLIENT_HEAD);
        } else {
                stream_shutdown_write(&h->conn.stream);
                h1_conn_arm_timer(h, TIMER_END, end_ms);
                edge_client_go(c, CLIENT_LINGER);
        }
}

static void h1_conn_write_reply(struct edge_client *c)
{
        switch (h1_answer_flush(c)) {
        case FLOW_FULL: break;
        case FLOW_DEAD: edge_client_close(c); break;
        default: edge_client_finish(c); break;
        }
}

static void h1_conn_drain(struct edge_client *c)
{
        struct h1_conn *h = h1_of(c);
        struct http1_body *body = &c->x.up.body;

        while (c->in.len && !http1_body_is_done(body)) {
                struct str data;
                size_t used = 0;
                enum http1_step step = http1_body_feed(body, block_at(&c->in), c->in.len, &used, &data);

                block_consume(&c->in, used);
                h->drained_bytes += used;
                if (step == HTTP1_BAD || step == HTTP1_TOO_BIG || h->drained_bytes > c->edge->limits->drain_bytes_max) {
                        c->x.persists = false;
                        exchange_request_ended(&c->x);
                        h1_conn_after_answer(c);
                        return;
                }
        }
        if (http1_body_is_done(body)) {
                exchange_request_ended(&c->x);
                h1_conn_after_answer(c);
        }
}

static void h1_conn_linger(struct edge_client *c)
{
        block_consume(&c->in, c->in.len);
        if (c->is_ended)
                edge_client_close(c);
}

static void h1_conn_step(struct edge_client *c)
{
        switch (c->state) {
        case CLIENT_HEAD: h1_conn_read_head(c); break;
        case CLIENT_TUNNEL: tunnel_step(c); break;
        case CLIENT_REPLY: h1_conn_write_reply(c); break;
        case CLIENT_DRAIN: h1_conn_drain(c); break;
        case CLIENT_LINGER: h1_conn_linger(c); break;
        default: break;
        }
}

static void h1_conn_watch(struct edge_client *c)
{
        uint32_t want = 0;

        if (!c->is_ended && block_room(&c->in) >= BLOCK_READ_MIN)
                want |= EPOLLIN;
        if (flow_waits(&c->x.down))
                want |= EPOLLOUT;
        h1_conn_want(h1_of(c), want);
        block_tidy(&c->edge->blocks, &c->in);
}

static enum flow_step h1_conn_push(struct edge_client *c, struct buf *prefix)
{
        return flow_pump(&c->x.up, &c->edge->blocks, &c->in, &c->head_len, prefix, &c->x.visit.upstream->stream);
}

/* ---- events ---- */

void h1_conn_want(struct h1_conn *h, uint32_t want)
{
        if (h->is_parked && want) {
                if (loop_add(h->c.edge->loop, &h->conn.stream.io, 0) < 0)
                        return; /* out of memory: the connection stays parked until its upstream ends */
                h->is_parked = false;
        }
        stream_want(&h->conn.stream, want);
}

void h1_conn_park(struct h1_conn *h)
{
        stream_want(&h->conn.stream, 0);
        loop_del(&h->conn.stream.io);
        h->is_parked = true;
}

ssize_t h1_conn_fill(struct h1_conn *h)
{
        struct edge_client *c = &h->c;
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
static bool h1_conn_fill_or_close(struct h1_conn *h)
{
        ssize_t n = h1_conn_fill(h);

        if (n > 0 || n == -EAGAIN)
                return true;
        /* A client that leaves does not wait for its answer; a client that has its answer, or is being sent it, may hang up first. */
        h->c.is_ended = true;
        if (n < 0 || h->c.state < CLIENT_REPLY) {
                edge_client_close(&h->c);
                return false;
        }
        return true;
}

/* Which protocol does the client speak?  TLS has negotiated it; without TLS the first line tells.  The first line of HTTP/2 is no
 * HTTP/1.1 request; until the line is complete the connection waits as if it were one. */
static bool h1_conn_speaks_h2(struct h1_conn *h)
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

/* true: the connection belongs to an h2_session now. */
static bool h1_conn_hand_over(struct h1_conn *h)
{
        struct edge_client *c = &h->c;

        if (!h1_conn_speaks_h2(h))
                return false;
        h2_session_take_over(c->edge, &h->conn.stream, block_at(&c->in), c->in.len);
        edge_client_close(c);
        return true;
}

static void h1_conn_on_stream(struct stream *s, uint32_t events)
{
        struct h1_conn *h = CONTAINER_OF(s, struct h1_conn, conn.stream);

        if (h->c.state == CLIENT_TUNNEL) {
                tunnel_on_client(&h->c, events);
                return;
        }
        if ((events & (EPOLLERR | EPOLLHUP)) && !(events & EPOLLIN)) {
                edge_client_close(&h->c);
                return;
        }
        if ((events & EPOLLIN) && !h1_conn_fill_or_close(h))
                return;
        if (!h->is_settled && h->c.in.len && h1_conn_hand_over(h))
                return;
        edge_client_advance(&h->c);
}

/* ---- coming and going ---- */

static void h1_conn_gone(struct task *t)
{
        free(CONTAINER_OF(t, struct h1_conn, gone));
}

static void h1_conn_cut_client(struct edge_client *c)
{
        stream_abort(&h1_of(c)->conn.stream);
}

static void h1_conn_release(struct edge_client *c)
{
        struct h1_conn *h = h1_of(c);

        timer_clear(&h->timer);
        loop_post(c->edge->loop, &h->gone);
        client_conn_leave(&h->conn);
}

static const struct edge_client_kind h1_client_kind = {
        .name = "h1",
        .step = h1_conn_step,
        .watch = h1_conn_watch,
        .push = h1_conn_push,
        .interim = h1_answer_interim,
        .switch_over = h1_answer_switch_over,
        .begin = h1_answer_begin,
        .pull = h1_answer_pull,
        .flush = h1_answer_flush,
        .splice = h1_answer_splice,
        .say = h1_answer_say,
        .tunnel_upstream = tunnel_on_upstream,
        .after = h1_conn_after_answer,
        .cut = h1_conn_cut_client,
        .release = h1_conn_release,
};

static void h1_conn_stop(struct client_conn *n)
{
        struct h1_conn *h = CONTAINER_OF(n, struct h1_conn, conn);

        if (h->c.state == CLIENT_HEAD && h->c.in.len == 0)
                edge_client_close(&h->c);
}

static void h1_conn_cut(struct client_conn *n)
{
        edge_client_cut(&CONTAINER_OF(n, struct h1_conn, conn)->c);
}

void h1_conn_create(struct edge *e, int fd, struct tls_context *tls, enum h1_conn_from from)
{
        static const struct client_conn_ops ops = {.stop = h1_conn_stop, .cut = h1_conn_cut};
        struct h1_conn *h;

        h = calloc(1, sizeof(*h));
        if (!h) {
                close_fd(&fd);
                return;
        }
        edge_client_setup(&h->c, e, &h1_client_kind);
        h->c.is_tls = tls;
        h->c.is_local = from == FROM_CLIENTS_SOCKET;
        h->gone.run = h1_conn_gone;
        h->timer.on = h1_conn_on_timer;
        if (stream_init(&h->conn.stream, e->loop, fd, tls, h1_conn_on_stream) < 0) {
                stream_done(&h->conn.stream);
                free(h);
                return;
        }
        client_conn_join(&h->conn, e, &ops);
        h1_conn_arm_timer(h, TIMER_FIRST, e->limits->head_timeout_ms);
        stream_want(&h->conn.stream, EPOLLIN);
}
