#include "envd/rpc/settings.h"

#include <errno.h>

#include "base/clock.h"
#include "envd/rpc/field.h"

/* Fields that make sense for virtual machines only. */
static const char *const unsupported[] = {"hyperloopIP", "caBundle", "volumeMounts"};

int settings_init(struct settings *s)
{
        *s = (struct settings){.default_user = str_dup(STR("root")), .vars = json_object()};
        if (s->default_user && s->vars)
                return 0;
        settings_done(s);
        return -ENOMEM;
}

void settings_done(struct settings *s)
{
        free(s->token);
        free(s->default_user);
        free(s->default_workdir);
        free(s->sandbox_id);
        free(s->template_id);
        json_decref(s->vars);
        json_decref(s->host_vars);
        *s = (struct settings){0};
}

struct init_request {
        const char *token, *user, *workdir, *sandbox_id, *template_id, *timestamp;
        json_t *vars, *host_vars;
        int64_t at_ns;
        uint32_t memory_mb;
};

static int settings_check_vars(json_t *vars, const char *field, struct fault *f)
{
        const char *name;
        json_t *v;

        json_object_foreach (vars, name, v) {
                if (!name[0] || strchr(name, '='))
                        return fault_set(f, CONNECT_INVALID_ARGUMENT, "field %s: '%s' is no variable name", field,
                                         name);
        }
        return 0;
}

static int settings_decode(const json_t *obj, struct init_request *in, struct fault *f)
{
        if (!json_is_object(obj))
                return fault_set(f, CONNECT_INVALID_ARGUMENT, "an object expected");
        for (size_t i = 0; i < ARRAY_LEN(unsupported); i++)
                if (field_get(obj, unsupported[i]))
                        return fault_set(f, CONNECT_INVALID_ARGUMENT, "field %s is not supported", unsupported[i]);
        if (field_text(obj, "accessToken", &in->token, f) < 0 || field_text(obj, "defaultUser", &in->user, f) < 0 ||
            field_text(obj, "defaultWorkdir", &in->workdir, f) < 0 ||
            field_text(obj, "sandboxID", &in->sandbox_id, f) < 0 ||
            field_text(obj, "templateID", &in->template_id, f) < 0 ||
            field_text(obj, "timestamp", &in->timestamp, f) < 0 || field_u32(obj, "memoryMB", &in->memory_mb, f) < 0 ||
            field_text_map(obj, "envVars", &in->vars, f) < 0 || settings_check_vars(in->vars, "envVars", f) < 0 ||
            field_text_map(obj, "hostEnvVars", &in->host_vars, f) < 0 ||
            settings_check_vars(in->host_vars, "hostEnvVars", f) < 0)
                return -1;
        if (in->token && !in->token[0])
                return fault_set(f, CONNECT_INVALID_ARGUMENT, "field accessToken is empty");
        if (in->timestamp && clock_parse(str_of(in->timestamp), &in->at_ns) < 0)
                return fault_set(f, CONNECT_INVALID_ARGUMENT, "field timestamp: an RFC 3339 time expected");
        return 0;
}

/* Replace *field by a copy of text unless that is NULL or empty. */
static int settings_take_text(char **field, const char *text)
{
        char *copy;

        if (!text || !text[0])
                return 0;
        copy = str_dup(str_of(text));
        if (!copy)
                return -ENOMEM;
        free(*field);
        *field = copy;
        return 0;
}

int settings_apply(struct settings *s, const json_t *obj, struct fault *f)
{
        AUTO_FREE char *token = NULL;
        struct init_request in = {0};

        if (settings_decode(obj, &in, f) < 0)
                return -1;
        if (in.timestamp && in.at_ns < s->newest_ns)
                return 0; /* a newer call came before this one */
        if (settings_take_text(&token, in.token) < 0 || settings_take_text(&s->default_user, in.user) < 0 ||
            settings_take_text(&s->default_workdir, in.workdir) < 0 ||
            settings_take_text(&s->sandbox_id, in.sandbox_id) < 0 ||
            settings_take_text(&s->template_id, in.template_id) < 0)
                return fault_set(f, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
        free(s->token);
        s->token = TAKE_PTR(token);
        if (in.vars) {
                json_decref(s->vars);
                s->vars = json_incref(in.vars);
        }
        json_decref(s->host_vars);
        s->host_vars = in.host_vars && json_object_size(in.host_vars) > 0 ? json_incref(in.host_vars) : NULL;
        if (in.memory_mb)
                s->memory_mb = in.memory_mb;
        if (in.timestamp)
                s->newest_ns = in.at_ns;
        return 0;
}

json_t *settings_env(const struct settings *s)
{
        json_t *env = s->host_vars ? json_copy(s->host_vars) : json_object();

        if (!env || json_object_update(env, s->vars) < 0 ||
            json_object_set_new(env, "E2B_SANDBOX", json_string("true")) < 0 ||
            (s->sandbox_id && json_object_set_new(env, "E2B_SANDBOX_ID", json_string(s->sandbox_id)) < 0) ||
            (s->template_id && json_object_set_new(env, "E2B_TEMPLATE_ID", json_string(s->template_id)) < 0)) {
                json_decref(env);
                return NULL;
        }
        return env;
}
