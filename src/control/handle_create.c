/* POST /sandboxes and POST /v2/sandboxes. */
#include "control/handlers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "control/control.h"
#include "control/exchange.h"
#include "control/show.h"
#include "control/tokens.h"
#include "model/conf.h"
#include "model/create_request.h"
#include "model/json_field.h"

/* What the sandbox's own daemon is told (model/envd_init.h): all of it, or NULL, never one without its token. */
static json_t *make_init(const struct control *c, const struct create_request *want, const struct template *t,
                         const struct sandbox *s)
{
        json_t *init = json_pack("{s:s,s:s,s:I}", "sandboxID", s->id, "templateID", s->template_id, "memoryMB",
                                 (json_int_t)t->memory_mb);
        char token[TOKEN_MAX];

        if (s->is_secured) {
                token_envd(c->seed, s->id, token);
                init = json_with_text(init, "accessToken", token);
        }
        init = json_with_ref(init, "envVars", want->env);
        init = json_with_text(init, "defaultUser", t->default_user);
        return json_with_text(init, "defaultWorkdir", t->default_workdir);
}

static int make_plan(const struct control *c, const struct create_request *want, const struct template *t,
                     const struct sandbox *s, json_t **ret, struct err *err)
{
        struct plan_create plan = {
                .layer_count = t->layer_count,
                .limits = {.memory_bytes = (uint64_t)t->memory_mb << 20,
                           .cpu_count = t->cpu_count,
                           .pids = c->conf->default_pids},
                .net = want->network.plan, /* borrowed, as the layers: plan_done() is not for this one */
                .init = make_init(c, want, t, s),
        };

        memcpy(plan.id, s->id, sizeof(plan.id));
        memcpy(plan.layers, t->layers, sizeof(plan.layers));
        if (plan.init && json_dumpb(plan.init, NULL, 0, JSON_COMPACT) > PLAN_INIT_MAX) {
                json_decref(plan.init);
                return err_set(err, ERR_INVALID, "validation error: field 'envVars' is too large");
        }
        *ret = plan.init ? plan_encode(&plan) : NULL;
        json_decref(plan.init);
        return *ret ? 0 : err_sys(err, -ENOMEM, "create sandbox");
}

static int make_sandbox(const struct exchange *x, struct create_request *want, const struct template *t,
                        struct sandbox *ret, struct err *err)
{
        *ret = (struct sandbox){
                .team = x->team->no,
                .cpu_count = t->cpu_count,
                .memory_mb = t->memory_mb,
                .disk_mb = t->disk_mb,
                .is_secured = want->is_secured,
                .internet = want->internet,
                .alias = strdup(t->alias),
                .metadata = json_incref(want->metadata),
                .network = json_incref(want->network.shown),
                .mcp = json_incref(want->mcp),
        };
        sandbox_id_make(ret->id);
        memcpy(ret->template_id, t->id, sizeof(ret->template_id));
        return ret->alias ? 0 : err_sys(err, -ENOMEM, "create sandbox");
}

static void refuse_start(struct exchange *x, const struct err *err)
{
        switch (err->kind) {
        case ERR_LIMIT:
        case ERR_UNAVAILABLE:
                answer_error(x, 503, "sandbox_capacity_unavailable", "Failed to place sandbox: %s", err->msg);
                break;
        case ERR_TIMEOUT:
                answer_error(x, 504, "sandbox_placement_timeout", "Failed to place sandbox: %s", err->msg);
                break;
        default: answer_error(x, 500, "sandbox_create_failed", "Failed to create sandbox: %s", err->msg); break;
        }
}

static void on_started(struct life *l, const struct err *err, void *arg)
{
        struct exchange *x = arg;

        if (!err) {
                answer_json(x, 201, show_sandbox(x->control, &l->sandbox));
                return;
        }
        x->on_over = NULL;
        refuse_start(x, err);
}

/* Without the whole answer the client does not know the id, and nobody else does. */
static void on_over(struct exchange *x, bool is_complete)
{
        if (!is_complete)
                lives_abandon(&x->control->lives, x->id);
}

static int start(struct exchange *x, struct create_request *want, const struct template *t, struct err *err)
{
        struct sandbox s = {0};
        json_t *plan = NULL;
        int r;

        r = make_sandbox(x, want, t, &s, err);
        if (r == 0)
                r = make_plan(x->control, want, t, &s, &plan, err);
        if (r == 0) {
                memcpy(x->id, s.id, sizeof(s.id));
                x->on_over = on_over;
                r = lives_start(&x->control->lives, &s, plan, (uint32_t)want->timeout_s, on_started, x, err);
                if (r < 0)
                        x->on_over = NULL;
        }
        sandbox_done(&s);
        return r;
}

static void create(struct exchange *x, enum create_version version)
{
        const struct conf *conf = x->control->conf;
        AUTO(create_request_done) struct create_request want = {0};
        const struct template *t = NULL;
        struct err err = {0};
        int r;

        r = create_request_decode(x->body, version, conf->timeout_max_s, &want, &err);
        if (r == 0)
                r = templates_find(&x->control->templates, &want.template, x->team->slug, &t, &err);
        if (r < 0) {
                answer_err(x, &err);
        } else if (x->team->sandbox_count >= conf->sandboxes_max) {
                answer_error(x, 429, NULL,
                             "you have reached the maximum number of concurrent E2B sandboxes (%u). If you need more, "
                             "raise sandboxes_max in the server's configuration.",
                             conf->sandboxes_max);
        } else if (start(x, &want, t, &err) < 0) {
                if (err.kind == ERR_INVALID)
                        answer_err(x, &err);
                else
                        refuse_start(x, &err);
        }
}

void handle_create_v1(struct exchange *x)
{
        create(x, CREATE_V1);
}

void handle_create_v2(struct exchange *x)
{
        create(x, CREATE_V2);
}
