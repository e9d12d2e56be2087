#include "edge/http2/h2_callbacks.h"

#include <stdlib.h>

#include "base/clock.h"
#include "edge/http2/h2_session.h"
#include "edge/http2/h2_stream.h"
#include "edge/proxy/edge.h"

#define ACKS_MAX 256u         /* acknowledgements that wait to be sent */
#define SETTINGS_MAX 32u      /* entries of one frame */
#define CONTINUATIONS_MAX 16u /* frames of one head */
#define HEAD_FACTOR 16u       /* a head this many times over the limit ends the connection */

struct h2_setup {
        nghttp2_session_callbacks *callbacks;
        nghttp2_option *option;
};

/* ---- what is too much ---- */

/* Opening and resetting streams costs the edge more than the client. */
static void h2_count_reset(struct h2_session *h)
{
        const struct edge_limits *l = h->conn.edge->limits;

        if (!budget_spend(&h->resets, l->h2_resets_burst, l->h2_resets_per_s))
                h2_session_terminate(h, NGHTTP2_ENHANCE_YOUR_CALM, "too many resets");
}

/* Frames that carry nothing. */
static void h2_count_chatter(struct h2_session *h)
{
        const struct edge_limits *l = h->conn.edge->limits;

        if (!budget_spend(&h->chatter, l->h2_chatter_burst, l->h2_chatter_per_s))
                h2_session_terminate(h, NGHTTP2_ENHANCE_YOUR_CALM, "too many frames to no end");
}

/* ---- heads ---- */

static bool h2_frame_is_request(const nghttp2_frame *f)
{
        return f->hd.type == NGHTTP2_HEADERS && f->headers.cat == NGHTTP2_HCAT_REQUEST;
}

static int h2_on_begin_headers(nghttp2_session *session, const nghttp2_frame *f, void *arg)
{
        struct h2_session *h = arg;

        (void)session;
        if (h2_frame_is_request(f)) {
                h->is_collecting = true;
                h2_head_reset(&h->head);
        }
        return 0;
}

static int h2_on_header(nghttp2_session *session, const nghttp2_frame *f, const uint8_t *name, size_t name_len,
                        const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
        struct h2_session *h = arg;

        (void)session;
        (void)flags;
        if (!h2_frame_is_request(f))
                return 0; /* trailers are dropped */
        if (h2_head_add(&h->head, (struct str){(const char *)name, name_len},
                        (struct str){(const char *)value, value_len}) < 0)
                return NGHTTP2_ERR_CALLBACK_FAILURE;
        if (h->head.bytes > HEAD_FACTOR * HTTP1_HEAD_MAX)
                h2_session_terminate(h, NGHTTP2_ENHANCE_YOUR_CALM, "endless head");
        return 0;
}

/* The library would leave such a header out; a request without it is not what the client meant, so the request is refused. */
static int h2_on_invalid_header(nghttp2_session *session, const nghttp2_frame *f, const uint8_t *name, size_t name_len,
                                const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
        struct h2_session *h = arg;

        (void)session;
        (void)name;
        (void)name_len;
        (void)value;
        (void)value_len;
        (void)flags;
        if (h2_frame_is_request(f) && !h->head.refused_with) {
                h->head.refused_with = 400;
                h->head.why = "malformed header";
        }
        return 0;
}

static void h2_refuse_stream(struct h2_session *h, int32_t id)
{
        (void)nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
        h2_count_reset(h);
}

static int h2_begin_request(struct h2_session *h, int32_t id, bool is_ended)
{
        struct edge *e = h->conn.edge;
        struct h2_stream *st;

        if (e->client_count >= e->clients_max) {
                h2_refuse_stream(h, id);
                return 0;
        }
        st = h2_stream_create(h, id, is_ended);
        h2_head_reset(&h->head);
        if (!st)
                h2_refuse_stream(h, id);
        else
                (void)nghttp2_session_set_stream_user_data(h->session, id, st);
        return 0;
}

/* ---- frames ---- */

static void h2_end_request(struct h2_session *h, int32_t id)
{
        struct h2_stream *st = nghttp2_session_get_stream_user_data(h->session, id);

        if (!st)
                return;
        st->c.is_ended = true;
        h2_stream_touch(st);
}

static void h2_on_settings(struct h2_session *h, bool is_ack)
{
        if (h->state == H2_GREETING) {
                h2_session_go(h, H2_OPEN);
                timer_clear(&h->timer);
        }
        if (!is_ack)
                h2_count_chatter(h);
}

static void h2_on_ping(struct h2_session *h, bool is_ack)
{
        if (!is_ack) {
                h2_count_chatter(h);
        } else if (h->state == H2_STOPPING) {
                h2_session_go(h, H2_OPEN);
                h2_session_goodbye(h);
        }
}

static int h2_on_frame(nghttp2_session *session, const nghttp2_frame *f, void *arg)
{
        bool is_end = f->hd.flags & NGHTTP2_FLAG_END_STREAM, is_ack = f->hd.flags & NGHTTP2_FLAG_ACK;
        struct h2_session *h = arg;

        (void)session;
        h->is_collecting = false; /* nothing comes between the frames of a head */
        switch (f->hd.type) {
        case NGHTTP2_HEADERS:
                if (h2_frame_is_request(f))
                        return h2_begin_request(h, f->hd.stream_id, is_end);
                if (is_end)
                        h2_end_request(h, f->hd.stream_id);
                break;
        case NGHTTP2_DATA:
                if (is_end)
                        h2_end_request(h, f->hd.stream_id);
                else if (f->hd.length == 0)
                        h2_count_chatter(h);
                break;
        case NGHTTP2_SETTINGS: h2_on_settings(h, is_ack); break;
        case NGHTTP2_PING: h2_on_ping(h, is_ack); break;
        case NGHTTP2_RST_STREAM: h2_count_reset(h); break;
        case NGHTTP2_PRIORITY: h2_count_chatter(h); break;
        default: break;
        }
        return 0;
}

/* A frame that makes the edge reset a stream costs as much as a reset by the client, so it is counted like one. */
static int h2_on_invalid_frame(nghttp2_session *session, const nghttp2_frame *f, int error, void *arg)
{
        struct h2_session *h = arg;

        (void)session;
        (void)error;
        (void)f;
        h->is_collecting = false;
        h2_count_reset(h);
        return 0;
}

static int h2_on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *arg)
{
        struct h2_stream *st = nghttp2_session_get_stream_user_data(session, id);
        struct h2_session *h = arg;
        const struct edge *e = h->conn.edge;
        size_t before;

        (void)flags;
        if (!st ||
            st->c.state >=
                    CLIENT_REPLY) { /* nobody wants these bytes, but other streams share the connection's window */
                (void)nghttp2_session_consume_connection(session, n);
                h2_session_changed(h);
                return 0;
        }
        before = st->waiting;
        if (e->h2_waiting + n > e->limits->h2_waiting_max || h2_stream_data(st, p, n) < 0) {
                (void)nghttp2_session_consume_connection(session, n - (st->waiting - before));
                edge_client_cut(&st->c); /* gives the rest of the window back */
        } else {
                h2_stream_touch(st);
        }
        return 0;
}

static int h2_on_frame_sent(nghttp2_session *session, const nghttp2_frame *f, void *arg)
{
        struct h2_stream *st;

        (void)arg;
        if ((f->hd.type != NGHTTP2_HEADERS && f->hd.type != NGHTTP2_DATA) || !(f->hd.flags & NGHTTP2_FLAG_END_STREAM))
                return 0;
        st = nghttp2_session_get_stream_user_data(session, f->hd.stream_id);
        if (!st)
                return 0;
        h2_stream_answer_go(st, H2_ANSWER_SAID);
        h2_stream_touch(st);
        return 0;
}

static int h2_on_frame_not_sent(nghttp2_session *session, const nghttp2_frame *f, int error, void *arg)
{
        struct h2_stream *st;

        (void)error;
        (void)arg;
        if (f->hd.type != NGHTTP2_HEADERS)
                return 0;
        st = nghttp2_session_get_stream_user_data(session, f->hd.stream_id);
        if (st)
                edge_client_cut(&st->c);
        return 0;
}

static int h2_on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *arg)
{
        struct h2_stream *st = nghttp2_session_get_stream_user_data(session, id);

        (void)error;
        (void)arg;
        if (!st)
                return 0;
        st->is_open = false;
        if (st->answer == H2_ANSWER_SAID)
                h2_stream_touch(st); /* the stream ends by itself, properly */
        else
                edge_client_close(&st->c);
        return 0;
}

/* ---- setting up ---- */

struct h2_setup *h2_setup_create(const struct edge *e)
{
        struct h2_setup *s = calloc(1, sizeof(*s));

        if (!s || nghttp2_session_callbacks_new(&s->callbacks) != 0 || nghttp2_option_new(&s->option) != 0)
                return h2_setup_free(s);
        nghttp2_session_callbacks_set_on_begin_headers_callback(s->callbacks, h2_on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(s->callbacks, h2_on_header);
        nghttp2_session_callbacks_set_on_invalid_header_callback(s->callbacks, h2_on_invalid_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(s->callbacks, h2_on_frame);
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(s->callbacks, h2_on_invalid_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(s->callbacks, h2_on_data);
        nghttp2_session_callbacks_set_on_frame_send_callback(s->callbacks, h2_on_frame_sent);
        nghttp2_session_callbacks_set_on_frame_not_send_callback(s->callbacks, h2_on_frame_not_sent);
        nghttp2_session_callbacks_set_on_stream_close_callback(s->callbacks, h2_on_stream_close);
        nghttp2_option_set_no_auto_window_update(s->option, 1);
        nghttp2_option_set_no_closed_streams(s->option, 1);
        nghttp2_option_set_max_outbound_ack(s->option, ACKS_MAX);
        nghttp2_option_set_max_settings(s->option, SETTINGS_MAX);
        nghttp2_option_set_max_continuations(s->option, CONTINUATIONS_MAX);
        /* The library has a limit of its own, which tells the client less; the limit of the edge comes first. */
        nghttp2_option_set_stream_reset_rate_limit(s->option, 2ull * e->limits->h2_resets_burst,
                                                   2ull * e->limits->h2_resets_per_s);
        nghttp2_option_set_peer_max_concurrent_streams(s->option, e->limits->h2_streams_max);
        return s;
}

struct h2_setup *h2_setup_free(struct h2_setup *s)
{
        if (!s)
                return NULL;
        nghttp2_session_callbacks_del(s->callbacks);
        nghttp2_option_del(s->option);
        free(s);
        return NULL;
}

int h2_library_session_create(struct h2_setup *s, struct h2_session *h, nghttp2_session **ret)
{
        return nghttp2_session_server_new2(ret, s->callbacks, h, s->option);
}
