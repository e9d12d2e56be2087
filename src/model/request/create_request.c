#include "model/request/create_request.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "model/json_field.h"
#include "model/lifetime.h"

void create_request_done(struct create_request *c)
{
        network_done(&c->network);
        json_decref(c->metadata);
        json_decref(c->env);
        json_decref(c->mcp);
        *c = (struct create_request){0};
}

static int decode_template(const json_t *body, struct create_request *c, struct err *err)
{
        const char *text = NULL;
        struct err why = {0};
        int r;

        r = json_field_text(body, "templateID", &text, err);
        if (r < 0)
                return r;
        if (!text || !text[0])
                return err_set(err, ERR_INVALID, "validation error: field 'templateID' is required");
        if (template_ref_parse(str_of(text), &c->template, &why) < 0)
                return err_set(err, ERR_INVALID, "Invalid template reference: %s", why.msg);
        return 0;
}

/* Ours: other clients leave both to the template. */
static int decode_size(const json_t *body, struct create_request *c, struct err *err)
{
        int64_t cpus = 0, memory_mb = 0;

        if (json_field_int(body, "cpuCount", 1, UINT16_MAX, &cpus, err) < 0 ||
            json_field_int(body, "memoryMB", 1, UINT32_MAX, &memory_mb, err) < 0)
                return -EINVAL;
        c->cpu_count = (uint32_t)cpus;
        c->memory_mb = (uint32_t)memory_mb;
        return 0;
}

static int decode_timeout(const json_t *body, uint32_t max_s, struct create_request *c, struct err *err)
{
        int r;

        r = json_field_int(body, "timeout", INT32_MIN, INT32_MAX, &c->timeout_s, err);
        if (r < 0)
                return r;
        if (c->timeout_s <= 0)
                return err_set(err, ERR_INVALID, "Timeout must be greater than 0");
        return lifetime_check_max(c->timeout_s, max_s, err);
}

/* What happens to the sandbox when its time is up, and whether traffic resumes it then. */
static int decode_lifecycle(const json_t *body, struct create_request *c, struct err *err)
{
        json_t *resume = NULL;

        c->auto_pause_memory = true;
        if (json_field_bool(body, "autoPause", &c->auto_pause, err) < 0 ||
            json_field_bool(body, "autoPauseMemory", &c->auto_pause_memory, err) < 0 ||
            json_field_object(body, "autoResume", &resume, err) < 0 ||
            json_field_bool(resume, "enabled", &c->auto_resume, err) < 0)
                return -EINVAL;
        if (!c->auto_pause_memory && !c->auto_pause)
                return err_set(err, ERR_INVALID, "autoPauseMemory=false only applies when autoPause is true.");
        if (!c->auto_pause_memory && c->auto_resume)
                return err_set(err, ERR_INVALID,
                               "autoPauseMemory=false (filesystem-only auto-pause) cannot be combined with autoResume: "
                               "waking on traffic needs the memory.");
        return 0;
}

static int create_check_unsupported(const json_t *body, struct err *err)
{
        json_t *mounts = NULL, *iam = NULL;

        if (json_field_array(body, "volumeMounts", &mounts, err) < 0 || json_field_object(body, "iam", &iam, err) < 0)
                return -EINVAL;
        if (json_array_size(mounts) > 0)
                return err_set(err, ERR_INVALID, "volumeMounts is not supported by this server version");
        if (json_object_size(iam) > 0)
                return err_set(err, ERR_INVALID, "iam is not supported by this server version");
        return 0;
}

/* The map copied, or NULL for an absent or empty one. */
static int decode_map(const json_t *body, const char *name, size_t bytes_max, json_t **ret, struct err *err)
{
        json_t *map = NULL, *v;
        const char *key;
        size_t bytes = 0;
        int r;

        r = json_field_text_map(body, name, &map, err);
        if (r < 0 || json_object_size(map) == 0)
                return r;
        json_object_foreach (map, key, v)
                bytes += strlen(key) + json_string_length(v);
        if (bytes > bytes_max)
                return err_set(err, ERR_INVALID, "validation error: field '%s' is larger than %zu bytes", name,
                               bytes_max);
        *ret = json_deep_copy(map);
        return *ret ? 0 : err_sys(err, -ENOMEM, "%s", name);
}

static int decode_env(const json_t *body, struct create_request *c, struct err *err)
{
        const char *key;
        json_t *v;
        int r;

        r = decode_map(body, "envVars", CREATE_ENV_MAX, &c->env, err);
        if (r < 0)
                return r;
        json_object_foreach (c->env, key, v)
                if (!key[0] || strchr(key, '='))
                        return err_set(err, ERR_INVALID,
                                       "validation error: field 'envVars' has the name '%s': names are not empty and "
                                       "have no '='",
                                       key);
        return 0;
}

static int decode_mcp(const json_t *body, struct create_request *c, struct err *err)
{
        json_t *mcp = NULL;
        int r;

        r = json_field_object(body, "mcp", &mcp, err);
        if (r < 0 || !mcp)
                return r;
        if (json_dumpb(mcp, NULL, 0, JSON_COMPACT) > CREATE_MCP_MAX)
                return err_set(err, ERR_INVALID, "validation error: field 'mcp' is larger than %u bytes",
                               CREATE_MCP_MAX);
        c->mcp = json_deep_copy(mcp);
        return c->mcp ? 0 : err_sys(err, -ENOMEM, "mcp");
}

static int decode_network(const json_t *body, enum create_version version, struct create_request *c, struct err *err)
{
        json_t *config = NULL;
        bool internet = true;
        int r;

        if (json_field_bool(body, "allow_internet_access", &internet, err) < 0 ||
            json_field_object(body, "network", &config, err) < 0)
                return -EINVAL;
        if (json_field_is_set(body, "allow_internet_access"))
                c->internet = internet ? CHOICE_YES : CHOICE_NO;
        if (version == CREATE_V1) {
                r = json_field_bool(body, "secure", &c->is_secured, err);
                if (r < 0)
                        return r;
        }
        r = network_decode(config, c->internet, &c->network, err);
        if (r < 0)
                return r;
        if (!c->network.is_public && !c->is_secured)
                return err_set(err, ERR_INVALID,
                               "network.allowPublicTraffic=false needs a secured sandbox: set 'secure' to true");
        return 0;
}

int create_request_decode(const json_t *body, enum create_version version, uint32_t timeout_max_s,
                          struct create_request *ret, struct err *err)
{
        struct create_request c = {
                .timeout_s = version == CREATE_V1 ? LIFETIME_CREATE_V1_S : LIFETIME_DEFAULT_S,
                .is_secured = version == CREATE_V2,
        };
        int r;

        if (!json_is_object(body))
                return err_set(err, ERR_INVALID, "validation error: the body must be an object");
        if (c.timeout_s > timeout_max_s)
                c.timeout_s = timeout_max_s; /* our own default is not the client's fault */
        if ((r = decode_template(body, &c, err)) < 0 || (r = decode_timeout(body, timeout_max_s, &c, err)) < 0 ||
            (r = decode_size(body, &c, err)) < 0 || (r = decode_lifecycle(body, &c, err)) < 0 ||
            (r = decode_map(body, "metadata", CREATE_METADATA_MAX, &c.metadata, err)) < 0 ||
            (r = decode_env(body, &c, err)) < 0 || (r = decode_network(body, version, &c, err)) < 0 ||
            (r = create_check_unsupported(body, err)) < 0 || (r = decode_mcp(body, &c, err)) < 0) {
                create_request_done(&c);
                return r;
        }
        *ret = c;
        return 0;
}
