#include "edge/http2/h2_stream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "edge/http2/h2_session.h"
#include "edge/proxy/edge.h"
#include "edge/proxy/request.h"
#include "edge/route/upstream.h"

struct h2_piece {
        struct list node; /* in h2_stream.more */
        struct block b;   /* owned */
};

#define TO(s) (1u << (s))

static const unsigned h2_answer_may[] = {
        [H2_ANSWER_MOVING] = TO(H2_ANSWER_DEFERRED) | TO(H2_ANSWER_SAID),
        [H2_ANSWER_DEFERRED] = TO(H2_ANSWER_MOVING),
        [H2_ANSWER_SAID] = 0,
};

void h2_stream_answer_go(struct h2_stream *st, enum h2_answer_state next)
{
        assert(h2_answer_may[st->answer] & TO(next));
        st->answer = next;
}

void h2_stream_touch(struct h2_stream *st)
{
        if (!list_is_hooked(&st->touched))
                list_push_back(&st->h2->touched, &st->touched);
        h2_session_changed(st->h2);
}

/* ---- the request ---- */

static struct block *h2_stream_block_to_fill(struct h2_stream *st)
{
        struct edge *e = st->c.edge;
        struct list *last = st->more.prev;
        struct block *b = last == &st->more ? &st->c.in : &LIST_ENTRY(last, struct h2_piece, node)->b;
        struct h2_piece *p;

        if (block_room(b))
                return block_need(&e->blocks, b) < 0 ? NULL : b;
        p = calloc(1, sizeof(*p));
        if (!p || block_need(&e->blocks, &p->b) < 0) {
                free(p);
                return NULL;
        }
        list_push_back(&st->more, &p->node);
        return &p->b;
}

int h2_stream_data(struct h2_stream *st, const uint8_t *p, size_t n)
{
        while (n) {
                struct block *b = h2_stream_block_to_fill(st);
                size_t room;

                if (!b)
                        return -ENOMEM;
                room = block_room(b) < n ? block_room(b) : n;
                if (BLOCK_SIZE - b->start - b->len < room) { /* a block is filled before the next is begun */
                        memmove(b->mem, block_at(b), b->len);
                        b->start = 0;
                }
                memcpy(block_at(b) + b->len, p, room);
                b->len += room;
                st->waiting += room;
                st->c.edge->h2_waiting += room;
                p += room;
                n -= room;
        }
        return 0;
}

/* The next block of the body moves up; false: there is none. */
static bool h2_stream_next_piece(struct h2_stream *st)
{
        struct list *first;
        struct h2_piece *p;

        if (st->c.in.len)
                return false;
        first = list_pop_front(&st->more);
        if (!first)
                return false;
        p = LIST_ENTRY(first, struct h2_piece, node);
        block_drop(&st->c.edge->blocks, &st->c.in);
        st->c.in = p->b;
        free(p);
        return true;
}

/* Upstream has taken n bytes: the client may send as many more. */
static void h2_stream_give_window_back(struct h2_stream *st, size_t n)
{
        st->waiting -= n;
        st->c.edge->h2_waiting -= n;
        if (n == 0 || !st->h2->session)
                return;
        (void)nghttp2_session_consume_connection(st->h2->session, n);
        if (st->is_open)
                (void)nghttp2_session_consume_stream(st->h2->session, st->id, n);
        h2_session_changed(st->h2);
}

/* The client sent END_STREAM, and all bytes before it are passed on. */
static enum flow_step h2_stream_end_request(struct edge_client *c)
{
        struct proxy_exchange *x = &c->x;

        if (x->up.body.framing != HTTP1_BODY_EOF)
                return FLOW_BAD; /* less than Content-Length */
        if (h2_stream_of(c)->is_tunnel) {
                stream_shutdown_write(&x->visit.upstream->stream);
                return FLOW_DONE;
        }
        return flow_finish(&x->up, &c->edge->blocks, &x->visit.upstream->stream);
}

static enum flow_step h2_stream_push(struct edge_client *c, struct buf *prefix)
{
        struct h2_stream *st = h2_stream_of(c);
        struct proxy_exchange *x = &c->x;
        size_t taken = 0;
        enum flow_step step;

        if (x->up.body.framing == HTTP1_BODY_CHUNKED)
                x->up.body.framing = HTTP1_BODY_EOF; /* chunks are for upstream: here the stream's end is the end */
        do {
                size_t before = c->in.len - c->head_len;

                step = flow_pump(&x->up, &c->edge->blocks, &c->in, &c->head_len, prefix, &x->visit.upstream->stream);
                taken += before - (c->in.len - c->head_len);
        } while (step == FLOW_MORE && h2_stream_next_piece(st));
        h2_stream_give_window_back(st, taken);
        if (step == FLOW_MORE && c->is_ended && st->waiting == 0)
                step = h2_stream_end_request(c);
        return step;
}

static void h2_stream_read_head(struct edge_client *c)
{
        struct h2_stream *st = h2_stream_of(c);
        struct http1_head *head = &c->edge->head;
        enum http1_step step;
        size_t used;

        if (st->refused_with) {
                edge_client_answer(
                        c, &(struct answer){.kind = ANSWER_API, .status = st->refused_with, .message = st->why});
                return;
        }
        *head = (struct http1_head){0};
        step = http1_parse_request(head, block_at(&c->in), c->in.len, &used);
        if (step != HTTP1_DONE) {
                edge_client_answer(c, &(struct answer){.kind = ANSWER_API,
                                                       .status = head->status_hint ? head->status_hint : 400,
                                                       .message = head->why ? head->why : "malformed request"});
                return;
        }
        c->head_len = used;
        request_begin(c, head);
}

/* ---- the answer ---- */

static ssize_t h2_stream_read_reply(struct h2_stream *st, uint8_t *to, size_t room, uint32_t *flags)
{
        struct block *out = &st->c.x.down.out;
        size_t n = out->len < room ? out->len : room;

        memcpy(to, block_at(out), n);
        block_consume(out, n);
        st->c.x.down.sent_bytes += n;
        if (out->len == 0)
                *flags |= NGHTTP2_DATA_FLAG_EOF;
        return (ssize_t)n;
}

/* Decode bytes of the answer; negative: upstream broke its framing. */
static ssize_t h2_stream_decode(struct http1_body *body, struct block *in, uint8_t *to, size_t room)
{
        size_t got = 0;

        while (got < room && in->len && !http1_body_is_done(body)) {
                size_t most = in->len < room - got ? in->len : room - got, used = 0;
                struct str data;
                enum http1_step step = http1_body_feed(body, block_at(in), most, &used, &data);

                if (step == HTTP1_BAD || step == HTTP1_TOO_BIG)
                        return -EPROTO;
                if (step == HTTP1_DATA) {
                        memcpy(to + got, data.p, data.n);
                        got += data.n;
                }
                block_consume(in, used);
        }
        return (ssize_t)got;
}

/* All bytes that are there are taken: is that the end?  1: yes; 0: no; negative: the answer is broken. */
static int h2_stream_check_end(struct proxy_exchange *x)
{
        const struct upstream *u = x->visit.upstream;

        if (http1_body_is_done(&x->down.body))
                return 1;
        if (u->in.len || !upstream_is_over(u))
                return 0;
        return x->down.body.framing == HTTP1_BODY_EOF && u->input != UPSTREAM_FAILED ? 1 : -EPROTO;
}

static ssize_t h2_stream_read_answer(struct h2_stream *st, uint8_t *to, size_t room, uint32_t *flags)
{
        struct proxy_exchange *x = &st->c.x;
        ssize_t n = h2_stream_decode(&x->down.body, &x->visit.upstream->in, to, room);
        int end = n < 0 ? -EPROTO : h2_stream_check_end(x);

        if (end < 0)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* resets the stream: never a clean end for half an answer */
        x->down.sent_bytes += (size_t)n;
        if (end) {
                x->down.is_ended = true;
                *flags |= NGHTTP2_DATA_FLAG_EOF;
        } else if (n == 0) {
                h2_stream_answer_go(st, H2_ANSWER_DEFERRED);
                return NGHTTP2_ERR_DEFERRED;
        }
        h2_stream_touch(st); /* there is room for more */
        return n;
}

ssize_t h2_stream_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                       nghttp2_data_source *source, void *arg)
{
        struct h2_stream *st = nghttp2_session_get_stream_user_data(session, id);

        (void)source;
        (void)arg;
        if (st && st->c.state == CLIENT_REPLY)
                return h2_stream_read_reply(st, to, room, flags);
        if (st && st->c.state == CLIENT_EXCHANGE)
                return h2_stream_read_answer(st, to, room, flags);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static enum flow_step h2_stream_pull(struct edge_client *c)
{
        struct h2_stream *st = h2_stream_of(c);
        const struct upstream *u = c->x.visit.upstream;

        if (st->answer == H2_ANSWER_SAID) /* a tunnel's other direction goes on */
                return st->is_tunnel && exchange_is_sending(&c->x) ? FLOW_FULL : FLOW_DONE;
        if (st->answer == H2_ANSWER_DEFERRED && (u->in.len || upstream_is_over(u)) && st->h2->session) {
                h2_stream_answer_go(st, H2_ANSWER_MOVING);
                (void)nghttp2_session_resume_data(st->h2->session, st->id);
                h2_session_changed(st->h2);
        }
        return FLOW_FULL;
}

/* ---- steps ---- */

static void h2_stream_step(struct edge_client *c)
{
        if (c->state == CLIENT_HEAD)
                h2_stream_read_head(c);
        else if (c->state == CLIENT_REPLY && h2_stream_of(c)->answer == H2_ANSWER_SAID)
                edge_client_finish(c);
}

static void h2_stream_watch(struct edge_client *c)
{
        block_tidy(&c->edge->blocks, &c->in);
}

static enum flow_step h2_stream_flush(struct edge_client *c)
{
        (void)c; /* interim answers are never sent in parts */
        return FLOW_DONE;
}

static void h2_stream_after_answer(struct edge_client *c)
{
        edge_client_close(c);
}

/* ---- coming and going ---- */

static void h2_stream_cut(struct edge_client *c)
{
        (void)c; /* as h2_stream_release() does with an answer that is not whole */
}

static void h2_stream_gone(struct task *t)
{
        free(CONTAINER_OF(t, struct h2_stream, gone));
}

static void h2_stream_leave_session(struct h2_stream *st)
{
        nghttp2_session *session = st->h2->session;
        uint32_t code = st->answer == H2_ANSWER_SAID ? NGHTTP2_NO_ERROR : NGHTTP2_INTERNAL_ERROR;

        if (!session)
                return;
        if (st->waiting)
                (void)nghttp2_session_consume_connection(session, st->waiting);
        if (!st->is_open)
                return;
        (void)nghttp2_session_set_stream_user_data(session, st->id, NULL);
        if (st->answer != H2_ANSWER_SAID || !st->c.is_ended)
                (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, st->id, code);
}

static void h2_stream_release(struct edge_client *c)
{
        struct h2_stream *st = h2_stream_of(c);
        struct list *node;

        h2_stream_leave_session(st);
        c->edge->h2_waiting -= st->waiting;
        st->waiting = 0;
        while ((node = list_pop_front(&st->more))) {
                struct h2_piece *p = LIST_ENTRY(node, struct h2_piece, node);

                block_drop(&c->edge->blocks, &p->b);
                free(p);
        }
        list_remove(&st->node);
        list_remove(&st->touched);
        st->h2->stream_count--;
        c->edge->client_count--;
        loop_post(c->edge->loop, &st->gone);
        h2_session_changed(st->h2);
}

static const struct edge_client_kind h2_client_kind = {
        .name = "h2",
        .step = h2_stream_step,
        .watch = h2_stream_watch,
        .push = h2_stream_push,
        .interim = h2_answer_interim,
        .switch_over = h2_answer_switch_over,
        .begin = h2_answer_begin,
        .pull = h2_stream_pull,
        .flush = h2_stream_flush,
        .say = h2_answer_say,
        .after = h2_stream_after_answer,
        .cut = h2_stream_cut,
        .release = h2_stream_release,
};

/* Write the collected head to the front of the stream's bytes. */
static int h2_stream_take_head(struct h2_stream *st)
{
        struct h2_head *head = &st->h2->head;
        struct edge *e = st->c.edge;
        int r;

        buf_reset(&e->out);
        r = h2_head_write(head, !st->c.is_ended, &e->out);
        if (r == -EINVAL) {
                st->refused_with = head->refused_with;
                st->why = head->why;
                return 0;
        }
        if (r == 0)
                r = block_need(&e->blocks, &st->c.in);
        if (r < 0)
                return r;
        memcpy(st->c.in.mem, buf_at(&e->out), e->out.len);
        st->c.in.len = e->out.len;
        st->c.must_switch = h2_head_is_connect(head);
        return 0;
}

struct h2_stream *h2_stream_create(struct h2_session *h, int32_t id, bool is_ended)
{
        struct edge *e = h->conn.edge;
        struct h2_stream *st;

        st = calloc(1, sizeof(*st));
        if (!st)
                return NULL;
        edge_client_setup(&st->c, e, &h2_client_kind);
        st->c.is_tls = stream_is_tls(&h->conn.stream);
        st->h2 = h;
        st->id = id;
        st->gone.run = h2_stream_gone;
        st->c.is_ended = is_ended;
        st->is_open = true;
        list_init(&st->more);
        if (h2_stream_take_head(st) < 0) {
                block_drop(&e->blocks, &st->c.in);
                free(st);
                return NULL;
        }
        list_push_back(&h->streams, &st->node);
        h->stream_count++;
        e->client_count++;
        h2_stream_touch(st);
        return st;
}
