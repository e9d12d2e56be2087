#include "image/image_config.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "image/image_manifest.h"
#include "image/image_ref.h"
#include "image/json_document.h"

#define ENV_MAX 4096   /* variables */
#define WORDS_MAX 4096 /* of an entry point or a command */
#define NS_PER_MS 1000000

static const char *text_or_empty(const json_t *obj, const char *name)
{
        const char *text = json_string_value(json_object_get(obj, name));

        return text ? text : "";
}

/* A list of texts; null and absent are the empty list. */
static int take_list(const json_t *obj, const char *name, size_t most, json_t **ret, struct err *err)
{
        json_t *list = json_object_get(obj, name), *item;
        size_t i;

        if (!list || json_is_null(list)) {
                *ret = json_array();
                return *ret ? 0 : err_sys(err, -ENOMEM, "configuration");
        }
        if (!json_is_array(list) || json_array_size(list) > most)
                return err_set(err, ERR_INVALID, "configuration: %s is not a list of up to %zu texts", name, most);
        json_array_foreach (list, i, item)
                if (!json_is_string(item))
                        return err_set(err, ERR_INVALID, "configuration: %s is not a list of texts", name);
        *ret = json_incref(list);
        return 0;
}

/* "K=V"; what has no name or no '=' sets nothing and is left out. */
static int take_env(const json_t *config, json_t **ret, struct err *err)
{
        json_t *given = NULL, *env, *item;
        int r = take_list(config, "Env", ENV_MAX, &given, err);
        size_t i;

        if (r < 0)
                return r;
        env = json_array();
        json_array_foreach (given, i, item) {
                const char *text = json_string_value(item), *equals = strchr(text, '=');

                if (equals && equals != text && json_array_append(env, item) < 0)
                        r = -ENOMEM;
        }
        json_decref(given);
        if (!env || r < 0) {
                json_decref(env);
                return err_sys(err, -ENOMEM, "configuration");
        }
        *ret = env;
        return 0;
}

static json_int_t ms_of(const json_t *obj, const char *name)
{
        json_int_t ns = json_integer_value(json_object_get(obj, name));

        return ns > 0 ? ns / NS_PER_MS : 0;
}

/* *ret stays NULL when there is none, or when it says "NONE". */
static int take_healthcheck(const json_t *config, json_t **ret, struct err *err)
{
        const json_t *check = json_object_get(config, "Healthcheck");
        json_int_t retries = json_integer_value(json_object_get(check, "Retries"));
        json_t *test = NULL;
        const char *kind;
        int r;

        if (!json_is_object(check))
                return 0;
        r = take_list(check, "Test", WORDS_MAX, &test, err);
        if (r < 0)
                return r;
        kind = json_string_value(json_array_get(test, 0));
        if (kind && (strcmp(kind, "CMD") == 0 || strcmp(kind, "CMD-SHELL") == 0) && json_array_size(test) > 1) {
                *ret = json_pack("{s:O,s:I,s:I,s:I,s:I}", "test", test, "interval_ms", ms_of(check, "Interval"),
                                 "timeout_ms", ms_of(check, "Timeout"), "start_period_ms", ms_of(check, "StartPeriod"),
                                 "retries", retries > 0 ? retries : (json_int_t)0);
                if (!*ret)
                        r = err_sys(err, -ENOMEM, "configuration");
        }
        json_decref(test);
        return r;
}

static int take_runtime(const json_t *config, json_t **ret, struct err *err)
{
        json_t *env = NULL, *entrypoint = NULL, *cmd = NULL, *check = NULL, *made = NULL;
        int r;

        r = take_env(config, &env, err);
        if (r == 0)
                r = take_list(config, "Entrypoint", WORDS_MAX, &entrypoint, err);
        if (r == 0)
                r = take_list(config, "Cmd", WORDS_MAX, &cmd, err);
        if (r == 0)
                r = take_healthcheck(config, &check, err);
        if (r == 0) {
                made = json_pack("{s:O,s:s,s:s,s:O,s:O}", "env", env, "user", text_or_empty(config, "User"), "workdir",
                                 text_or_empty(config, "WorkingDir"), "entrypoint", entrypoint, "cmd", cmd);
                if (!made || (check && json_object_set(made, "healthcheck", check) < 0)) {
                        json_decref(made);
                        made = NULL;
                        r = err_sys(err, -ENOMEM, "configuration");
                }
        }
        json_decref(env);
        json_decref(entrypoint);
        json_decref(cmd);
        json_decref(check);
        *ret = made;
        return r;
}

static int take_diff_ids(const json_t *obj, size_t layer_count, json_t **ret, struct err *err)
{
        json_t *ids = json_object_get(json_object_get(obj, "rootfs"), "diff_ids"), *id;
        size_t i;

        if (json_array_size(ids) != layer_count)
                return err_set(err, ERR_INVALID, "configuration: names %zu layers, the manifest %zu",
                               json_array_size(ids), layer_count);
        json_array_foreach (ids, i, id)
                if (!image_digest_is_valid(str_of(json_string_value(id))))
                        return err_set(err, ERR_INVALID, "configuration: diff_ids: is not a list of digests");
        *ret = ids ? json_incref(ids) : json_array();
        return *ret ? 0 : err_sys(err, -ENOMEM, "configuration");
}

static int check_platform(const json_t *obj, const char *architecture, struct err *err)
{
        const char *os = text_or_empty(obj, "os"), *made_for = text_or_empty(obj, "architecture");

        if ((os[0] && strcmp(os, "linux") != 0) || (made_for[0] && strcmp(made_for, architecture) != 0))
                return err_set(err, ERR_INVALID, "the image is made for %.20s/%.20s, and this machine is linux/%s", os,
                               made_for, architecture);
        return 0;
}

int image_config_decode(struct str text, const char *architecture, size_t layer_count, struct image_config *ret,
                        struct err *err)
{
        struct image_config c = {0};
        json_t *obj = NULL, *config;
        int r;

        r = json_document_parse(text, IMAGE_CONFIG_BYTES_MAX, "configuration", &obj, err);
        if (r < 0)
                return r;
        config = json_object_get(obj, "config");
        r = check_platform(obj, architecture, err);
        if (r == 0 && config && !json_is_object(config) && !json_is_null(config))
                r = err_set(err, ERR_INVALID, "configuration: config is not an object");
        if (r == 0)
                r = take_runtime(config, &c.runtime, err);
        if (r == 0)
                r = take_diff_ids(obj, layer_count, &c.diff_ids, err);
        json_decref(obj);
        if (r < 0) {
                image_config_done(&c);
                return r;
        }
        *ret = c;
        return 0;
}

void image_config_done(struct image_config *c)
{
        json_decref(c->runtime);
        json_decref(c->diff_ids);
        *c = (struct image_config){0};
}
