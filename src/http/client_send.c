/* The request: its head and a small body lie in `out` from the start, a streamed body goes through it piece by piece. */
#include <errno.h>
#include <string.h>

#include "http/client_impl.h"

/* ---- writing it down ---- */

static int call_write_headers(struct buf *out, const struct http_header *h)
{
        int r = 0;

        for (; r == 0 && h && h->name; h++)
                r = http1_write_header(out, str_of(h->name), str_of(h->value));
        return r;
}

static bool has_body_by_nature(const char *method)
{
        return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0;
}

static int call_write_framing(struct http_call *call, const struct http_call_options *opt)
{
        if (call->is_chunked)
                return http1_write_header(&call->out, STR("Transfer-Encoding"), STR("chunked"));
        if (opt->on_send)
                return http1_write_headerf(&call->out, "Content-Length", "%lld", (long long)opt->send_bytes);
        if (opt->body.n || opt->content_type || has_body_by_nature(opt->method))
                return http1_write_headerf(&call->out, "Content-Length", "%zu", opt->body.n);
        return 0;
}

int call_write_request(struct http_call *call, const struct http_call_options *opt)
{
        struct buf *out = &call->out;
        int r;

        call->is_chunked = opt->on_send && opt->send_bytes < 0;
        call->send_left = opt->on_send ? opt->send_bytes : 0;
        r = http1_write_request_line(out, str_of(opt->method), str_of(opt->target));
        if (r == 0)
                r = http1_write_header(out, STR("Host"), str_of(call->client->origin.host));
        if (r == 0)
                r = http1_write_header(out, STR("User-Agent"), str_of(opt->agent ? opt->agent : "sandglass"));
        if (r == 0)
                r = call_write_headers(out, opt->headers);
        if (r == 0 && opt->content_type)
                r = http1_write_header(out, STR("Content-Type"), str_of(opt->content_type));
        if (r == 0)
                r = call_write_framing(call, opt);
        if (r == 0)
                r = http1_write_end(out);
        return r < 0 ? r : buf_add(out, opt->body.p, opt->body.n);
}

/* ---- the streamed body ---- */

static int add_chunk(struct buf *out, const void *p, size_t n)
{
        char head[HTTP1_CHUNK_HEAD_MAX];
        int r = buf_add(out, head, http1_chunk_head(head, n));

        if (r == 0)
                r = buf_add(out, p, n);
        return r < 0 ? r : buf_addc(out, "\r\n");
}

static void call_send_ends(struct http_call *call)
{
        int r = 0;

        if (call->send_left > 0)
                call_fail(call, ERR_INTERNAL, "send to %s: the body ended %lld bytes early", call->client->origin.host,
                          (long long)call->send_left);
        else if (call->is_chunked)
                r = buf_addc(&call->out, "0\r\n\r\n");
        if (r < 0)
                call_fail_sys(call, r, "send to");
        call->opt.on_send = NULL;
}

/* The next piece from the caller into `out`, which is empty. */
static void call_send_pull(struct http_call *call)
{
        uint8_t piece[CLIENT_SEND_BYTES];
        size_t most = sizeof(piece);
        ssize_t n = 0;
        int r;

        buf_reset(&call->out);
        call->out_sent = 0;
        if (!call->is_chunked && (uint64_t)call->send_left < most)
                most = (size_t)call->send_left;
        call->sending = SENDING_WAITS; /* http_call_resume() may come already in the callback */
        if (most)
                n = call->opt.on_send(call, piece, most, call->opt.arg);
        if (call->state == CALL_ABANDONED || n == -EAGAIN)
                return;
        call->sending = SENDING_BYTES;
        if (n == 0) {
                call_send_ends(call);
                return;
        }
        r = n < 0              ? (int)n
            : call->is_chunked ? add_chunk(&call->out, piece, (size_t)n)
                               : buf_add(&call->out, piece, (size_t)n);
        if (r < 0)
                call_fail_sys(call, r, "send to");
        else if (!call->is_chunked)
                call->send_left -= n;
}

/* ---- the step ---- */

static void call_send_failed(struct http_call *call, int r)
{
        if (r != -EPIPE && r != -ECONNRESET) {
                call_fail_sys(call, r, "send to");
                return;
        }
        call->sending = SENDING_OVER; /* the answer may be there to read, and say why */
}

/* false: the connection takes no more now. */
static bool call_send_bytes(struct http_call *call)
{
        ssize_t n = stream_write(&call->conn->stream, buf_at(&call->out) + call->out_sent, call_unsent(call));

        if (n < 0) {
                if (n != -EAGAIN)
                        call_send_failed(call, (int)n);
                return false;
        }
        call->out_sent += (size_t)n;
        call->has_moved = true;
        call->has_sent = true;
        return true;
}

void call_send(struct http_call *call)
{
        while (call->sending == SENDING_BYTES && (call->state == CALL_CONNECTING || call_is_exchanging(call))) {
                if (call_unsent(call)) {
                        if (!call_send_bytes(call))
                                return;
                } else if (call->opt.on_send) {
                        call_send_pull(call);
                } else {
                        call->sending = SENDING_OVER;
                }
        }
}
