#include "http/conn.h"

#include <assert.h>
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define READS_PER_EVENT 4 /* then the others have their turn */

#define TO(s) (1u << (s))
static const unsigned conn_may[] = {
        [CONN_IDLE] = TO(CONN_HEAD) | TO(CONN_CLOSED),
        [CONN_HEAD] = TO(CONN_EXCHANGE) | TO(CONN_CLOSED),
        [CONN_EXCHANGE] = TO(CONN_IDLE) | TO(CONN_DRAIN) | TO(CONN_LINGER) | TO(CONN_CLOSED),
        [CONN_DRAIN] = TO(CONN_IDLE) | TO(CONN_LINGER) | TO(CONN_CLOSED),
        [CONN_LINGER] = TO(CONN_CLOSED),
        [CONN_CLOSED] = 0,
};

static void conn_go(struct http_conn *c, enum conn_state next)
{
        assert(conn_may[c->state] & TO(next));
        c->state = next;
}

/* ---- ends ---- */

static void conn_set_timer(struct http_conn *c, unsigned ms)
{
        if (ms)
                timer_set(c->server->loop, &c->timer, ms);
        else
                timer_clear(&c->timer);
}

static void exchange_tell_over(struct http_exchange *ex, bool is_complete)
{
        if (ex->is_over)
                return;
        ex->is_over = true;
        if (ex->rq.on_close)
                ex->rq.on_close(&ex->rq, is_complete);
}

static struct http_exchange *exchange_free(struct http_exchange *ex)
{
        if (!ex)
                return NULL;
        close_fd(&ex->file);
        buf_done(&ex->head_mem);
        buf_done(&ex->collected);
        free(ex);
        return NULL;
}

static void conn_shut(struct http_conn *c)
{
        loop_del(&c->io);
        timer_clear(&c->timer);
        timer_clear(&c->stall);
        close_fd(&c->io.fd);
}

void conn_cut(struct http_conn *c)
{
        const struct linger now = {.l_onoff = 1};

        if (c->state == CONN_CLOSED)
                return;
        if (c->ex && c->ex->reply == REPLY_STARTED) /* a reset: not to be mistaken for the end of the answer */
                (void)setsockopt(c->io.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        conn_shut(c);
        conn_go(c, CONN_CLOSED);
        conn_post(c);
}

void conn_free(struct http_conn *c)
{
        struct http_server *s = c->server;

        c->state = CONN_CLOSED;
        conn_shut(c);
        if (c->ex)
                exchange_tell_over(c->ex, false);
        c->ex = exchange_free(c->ex);
        loop_unpost(&c->task);
        list_remove(&c->node);
        buf_done(&c->in);
        buf_done(&c->out);
        free(c);
        server_conn_gone(s);
}

static size_t unread_bytes(const struct http_conn *c)
{
        int n = 0;

        return c->in.len + (ioctl(c->io.fd, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0);
}

void conn_close_if_idle(struct http_conn *c)
{
        if (c->state == CONN_IDLE && unread_bytes(c) == 0)
                conn_cut(c);
}

/* The last answer was sent.  Closing with bytes unread makes the kernel send a reset, which may overtake the answer: then
 * say the end, and read until the client has ended too. */
static void conn_linger(struct http_conn *c)
{
        bool is_clean = c->ex->body_is_done && !c->ex->is_refused && unread_bytes(c) == 0;

        c->ex = exchange_free(c->ex);
        buf_done(&c->in);
        if (is_clean || shutdown(c->io.fd, SHUT_WR) < 0) {
                conn_cut(c);
                return;
        }
        conn_go(c, CONN_LINGER);
        conn_set_timer(c, HTTP_LINGER_MS);
}

static void conn_next_request(struct http_conn *c)
{
        if (!c->ex->keep_alive || c->server->is_stopping) {
                conn_linger(c);
                return;
        }
        c->ex = exchange_free(c->ex);
        buf_done(&c->out);
        if (c->in.len == 0)
                buf_done(&c->in);
        conn_go(c, CONN_IDLE);
        conn_set_timer(c, c->server->opt.idle_timeout_ms);
        if (c->in.len)
                conn_post(c); /* pipelined: its turn is the next iteration */
}

/* ---- heads ---- */

static void conn_start_head(struct http_conn *c)
{
        struct http_exchange *ex;

        ex = calloc(1, sizeof(*ex));
        if (!ex) {
                conn_cut(c);
                return;
        }
        ex->file = -1;
        ex->left = -1;
        ex->rq.head = &ex->head;
        ex->rq.conn = c;
        ex->rq.server = c->server;
        c->ex = ex;
        conn_go(c, CONN_HEAD);
        conn_set_timer(c, c->server->opt.head_timeout_ms);
}

/* Answer instead of the handler to a head that is malformed or never came. */
static void conn_refuse_head(struct http_conn *c, unsigned status, const char *why)
{
        timer_clear(&c->timer);
        c->ex->head.minor = 1;
        c->ex->body_is_done = true;
        conn_go(c, CONN_EXCHANGE);
        reply_refuse(c, status, why);
}

static void conn_call_handler(struct http_conn *c)
{
        struct http_exchange *ex = c->ex;
        int r;

        r = url_parse(ex->head.target, &ex->rq.url);
        if (r == -E2BIG)
                http_reply_error(&ex->rq, 404, "path has too many segments");
        else if (r < 0)
                http_reply_error(&ex->rq, 400, "malformed request target");
        else
                c->server->opt.on_request(&ex->rq, c->server->opt.arg);
}

/* The bytes of the head stay where they are, since it points into them; what follows moves to a new buffer. */
static int split_input(struct http_conn *c, size_t head_len)
{
        struct buf *head = &c->ex->head_mem;

        *head = c->in;
        c->in = BUF_INIT(HTTP_PIECE_BYTES);
        return buf_add(&c->in, buf_at(head) + head_len, head->len - head_len);
}

static void conn_begin_exchange(struct http_conn *c, size_t head_len)
{
        struct http_exchange *ex = c->ex;

        if (split_input(c, head_len) < 0) {
                conn_cut(c);
                return;
        }
        timer_clear(&c->timer);
        ex->keep_alive = ex->head.keep_alive;
        http1_body_init(&ex->body, &ex->head);
        ex->body_is_done = http1_body_is_done(&ex->body);
        conn_go(c, CONN_EXCHANGE);
        conn_call_handler(c);
}

static bool conn_parse_head(struct http_conn *c) /* false: more is needed */
{
        struct http1_head *h = &c->ex->head;
        size_t used;

        switch (http1_parse_request(h, buf_at(&c->in), c->in.len, &used)) {
        case HTTP1_MORE: return false;
        case HTTP1_DONE: conn_begin_exchange(c, used); return true;
        default: conn_refuse_head(c, h->status_hint, h->why); return true;
        }
}

/* ---- moving on ---- */

static void conn_drop_input(struct http_conn *c) /* while lingering */
{
        c->lingered += c->in.len;
        buf_reset(&c->in);
        if (c->lingered > HTTP_LINGER_MAX)
                conn_cut(c);
}

static bool conn_step(struct http_conn *c)
{
        switch (c->state) {
        case CONN_IDLE:
                if (c->in.len == 0)
                        return false;
                conn_start_head(c);
                return true;
        case CONN_HEAD: return conn_parse_head(c);
        case CONN_EXCHANGE: return body_step(c);
        case CONN_DRAIN:
                if (!c->ex->body_is_done)
                        return body_step(c);
                conn_next_request(c);
                return false;
        case CONN_LINGER: conn_drop_input(c); return false;
        case CONN_CLOSED: return false;
        }
        return false;
}

static void conn_advance(struct http_conn *c)
{
        while (conn_step(c))
                ;
}

static bool conn_wants_input(const struct http_conn *c)
{
        return c->state != CONN_CLOSED && (c->state != CONN_EXCHANGE || body_wants_input(c->ex));
}

/* What to watch the socket for.  While nothing is read, the client's end is noticed by EPOLLRDHUP: at once, so that a
 * handler does not work for nobody; but an answer that is complete still goes to a client that only stopped sending. */
static uint32_t wanted_events(const struct http_conn *c)
{
        uint32_t want = conn_wants_input(c) ? EPOLLIN : 0;

        if (c->is_blocked)
                want |= EPOLLOUT;
        if (c->state == CONN_EXCHANGE && c->ex->body_is_done && c->ex->reply != REPLY_ENDED && c->ex->file < 0)
                want |= EPOLLRDHUP;
        return want;
}

/* The time of a client that takes no byte runs while bytes wait, and starts anew with each byte. */
static void conn_watch_stall(struct http_conn *c)
{
        unsigned ms = c->server->opt.stall_timeout_ms;

        if (ms == 0)
                return;
        if (!c->is_blocked)
                timer_clear(&c->stall);
        else if (c->has_moved || !timer_is_armed(&c->stall))
                timer_set(c->server->loop, &c->stall, ms);
        c->has_moved = false;
}

static void conn_update(struct http_conn *c)
{
        if (c->state == CONN_CLOSED)
                return;
        conn_watch_stall(c);
        if (c->state == CONN_EXCHANGE) {
                if (!body_wants_input(c->ex))
                        timer_clear(&c->timer);
                else if (!timer_is_armed(&c->timer))
                        conn_set_timer(c, c->server->opt.head_timeout_ms);
        }
        loop_want(&c->io, wanted_events(c));
}

static void tell_drained(struct http_conn *c)
{
        struct http_exchange *ex = c->ex;

        if (c->state != CONN_EXCHANGE || !ex->is_choked || c->out.len > HTTP_OUT_HIGH / 2)
                return;
        ex->is_choked = false;
        if (ex->rq.on_drain && ex->reply == REPLY_STARTED)
                ex->rq.on_drain(&ex->rq);
}

static void finish_if_answered(struct http_conn *c)
{
        struct http_exchange *ex = c->ex;

        if (c->state != CONN_EXCHANGE || ex->reply != REPLY_ENDED || !out_is_empty(c))
                return;
        exchange_tell_over(ex, true);
        if (c->state != CONN_EXCHANGE) /* cut by its handler */
                return;
        timer_clear(&c->timer);
        if (ex->body_is_done || !ex->keep_alive) {
                conn_next_request(c);
        } else {
                conn_go(c, CONN_DRAIN);
                conn_set_timer(c, c->server->opt.head_timeout_ms);
        }
}

static void conn_run(struct task *t)
{
        struct http_conn *c = CONTAINER_OF(t, struct http_conn, task);

        if (c->state != CONN_CLOSED && !c->is_blocked && !out_is_empty(c))
                out_flush(c);
        tell_drained(c);
        conn_advance(c);
        finish_if_answered(c);
        conn_update(c);
        if (c->state == CONN_CLOSED)
                conn_free(c);
}

/* ---- events ---- */

static size_t read_size(const struct http_conn *c)
{
        if (c->state == CONN_IDLE || c->state == CONN_HEAD)
                return HTTP_HEAD_PIECE_BYTES;
        if (c->ex && c->ex->body.framing == HTTP1_BODY_LENGTH && c->ex->body.left < HTTP_PIECE_BYTES)
                return c->ex->body.left ? c->ex->body.left : 1; /* a small body needs no large buffer */
        return HTTP_PIECE_BYTES;
}

static void conn_read_input(struct http_conn *c)
{
        for (int i = 0; i < READS_PER_EVENT && conn_wants_input(c); i++) {
                size_t most = read_size(c);
                ssize_t n = buf_fill(&c->in, c->io.fd, most);

                if (n == -EAGAIN)
                        return;
                if (n <= 0) {
                        conn_cut(c);
                        return;
                }
                if (c->state == CONN_EXCHANGE || c->state == CONN_DRAIN)
                        conn_set_timer(c, c->server->opt.head_timeout_ms);
                conn_advance(c);
                if ((size_t)n < most)
                        return;
        }
}

static void conn_ready(struct io *io, uint32_t events)
{
        struct http_conn *c = CONTAINER_OF(io, struct http_conn, io);

        if (conn_wants_input(c)) {
                if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                        conn_read_input(c);
        } else if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
                conn_cut(c);
        }
        if (c->state != CONN_CLOSED && (events & EPOLLOUT))
                out_flush(c);
        conn_post(c);
}

/* The client did not send the rest of its body in time. */
static void give_up_body(struct http_conn *c)
{
        struct http_exchange *ex = c->ex;

        ex->keep_alive = false;
        ex->body_is_done = true;
        if (ex->reply == REPLY_NONE)
                reply_refuse(c, 408, "request body took too long");
        else if (ex->reply == REPLY_STARTED && ex->file < 0)
                conn_cut(c); /* the handler still waits for it; an answer that is complete goes out, though */
}

static void conn_timer_fired(struct timer *t)
{
        struct http_conn *c = CONTAINER_OF(t, struct http_conn, timer);

        switch (c->state) {
        case CONN_HEAD: conn_refuse_head(c, 408, "request head took too long"); break;
        case CONN_EXCHANGE: give_up_body(c); break;
        case CONN_DRAIN: conn_linger(c); break;
        case CONN_IDLE:
        case CONN_LINGER:
        case CONN_CLOSED: conn_cut(c); break;
        }
        conn_post(c);
}

static void conn_is_stalled(struct timer *t)
{
        conn_cut(CONTAINER_OF(t, struct http_conn, stall));
}

int conn_create(struct http_server *s, int fd)
{
        struct http_conn *c;
        int r;

        c = calloc(1, sizeof(*c));
        if (!c) {
                close_fd(&fd);
                return -ENOMEM;
        }
        *c = (struct http_conn){
                .io = {.fd = fd, .on = conn_ready},
                .server = s,
                .state = CONN_IDLE,
                .timer = {.on = conn_timer_fired},
                .stall = {.on = conn_is_stalled},
                .task = {.run = conn_run},
                .in = BUF_INIT(HTTP_PIECE_BYTES),
                .out = BUF_INIT(HTTP_OUT_MAX),
        };
        r = loop_add(s->loop, &c->io, EPOLLIN);
        if (r < 0) {
                close_fd(&c->io.fd);
                free(c);
                return r;
        }
        list_push_back(&s->conns, &c->node);
        s->conn_count++;
        conn_set_timer(c, s->opt.idle_timeout_ms);
        return 0;
}

/* ---- another process goes on ---- */

void http_take(struct http_request *rq, struct http_taken *ret)
{
        struct http_conn *c = rq->conn;

        *ret = (struct http_taken){
                .fd = TAKE_FD(c->io.fd), .read = {(const char *)buf_at(&c->in), c->in.len}, .body = c->ex->body};
}

void http_leave(struct http_request *rq)
{
        conn_cut(rq->conn);
}
