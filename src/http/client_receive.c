/* The answer: heads of 1xx are passed over, then the head, then the body in pieces as the caller takes them. */
#include <errno.h>

#include "http/client_impl.h"

#define READS_PER_STEP 4 /* then the others have their turn */

/* ---- heads ---- */

/* The bytes of the head stay where they are, since it points into them; what follows moves to a new buffer. */
static int split_head(struct http_call *call, size_t head_len)
{
        call->head_bytes = call->in;
        call->in = (struct buf){.max = CLIENT_PIECE_BYTES, .is_secret = call->opt.is_secret};
        return buf_add(&call->in, buf_at(&call->head_bytes) + head_len, call->head_bytes.len - head_len);
}

static void call_begin_body(struct http_call *call, size_t head_len)
{
        int r = split_head(call, head_len);

        if (r < 0) {
                call_fail_sys(call, r, "read from");
                return;
        }
        call->has_head = true;
        http1_body_init(&call->body, &call->head);
        call_go(call, CALL_BODY);
        if (call->opt.on_head)
                call->opt.on_head(call, call->opt.arg);
}

static void pass_over_interim(struct http_call *call, size_t head_len)
{
        if (call->head.status == 101 || ++call->interims > CLIENT_INTERIM_MAX) {
                call_fail(call, ERR_INTERNAL, "%s answers with status %u, which nobody asked for",
                          call->client->origin.host, call->head.status);
                return;
        }
        call->head = (struct http1_head){0};
        buf_consume(&call->in, head_len);
}

static bool receive_head(struct http_call *call) /* false: more bytes are needed */
{
        size_t used;

        if (call->in.len == 0)
                return false;
        switch (http1_parse_response(&call->head, buf_at(&call->in), call->in.len, call->to_head, &used)) {
        case HTTP1_MORE: return false;
        case HTTP1_DONE:
                if (call->head.status < 200)
                        pass_over_interim(call, used);
                else
                        call_begin_body(call, used);
                return true;
        default:
                call_fail(call, ERR_INTERNAL, "the answer of %s is not HTTP: %s", call->client->origin.host,
                          call->head.why);
                return true;
        }
}

/* ---- body ---- */

static void call_give_piece(struct http_call *call)
{
        size_t taken = call->piece.n;

        call->is_paused = true; /* http_call_resume() may come already in the callback */
        if (call->opt.on_data)
                taken = call->opt.on_data(call, call->piece, call->opt.arg);
        if (call->state == CALL_ABANDONED)
                return;
        call->piece = (struct str){call->piece.p + taken, call->piece.n - taken};
        if (call->piece.n == 0) {
                call->is_paused = false;
                buf_consume(&call->in, call->piece_used);
                call->piece_used = 0;
        }
}

static bool decode_piece(struct http_call *call) /* false: more bytes are needed */
{
        size_t used = 0;

        if (call->in.len == 0)
                return false;
        switch (http1_body_feed(&call->body, buf_at(&call->in), call->in.len, &used, &call->piece)) {
        case HTTP1_DATA: call->piece_used = used; return true;
        case HTTP1_DONE:
        case HTTP1_MORE: buf_consume(&call->in, used); return http1_body_is_done(&call->body);
        default:
                call_fail(call, ERR_INTERNAL, "the answer of %s has a broken body", call->client->origin.host);
                return true;
        }
}

static bool receive_body(struct http_call *call)
{
        if (call->piece.n) {
                call_give_piece(call);
                return true;
        }
        if (http1_body_is_done(&call->body)) {
                call_go(call, CALL_ENDED);
                return true;
        }
        return decode_piece(call);
}

/* ---- reading ---- */

static bool receive_one(struct http_call *call)
{
        switch (call->state) {
        case CALL_HEAD: return receive_head(call);
        case CALL_BODY: return !call->is_paused && receive_body(call);
        default: return false;
        }
}

/* A kept connection that the server had closed meanwhile: nothing of the request was looked at. */
static void call_try_again(struct http_call *call)
{
        call_connect_close(call);
        call->out_sent = 0;
        call->sending = SENDING_BYTES;
        call->is_on_kept = call->has_moved = false;
        call->next_address = call->client->addresses;
        timer_clear(&call->timer);
        call_go(call, CALL_CONNECTING);
}

static void receive_ended(struct http_call *call, int r)
{
        const char *host = call->client->origin.host;

        if (call->is_on_kept && call->is_repeatable && call->state == CALL_HEAD && call->in.len == 0)
                call_try_again(call);
        else if (r == 0 && call->state == CALL_BODY && call->body.framing == HTTP1_BODY_EOF)
                call_go(call, CALL_ENDED);
        else if (r < 0 && r != -ECONNRESET && r != -EPIPE)
                call_fail_sys(call, r, "read from");
        else if (call->state == CALL_HEAD && call->in.len == 0)
                call_fail(call, ERR_UNAVAILABLE, "%s closed the connection without an answer", host);
        else
                call_fail(call, ERR_UNAVAILABLE, "%s cut the connection in the middle of its answer", host);
}

static bool call_read_bytes(struct http_call *call) /* false: nothing more now */
{
        size_t most = call->state == CALL_HEAD ? CLIENT_HEAD_PIECE_BYTES : CLIENT_PIECE_BYTES;
        uint8_t *at;
        ssize_t n;
        int r;

        most = most < buf_room(&call->in) ? most : buf_room(&call->in);
        r = buf_reserve(&call->in, most, &at);
        if (r < 0) {
                call_fail_sys(call, r, "read from");
                return false;
        }
        n = stream_read(&call->conn->stream, at, most);
        if (n == -EAGAIN)
                return false;
        if (n <= 0) {
                receive_ended(call, (int)n);
                return false;
        }
        buf_commit(&call->in, (size_t)n);
        call->has_moved = true;
        return true;
}

void call_receive(struct http_call *call)
{
        for (int i = 0; i <= READS_PER_STEP; i++) {
                while (receive_one(call))
                        ;
                if (!call_is_exchanging(call) || call->is_paused || i == READS_PER_STEP || !call_read_bytes(call))
                        return;
        }
}
