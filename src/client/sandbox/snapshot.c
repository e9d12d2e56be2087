/* Snapshots: made, listed, deleted. */
#include <string.h>

#include "client/block.h"
#include "client/sandbox/rest.h"
#include "client/sandbox/box.h"

#define NAME_MAX_BYTES 512u
#define LIST_MAX 100000u

static int read_snapshot(const json_t *obj, void *block, struct sg_snapshot *ret, struct sg_error *err)
{
        const char *id = json_string_value(json_object_get(obj, "snapshotID"));
        const char *name = json_string_value(json_array_get(json_object_get(obj, "names"), 0));

        if (!id || !id[0])
                return error_set(err, SG_INTERNAL, "the server's answer does not describe a snapshot");
        *ret = (struct sg_snapshot){.id = block_text(block, str_of(id)), .name = block_text(block, str_of(name))};
        return ret->id && ret->name ? 0 : error_no_memory(err);
}

int sg_snapshot_create(struct sg_client *client, const char *sandbox_id, const char *name, const struct sg_call *call,
                       struct sg_snapshot **ret, struct sg_error *err)
{
        AUTO(block_free_p) struct sg_snapshot *made = NULL;
        json_t *body, *got = NULL;
        int r = check_sandbox_id(sandbox_id, err);

        if (r == 0 && name)
                r = check_text(name, "the snapshot's name", NAME_MAX_BYTES, err);
        if (r < 0)
                return r;
        body = name ? json_pack("{s:s}", "name", name) : json_object();
        if (!body)
                return error_no_memory(err);
        r = rest_run(client,
                     &(struct rest_request){.method = "POST",
                                            .target = "/sandboxes/%s/snapshots",
                                            .name = sandbox_id,
                                            .body = body,
                                            .usual_ms = LONG_WORK_MS},
                     call, &got, err);
        if (r < 0)
                return r;
        made = block_create(sizeof(*made));
        r = made ? read_snapshot(got, made, made, err) : error_no_memory(err);
        json_decref(got);
        if (r == 0)
                *ret = TAKE_PTR(made);
        return r;
}

static int read_list(const json_t *array, struct sg_snapshot_list **ret, struct sg_error *err)
{
        AUTO(block_free_p) struct sg_snapshot_list *list = block_create(sizeof(*list));
        size_t n = json_array_size(array);
        struct sg_snapshot *items = list ? block_add(list, (n + 1) * sizeof(*items)) : NULL;
        int r = items ? 0 : error_no_memory(err);

        for (size_t i = 0; r == 0 && i < n; i++)
                r = read_snapshot(json_array_get(array, i), list, &items[i], err);
        if (r < 0)
                return r;
        *list = (struct sg_snapshot_list){.count = n, .items = items};
        *ret = TAKE_PTR(list);
        return 0;
}

int sg_snapshot_list(struct sg_client *client, const char *sandbox_id, const struct sg_call *call,
                     struct sg_snapshot_list **ret, struct sg_error *err)
{
        AUTO_BUF struct buf query = BUF_INIT(REST_TARGET_MAX);
        json_t *all = NULL;
        struct limit l;
        int r = sandbox_id ? check_sandbox_id(sandbox_id, err) : 0;

        if (r == 0)
                r = limit_begin(&l, call, client->timeout_ms, err);
        if (r < 0)
                return r;
        if (buf_addf(&query, "/snapshots?limit=100%s%s", sandbox_id ? "&sandboxID=" : "",
                     sandbox_id ? sandbox_id : "") < 0 ||
            !buf_cstr(&query))
                return error_no_memory(err);
        r = rest_list(client, buf_cstr(&query), LIST_MAX, &l, &all, err);
        if (r == 0)
                r = read_list(all, ret, err);
        json_decref(all);
        return r;
}

int sg_snapshot_delete(struct sg_client *client, const char *snapshot_id, const struct sg_call *call,
                       struct sg_error *err)
{
        int r = check_text(snapshot_id, "the snapshot's id", NAME_MAX_BYTES, err);

        return r < 0 ? r
                     : rest_run(client,
                                &(struct rest_request){
                                        .method = "DELETE", .target = "/templates/%s", .name = snapshot_id},
                                call, NULL, err);
}
