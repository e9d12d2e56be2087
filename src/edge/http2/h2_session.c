#include "edge/http2/h2_session.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "edge/http2/h2_callbacks.h"
#include "edge/http2/h2_stream.h"
#include "edge/proxy/edge.h"

#define FRAME_ROOM (20u << 10) /* the library's largest piece: a frame of 16 KiB and its head */
#define READ_LARGE (8u << 10)  /* after a smaller read there is hardly more, and the loop would tell */
#define READS_MAX 4            /* reads per event, so that one connection does not hold up the others */

#define TO(s) (1u << (s))

static const unsigned h2_session_may[] = {
        [H2_GREETING] = TO(H2_OPEN) | TO(H2_LINGER) | TO(H2_CLOSED),
        [H2_OPEN] = TO(H2_STOPPING) | TO(H2_LINGER) | TO(H2_CLOSED),
        [H2_STOPPING] = TO(H2_OPEN) | TO(H2_LINGER) | TO(H2_CLOSED),
        [H2_LINGER] = TO(H2_CLOSED),
        [H2_CLOSED] = 0,
};

void h2_session_go(struct h2_session *h, enum h2_session_state next)
{
        assert(h2_session_may[h->state] & TO(next));
        h->state = next;
}

/* ---- ending ---- */

static void h2_session_gone(struct task *t)
{
        struct h2_session *h = CONTAINER_OF(t, struct h2_session, gone);

        h2_head_done(&h->head);
        free(h);
}

static void h2_session_end(struct h2_session *h)
{
        nghttp2_session *session = h->session;

        h->session = NULL; /* from here on the streams cannot use the session */
        LIST_EACH (node, &h->streams)
                edge_client_close(&LIST_ENTRY(node, struct h2_stream, node)->c);
        nghttp2_session_del(session);
        timer_clear(&h->head_timer);
}

static void h2_session_close(struct h2_session *h)
{
        struct edge *e = h->conn.edge;

        h2_session_go(h, H2_CLOSED);
        h2_session_end(h);
        timer_clear(&h->timer);
        loop_unpost(&h->flush);
        block_drop(&e->blocks, &h->out);
        loop_post(e->loop, &h->gone);
        client_conn_leave(&h->conn);
}

/* Everything is sent.  Bytes that the client still sends are read and dropped; otherwise closing would be a reset, which may
 * overtake the last frames. */
static void h2_session_linger(struct h2_session *h)
{
        h2_session_end(h);
        loop_unpost(&h->flush);
        h2_session_go(h, H2_LINGER);
        stream_shutdown_write(&h->conn.stream);
        timer_set(h->conn.edge->loop, &h->timer, h->conn.edge->limits->drain_timeout_ms);
        stream_want(&h->conn.stream, EPOLLIN);
}

/* ---- out ---- */

void h2_session_changed(struct h2_session *h)
{
        if (h->session && !h->is_sending)
                loop_post(h->conn.edge->loop, &h->flush);
}

/* Collect as many frames as there are and fit. */
static int h2_session_collect_frames(struct h2_session *h)
{
        while (block_room(&h->out) >= FRAME_ROOM) {
                const uint8_t *p;
                ssize_t n = nghttp2_session_mem_send(h->session, &p);
                uint8_t *at;

                if (n <= 0)
                        return n < 0 ? -EPROTO : 0;
                if (block_need(&h->conn.edge->blocks, &h->out) < 0)
                        return -ENOMEM;
                if ((size_t)n > block_space(&h->out, &at))
                        return -E2BIG;
                memcpy(at, p, (size_t)n);
                h->out.len += (size_t)n;
        }
        return 0;
}

/* false: the connection is dead. */
static bool h2_session_send_frames(struct h2_session *h)
{
        bool is_full = false;

        while (!is_full) {
                ssize_t n;

                if (h2_session_collect_frames(h) < 0)
                        return false;
                if (h->out.len == 0)
                        break;
                n = stream_write(&h->conn.stream, block_at(&h->out), h->out.len);
                if (n < 0 && n != -EAGAIN)
                        return false;
                if (n > 0)
                        block_consume(&h->out, (size_t)n);
                is_full = h->out.len > 0;
        }
        block_tidy(&h->conn.edge->blocks, &h->out);
        stream_want(&h->conn.stream, is_full ? EPOLLIN | EPOLLOUT : EPOLLIN);
        return true;
}

static void h2_session_advance_touched(struct h2_session *h)
{
        struct list now, *node;

        list_init(&now); /* streams touched meanwhile have their turn after the frames they wait for */
        while ((node = list_pop_front(&h->touched)))
                list_push_back(&now, node);
        while ((node = list_pop_front(&now)))
                edge_client_advance(&LIST_ENTRY(node, struct h2_stream, touched)->c);
}

static void h2_session_check_idle(struct h2_session *h)
{
        if (h->stream_count || h->state == H2_GREETING)
                return;
        if (!timer_is_armed(&h->timer))
                timer_set(h->conn.edge->loop, &h->timer, h->conn.edge->limits->idle_timeout_ms);
}

static void h2_session_on_flush(struct task *t)
{
        struct h2_session *h = CONTAINER_OF(t, struct h2_session, flush);

        bool is_alive;

        h2_session_advance_touched(h);
        h->is_sending = true;
        is_alive = h2_session_send_frames(h);
        h->is_sending = false;
        if (!is_alive) {
                h2_session_close(h);
                return;
        }
        h2_session_advance_touched(h);
        if (h->stream_count)
                timer_clear(&h->timer);
        else
                h2_session_check_idle(h);
        if (!h->out.len && !nghttp2_session_want_read(h->session) && !nghttp2_session_want_write(h->session))
                h2_session_linger(h);
}

/* ---- in ---- */

/* false: the connection is dead, and so is h. */
static bool h2_session_feed(struct h2_session *h, const void *p, size_t n)
{
        struct edge *e = h->conn.edge;
        ssize_t used = nghttp2_session_mem_recv(h->session, p, n);

        if (used < 0) {
                log_debug("h2.refused", "error=\"%s\"", nghttp2_strerror((int)used));
                h2_session_close(h);
                return false;
        }
        if (!h->is_collecting)
                timer_clear(&h->head_timer);
        else if (!timer_is_armed(&h->head_timer))
                timer_set(e->loop, &h->head_timer, e->limits->head_timeout_ms);
        h2_session_changed(h);
        return true;
}

/* false: do not read again now. */
static bool h2_session_read(struct h2_session *h)
{
        struct edge *e = h->conn.edge;
        struct block in = {0};
        bool goes_on;
        ssize_t n;

        if (block_need(&e->blocks, &in) < 0) {
                h2_session_close(h);
                return false;
        }
        n = stream_read(&h->conn.stream, in.mem, BLOCK_SIZE);
        goes_on = n >= (ssize_t)READ_LARGE;
        if (n <= 0 && n != -EAGAIN)
                h2_session_close(h);
        else if (n > 0 && h->session)
                goes_on = h2_session_feed(h, in.mem, (size_t)n) && goes_on;
        block_drop(&e->blocks, &in);
        return goes_on;
}

static void h2_session_on_stream(struct stream *s, uint32_t events)
{
        struct h2_session *h = CONTAINER_OF(s, struct h2_session, conn.stream);

        if ((events & (EPOLLERR | EPOLLHUP)) && !(events & EPOLLIN)) {
                h2_session_close(h);
                return;
        }
        if (events & EPOLLOUT)
                h2_session_changed(h);
        if (events & EPOLLIN)
                for (int i = 0; i < READS_MAX && h2_session_read(h); i++)
                        ;
}

/* ---- timers ---- */

static void h2_session_on_timer(struct timer *t)
{
        struct h2_session *h = CONTAINER_OF(t, struct h2_session, timer);

        if (h->state == H2_LINGER || h->state == H2_GREETING) {
                h2_session_close(h);
        } else if (h->stream_count == 0) {
                (void)nghttp2_session_terminate_session(h->session, NGHTTP2_NO_ERROR);
                h2_session_changed(h);
        }
}

static void h2_session_on_head_timer(struct timer *t)
{
        struct h2_session *h = CONTAINER_OF(t, struct h2_session, head_timer);

        h2_session_terminate(h, NGHTTP2_ENHANCE_YOUR_CALM, "a head took too long");
}

void h2_session_terminate(struct h2_session *h, uint32_t code, const char *why)
{
        if (!h->session)
                return;
        log_debug("h2.terminated", "why=\"%s\"", why);
        (void)nghttp2_session_terminate_session(h->session, code);
        h2_session_changed(h);
}

/* ---- coming and going ---- */

static void h2_session_stop(struct client_conn *n)
{
        struct h2_session *h = CONTAINER_OF(n, struct h2_session, conn);

        if (!h->session)
                return; /* the connection ends already */
        if (h->stream_count == 0) {
                h2_session_goodbye(h);
        } else { /* requests on their way are still taken: GOAWAY follows when the client has answered the ping */
                h2_session_go(h, H2_STOPPING);
                (void)nghttp2_submit_shutdown_notice(h->session);
                (void)nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, NULL);
                h2_session_changed(h);
        }
}

void h2_session_goodbye(struct h2_session *h)
{
        (void)nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(h->session),
                                    NGHTTP2_NO_ERROR, NULL, 0);
        h2_session_changed(h);
}

static void h2_session_cut(struct client_conn *n)
{
        struct h2_session *h = CONTAINER_OF(n, struct h2_session, conn);

        stream_abort(&n->stream);
        h2_session_close(h);
}

static int h2_session_greet(struct h2_session *h)
{
        const struct edge_limits *limits = h->conn.edge->limits;
        const nghttp2_settings_entry settings[] = {
                {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits->h2_streams_max},
                {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits->h2_stream_window},
                {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP1_HEAD_MAX},
                {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
        };
        int r = nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings));

        if (r == 0)
                r = nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0,
                                                          (int32_t)limits->h2_conn_window);
        return r;
}

static struct h2_session *h2_session_create(struct edge *e)
{
        struct h2_session *h = calloc(1, sizeof(*h));

        if (!h)
                return NULL;
        list_init(&h->streams);
        list_init(&h->touched);
        h2_head_init(&h->head);
        h->conn.edge = e;
        h->flush.run = h2_session_on_flush;
        h->gone.run = h2_session_gone;
        h->timer.on = h2_session_on_timer;
        h->head_timer.on = h2_session_on_head_timer;
        if (h2_library_session_create(e->h2, h, &h->session) < 0 || h2_session_greet(h) < 0) {
                nghttp2_session_del(h->session);
                h2_head_done(&h->head);
                free(h);
                return NULL;
        }
        return h;
}

void h2_session_take_over(struct edge *e, struct stream *from, const void *p, size_t n)
{
        static const struct client_conn_ops ops = {.stop = h2_session_stop, .cut = h2_session_cut};
        struct h2_session *h = h2_session_create(e);

        if (!h) {
                stream_done(from);
                return;
        }
        if (stream_move(&h->conn.stream, from, h2_session_on_stream) < 0) {
                nghttp2_session_del(h->session);
                h2_head_done(&h->head);
                free(h);
                return;
        }
        client_conn_join(&h->conn, e, &ops);
        timer_set(e->loop, &h->timer, e->limits->head_timeout_ms);
        stream_want(&h->conn.stream, EPOLLIN);
        (void)h2_session_feed(h, p, n);
}
