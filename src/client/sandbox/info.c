/* What the server knows about sandboxes: one of them, and lists. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "client/block.h"
#include "client/sandbox/rest.h"
#include "client/sandbox/box.h"
#include "wire/url.h"

#define LIST_MAX 100000u

/* Out of an object, into the block. */
struct reader {
        const json_t *obj;
        void *block;
        bool has_failed; /* no memory */
};

static const char *read_text(struct reader *rd, const char *key)
{
        const json_t *value = json_object_get(rd->obj, key);
        const char *text;

        if (!json_is_string(value))
                return "";
        text = block_text(rd->block, (struct str){json_string_value(value), json_string_length(value)});
        rd->has_failed |= !text;
        return text;
}

static int64_t read_time(const struct reader *rd, const char *key)
{
        const char *text = json_string_value(json_object_get(rd->obj, key));
        int64_t ns;

        return text && clock_parse(str_of(text), &ns) == 0 ? ns / 1000000 : 0;
}

static uint32_t read_number(const struct reader *rd, const char *key)
{
        json_int_t n = json_integer_value(json_object_get(rd->obj, key));

        return n > 0 && n <= UINT32_MAX ? (uint32_t)n : 0;
}

static const struct sg_pair *read_pairs(struct reader *rd, const char *key)
{
        json_t *obj = json_object_get(rd->obj, key), *value;
        struct sg_pair *pairs = block_add(rd->block, (json_object_size(obj) + 1) * sizeof(*pairs));
        const char *name;
        size_t n = 0;

        rd->has_failed |= !pairs;
        if (!pairs)
                return NULL;
        json_object_foreach (obj, name, value) {
                if (!json_is_string(value))
                        continue;
                pairs[n] = (struct sg_pair){block_text(rd->block, str_of(name)),
                                            block_text(rd->block, str_of(json_string_value(value)))};
                rd->has_failed |= !pairs[n].name || !pairs[n].value;
                n++;
        }
        return pairs;
}

static enum sg_state read_state(const struct reader *rd)
{
        const char *state = json_string_value(json_object_get(rd->obj, "state"));

        return !state                          ? SG_STATE_OTHER
               : strcmp(state, "running") == 0 ? SG_STATE_RUNNING
               : strcmp(state, "paused") == 0  ? SG_STATE_PAUSED
                                               : SG_STATE_OTHER;
}

static const char *read_json(struct reader *rd)
{
        AUTO_FREE char *text = json_dumps(rd->obj, JSON_COMPACT);
        const char *copy = text ? block_text(rd->block, str_of(text)) : NULL;

        rd->has_failed |= !copy;
        return copy;
}

static int read_info(const json_t *obj, void *block, struct sg_info *ret, struct sg_error *err)
{
        struct reader rd = {.obj = obj, .block = block};
        const char *id = json_string_value(json_object_get(obj, "sandboxID"));

        if (!id || !sandbox_id_is_sound(id))
                return error_set(err, SG_INTERNAL, "the server's answer does not describe a sandbox");
        *ret = (struct sg_info){.id = read_text(&rd, "sandboxID"),
                                .template_id = read_text(&rd, "templateID"),
                                .alias = read_text(&rd, "alias"),
                                .domain = read_text(&rd, "domain"),
                                .envd_version = read_text(&rd, "envdVersion"),
                                .state = read_state(&rd),
                                .started_ms = read_time(&rd, "startedAt"),
                                .ends_ms = read_time(&rd, "endAt"),
                                .cpu_count = read_number(&rd, "cpuCount"),
                                .memory_mib = read_number(&rd, "memoryMB"),
                                .disk_mib = read_number(&rd, "diskSizeMB"),
                                .metadata = read_pairs(&rd, "metadata"),
                                .json = read_json(&rd)};
        return rd.has_failed ? error_no_memory(err) : 0;
}

int sg_sandbox_get(struct sg_client *client, const char *id, const struct sg_call *call, struct sg_info **ret,
                   struct sg_error *err)
{
        AUTO(block_free_p) struct sg_info *info = NULL;
        json_t *got = NULL;
        int r = check_sandbox_id(id, err);

        if (r == 0)
                r = rest_run(client, &(struct rest_request){.method = "GET", .target = "/sandboxes/%s", .name = id},
                             call, &got, err);
        if (r < 0)
                return r;
        info = block_create(sizeof(*info));
        r = info ? read_info(got, info, info, err) : error_no_memory(err);
        json_decref(got);
        if (r == 0)
                *ret = TAKE_PTR(info);
        return r;
}

/* ---- lists ---- */

/* key=value&key=value, each encoded, and then all of it again: what the servers decode. */
static int metadata_query(const struct sg_pair *metadata, struct buf *out)
{
        AUTO_BUF struct buf once = BUF_INIT(REST_TARGET_MAX), all = BUF_INIT(REST_TARGET_MAX);
        int r = 0;

        for (const struct sg_pair *m = metadata; r == 0 && m->name; m++) {
                const char *const parts[] = {m->name, m->value};

                for (size_t i = 0; r == 0 && i < 2; i++) {
                        buf_reset(&once);
                        r = url_encode(str_of(parts[i]), &once);
                        if (r == 0)
                                r = buf_addc(&all, i ? "=" : m == metadata ? "" : "&");
                        if (r == 0)
                                r = url_encode((struct str){(const char *)buf_at(&once), once.len}, &all);
                }
        }
        if (r == 0)
                r = buf_addc(out, "&metadata=");
        return r < 0 ? r : url_encode((struct str){(const char *)buf_at(&all), all.len}, out);
}

static int list_query(const struct sg_list_options *o, struct buf *out, struct sg_error *err)
{
        const char *state = o->only_running == o->only_paused ? "running,paused"
                            : o->only_running                 ? "running"
                                                              : "paused";
        int r = check_reserved(o->reserved, ARRAY_LEN(o->reserved), err);

        if (r == 0)
                r = check_pairs(o->metadata, "metadata", err);
        if (r < 0)
                return r;
        r = buf_addf(out, "/v2/sandboxes?state=%s&limit=100", state);
        if (r == 0 && o->metadata && o->metadata->name)
                r = metadata_query(o->metadata, out);
        if (r == -E2BIG)
                return error_set(err, SG_INVALID, "metadata is too long");
        return r < 0 || !buf_cstr(out) ? error_no_memory(err) : 0;
}

static int read_list(const json_t *array, struct sg_info_list **ret, struct sg_error *err)
{
        AUTO(block_free_p) struct sg_info_list *list = block_create(sizeof(*list));
        struct sg_info *items = list ? block_add(list, (json_array_size(array) + 1) * sizeof(*items)) : NULL;
        size_t n = json_array_size(array);
        int r = items ? 0 : error_no_memory(err);

        for (size_t i = 0; r == 0 && i < n; i++)
                r = read_info(json_array_get(array, i), list, &items[i], err);
        if (r < 0)
                return r;
        *list = (struct sg_info_list){.count = n, .items = items};
        *ret = TAKE_PTR(list);
        return 0;
}

int sg_sandbox_list(struct sg_client *client, const struct sg_list_options *options, const struct sg_call *call,
                    struct sg_info_list **ret, struct sg_error *err)
{
        static const struct sg_list_options usual;
        const struct sg_list_options *o = options ? options : &usual;
        AUTO_BUF struct buf query = BUF_INIT(REST_TARGET_MAX);
        json_t *all = NULL;
        struct limit l;
        int r = list_query(o, &query, err);

        if (r == 0)
                r = limit_begin(&l, call, client->timeout_ms, err);
        if (r == 0)
                r = rest_list(client, buf_cstr(&query), o->max ? o->max : LIST_MAX, &l, &all, err);
        if (r == 0)
                r = read_list(all, ret, err);
        json_decref(all);
        return r;
}
