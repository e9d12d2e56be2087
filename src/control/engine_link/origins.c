#include "control/engine_link/origins.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "model/json_field.h"
#include "model/request/network.h"
#include "model/plan.h"

#define VERSION 1
#define CPUS_MAX 1024
#define MB_MAX (1024 * 1024 * 1024)

json_t *origin_encode(const struct tokens *tokens, const struct sandbox *s, const json_t *layers)
{
        json_t *o =
                json_pack("{s:i,s:s,s:s,s:I,s:I,s:I,s:b,s:i,s:b,s:b,s:b,s:I}", "version", VERSION, "id", s->id,
                          "template", s->template_id, "cpus", (json_int_t)s->cpu_count, "memory_mb",
                          (json_int_t)s->memory_mb, "disk_mb", (json_int_t)s->disk_mb, "secured", s->is_secured,
                          "internet", (int)s->internet, "auto_pause", s->auto_pause, "auto_pause_memory",
                          s->auto_pause_memory, "auto_resume", s->auto_resume, "timeout_s", (json_int_t)s->timeout_s);
        const char *known = token_of_checkpoint(tokens, s->checkpoint);
        char token[TOKEN_MAX];

        if (s->is_secured) {
                token_envd(tokens, s->id, token);
                o = json_with_text(o, "token", known ? known : token);
        }
        o = json_with_text(o, "alias", s->alias);
        o = json_with_text(o, "user", s->default_user);
        o = json_with_text(o, "workdir", s->default_workdir);
        o = json_with_ref(o, "metadata", s->metadata);
        o = json_with_ref(o, "network", s->network);
        o = json_with_ref(o, "env", s->env);
        return json_with_ref(o, "layers", (json_t *)(size_t)layers);
}

/* ---- and back ---- */

static int origin_take_u32(const json_t *o, const char *key, int64_t max, uint32_t *ret, struct err *err)
{
        int64_t n = -1;
        int r = json_field_int(o, key, 0, max, &n, err);

        if (r < 0 || n < 0)
                return r < 0 ? r : err_set(err, ERR_INVALID, "field '%s' is missing", key);
        *ret = (uint32_t)n;
        return 0;
}

static int origin_take_text(const json_t *o, const char *key, char **ret, struct err *err)
{
        const char *text = NULL;
        int r = json_field_text(o, key, &text, err);

        if (r < 0 || !text)
                return r;
        *ret = strdup(text);
        return *ret ? 0 : err_sys(err, -ENOMEM, "%s", key);
}

static int origin_take_object(const json_t *o, const char *key, json_t **ret, struct err *err)
{
        json_t *v = json_object_get(o, key);

        if (v && !json_is_object(v))
                return err_set(err, ERR_INVALID, "field '%s' must be an object", key);
        *ret = json_incref(v);
        return 0;
}

static int origin_take_layers(const json_t *o, json_t **ret, struct err *err)
{
        json_t *list = json_object_get(o, "layers"), *v;
        size_t i;

        if (json_array_size(list) < 1 || json_array_size(list) > PLAN_LAYERS_MAX)
                return err_set(err, ERR_INVALID, "field 'layers' must be a list of layers");
        json_array_foreach (list, i, v)
                if (!json_is_string(v) || !layer_id_is_valid((struct str){json_string_value(v), json_string_length(v)}))
                        return err_set(err, ERR_INVALID, "field 'layers' must be a list of layers");
        *ret = json_incref(list);
        return 0;
}

static int origin_take_ids(const json_t *o, struct sandbox *s, struct err *err)
{
        const char *id = NULL, *template = NULL;
        int r = json_field_text(o, "id", &id, err);

        if (r == 0)
                r = json_field_text(o, "template", &template, err);
        if (r < 0)
                return r;
        if (!id || !sandbox_id_is_valid(str_of(id)))
                return err_set(err, ERR_INVALID, "field 'id' must be a sandbox id");
        if (!template || !template[0] || strlen(template) >= sizeof(s->template_id))
                return err_set(err, ERR_INVALID, "field 'template' must be a template id");
        memcpy(s->id, id, strlen(id) + 1);
        memcpy(s->template_id, template, strlen(template) + 1);
        return 0;
}

static int origin_take_numbers(const json_t *o, struct sandbox *s, struct err *err)
{
        uint32_t version = 0, internet = 0;
        int r;

        if ((r = origin_take_u32(o, "version", INT32_MAX, &version, err)) < 0 ||
            (r = origin_take_u32(o, "cpus", CPUS_MAX, &s->cpu_count, err)) < 0 ||
            (r = origin_take_u32(o, "memory_mb", MB_MAX, &s->memory_mb, err)) < 0 ||
            (r = origin_take_u32(o, "disk_mb", MB_MAX, &s->disk_mb, err)) < 0 ||
            (r = origin_take_u32(o, "internet", CHOICE_YES, &internet, err)) < 0 ||
            (r = origin_take_u32(o, "timeout_s", INT32_MAX, &s->timeout_s, err)) < 0)
                return r;
        if (version != VERSION)
                return err_set(err, ERR_INVALID, "the format is %u, and this server knows %d", version, VERSION);
        s->internet = (enum choice)internet;
        s->is_secured = json_is_true(json_object_get(o, "secured"));
        s->auto_pause = json_is_true(json_object_get(o, "auto_pause"));
        s->auto_pause_memory = json_is_true(json_object_get(o, "auto_pause_memory"));
        s->auto_resume = json_is_true(json_object_get(o, "auto_resume"));
        return 0;
}

static int origin_take_token(const json_t *o, struct origin *ret, struct err *err)
{
        const char *token = NULL;
        int r = json_field_text(o, "token", &token, err);

        if (r < 0)
                return r;
        if (ret->sandbox.is_secured && (!token || !token[0] || strlen(token) >= sizeof(ret->token)))
                return err_set(err, ERR_INVALID, "field 'token' must be a token");
        if (ret->sandbox.is_secured)
                memcpy(ret->token, token, strlen(token) + 1);
        return 0;
}

static int origin_check_network(const struct sandbox *s, struct err *err)
{
        struct network n = {0};
        int r = network_decode(s->network, s->internet, &n, err);

        network_done(&n);
        return r;
}

int origin_decode(const json_t *o, struct origin *ret, struct err *err)
{
        struct origin x = {0};
        struct sandbox *s = &x.sandbox;
        int r;

        if (!json_is_object(o))
                return err_set(err, ERR_INVALID, "not an object");
        if ((r = origin_take_ids(o, s, err)) < 0 || (r = origin_take_numbers(o, s, err)) < 0 ||
            (r = origin_take_token(o, &x, err)) < 0 || (r = origin_take_text(o, "alias", &s->alias, err)) < 0 ||
            (r = origin_take_text(o, "user", &s->default_user, err)) < 0 ||
            (r = origin_take_text(o, "workdir", &s->default_workdir, err)) < 0 ||
            (r = origin_take_object(o, "metadata", &s->metadata, err)) < 0 ||
            (r = origin_take_object(o, "network", &s->network, err)) < 0 ||
            (r = origin_take_object(o, "env", &s->env, err)) < 0 || (r = origin_take_layers(o, &s->layers, err)) < 0 ||
            (r = origin_check_network(s, err)) < 0) {
                sandbox_done(s);
                return r;
        }
        *ret = x;
        return 0;
}
