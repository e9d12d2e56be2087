#include "agent/exchange/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/exchange/exchange.h"
#include "base/buf.h"
#include "envd_client/envd_process.h"
#include "http/client.h"
#include "model/credential/credential.h"
#include "model/ids.h"
#include "wire/json/json_values.h"

#define ANSWER_MAX (32u << 20)
#define SANDBOX_JSON_MAX (8u << 20) /* of an answer of a sandbox that is read as JSON */
#define INTERPRETER_PORT 49999
#define ANSWER_SMALL (16u << 10) /* is not reserved */
#define ANSWER_STEP (64u << 10)

struct ask {
        struct list node; /* in x->asks, or in agent->orphans */
        struct agent *agent;
        struct exchange *x; /* NULL: it has ended */
        char key[EXCHANGE_KEY_MAX];
        struct http_call *call; /* owned */
        struct buf answer;
        void (*on_answer)(struct exchange *x, const struct ask_answer *a);
        void (*on_orphan)(struct agent *agent, const char *key, const struct ask_answer *a);
        void (*on_failure)(struct exchange *x, const struct err *why);
        bool is_too_large, is_crowded, wants_bytes;
        bool is_foreign; /* the answer comes out of a sandbox */
        size_t reserved; /* of the exchange's budget for what is kept in memory */
};

static void ask_free(struct ask *a)
{
        list_remove(&a->node);
        a->call = http_call_free(a->call);
        buf_done(&a->answer);
        free(a);
}

void ask_cancel_all(struct exchange *x)
{
        LIST_EACH (at, &x->asks) {
                struct ask *a = LIST_ENTRY(at, struct ask, node);

                if (!a->on_orphan) {
                        ask_free(a);
                        continue;
                }
                list_remove(&a->node);
                list_push_back(&a->agent->orphans, &a->node);
                a->x = NULL;
        }
}

void ask_orphans_done(struct agent *a)
{
        LIST_EACH (at, &a->orphans)
                ask_free(LIST_ENTRY(at, struct ask, node));
}

/* ---- the answer ---- */

void ask_answer_failure(struct exchange *x, const struct err *why)
{
        if (why->kind == ERR_TOO_LARGE || why->kind == ERR_LIMIT)
                tell_err(x, why);
        else if (why->kind == ERR_TIMEOUT)
                tell_error(x, 504, NULL, "the server did not answer in time. The request may have been carried out");
        else
                tell_error(x, 503, NULL, "the server is restarting, try again (%s)", why->msg);
}

static void ask_failed(struct ask *a, const struct err *why)
{
        void (*on_failure)(struct exchange *, const struct err *) = a->on_failure ? a->on_failure : ask_answer_failure;
        struct exchange *x = a->x;
        struct err copy = *why;

        ask_free(a);
        if (x)
                on_failure(x, &copy);
}

/* What is no answer of the file system to the request, but a lack of something. */
static bool is_lack(const char *message)
{
        static const char *const ends[] = {"out of memory", "cannot allocate memory", "too many open files",
                                           "too many open files in system", "input/output error"};
        struct str text = str_of(message);

        for (size_t i = 0; i < ARRAY_LEN(ends); i++)
                if (text.n >= strlen(ends[i]) && strcasecmp(text.p + text.n - strlen(ends[i]), ends[i]) == 0)
                        return true;
        return false;
}

void ask_pass_error(struct exchange *x, const struct ask_answer *a)
{
        const char *message = json_string_value(json_object_get(a->body, "message"));
        unsigned status = a->status < 400 ? 502 : a->status;

        if (status == 499) /* Connect's "canceled" */
                status = 503;
        if (status == 401 && a->is_foreign)
                status = 400;
        if (status == 500 && a->is_foreign)
                status = message && is_lack(message) ? 503 : 409;
        tell_error(x, status, NULL, "%s", message ? message : "the request could not be carried out");
}

static size_t ask_on_data(struct http_call *call, struct str piece, void *arg)
{
        struct ask *a = arg;

        (void)call;
        a->is_too_large = a->is_too_large || piece.n > buf_room(&a->answer);
        while (!a->is_too_large && !a->is_crowded && ANSWER_SMALL + a->reserved < a->answer.len + piece.n) {
                a->is_crowded = a->x && !exchange_try_reserve(a->x, ANSWER_STEP);
                a->reserved += ANSWER_STEP;
        }
        if (!a->is_too_large && !a->is_crowded)
                a->is_crowded = buf_add(&a->answer, piece.p, piece.n) < 0;
        return piece.n;
}

static struct str answer_text(const struct ask *a)
{
        return (struct str){a->answer.len ? (const char *)buf_at(&a->answer) : "", a->answer.len};
}

static bool answer_is_json(const struct ask *a)
{
        return a->answer.len > 0 && !(a->wants_bytes && http_call_head(a->call)->status == 200);
}

/* It is there, and can be looked at. */
static int answer_check(const struct ask *a, struct err *err)
{
        if (a->is_crowded)
                return err_set(err, ERR_LIMIT, "too many large answers at a time, try again");
        if (a->is_too_large ||
            (a->is_foreign && answer_is_json(a) && json_values_most(answer_text(a)) > JSON_VALUES_MAX))
                return err_set(
                        err, ERR_TOO_LARGE,
                        "too large for one answer in JSON; Accept: application/octet-stream gives the bytes of a file");
        return 0;
}

static void ask_on_end(struct http_call *call, const struct err *why, void *arg)
{
        struct ask *a = arg;
        struct ask_answer answer;
        struct err err = {0};

        (void)call;
        if (!why && answer_check(a, &err) < 0)
                why = &err;
        if (why) {
                ask_failed(a, why);
                return;
        }
        answer = (struct ask_answer){
                .status = http_call_head(a->call)->status,
                .head = http_call_head(a->call),
                .text = answer_text(a),
                .is_foreign = a->is_foreign,
        };
        if (answer_is_json(a))
                answer.body = json_loadb(answer.text.p, answer.text.n, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
        list_remove(&a->node); /* the handler may answer, and the exchange be gone */
        if (a->x)
                a->on_answer(a->x, &answer);
        else
                a->on_orphan(a->agent, a->key, &answer);
        if (a->answer.is_secret)
                credential_blank(answer.body);
        json_decref(answer.body);
        ask_free(a);
}

/* ---- the request ---- */

void ask_headers_of(const struct exchange *x, uint16_t port, struct ask_headers *ret)
{
        *ret = (struct ask_headers){0};
        (void)snprintf(ret->port, sizeof(ret->port), "%u", port);
        ret->list[ret->count++] = (struct http_header){"E2b-Sandbox-Id", x->sandbox.id};
        ret->list[ret->count++] = (struct http_header){"E2b-Sandbox-Port", ret->port};
        if ((port == ENVD_PORT || port == INTERPRETER_PORT) && x->sandbox.token[0]) /* which asks envd with it */
                ret->list[ret->count++] = (struct http_header){"X-Access-Token", x->sandbox.token};
        if (port != ENVD_PORT && x->sandbox.traffic[0])
                ret->list[ret->count++] = (struct http_header){"E2b-Traffic-Access-Token", x->sandbox.traffic};
}

static struct http_client *ask_client(const struct agent *a, enum ask_to to)
{
        switch (to) {
        case ASK_API_PATIENT:
        case ASK_PORT: return a->edge_patient;
        case ASK_CREDENTIALS: return a->credentials;
        case ASK_API:
        case ASK_DAEMON: break;
        }
        return a->edge;
}

static int ask_start(struct ask *a, const struct ask_options *o, struct err *err)
{
        struct agent *agent = a->x->agent;
        AUTO_FREE char *text = o->body ? json_dumps(o->body, JSON_COMPACT) : NULL, *auth = NULL;
        struct ask_headers h = {0};
        int r;

        if (o->body && !text)
                return err_set(err, ERR_LIMIT, "out of memory");
        if (o->to == ASK_DAEMON || o->to == ASK_PORT)
                ask_headers_of(a->x, o->to == ASK_DAEMON ? ENVD_PORT : o->port, &h);
        else
                h.list[h.count++] = (struct http_header){"X-API-Key", a->x->key};
        if (o->user) {
                auth = envd_basic_auth(o->user);
                if (!auth)
                        return err_set(err, ERR_LIMIT, "out of memory");
                h.list[h.count++] = (struct http_header){"Authorization", auth};
        }
        if (o->header)
                h.list[h.count++] = *o->header;
        h.list[h.count++] = (struct http_header){"Accept", "application/json"};
        r = http_call_start(ask_client(agent, o->to),
                            &(struct http_call_options){.method = o->method,
                                                        .target = o->target,
                                                        .headers = h.list,
                                                        .content_type = text ? "application/json" : o->bytes_type,
                                                        .body = text ? str_of(text) : o->bytes,
                                                        .is_secret = o->is_secret,
                                                        .on_data = ask_on_data,
                                                        .on_end = ask_on_end,
                                                        .arg = a},
                            &a->call, err);
        if (text && o->is_secret)
                explicit_bzero(text, strlen(text));
        return r;
}

void ask(struct exchange *x, const struct ask_options *o)
{
        struct ask *a = calloc(1, sizeof(*a));
        struct err err = {0};

        if (!a) {
                tell_no_memory(x);
                return;
        }
        *a = (struct ask){.agent = x->agent,
                          .x = x,
                          .on_orphan = o->on_orphan,
                          .on_answer = o->on_answer,
                          .on_failure = o->on_failure,
                          .wants_bytes = o->wants_bytes,
                          .is_foreign = o->to == ASK_DAEMON || o->to == ASK_PORT};
        a->answer.is_secret = o->is_secret;
        a->answer.max = o->max ? o->max : a->is_foreign && !o->wants_bytes ? SANDBOX_JSON_MAX : ANSWER_MAX;
        memcpy(a->key, x->key, sizeof(a->key));
        list_push_back(&x->asks, &a->node);
        if (ask_start(a, o, &err) < 0)
                ask_failed(a, &err);
}
