/* What is done to a sandbox by its id: kill, time limit, pause, resume, roll back. */
#include <string.h>

#include "client/sandbox/rest.h"
#include "client/sandbox/box.h"

#define EXPLAIN_MS 5000u

static int act(struct sg_client *client, const char *id, const struct rest_request *a, const struct sg_call *call,
               struct sg_error *err)
{
        int r = check_sandbox_id(id, err);

        if (r < 0) {
                json_decref(a->body);
                return r;
        }
        return rest_run(client, a, call, NULL, err);
}

int sg_sandbox_kill(struct sg_client *client, const char *id, const struct sg_call *call, struct sg_error *err)
{
        return act(client, id, &(struct rest_request){.method = "DELETE", .target = "/sandboxes/%s", .name = id}, call,
                   err);
}

int sg_sandbox_set_timeout(struct sg_client *client, const char *id, uint32_t timeout_s, const struct sg_call *call,
                           struct sg_error *err)
{
        json_t *body = json_pack("{s:I}", "timeout", (json_int_t)timeout_s);

        if (!body)
                return error_no_memory(err);
        return act(
                client, id,
                &(struct rest_request){
                        .method = "POST", .target = "/sandboxes/%s/timeout", .name = id, .body = body, .repeats = true},
                call, err);
}

int sg_sandbox_pause(struct sg_client *client, const char *id, bool files_only, const struct sg_call *call,
                     struct sg_error *err)
{
        json_t *body = json_pack("{s:b}", "memory", !files_only);

        if (!body)
                return error_no_memory(err);
        return act(client, id,
                   &(struct rest_request){.method = "POST",
                                          .target = "/sandboxes/%s/pause",
                                          .name = id,
                                          .body = body,
                                          .usual_ms = LONG_WORK_MS},
                   call, err);
}

int sg_sandbox_resume(struct sg_client *client, const char *id, uint32_t timeout_s, const struct sg_call *call,
                      struct sg_error *err)
{
        struct sg_sandbox *box;
        int r = sg_sandbox_connect(client, id, timeout_s, call, &box, err);

        if (r == 0)
                sg_sandbox_free(box);
        return r;
}

/* ---- calls that not every server has ---- */

static bool has_snapshot(struct sg_client *client, const char *sandbox_id, const char *snapshot_id,
                         const struct sg_call *call)
{
        struct sg_snapshot_list *list = NULL;
        bool has = false;

        if (sg_snapshot_list(client, sandbox_id, call, &list, NULL) < 0)
                return true;
        for (size_t i = 0; i < list->count; i++)
                has = has || strcmp(list->items[i].id, snapshot_id) == 0;
        sg_free(list);
        return has;
}

/* A server answers 404 where it has no such call, and also where there is no such sandbox or snapshot. */
static bool is_missing_call(struct sg_client *client, const char *id, const char *snapshot_id,
                            const struct sg_call *call, const struct sg_error *why)
{
        struct sg_info *info = NULL;

        if (why->kind == SG_UNSUPPORTED)
                return true;
        if (why->http_status != 404 || sg_sandbox_get(client, id, call, &info, NULL) < 0)
                return false;
        sg_free(info);
        return !snapshot_id || has_snapshot(client, id, snapshot_id, call);
}

int explain_missing_call(struct sg_client *client, const char *id, const char *snapshot_id, const char *what,
                         const struct sg_call *call, const struct sg_error *why, struct sg_error *err)
{
        const struct sg_call brief = {.timeout_ms = EXPLAIN_MS, .cancel = call ? call->cancel : NULL};
        int r;

        if (!is_missing_call(client, id, snapshot_id, &brief, why))
                return error_pass(err, why);
        r = error_set(err, SG_UNSUPPORTED, "the server at %s has no call to %s a sandbox", client->api_url, what);
        if (err)
                err->http_status = why->http_status;
        return r;
}

int sg_sandbox_rollback(struct sg_client *client, const char *id, const char *snapshot_id, const struct sg_call *call,
                        struct sg_error *err)
{
        struct sg_error why = {0};
        json_t *body;
        int r = check_text(snapshot_id, "the snapshot's id", 512, err);

        if (r < 0)
                return r;
        body = json_pack("{s:s}", "snapshotID", snapshot_id);
        if (!body)
                return error_no_memory(err);
        r = act(client, id,
                &(struct rest_request){.method = "POST",
                                       .target = "/sandboxes/%s/rollback",
                                       .name = id,
                                       .body = body,
                                       .usual_ms = LONG_WORK_MS},
                call, &why);
        return r < 0 ? explain_missing_call(client, id, snapshot_id, "roll back", call, &why, err) : 0;
}

/* ---- why a request to a sandbox failed ---- */

int box_explain(struct sg_sandbox *box, struct limit *l, int r, struct sg_error *err)
{
        const struct sg_call call = {.timeout_ms = EXPLAIN_MS, .cancel = l->call->cancel};
        struct sg_error why = {0};
        struct sg_info *now = NULL;

        if (!err || r == 0 || err->kind != SG_UNAVAILABLE)
                return r;
        if (sg_sandbox_get(box->client, box->id, &call, &now, &why) == 0) {
                if (now->state == SG_STATE_PAUSED)
                        r = error_set(err, SG_CONFLICT, "sandbox %s is paused", box->id);
                sg_free(now);
                return r;
        }
        return why.kind == SG_NOT_FOUND ? error_set(err, SG_NOT_FOUND, "sandbox %s is gone", box->id) : r;
}
