#include "control/engine_link/plans.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "control/access/tokens.h"
#include "model/conf.h"
#include "model/json_field.h"
#include "model/request/network.h"
#include "model/plan.h"
#include "model/sandbox.h"

/* What envd is told at its start (model/envd_init.h): all of that, or NULL when memory is short; never without the token. */
static json_t *plan_make_init(const struct conf *conf, const struct tokens *tokens, const struct sandbox *s)
{
        json_t *init = json_pack("{s:s,s:s,s:I}", "sandboxID", s->id, "templateID", s->template_id, "memoryMB",
                                 (json_int_t)s->memory_mb);
        char token[TOKEN_MAX];

        if (s->is_secured) {
                token_envd(tokens, s->id, token);
                init = json_with_text(init, "accessToken", token);
        }
        init = json_with_ref(init, "envVars", s->env);
        init = json_with_ref(init, "hostEnvVars", conf->sandbox_env);
        init = json_with_text(init, "defaultUser", s->default_user);
        return json_with_text(init, "defaultWorkdir", s->default_workdir);
}

/* Borrowed from s. */
static int plan_list_layers(const struct sandbox *s, struct plan_create *plan, struct err *err)
{
        json_t *v;
        size_t i;

        if (json_array_size(s->layers) < 1 || json_array_size(s->layers) > PLAN_LAYERS_MAX)
                return err_set(err, ERR_INTERNAL, "sandbox %s has %zu layers", s->id, json_array_size(s->layers));
        json_array_foreach (s->layers, i, v)
                plan->layers[i] = (char *)json_string_value(v);
        plan->layer_count = i;
        return 0;
}

static int plan_encode_checked(struct plan_create *plan, json_t **ret, struct err *err)
{
        if (plan->init && json_dumpb(plan->init, NULL, 0, JSON_COMPACT) > PLAN_INIT_MAX)
                return err_set(err, ERR_INVALID, "validation error: field 'envVars' is too large");
        *ret = plan->init ? plan_encode(plan) : NULL;
        return *ret ? 0 : err_sys(err, -ENOMEM, "create sandbox");
}

int plan_for(const struct conf *conf, const struct tokens *tokens, const struct sandbox *s, bool with_memory,
             json_t **ret, struct err *err)
{
        struct plan_create plan = {
                /* all borrowed: plan_done() is not for this one */
                .limits = {.memory_bytes = (uint64_t)s->memory_mb << 20,
                           .cpu_count = s->cpu_count,
                           .pids = conf->default_pids},
                .is_upper_kept = s->upper_kept,
        };
        struct network network = {0};
        char derived[TOKEN_MAX];
        const char *before;
        int r;

        memcpy(plan.id, s->id, sizeof(plan.id));
        if (with_memory) {
                memcpy(plan.checkpoint, s->checkpoint, sizeof(plan.checkpoint));
                token_envd(tokens, s->image_of, derived);
                before = token_of_checkpoint(tokens, s->checkpoint);
                plan.token_before = s->image_secured ? (char *)(before ? before : derived) : NULL;
        }
        r = plan_list_layers(s, &plan, err);
        if (r == 0)
                r = network_decode(s->network, s->internet, &network, err);
        if (r < 0)
                return r;
        plan.net = network.plan;
        plan.init = plan_make_init(conf, tokens, s);
        r = plan_encode_checked(&plan, ret, err);
        json_decref(plan.init);
        network_done(&network);
        return r;
}
