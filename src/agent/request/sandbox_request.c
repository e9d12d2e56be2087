#include "agent/request/sandbox_request.h"

#include <errno.h>
#include <string.h>

#include "agent/request/text_field.h"
#include "base/err.h"
#include "model/json_field.h"

static int no_memory(struct err *err)
{
        return err_set(err, ERR_LIMIT, "out of memory");
}

/* ---- network ---- */

/* {"internet","allow_out","deny_out","allow_public_traffic","mask_request_host"}; or true, false: the internet. */
static int decode_network(const json_t *body, json_t *to, struct err *err)
{
        const json_t *v = json_object_get(body, "network");
        json_t *lists[2] = {NULL, NULL}, *network;
        bool internet = true, is_public = true;
        const char *mask = NULL;
        int bad = 0;

        if (!v || json_is_null(v))
                return 0;
        if (json_is_boolean(v))
                return json_object_set(to, "allow_internet_access", (json_t *)v) < 0 ? no_memory(err) : 0;
        if (!json_is_object(v))
                return err_set(err, ERR_INVALID, "validation error: field 'network' must be an object, true or false");
        if (json_field_bool(v, "internet", &internet, err) < 0 ||
            text_field_list(v, "allow_out", 1000, &lists[0], err) < 0 ||
            text_field_list(v, "deny_out", 1000, &lists[1], err) < 0 ||
            json_field_bool(v, "allow_public_traffic", &is_public, err) < 0 ||
            text_field(v, "mask_request_host", &mask, err) < 0)
                return -EINVAL;
        network = json_object();
        if (json_field_is_set(v, "internet"))
                bad |= json_object_set_new(to, "allow_internet_access", json_boolean(internet));
        if (lists[0])
                bad |= json_object_set(network, "allowOut", lists[0]);
        if (lists[1])
                bad |= json_object_set(network, "denyOut", lists[1]);
        if (json_field_is_set(v, "allow_public_traffic"))
                bad |= json_object_set_new(network, "allowPublicTraffic", json_boolean(is_public));
        if (mask)
                bad |= json_object_set_new(network, "maskRequestHost", json_string(mask));
        bad |= json_object_set_new(to, "network", network);
        return bad ? no_memory(err) : 0;
}

/* ---- create ---- */

/* A sandbox that is paused when its time is up runs again at the next request, unless the caller does not want that. */
static int decode_lifecycle(const json_t *body, json_t *to, struct err *err)
{
        bool pauses = false, resumes;

        if (json_field_bool(body, "auto_pause", &pauses, err) < 0)
                return -EINVAL;
        resumes = pauses;
        if (json_field_bool(body, "auto_resume", &resumes, err) < 0)
                return -EINVAL;
        if (json_object_set_new(to, "autoPause", json_boolean(pauses)) < 0 ||
            json_object_set_new(to, "autoResume", json_pack("{s:b}", "enabled", resumes)) < 0)
                return no_memory(err);
        return 0;
}

static int decode_numbers(const json_t *body, uint32_t timeout_max_s, json_t *to, struct err *err)
{
        int64_t timeout_s = SANDBOX_TIMEOUT_S < timeout_max_s ? SANDBOX_TIMEOUT_S : timeout_max_s, cpu = 0,
                memory_mb = 0;

        if (json_field_int(body, "timeout_s", 1, timeout_max_s, &timeout_s, err) < 0 ||
            json_field_int(body, "cpu", 1, UINT16_MAX, &cpu, err) < 0 ||
            json_field_int(body, "memory_mb", 1, UINT32_MAX, &memory_mb, err) < 0)
                return -EINVAL;
        if (json_object_set_new(to, "timeout", json_integer(timeout_s)) < 0 ||
            (cpu && json_object_set_new(to, "cpuCount", json_integer(cpu)) < 0) ||
            (memory_mb && json_object_set_new(to, "memoryMB", json_integer(memory_mb)) < 0))
                return no_memory(err);
        return 0;
}

static int decode_into(const json_t *body, uint32_t timeout_max_s, json_t *to, struct err *err)
{
        json_t *env = NULL, *metadata = NULL;
        const char *template_id = NULL;
        int r;

        if ((r = text_field(body, "template_id", &template_id, err)) < 0 || (r = text_field_env(body, &env, err)) < 0 ||
            (r = text_field_map(body, "metadata", &metadata, err)) < 0 ||
            (r = decode_numbers(body, timeout_max_s, to, err)) < 0 || (r = decode_lifecycle(body, to, err)) < 0 ||
            (r = decode_network(body, to, err)) < 0)
                return r;
        if (template_id && !template_id[0])
                return err_set(err, ERR_INVALID,
                               "validation error: field 'template_id' is empty: leave it out for the default");
        if ((template_id && json_object_set_new(to, "templateID", json_string(template_id)) < 0) ||
            (env && json_object_set(to, "envVars", env) < 0) ||
            (metadata && json_object_set(to, "metadata", metadata) < 0))
                return no_memory(err);
        return 0;
}

int sandbox_request_decode(const json_t *body, uint32_t timeout_max_s, json_t **ret, bool *ret_named, struct err *err)
{
        json_t *to = json_object();
        int r = to ? decode_into(body, timeout_max_s, to, err) : no_memory(err);

        if (r < 0) {
                json_decref(to);
                return r;
        }
        *ret_named = json_object_get(to, "templateID");
        *ret = to;
        return 0;
}

/* ---- the others ---- */

static int give(json_t *obj, json_t **ret, struct err *err)
{
        *ret = obj;
        return obj ? 0 : no_memory(err);
}

int timeout_request_decode(const json_t *body, bool is_required, json_t **ret, struct err *err)
{
        int64_t timeout_s = -1;
        int r = json_field_int(body, "timeout_s", 0, INT32_MAX, &timeout_s, err);

        if (r < 0)
                return r;
        if (timeout_s < 0 && is_required)
                return err_set(err, ERR_INVALID, "validation error: field 'timeout_s' is required");
        return give(timeout_s < 0 ? json_object() : json_pack("{s:I}", "timeout", (json_int_t)timeout_s), ret, err);
}

int pause_request_decode(const json_t *body, json_t **ret, struct err *err)
{
        bool memory = true;
        int r = json_field_bool(body, "memory", &memory, err);

        return r < 0 ? r : give(json_pack("{s:b}", "memory", memory), ret, err);
}

static int decode_timeout_in(const json_t *body, uint32_t timeout_max_s, int64_t *ret, struct err *err)
{
        *ret = SANDBOX_TIMEOUT_S < timeout_max_s ? SANDBOX_TIMEOUT_S : timeout_max_s;
        return json_field_int(body, "timeout_s", 1, timeout_max_s, ret, err);
}

int resume_request_decode(const json_t *body, uint32_t timeout_max_s, json_t **ret, struct err *err)
{
        int64_t timeout_s;
        bool memory = true;
        int r = decode_timeout_in(body, timeout_max_s, &timeout_s, err);

        if (r == 0)
                r = json_field_bool(body, "memory", &memory, err);
        return r < 0 ? r : give(json_pack("{s:I,s:b}", "timeout", (json_int_t)timeout_s, "memory", memory), ret, err);
}

int fork_request_decode(const json_t *body, uint32_t timeout_max_s, json_t **ret, struct err *err)
{
        int64_t timeout_s, count = 1;
        int r = decode_timeout_in(body, timeout_max_s, &timeout_s, err);

        if (r == 0)
                r = json_field_int(body, "count", 1, 100, &count, err);
        return r < 0 ? r
                     : give(json_pack("{s:I,s:I}", "timeout", (json_int_t)timeout_s, "count", (json_int_t)count), ret,
                            err);
}

int snapshot_request_decode(const json_t *body, json_t **ret, struct err *err)
{
        const char *name = NULL;
        int r = text_field(body, "name", &name, err);

        return r < 0 ? r : give(name ? json_pack("{s:s}", "name", name) : json_object(), ret, err);
}
