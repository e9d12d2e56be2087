#include "cli/code/interpreter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/err.h"

#define MINUTE_MS 60000u
#define DELETE_MS 10000u

/* ---- open, close ---- */

/* Only the answer of `connect` has the traffic token.  A running sandbox is not changed by it: connect lengthens lives only. */
static int find_traffic_token(struct interpreter *it, struct api_sandbox *s, struct err *err)
{
        json_t *got = NULL;
        const char *token;
        int r = 0;

        if (!s->is_private || s->traffic_token[0])
                return 0;
        r = api_act(it->api,
                    &(struct api_act){
                            .prefix = "", .id = s->id, .action = "connect", .body = json_pack("{s:i}", "timeout", 0)},
                    &got, err);
        token = json_string_value(json_object_get(got, "trafficAccessToken"));
        if (r == 0 && (!token || strlen(token) >= sizeof(s->traffic_token)))
                r = err_set(err, ERR_INTERNAL, "the server's answer has no traffic token");
        if (r == 0)
                (void)snprintf(s->traffic_token, sizeof(s->traffic_token), "%s", token);
        json_decref(got);
        return r;
}

int interpreter_open(struct cli_api *api, const struct api_sandbox *sandbox, int signals, struct interpreter *ret,
                     struct err *err)
{
        struct api_sandbox known = *sandbox;
        struct sg_error why = {0};
        int r = 0;

        *ret = (struct interpreter){.api = api, .sandbox = sandbox, .signals = signals};
        if (sg_cancel_create_fd(signals, &ret->cancel, &why) < 0)
                r = api_error(api, &why, err);
        if (r == 0)
                r = find_traffic_token(ret, &known, err);
        if (r == 0)
                r = api_box(api, &known, &ret->box, err);
        if (r < 0)
                interpreter_close(ret);
        return r;
}

void interpreter_close(struct interpreter *it)
{
        sg_sandbox_free(it->box);
        sg_cancel_free(it->cancel);
        it->box = NULL;
        it->cancel = NULL;
}

int interpreter_take_signal(struct interpreter *it)
{
        struct signalfd_siginfo info;

        return read(it->signals, &info, sizeof(info)) == (ssize_t)sizeof(info) ? (int)info.ssi_signo : 0;
}

/* What the library says; where the sandbox does not run any more, that says more. */
static int interpreter_error(struct interpreter *it, const struct sg_error *why, struct err *err)
{
        int r;

        if (why->kind == SG_CANCELLED) {
                r = err_set(err, ERR_INTERRUPTED, "interrupted");
                err->sys = EINTR;
                return r;
        }
        r = api_error(it->api, why, err);
        if (why->kind != SG_TIMEOUT && why->kind != SG_INVALID && why->system_error != ECONNREFUSED)
                (void)api_explain_loss(it->api, it->sandbox, "the run", err);
        return r;
}

/* ---- runs ---- */

struct run {
        const struct run_request *rq;
        int r;          /* negative: on_event wants no more, */
        struct err err; /* and why */
};

static enum run_event_type type_of(enum sg_code_event_type type)
{
        static const enum run_event_type types[] = {
                [SG_CODE_OTHER] = RUN_OTHER,         [SG_CODE_COUNT] = RUN_COUNT,   [SG_CODE_STDOUT] = RUN_STDOUT,
                [SG_CODE_STDERR] = RUN_STDERR,       [SG_CODE_RESULT] = RUN_RESULT, [SG_CODE_ERROR] = RUN_ERROR,
                [SG_CODE_KEEPALIVE] = RUN_KEEPALIVE, [SG_CODE_END] = RUN_END,
        };

        return types[type];
}

static struct str str_of_text(struct sg_text t)
{
        return (struct str){t.p, t.n};
}

static int on_event(const struct sg_code_event *event, void *arg)
{
        struct run *run = arg;
        struct run_event e = {.type = type_of(event->type),
                              .line = str_of_text(event->json),
                              .count = event->count,
                              .is_main = event->is_main,
                              .text = str_of_text(event->text),
                              .name = str_of_text(event->name),
                              .value = str_of_text(event->value),
                              .traceback = str_of_text(event->traceback),
                              .extra = str_of_text(event->extra)};

        for (size_t i = 0; i < RUN_FIELD_COUNT; i++)
                e.fields[i] = str_of_text(event->fields[i]);
        run->r = run->rq->on_event(&e, run->rq->arg, &run->err);
        return run->r;
}

static int env_pairs(const json_t *env, struct sg_pair **ret, struct err *err)
{
        struct sg_pair *pairs = calloc(json_object_size(env) + 1, sizeof(*pairs));
        const char *name;
        json_t *value;
        size_t n = 0;

        if (!pairs)
                return err_set(err, ERR_LIMIT, "out of memory");
        json_object_foreach ((json_t *)(uintptr_t)env, name, value)
                pairs[n++] = (struct sg_pair){name, json_string_value(value)};
        *ret = pairs;
        return 0;
}

int interpreter_run(struct interpreter *it, const struct run_request *rq, struct err *err)
{
        const struct sg_call call = {.timeout_ms = rq->timeout_s ? rq->timeout_s * 1000u : SG_NO_TIMEOUT,
                                     .cancel = it->cancel,
                                     .on_tick = rq->on_minute,
                                     .tick_arg = rq->arg,
                                     .tick_ms = MINUTE_MS};
        AUTO_FREE struct sg_pair *env = NULL;
        struct run run = {.rq = rq};
        struct sg_error why = {0};
        int r = env_pairs(rq->env, &env, err);

        if (r < 0)
                return r;
        r = sg_run_code(it->box, rq->code.p, rq->code.n,
                        &(struct sg_code_options){.language = rq->language,
                                                  .context = rq->context,
                                                  .env = env,
                                                  .on_event = on_event,
                                                  .arg = &run},
                        &call, NULL, &why);
        if (r == 0)
                return 0;
        if (run.r < 0) {
                *err = run.err;
                return run.r;
        }
        return interpreter_error(it, &why, err);
}

/* ---- contexts ---- */

static struct sg_call patient(const struct interpreter *it)
{
        return (struct sg_call){.timeout_ms = SG_NO_TIMEOUT, .cancel = it->cancel}; /* a kernel is started for it */
}

int interpreter_context_create(struct interpreter *it, const char *language, const char *cwd, char **ret_id,
                               struct err *err)
{
        const struct sg_call call = patient(it);
        struct sg_context *made = NULL;
        struct sg_error why = {0};

        if (sg_context_create(it->box, language, cwd, &call, &made, &why) < 0)
                return interpreter_error(it, &why, err);
        *ret_id = strdup(made->id);
        sg_free(made);
        return *ret_id ? 0 : err_set(err, ERR_LIMIT, "out of memory");
}

int interpreter_context_delete(struct interpreter *it, const char *id, struct err *err)
{
        const struct sg_call call = {.timeout_ms = DELETE_MS};
        struct sg_error why = {0};

        return sg_context_delete(it->box, id, &call, &why) < 0 ? interpreter_error(it, &why, err) : 0;
}

int interpreter_context_language(struct interpreter *it, const char *id, char **ret_language, struct err *err)
{
        const struct sg_call call = patient(it);
        struct sg_context_list *list = NULL;
        struct sg_error why = {0};
        int r;

        if (sg_context_list(it->box, &call, &list, &why) < 0)
                return interpreter_error(it, &why, err);
        r = err_set(err, ERR_NOT_FOUND, "Context %s not found", id);
        for (size_t i = 0; i < list->count; i++) {
                if (strcmp(list->items[i].id, id) != 0)
                        continue;
                *ret_language = strdup(list->items[i].language);
                r = *ret_language ? 0 : err_set(err, ERR_LIMIT, "out of memory");
        }
        sg_free(list);
        return r;
}
