/* Answers: heads, whole bodies, streams. */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "http/conn.h"

#define MESSAGE_MAX 512

/* May the handler still say something?  Not when the client is gone or was answered here. */
static bool can_answer(const struct http_exchange *ex, enum reply expected)
{
        if (ex->rq.conn->state != CONN_EXCHANGE || ex->is_refused)
                return false;
        assert(ex->reply == expected); /* each request is answered once */
        return true;
}

static bool status_has_no_body(unsigned status)
{
        return status < 200 || status == 204 || status == 304;
}

static int reply_write_framing(struct http_exchange *ex, struct buf *out, unsigned status, int64_t length)
{
        if (status_has_no_body(status))
                return 0;
        if (length >= 0)
                return http1_write_headerf(out, "Content-Length", "%lld", (long long)length);
        if (ex->head.minor == 0) {
                ex->keep_alive = false; /* until the connection ends */
                return 0;
        }
        ex->is_chunked = true;
        return http1_write_header(out, STR("Transfer-Encoding"), STR("chunked"));
}

static int reply_write_head(struct http_exchange *ex, unsigned status, const char *content_type,
                            const struct http_header *extra, int64_t length)
{
        struct buf *out = &ex->rq.conn->out;
        int r;

        r = http1_write_status_line(out, status, (struct str){0});
        if (r == 0)
                r = http1_write_header(out, STR("Date"), str_of(server_date(ex->rq.server)));
        if (r == 0 && content_type)
                r = http1_write_header(out, STR("Content-Type"), str_of(content_type));
        for (; r == 0 && extra && extra->name; extra++)
                r = http1_write_header(out, str_of(extra->name), str_of(extra->value));
        if (r == 0)
                r = reply_write_framing(ex, out, status, length);
        if (!body_is_discardable(ex) || ex->rq.server->is_stopping)
                ex->keep_alive = false;
        if (r == 0 && !ex->keep_alive)
                r = http1_write_header(out, STR("Connection"), STR("close"));
        else if (r == 0 && ex->head.minor == 0)
                r = http1_write_header(out, STR("Connection"), STR("keep-alive"));
        return r < 0 ? r : http1_write_end(out);
}

static bool reply_start(struct http_exchange *ex, unsigned status, const char *content_type,
                        const struct http_header *extra, int64_t length)
{
        ex->has_no_body = status_has_no_body(status) || str_is(ex->head.method, "HEAD");
        ex->left = length;
        ex->reply = REPLY_STARTED;
        if (reply_write_head(ex, status, content_type, extra, length) == 0)
                return true;
        conn_cut(ex->rq.conn); /* out of memory, or a header that would break the head */
        return false;
}

/* All was handed over; the task does the rest once it has left. */
static void reply_end(struct http_exchange *ex)
{
        ex->reply = REPLY_ENDED;
        ex->taking = TAKE_DISCARD;
        ex->is_paused = false;
        conn_post(ex->rq.conn);
}

static void reply_whole(struct http_exchange *ex, unsigned status, const char *content_type,
                        const struct http_header *extra, struct str body)
{
        struct iovec iov = {(void *)(uintptr_t)body.p, body.n};

        if (!reply_start(ex, status, content_type, extra, (int64_t)body.n))
                return;
        out_send(ex->rq.conn, &iov, ex->has_no_body || body.n == 0 ? 0 : 1);
        if (ex->rq.conn->state != CONN_CLOSED)
                reply_end(ex);
}

void http_reply(struct http_request *rq, unsigned status, const char *content_type, const struct http_header *extra,
                const void *body, size_t len)
{
        struct http_exchange *ex = exchange_of(rq);

        if (can_answer(ex, REPLY_NONE))
                reply_whole(ex, status, content_type, extra, (struct str){body, body ? len : 0});
}

static void reply_json(struct http_exchange *ex, unsigned status, const struct http_header *extra, json_t *body)
{
        AUTO_FREE char *text = NULL;

        text = body ? json_dumps(body, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        json_decref(body);
        if (text)
                reply_whole(ex, status, "application/json", extra, str_of(text));
        else
                conn_cut(ex->rq.conn); /* out of memory */
}

void http_reply_json(struct http_request *rq, unsigned status, const struct http_header *extra, json_t *body)
{
        struct http_exchange *ex = exchange_of(rq);

        if (can_answer(ex, REPLY_NONE))
                reply_json(ex, status, extra, body);
        else
                json_decref(body);
}

/* The text may have been cut in the middle of a character, or hold bytes from outside; JSON takes only UTF-8. */
static json_t *json_message(char *text)
{
        json_t *s = json_string(text);

        if (s)
                return s;
        for (char *at = text; *at; at++)
                if ((unsigned char)*at >= 0x80)
                        *at = '?';
        return json_string(text);
}

static void reply_error(struct http_exchange *ex, unsigned status, char *message)
{
        const struct http_server_options *o = &ex->rq.server->opt;
        json_t *text;

        if (o->show_error) {
                reply_json(ex, status, NULL, o->show_error(status, message));
                return;
        }
        text = json_message(message);

        reply_json(ex, status, NULL, text ? json_pack("{s:i,s:o}", "code", (int)status, "message", text) : NULL);
}

void http_reply_error(struct http_request *rq, unsigned status, const char *fmt, ...)
{
        struct http_exchange *ex = exchange_of(rq);
        char message[MESSAGE_MAX];
        va_list ap;

        if (!can_answer(ex, REPLY_NONE))
                return;
        va_start(ap, fmt);
        (void)vsnprintf(message, sizeof(message), fmt, ap);
        va_end(ap);
        reply_error(ex, status, message);
}

void reply_refuse(struct http_conn *c, unsigned status, const char *why)
{
        char message[MESSAGE_MAX];

        c->ex->keep_alive = false;
        (void)snprintf(message, sizeof(message), "%s", why);
        reply_error(c->ex, status, message);
        c->ex->is_refused = true;
}

/* ---- streams ---- */

void http_start(struct http_request *rq, unsigned status, const char *content_type, const struct http_header *extra,
                int64_t length)
{
        struct http_exchange *ex = exchange_of(rq);

        if (can_answer(ex, REPLY_NONE) && reply_start(ex, status, content_type, extra, length))
                conn_post(rq->conn);
}

/* Queue the parts, or send them when they are worth a system call of their own. */
static int reply_send_or_queue(struct http_conn *c, struct iovec *iov, int n, size_t bytes)
{
        if (bytes >= HTTP_SMALL_BYTES || c->out.len + bytes >= 2 * HTTP_SMALL_BYTES) {
                out_send(c, iov, n);
                return c->state == CONN_CLOSED ? -EPIPE : 0;
        }
        for (int i = 0; i < n; i++) {
                int r = buf_add(&c->out, iov[i].iov_base, iov[i].iov_len);

                if (r < 0) {
                        conn_cut(c);
                        return r;
                }
        }
        return 0;
}

int http_write(struct http_request *rq, const void *p, size_t n)
{
        struct http_exchange *ex = exchange_of(rq);
        struct http_conn *c = rq->conn;
        char size_line[HTTP1_CHUNK_HEAD_MAX];
        struct iovec iov[3] = {[1] = {(void *)(uintptr_t)p, n}};
        int r;

        if (!can_answer(ex, REPLY_STARTED))
                return -EPIPE;
        if (n == 0 || ex->has_no_body)
                return 0;
        if (ex->left >= 0) {
                assert((uint64_t)n <= (uint64_t)ex->left); /* more than was announced */
                ex->left -= (int64_t)n;
        }
        if (ex->is_chunked) {
                iov[0] = (struct iovec){size_line, http1_chunk_head(size_line, n)};
                iov[2] = (struct iovec){(void *)(uintptr_t) "\r\n", 2};
                r = reply_send_or_queue(c, iov, 3, n);
        } else {
                r = reply_send_or_queue(c, iov + 1, 1, n);
        }
        if (r == 0) {
                ex->is_choked |= c->out.len > HTTP_OUT_HIGH;
                conn_post(c);
        }
        return r;
}

bool http_is_full(const struct http_request *rq)
{
        return rq->conn->out.len > HTTP_OUT_HIGH;
}

size_t http_queued(const struct http_request *rq)
{
        return rq->conn->out.len;
}

void http_end(struct http_request *rq)
{
        struct http_exchange *ex = exchange_of(rq);
        struct iovec iov = {(void *)(uintptr_t) "0\r\n\r\n", 5};

        if (!can_answer(ex, REPLY_STARTED))
                return;
        if (!ex->has_no_body && ex->left > 0) { /* less than announced: the client must notice */
                conn_cut(rq->conn);
                return;
        }
        out_send(rq->conn, &iov, ex->is_chunked && !ex->has_no_body ? 1 : 0);
        if (rq->conn->state != CONN_CLOSED)
                reply_end(ex);
}

void http_abort(struct http_request *rq)
{
        if (rq->conn->state == CONN_EXCHANGE)
                conn_cut(rq->conn);
}

void http_send_file(struct http_request *rq, int fd, uint64_t offset, uint64_t length)
{
        struct http_exchange *ex = exchange_of(rq);

        if (!can_answer(ex, REPLY_STARTED)) {
                close_fd(&fd);
                return;
        }
        if (ex->has_no_body) {
                close_fd(&fd);
                reply_end(ex);
                return;
        }
        assert(ex->left >= 0 && (uint64_t)ex->left == length);
        ex->file = fd;
        ex->file_at = offset;
        ex->file_left = length;
        ex->taking = TAKE_DISCARD;
        ex->is_paused = false;
        conn_post(rq->conn);
}
