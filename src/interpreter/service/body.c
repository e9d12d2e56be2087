#include "interpreter/service/body.h"

#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/buf.h"
#include "http/server.h"
#include "wire/http1.h"

#define DISCARD_BYTES_MAX (16u << 20) /* beyond the limit of a body: then the client is cut */

struct body {
        struct body_options opt;
        size_t discarded;
        struct buf bytes;
        struct reservation memory;
        bool is_too_large,
                is_over_budget; /* the rest is discarded, and then answered: so the client hears the answer */
};

void reservation_drop(struct reservation *r)
{
        if (r->budget)
                r->budget->used -= r->bytes;
        *r = (struct reservation){0};
}

static bool reservation_add(struct reservation *r, size_t bytes)
{
        if (bytes > r->budget->max - r->budget->used)
                return false;
        r->budget->used += bytes;
        r->bytes += bytes;
        return true;
}

static void body_free(struct body *b)
{
        reservation_drop(&b->memory);
        buf_done(&b->bytes);
        free(b);
}

static void body_on_close(struct http_request *rq, bool is_complete)
{
        (void)is_complete;
        body_free(rq->user);
}

static size_t body_on_data(struct http_request *rq, struct str piece)
{
        struct body *b = rq->user;

        if (!b) /* it is answered */
                return piece.n;
        if (b->is_too_large || b->is_over_budget) {
                b->discarded += piece.n;
                if (b->discarded > (b->is_too_large ? 0 : b->opt.bytes_max) + DISCARD_BYTES_MAX)
                        http_abort(rq);
                return piece.n;
        }
        if (piece.n > b->opt.bytes_max - b->bytes.len)
                b->is_too_large = true;
        else if (!reservation_add(&b->memory, piece.n) || buf_add(&b->bytes, piece.p, piece.n) < 0)
                b->is_over_budget = true;
        if (b->is_too_large || b->is_over_budget) {
                buf_done(&b->bytes);
                reservation_drop(&b->memory);
        }
        return piece.n;
}

static void body_on_end(struct http_request *rq)
{
        struct body *b = rq->user;

        if (!b)
                return;
        rq->user = NULL;
        rq->on_close = NULL;
        if (b->is_too_large)
                http_reply_error(rq, 413, "request body is too large");
        else if (b->is_over_budget)
                b->opt.on_full(rq);
        else
                b->opt.on_body(rq, (struct str){(const char *)buf_at(&b->bytes), b->bytes.len}, &b->memory, b->opt.arg);
        body_free(b);
}

int body_read(struct http_request *rq, const struct body_options *opt)
{
        struct body *b;

        if (rq->head->framing == HTTP1_BODY_LENGTH && rq->head->content_length > opt->bytes_max) {
                http_reply_error(rq, 413, "request body is too large");
                return 0;
        }
        b = calloc(1, sizeof(*b));
        if (!b)
                return -ENOMEM;
        *b = (struct body){.opt = *opt, .bytes = BUF_INIT(opt->bytes_max), .memory.budget = opt->budget};
        rq->user = b;
        rq->on_close = body_on_close;
        http_stream_body(rq, body_on_data, body_on_end);
        return 0;
}
