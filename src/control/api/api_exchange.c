#include "control/api/api_exchange.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "control/api/api.h"
#include "control/api/router.h"
#include "control/api/start_error.h"
#include "control/life/lives.h"

#define MORE_MAX 4

static const char allowed_headers[] =
        "Origin, Content-Length, Content-Type, User-Agent, Authorization, X-API-Key, X-Team-ID, browser, lang, "
        "lang_version, machine, os, package_version, processor, publisher, release, sdk_runtime, system";
static const char exposed_headers[] =
        "X-Next-Token, X-Total-Running, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After";

/* The headers that a browser needs to show our answers to its page, if the client is a browser; then `more`. */
static void collect_headers(const struct api_exchange *x, const struct http_header *more,
                            struct http_header out[MORE_MAX + 3])
{
        size_t n = 0;

        if (http1_find(x->rq->head, "Origin")) {
                out[n++] = (struct http_header){"Access-Control-Allow-Origin", "*"};
                out[n++] = (struct http_header){"Access-Control-Expose-Headers", exposed_headers};
        }
        for (size_t i = 0; more && more[i].name && i < MORE_MAX; i++)
                out[n++] = more[i];
        out[n] = (struct http_header){NULL, NULL};
}

void answer_json_with(struct api_exchange *x, unsigned status, const struct http_header *more, json_t *body)
{
        struct http_header all[MORE_MAX + 3];

        collect_headers(x, more, all);
        timer_clear(&x->overdue);
        http_reply_json(x->rq, status, all, body);
}

void answer_json(struct api_exchange *x, unsigned status, json_t *body)
{
        answer_json_with(x, status, NULL, body);
}

void answer_empty(struct api_exchange *x, unsigned status)
{
        struct http_header all[MORE_MAX + 3];

        collect_headers(x, NULL, all);
        timer_clear(&x->overdue);
        http_reply(x->rq, status, NULL, all, NULL, 0);
}

/* ---- from the handler to the end of the exchange ---- */

void api_exchange_leave(struct api_exchange *x, bool is_complete)
{
        void (*on_over)(struct api_exchange *, bool) = TAKE_PTR(x->on_over);

        timer_clear(&x->overdue);
        engine_call_cancel(&x->call);
        list_remove(&x->waiter.node);
        image_taker_cancel(&x->taker);
        if (on_over)
                on_over(x, is_complete);
}

/* Every wait of a handler has an end of its own, long before this one: a request that comes here waits for nothing. */
static void api_exchange_overdue(struct timer *t)
{
        struct api_exchange *x = CONTAINER_OF(t, struct api_exchange, overdue);
        struct life *l = lives_find(x->api->lives, x->id);

        log_error("request.stuck", "method=%s pattern=%s sandbox=%s state=%s, answering 504: this is a bug",
                  x->endpoint->method, x->endpoint->pattern, x->id, l ? sandbox_state_name(l->sandbox.state) : "none");
        api_exchange_leave(x, false);
        answer_error(x, 504, NULL,
                     "The server did not finish the request in time. It may have been carried out, or not.");
}

void api_exchange_handle(struct api_exchange *x)
{
        x->overdue.on = api_exchange_overdue;
        timer_set(x->api->loop, &x->overdue, x->api->answer_ms_max ? x->api->answer_ms_max : ANSWER_MS_MAX);
        x->endpoint->handle(x);
}

/* ---- answers ---- */

static json_t *text_json(char *msg)
{
        json_t *v = json_string(msg);

        if (v)
                return v;
        for (char *p = msg; *p; p++) /* not UTF-8: a cut may go through a character, and paths may hold anything */
                if ((unsigned char)*p >= 0x80)
                        *p = '?';
        return json_string(msg);
}

struct api_refusal {
        unsigned status;
        int code; /* in the body */
        const char *error_code;
        const struct http_header *more;
};

static void answer_refusal(struct api_exchange *x, const struct api_refusal *why, char *msg)
{
        json_t *body = json_pack("{s:i,s:o}", "code", why->code, "message", text_json(msg));

        if (why->error_code)
                (void)json_object_set_new(body, "error_code", json_string(why->error_code));
        answer_json_with(x, why->status, why->more, body);
}

PRINTF(3, 0)
static void answer_refusal_fmt(struct api_exchange *x, const struct api_refusal *why, const char *fmt, va_list ap)
{
        char msg[512];

        if (vsnprintf(msg, sizeof(msg), fmt, ap) >= (int)sizeof(msg))
                memcpy(msg + sizeof(msg) - 4, "...", 4);
        answer_refusal(x, why, msg);
}

void answer_error(struct api_exchange *x, unsigned status, const char *code, const char *fmt, ...)
{
        const struct api_refusal why = {.status = status, .code = (int)status, .error_code = code};
        va_list ap;

        va_start(ap, fmt);
        answer_refusal_fmt(x, &why, fmt, ap);
        va_end(ap);
}

void answer_later(struct api_exchange *x, unsigned again_s, const char *fmt, ...)
{
        char seconds[16];
        const struct http_header more[] = {{"Retry-After", seconds}, {NULL, NULL}};
        const struct api_refusal why = {.status = 503, .code = 503, .more = more};
        va_list ap;

        (void)snprintf(seconds, sizeof(seconds), "%u", again_s);
        va_start(ap, fmt);
        answer_refusal_fmt(x, &why, fmt, ap);
        va_end(ap);
}

void answer_error_as(struct api_exchange *x, unsigned status, int body_code, const char *code, const char *fmt, ...)
{
        const struct api_refusal why = {.status = status, .code = body_code, .error_code = code};
        va_list ap;

        va_start(ap, fmt);
        answer_refusal_fmt(x, &why, fmt, ap);
        va_end(ap);
}

json_t *answer_text(const char *msg)
{
        AUTO_FREE char *copy = strdup(msg);

        return copy ? text_json(copy) : NULL;
}

unsigned answer_status_of(const struct err *err)
{
        static const unsigned status[] = {
                [ERR_NONE] = 500,     [ERR_INVALID] = 400, [ERR_NOT_FOUND] = 404,   [ERR_GONE] = 404,
                [ERR_CONFLICT] = 409, [ERR_LIMIT] = 503,   [ERR_NO_SPACE] = 507,    [ERR_TOO_LARGE] = 413,
                [ERR_DENIED] = 403,   [ERR_TIMEOUT] = 504, [ERR_UNAVAILABLE] = 503, [ERR_INTERRUPTED] = 503,
                [ERR_INTERNAL] = 500,
        };

        return status[err->kind];
}

void answer_err(struct api_exchange *x, const struct err *err)
{
        answer_error(x, answer_status_of(err), NULL, "%s", err->msg);
}

void answer_no_sandbox(struct api_exchange *x)
{
        if (lives_has_stopped(x->api->lives, x->id, x->team)) {
                answer_error(x, 404, NULL, "Sandbox \"%s\" is gone: it was running when the machine stopped", x->id);
                return;
        }
        answer_error(x, 404, NULL, "Sandbox \"%s\" doesn't exist or you don't have access to it", x->id);
}

void answer_missing(struct api_exchange *x)
{
        answer_error(x, 404, NULL,
                     "Sandbox \"%s\" is paused, and its files are not on this server's disk. It comes back with them, "
                     "or can be killed.",
                     x->id);
}

void answer_in_transition(struct api_exchange *x, const struct life *l)
{
        answer_error(x, 409, NULL, "Sandbox \"%s\" %s", x->id, sandbox_state_deed(l->sandbox.state));
}

void answer_start_error(struct api_exchange *x, const struct err *err)
{
        struct start_error e = start_error_of(err);

        answer_error(x, e.status, e.code, "%s%s%s", e.before, err->msg, e.after);
}

void answer_copy_error(struct api_exchange *x, const struct err *err)
{
        switch (err->kind) {
        case ERR_LIMIT:
        case ERR_NO_SPACE: answer_error(x, 507, NULL, "%s", err->msg); break;
        case ERR_GONE: answer_no_sandbox(x); break;
        default: answer_err(x, err); break;
        }
}

void answer_too_many(struct api_exchange *x, const struct err *err)
{
        answer_error(x, 429, NULL, "%s", err->msg);
}

void answer_preflight(struct api_exchange *x)
{
        const struct http_header all[] = {
                {"Access-Control-Allow-Origin", "*"},
                {"Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE, OPTIONS"},
                {"Access-Control-Allow-Headers", allowed_headers},
                {"Access-Control-Max-Age", "600"},
                {NULL, NULL},
        };

        http_reply(x->rq, 204, NULL, all, NULL, 0);
}

void answer_wrong_method(struct api_exchange *x, const char *allow)
{
        const struct http_header more[] = {{"Allow", allow}, {NULL, NULL}};
        const struct api_refusal why = {.status = 405, .code = 405, .more = more};
        char msg[] = "Method not allowed";

        answer_refusal(x, &why, msg);
}
