/* GET /sandboxes; GET, DELETE /sandboxes/{sandbox_id}. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/exchange/ask.h"
#include "agent/exchange/exchange.h"
#include "agent/api/handlers.h"
#include "agent/request/list_query.h"
#include "agent/request/services.h"
#include "agent/exchange/sandbox_find.h"
#include "agent/api/show.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/json_field.h"
#include "wire/url.h"

/* ---- list: those that run or are paused, then those that have ended ---- */

struct list_job {
        struct list_query query;
        json_t *list; /* owned: of this page */
};

static void list_job_free(struct exchange *x)
{
        struct list_job *l = x->job;

        list_query_done(&l->query);
        json_decref(l->list);
        free(l);
}

/* next: where the page behind this one begins. */
static void list_tell(struct exchange *x, const char *prefix, struct str next, bool has_next)
{
        struct list_job *l = x->job;
        json_t *obj = json_with_ref(json_object(), "sandboxes", l->list);

        if (has_next)
                obj = json_with(obj, "next_cursor", json_sprintf("%s%.*s", prefix, STR_ARG(next)));
        tell_json(x, 200, obj);
}

static void list_take(struct list_job *l, const json_t *all, json_t *(*show)(const json_t *one))
{
        const json_t *one;
        size_t i;

        json_array_foreach (all, i, one)
                (void)json_array_append_new(l->list, show(one));
}

static void list_stopped_answered(struct exchange *x, const struct ask_answer *a)
{
        struct list_job *l = x->job;
        struct str next;

        if (a->status != 200) {
                ask_pass_error(x, a);
                return;
        }
        list_take(l, a->body, agent_show_ended);
        next = http1_value(a->head, "X-Next-Token");
        list_tell(x, LIST_CURSOR_STOPPED, next, next.n > 0);
}

static void list_ask(struct exchange *x, const char *path, size_t limit, struct buf *query,
                     void (*on_answer)(struct exchange *x, const struct ask_answer *a))
{
        AUTO_BUF struct buf target = BUF_INIT(LIST_QUERY_MAX + 64);

        if (buf_addf(&target, "%s?limit=%zu", path, limit) < 0 ||
            (query->len && buf_add(&target, buf_at(query), query->len) < 0) || !buf_cstr(&target))
                tell_no_memory(x);
        else
                ask(x, &(struct ask_options){
                               .to = ASK_API, .method = "GET", .target = buf_cstr(&target), .on_answer = on_answer});
}

static void list_ask_stopped(struct exchange *x)
{
        struct list_job *l = x->job;

        list_ask(x, "/sandglass/sandboxes/ended", l->query.limit - json_array_size(l->list), &l->query.stopped,
                 list_stopped_answered);
}

static void list_live_answered(struct exchange *x, const struct ask_answer *a)
{
        struct list_job *l = x->job;
        struct str next;

        if (a->status != 200) {
                ask_pass_error(x, a);
                return;
        }
        list_take(l, a->body, agent_show_sandbox);
        next = http1_value(a->head, "X-Next-Token");
        if (next.n || !l->query.wants_stopped)
                list_tell(x, "", next, next.n > 0);
        else if (json_array_size(l->list) < l->query.limit)
                list_ask_stopped(x);
        else
                list_tell(x, LIST_CURSOR_STOPPED, STR(""), true);
}

void agent_list_sandboxes(struct exchange *x)
{
        struct list_job *l = calloc(1, sizeof(*l));
        struct err err = {0};

        if (!l) {
                tell_no_memory(x);
                return;
        }
        x->job = l;
        x->job_free = list_job_free;
        l->list = json_array();
        if (!l->list)
                tell_no_memory(x);
        else if (list_query_decode(x->rq->url.query, &l->query, &err) < 0)
                tell_err(x, &err);
        else if (l->query.wants_live)
                list_ask(x, "/v2/sandboxes", l->query.limit, &l->query.live, list_live_answered);
        else
                list_ask_stopped(x);
}

/* ---- one ---- */

#define TOKEN_FILE_MAX 4096u

struct reading { /* of the services of a sandbox, with their tokens */
        struct services services;
        size_t next; /* whose token is read */
};

static void reading_free(struct exchange *x)
{
        free(x->job);
}

static void sandbox_tell(struct exchange *x, const struct services *services)
{
        json_t *obj = agent_show_sandbox(x->sandbox.shown);

        obj = services ? services_show(obj, services, x->sandbox.id, x->sandbox.domain)
                       : json_with(obj, "ports", json_object());
        if (obj)
                tell_json(x, 200, obj);
        else
                tell_no_memory(x);
}

static void tokens_read_next(struct exchange *x);

static void token_read(struct exchange *x, const struct ask_answer *a)
{
        struct reading *r = x->job;
        struct service *s = &r->services.all[r->next++];
        struct str text = str_trim(a->text);

        for (size_t i = 0; i < text.n; i++)
                if (text.p[i] <= ' ' || text.p[i] >= 0x7f)
                        text.n = 0;
        if (a->status == 200 && text.n < sizeof(s->token))
                memcpy(s->token, text.p, text.n);
        tokens_read_next(x);
}

static void token_failed(struct exchange *x, const struct err *why)
{
        struct reading *r = x->job;

        if (why->kind != ERR_TOO_LARGE) {
                ask_answer_failure(x, why);
                return;
        }
        r->next++; /* no token of ours */
        tokens_read_next(x);
}

static void tokens_read_next(struct exchange *x)
{
        struct reading *r = x->job;
        AUTO_BUF struct buf target = BUF_INIT(8192);

        while (r->next < r->services.count && !r->services.all[r->next].token_file[0])
                r->next++;
        if (r->next == r->services.count) {
                sandbox_tell(x, &r->services);
                return;
        }
        if (buf_addc(&target, "/files?username=root&path=") < 0 ||
            url_encode(str_of(r->services.all[r->next].token_file), &target) < 0 || !buf_cstr(&target))
                tell_no_memory(x);
        else
                ask(x, &(struct ask_options){.to = ASK_DAEMON,
                                             .method = "GET",
                                             .target = buf_cstr(&target),
                                             .max = TOKEN_FILE_MAX,
                                             .wants_bytes = true,
                                             .on_answer = token_read,
                                             .on_failure = token_failed});
}

static void services_failed(struct exchange *x, const struct err *why)
{
        if (why->kind == ERR_TOO_LARGE)
                sandbox_tell(x, NULL);
        else
                ask_answer_failure(x, why);
}

static void services_read(struct exchange *x, const struct ask_answer *a)
{
        struct reading *r = x->job;
        struct err err = {0};

        if (a->status != 200 || services_decode(a->body, &r->services, &err) < 0)
                sandbox_tell(x, NULL);
        else
                tokens_read_next(x);
}

/* A sandbox that is paused stays so: then nothing is read from it. */
static void sandbox_show(struct exchange *x)
{
        struct reading *r;

        if (strcmp(agent_show_status(x->sandbox.shown), "running") != 0) {
                sandbox_tell(x, NULL);
                return;
        }
        r = calloc(1, sizeof(*r));
        if (!r) {
                tell_no_memory(x);
                return;
        }
        x->job = r;
        x->job_free = reading_free;
        ask(x, &(struct ask_options){.to = ASK_DAEMON,
                                     .method = "GET",
                                     .target = "/files?username=root&path=" SERVICES_FILE,
                                     .max = SERVICES_FILE_MAX,
                                     .on_answer = services_read,
                                     .on_failure = services_failed});
}

static void sandbox_end_shown(struct exchange *x, const struct ask_answer *a)
{
        const char *reason = json_string_value(json_object_get(a->body, "reason"));

        if (a->status == 200 && reason && strcmp(reason, "deleted") != 0)
                tell_json(x, 200, agent_show_ended(a->body));
        else if (a->status == 200 || a->status == 404)
                tell_no_sandbox(x);
        else
                ask_pass_error(x, a);
}

static void sandbox_is_missing(struct exchange *x)
{
        char target[EXCHANGE_ID_MAX + 40];

        (void)snprintf(target, sizeof(target), "/sandglass/sandboxes/%s/end", x->id);
        ask(x, &(struct ask_options){.to = ASK_API, .method = "GET", .target = target, .on_answer = sandbox_end_shown});
}

void agent_get_sandbox(struct exchange *x)
{
        sandbox_find_or(x, sandbox_show, sandbox_is_missing);
}

static void sandbox_deleted(struct exchange *x, const struct ask_answer *a)
{
        if (a->status == 204)
                tell_empty(x, 204);
        else if (a->status == 404)
                tell_no_sandbox(x);
        else
                ask_pass_error(x, a);
}

void agent_delete_sandbox(struct exchange *x)
{
        char target[EXCHANGE_ID_MAX + 16];

        (void)snprintf(target, sizeof(target), "/sandboxes/%s", x->id);
        ask(x, &(struct ask_options){
                       .to = ASK_API_PATIENT, .method = "DELETE", .target = target, .on_answer = sandbox_deleted});
}
