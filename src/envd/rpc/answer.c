#include "envd/rpc/answer.h"

#include <assert.h>

#include "envd/rpc/fault.h"

#define ERROR_TEXT_MAX (64u << 10)

static const char exposed[] =
        "Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin, Location, Cache-Control, X-Content-Type-Options";

void answer_headers_add(struct answer_headers *h, const char *name, const char *value)
{
        assert(h->count < ANSWER_HEADERS_MAX);
        h->list[h->count++] = (struct http_header){name, value};
        h->list[h->count] = (struct http_header){NULL, NULL};
}

void answer_headers_init(struct answer_headers *h, const struct http_request *rq)
{
        h->count = 0;
        h->list[0] = (struct http_header){NULL, NULL};
        if (!http1_find(rq->head, "Origin"))
                return;
        answer_headers_add(h, "Access-Control-Allow-Origin", "*");
        answer_headers_add(h, "Access-Control-Expose-Headers", exposed);
}

bool answer_preflight(struct http_request *rq)
{
        AUTO_FREE char *asked = NULL;
        struct answer_headers h;

        if (!str_is(rq->head->method, "OPTIONS") || !http1_find(rq->head, "Origin") ||
            !http1_find(rq->head, "Access-Control-Request-Method"))
                return false;
        answer_headers_init(&h, rq);
        answer_headers_add(&h, "Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers");
        answer_headers_add(&h, "Access-Control-Allow-Methods", "HEAD, GET, POST, PUT, PATCH, DELETE");
        asked = str_dup(http1_value(rq->head, "Access-Control-Request-Headers"));
        answer_headers_add(&h, "Access-Control-Allow-Headers", asked && asked[0] ? asked : "*");
        answer_headers_add(&h, "Access-Control-Max-Age", "7200");
        http_reply(rq, 204, NULL, h.list, NULL, 0);
        return true;
}

void answer_bytes(struct http_request *rq, unsigned status, const char *content_type, const void *body, size_t len)
{
        struct answer_headers h;

        answer_headers_init(&h, rq);
        http_reply(rq, status, content_type, h.list, body, len);
}

void answer_json(struct http_request *rq, unsigned status, json_t *body)
{
        /* 15 digits: 49.37 stays 49.37 */
        AUTO_FREE char *text = body ? json_dumps(body, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
        struct answer_headers h;

        json_decref(body);
        if (!text) {
                answer_error(rq, 500, "out of memory");
                return;
        }
        answer_headers_init(&h, rq);
        answer_headers_add(&h, "Cache-Control", "no-store");
        http_reply(rq, status, "application/json", h.list, text, strlen(text));
}

void answer_error(struct http_request *rq, unsigned status, const char *fmt, ...)
{
        AUTO_BUF struct buf b = BUF_INIT(ERROR_TEXT_MAX);
        AUTO_FREE char *text = NULL;
        struct answer_headers h;
        json_t *body;
        va_list ap;

        va_start(ap, fmt);
        (void)buf_vaddf(&b, fmt, ap); /* without memory or room the text is empty, and the status has to do */
        va_end(ap);
        body = json_pack("{s:i, s:o?}", "code", (int)status, "message",
                         json_text((struct str){(const char *)buf_at(&b), b.len}));
        text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        json_decref(body);
        answer_headers_init(&h, rq);
        answer_headers_add(&h, "X-Content-Type-Options", "nosniff");
        http_reply(rq, status, "application/json; charset=utf-8", h.list, text, text ? strlen(text) : 0);
}

void answer_text(struct http_request *rq, unsigned status, const char *text)
{
        struct answer_headers h;

        answer_headers_init(&h, rq);
        answer_headers_add(&h, "X-Content-Type-Options", "nosniff");
        http_reply(rq, status, "text/plain; charset=utf-8", h.list, text, strlen(text));
}

void answer_no_content(struct http_request *rq, const char *extra_name, const char *extra_value)
{
        struct answer_headers h;

        answer_headers_init(&h, rq);
        answer_headers_add(&h, "Cache-Control", "no-store");
        if (extra_name)
                answer_headers_add(&h, extra_name, extra_value);
        http_reply(rq, 204, NULL, h.list, NULL, 0);
}

void answer_bad_method(struct http_request *rq, const char *allow)
{
        struct answer_headers h;

        answer_headers_init(&h, rq);
        if (allow)
                answer_headers_add(&h, "Allow", allow);
        http_reply(rq, 405, NULL, h.list, NULL, 0);
}
