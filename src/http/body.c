/* The request's body: decoded from conn->in, given to whoever takes it. */
#include <errno.h>

#include "http/conn.h"

bool body_is_discardable(const struct http_exchange *ex)
{
        if (ex->body_is_done)
                return true;
        if (ex->head.expect_continue && !ex->has_continued && ex->body.total == 0)
                return false; /* nobody knows whether the client will send it */
        return ex->body.framing == HTTP1_BODY_CHUNKED || ex->body.left <= HTTP_DRAIN_MAX;
}

bool body_wants_input(const struct http_exchange *ex)
{
        return !ex->body_is_done && ex->taking != TAKE_NOT_YET && !ex->is_paused && ex->piece.n == 0;
}

static void body_end(struct http_conn *c)
{
        struct http_exchange *ex = c->ex;

        ex->body_is_done = true;
        timer_clear(&c->timer);
}

/* Undecodable bytes: the connection's framing is lost. */
static void refuse_body(struct http_conn *c, unsigned status, const char *why)
{
        body_end(c);
        buf_reset(&c->in);
        c->ex->keep_alive = false;
        if (c->state == CONN_EXCHANGE && c->ex->reply == REPLY_NONE)
                reply_refuse(c, status, why);
        else if (c->ex->reply == REPLY_STARTED)
                conn_cut(c);
}

static size_t body_collect(struct http_conn *c)
{
        struct http_exchange *ex = c->ex;
        size_t n = ex->piece.n;
        int r = buf_add(&ex->collected, ex->piece.p, n);

        if (r == -E2BIG)
                reply_refuse(c, 413, "request body is too large");
        else if (r < 0)
                conn_cut(c);
        return n;
}

static size_t body_discard(struct http_conn *c)
{
        struct http_exchange *ex = c->ex;

        ex->discarded += ex->piece.n;
        if (ex->discarded > HTTP_DRAIN_MAX) { /* enough: the connection ends instead */
                ex->keep_alive = false;
                body_end(c);
        }
        return ex->piece.n;
}

static void body_give_piece(struct http_conn *c)
{
        struct http_exchange *ex = c->ex;
        size_t taken = 0;

        switch (ex->taking) {
        case TAKE_COLLECT: taken = body_collect(c); break;
        case TAKE_STREAM: taken = ex->on_data(&ex->rq, ex->piece); break;
        case TAKE_DISCARD: taken = body_discard(c); break;
        case TAKE_NOT_YET: return;
        }
        if (c->state == CONN_CLOSED)
                return;
        if (taken < ex->piece.n && ex->taking == TAKE_STREAM)
                ex->is_paused = true;
        ex->piece.p += taken;
        ex->piece.n -= taken;
        if (ex->piece.n == 0) {
                buf_consume(&c->in, ex->piece_used);
                ex->piece_used = 0;
        }
}

static bool body_decode(struct http_conn *c)
{
        struct http_exchange *ex = c->ex;
        size_t used;

        switch (http1_body_feed(&ex->body, buf_at(&c->in), c->in.len, &used, &ex->piece)) {
        case HTTP1_DATA: ex->piece_used = used; return true;
        case HTTP1_DONE:
                buf_consume(&c->in, used);
                body_end(c);
                return true;
        case HTTP1_MORE: buf_consume(&c->in, used); return false;
        case HTTP1_TOO_BIG: refuse_body(c, 431, "trailers are too large"); return false;
        default: refuse_body(c, 400, "malformed request body"); return false;
        }
}

static bool tell_end(struct http_exchange *ex)
{
        if (ex->is_end_told || ex->is_refused)
                return false;
        ex->is_end_told = true;
        if (ex->taking == TAKE_COLLECT)
                ex->on_body(&ex->rq, (struct str){(const char *)buf_at(&ex->collected), ex->collected.len});
        else if (ex->taking == TAKE_STREAM)
                ex->on_end(&ex->rq);
        return true;
}

bool body_step(struct http_conn *c)
{
        struct http_exchange *ex = c->ex;

        if (ex->taking == TAKE_NOT_YET || ex->is_paused)
                return false;
        if (ex->piece.n) {
                body_give_piece(c);
                return true;
        }
        if (!ex->body_is_done && http1_body_is_done(&ex->body))
                body_end(c);
        if (ex->body_is_done)
                return tell_end(ex);
        return body_decode(c);
}

/* ---- what handlers call ---- */

static void body_begin(struct http_request *rq, enum taking taking)
{
        struct http_exchange *ex = exchange_of(rq);
        struct http_conn *c = rq->conn;

        if (c->state != CONN_EXCHANGE || ex->reply == REPLY_ENDED)
                return;
        ex->taking = taking;
        if (ex->head.expect_continue && !ex->has_continued && !ex->body_is_done && ex->reply == REPLY_NONE) {
                ex->has_continued = true;
                if (c->in.len == 0 && buf_addc(&c->out, "HTTP/1.1 100 Continue\r\n\r\n") < 0)
                        conn_cut(c);
        }
        conn_post(c);
}

void http_read_body(struct http_request *rq, size_t max, void (*on_body)(struct http_request *rq, struct str body))
{
        struct http_exchange *ex = exchange_of(rq);

        ex->on_body = on_body;
        buf_done(&ex->collected);
        ex->collected.max = max;
        if (rq->conn->state == CONN_EXCHANGE && ex->body.framing == HTTP1_BODY_LENGTH && ex->body.left > max &&
            ex->reply == REPLY_NONE) {
                reply_refuse(rq->conn, 413, "request body is too large");
                return;
        }
        body_begin(rq, TAKE_COLLECT);
}

void http_keep_secret(struct http_request *rq)
{
        struct http_exchange *ex = exchange_of(rq);

        ex->head_mem.is_secret = true; /* the body may have come with the head */
        ex->collected.is_secret = true;
        rq->conn->in.is_secret = true;
        rq->conn->out.is_secret = true;
}

void http_stream_body(struct http_request *rq, size_t (*on_data)(struct http_request *rq, struct str piece),
                      void (*on_end)(struct http_request *rq))
{
        struct http_exchange *ex = exchange_of(rq);

        ex->on_data = on_data;
        ex->on_end = on_end;
        body_begin(rq, TAKE_STREAM);
}

void http_resume_body(struct http_request *rq)
{
        exchange_of(rq)->is_paused = false;
        if (rq->conn->state == CONN_EXCHANGE)
                conn_post(rq->conn);
}
