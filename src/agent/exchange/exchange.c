#include "agent/exchange/exchange.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/exchange/ask.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/credential/credential.h"
#include "model/request/agent_error.h"
#include "wire/url.h"

#define MESSAGE_MAX 512
#define ANSWER_JSON_MAX (60u << 20) /* less than a connection queues (http/conn.h) */

/* ---- its life ---- */

static void exchange_closed(struct http_request *rq, bool is_complete)
{
        struct exchange *x = rq->user;

        x->is_complete = is_complete;
        ask_cancel_all(x);
        if (x->job_free)
                x->job_free(x);
        list_remove(&x->node);
        exchange_give_back(x);
        if (x->is_secret)
                credential_blank(x->body);
        json_decref(x->body);
        json_decref(x->sandbox.shown);
        free(x);
}

static void exchange_drained(struct http_request *rq)
{
        struct exchange *x = rq->user;

        if (x->on_drain)
                x->on_drain(x);
}

struct exchange *exchange_create(struct agent *a, struct http_request *rq)
{
        struct exchange *x = calloc(1, sizeof(*x));

        if (!x) {
                http_reply_error(rq, 503, "out of memory");
                return NULL;
        }
        x->agent = a;
        x->rq = rq;
        list_init(&x->asks);
        list_push_back(&a->exchanges, &x->node);
        rq->user = x;
        rq->on_close = exchange_closed;
        rq->on_drain = exchange_drained;
        return x;
}

int exchange_query(const struct exchange *x, const char *name, char **ret, struct err *err)
{
        if (url_query_get(x->rq->url.query, name, ret) < 0)
                return err_set(err, ERR_INVALID, "parameter '%s' is not valid in a URL", name);
        return 0;
}

/* ---- answers ---- */

#define HEADERS_MAX 4

/* Pages of other hosts may use the API, with a token. */
static void collect_headers(const struct exchange *x, const struct http_header *more,
                            struct http_header out[HEADERS_MAX])
{
        size_t n = 0;

        if (http1_find(x->rq->head, "Origin"))
                out[n++] = (struct http_header){"Access-Control-Allow-Origin", "*"};
        if (more)
                out[n++] = *more;
        out[n] = (struct http_header){NULL, NULL};
}

static void tell_text_with(struct exchange *x, unsigned status, const struct http_header *more, struct str json)
{
        struct http_header all[HEADERS_MAX];

        collect_headers(x, more, all);
        http_reply(x->rq, status, "application/json", all, json.p, json.n);
}

void tell_text(struct exchange *x, unsigned status, struct str json)
{
        tell_text_with(x, status, NULL, json);
}

struct json_sink {
        struct buf *out;
        int r;
};

static int json_sink_add(const char *piece, size_t n, void *arg)
{
        struct json_sink *sink = arg;

        sink->r = buf_add(sink->out, piece, n);
        return sink->r;
}

int json_answer_text(const json_t *body, struct buf *out)
{
        struct json_sink sink = {.out = out, .r = 0};

        buf_init(out, ANSWER_JSON_MAX);
        if (json_dump_callback(body, json_sink_add, &sink, JSON_COMPACT | JSON_ENCODE_ANY) == 0)
                return 0;
        buf_done(out);
        return sink.r < 0 ? sink.r : -ENOMEM;
}

static void tell_json_with(struct exchange *x, unsigned status, const struct http_header *more, json_t *body)
{
        AUTO_BUF struct buf text = BUF_INIT(0);
        int r = body ? json_answer_text(body, &text) : -ENOMEM;

        json_decref(body);
        if (r == -E2BIG)
                tell_error(
                        x, 413, NULL,
                        "the answer is too large for JSON; Accept: application/octet-stream gives the bytes of a file");
        else if (r < 0)
                http_abort(x->rq);
        else if (!exchange_try_answer(x, text.len))
                tell_error(x, 503, NULL, "too many large answers at a time, try again");
        else
                tell_text_with(x, status, more, (struct str){(const char *)buf_at(&text), text.len});
}

void tell_json(struct exchange *x, unsigned status, json_t *body)
{
        tell_json_with(x, status, NULL, body);
}

void tell_empty(struct exchange *x, unsigned status)
{
        struct http_header all[HEADERS_MAX];

        collect_headers(x, NULL, all);
        http_reply(x->rq, status, NULL, all, NULL, 0);
}

void tell_bytes(struct exchange *x, const char *content_type, const void *bytes, size_t n)
{
        const struct http_header policy = {"Content-Security-Policy",
                                           "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"};
        struct http_header all[HEADERS_MAX];

        collect_headers(x, &policy, all);
        http_reply(x->rq, 200, content_type, all, bytes, n);
}

void tell_begin(struct exchange *x, unsigned status, const char *content_type, int64_t length)
{
        const struct http_header no_store = {"Cache-Control", "no-store"};
        struct http_header all[HEADERS_MAX];

        collect_headers(x, &no_store, all);
        http_start(x->rq, status, content_type, all, length);
}

void tell_error(struct exchange *x, unsigned status, const char *code, const char *fmt, ...)
{
        char message[MESSAGE_MAX];
        va_list ap;

        va_start(ap, fmt);
        if (vsnprintf(message, sizeof(message), fmt, ap) >= (int)sizeof(message))
                memcpy(message + sizeof(message) - 4, "...", 4);
        va_end(ap);
        tell_json(x, status, agent_error(status, code, message));
}

void tell_err(struct exchange *x, const struct err *err)
{
        static const unsigned status[] = {
                [ERR_NONE] = 500,     [ERR_INVALID] = 400, [ERR_NOT_FOUND] = 404,   [ERR_GONE] = 404,
                [ERR_CONFLICT] = 409, [ERR_LIMIT] = 503,   [ERR_NO_SPACE] = 507,    [ERR_TOO_LARGE] = 413,
                [ERR_DENIED] = 403,   [ERR_TIMEOUT] = 504, [ERR_UNAVAILABLE] = 503, [ERR_INTERRUPTED] = 503,
                [ERR_INTERNAL] = 500,
        };

        tell_error(x, status[err->kind], NULL, "%s", err->msg);
}

void tell_no_memory(struct exchange *x)
{
        tell_error(x, 503, NULL, "out of memory, try again");
}

void tell_no_sandbox(struct exchange *x)
{
        tell_error(x, 404, NULL, "sandbox '%s' does not exist, or belongs to somebody else", x->id);
}

void tell_wrong_method(struct exchange *x, const char *allow)
{
        const struct http_header more = {"Allow", allow};

        tell_json_with(x, 405, &more, agent_error(405, NULL, "this path has other methods: see the header Allow"));
}

void tell_preflight(struct exchange *x)
{
        const struct http_header all[] = {
                {"Access-Control-Allow-Origin", "*"},
                {"Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS"},
                {"Access-Control-Allow-Headers", "Accept, Authorization, Content-Type, Last-Event-ID"},
                {"Access-Control-Max-Age", "600"},
                {NULL, NULL},
        };

        http_reply(x->rq, 204, NULL, all, NULL, 0);
}
