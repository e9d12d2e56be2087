/* What is done with a sandbox as a whole: timeout, pause, resume, fork, snapshots, events. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/exchange/ask.h"
#include "agent/exchange/exchange.h"
#include "agent/api/handlers.h"
#include "agent/exchange/relay.h"
#include "agent/request/sandbox_request.h"
#include "agent/exchange/sandbox_find.h"
#include "agent/api/show.h"
#include "base/err.h"
#include "model/conf.h"
#include "model/json_field.h"
#include "wire/url.h"

typedef void (*life_answered)(struct exchange *x, const struct ask_answer *a);

/* POST to the API, about the sandbox of the path.  Steals body. */
static void life_ask(struct exchange *x, const char *before, const char *what, json_t *body, life_answered on_answer)
{
        char target[EXCHANGE_ID_MAX + 64];

        (void)snprintf(target, sizeof(target), "%s/sandboxes/%s/%s", before, x->id, what);
        ask(x,
            &(struct ask_options){
                    .to = ASK_API_PATIENT, .method = "POST", .target = target, .body = body, .on_answer = on_answer});
        json_decref(body);
}

static void life_tell_error(struct exchange *x, const struct ask_answer *a)
{
        if (a->status == 404)
                tell_no_sandbox(x);
        else
                ask_pass_error(x, a);
}

static void life_show(struct exchange *x)
{
        tell_json(x, 200, agent_show_sandbox(x->sandbox.shown));
}

/* Done: the answer is the sandbox as it is now. */
static void life_done(struct exchange *x, const struct ask_answer *a)
{
        if (a->status == 204 || a->status == 200 || a->status == 201)
                sandbox_find(x, life_show);
        else
                life_tell_error(x, a);
}

void agent_set_timeout(struct exchange *x)
{
        struct err err = {0};
        json_t *body;

        if (timeout_request_decode(x->body, true, &body, &err) < 0)
                tell_err(x, &err);
        else
                life_ask(x, "", "timeout", body, life_done);
}

void agent_pause_sandbox(struct exchange *x)
{
        struct err err = {0};
        json_t *body;

        if (pause_request_decode(x->body, &body, &err) < 0)
                tell_err(x, &err);
        else
                life_ask(x, "", "pause", body, life_done);
}

/* One that runs already has more time afterwards, never less. */
void agent_resume_sandbox(struct exchange *x)
{
        struct err err = {0};
        json_t *body;

        if (resume_request_decode(x->body, x->agent->conf->timeout_max_s, &body, &err) < 0)
                tell_err(x, &err);
        else
                life_ask(x, "/v2", "connect", body, life_done);
}

/* ---- fork ---- */

static json_t *fork_show_one(const json_t *one)
{
        const json_t *sandbox = json_object_get(one, "sandbox"), *error = json_object_get(one, "error");
        const char *why = json_string_value(json_object_get(error, "message"));

        if (sandbox)
                return agent_show_sandbox(sandbox);
        return json_pack("{s:{s:s,s:s}}", "error", "code", "not_started", "message",
                         why ? why : "it could not be started");
}

static void fork_done(struct exchange *x, const struct ask_answer *a)
{
        json_t *list, *one;
        size_t i;

        if (a->status != 201) {
                life_tell_error(x, a);
                return;
        }
        list = json_array();
        json_array_foreach (a->body, i, one)
                (void)json_array_append_new(list, fork_show_one(one));
        tell_json(x, 201, json_with(json_object(), "sandboxes", list));
}

void agent_fork_sandbox(struct exchange *x)
{
        struct err err = {0};
        json_t *body;

        if (fork_request_decode(x->body, x->agent->conf->timeout_max_s, &body, &err) < 0)
                tell_err(x, &err);
        else
                life_ask(x, "", "fork", body, fork_done);
}

/* ---- snapshots ---- */

static json_t *snapshot_show(const json_t *one)
{
        return json_pack("{s:O,s:O}", "snapshot_id", json_object_get(one, "snapshotID"), "names",
                         json_object_get(one, "names"));
}

static void snapshot_done(struct exchange *x, const struct ask_answer *a)
{
        if (a->status == 201)
                tell_json(x, 201, snapshot_show(a->body));
        else
                life_tell_error(x, a);
}

void agent_make_snapshot(struct exchange *x)
{
        struct err err = {0};
        json_t *body;

        if (snapshot_request_decode(x->body, &body, &err) < 0)
                tell_err(x, &err);
        else
                life_ask(x, "", "snapshots", body, snapshot_done);
}

static void snapshots_listed(struct exchange *x, const struct ask_answer *a)
{
        struct str next;
        json_t *list, *one, *obj;
        size_t i;

        if (a->status != 200) {
                ask_pass_error(x, a);
                return;
        }
        next = http1_value(a->head, "X-Next-Token");
        list = json_array();
        json_array_foreach (a->body, i, one)
                (void)json_array_append_new(list, snapshot_show(one));
        obj = json_with(json_object(), "snapshots", list);
        if (next.n)
                obj = json_with(obj, "next_cursor", json_stringn(next.p, next.n));
        tell_json(x, 200, obj);
}

/* Of all sandboxes, or of one, which may be gone. */
void agent_list_snapshots(struct exchange *x)
{
        AUTO_BUF struct buf target = BUF_INIT(8192);
        AUTO_FREE char *cursor = NULL;
        struct err err = {0};
        int r;

        if (exchange_query(x, "cursor", &cursor, &err) < 0) {
                tell_err(x, &err);
                return;
        }
        r = buf_addc(&target, "/snapshots?limit=100");
        if (r == 0 && x->id[0])
                r = buf_addf(&target, "&sandboxID=%s", x->id);
        if (r == 0 && cursor)
                r = buf_addc(&target, "&nextToken=");
        if (r == 0 && cursor)
                r = url_encode(str_of(cursor), &target);
        if (r < 0 || !buf_cstr(&target))
                tell_error(x, 400, NULL, "parameter 'cursor' is too long");
        else
                ask(x, &(struct ask_options){.to = ASK_API,
                                             .method = "GET",
                                             .target = buf_cstr(&target),
                                             .on_answer = snapshots_listed});
}

static void snapshot_deleted(struct exchange *x, const struct ask_answer *a)
{
        if (a->status == 204)
                tell_empty(x, 204);
        else if (a->status == 404)
                tell_error(x, 404, NULL, "there is no such snapshot");
        else
                ask_pass_error(x, a);
}

void agent_delete_snapshot(struct exchange *x)
{
        char target[1024];

        if (x->segment.n > 512) {
                tell_error(x, 404, NULL, "there is no such snapshot");
                return;
        }
        (void)snprintf(target, sizeof(target), "/sandglass/snapshots/%.*s", STR_ARG(x->segment));
        ask(x, &(struct ask_options){
                       .to = ASK_API_PATIENT, .method = "DELETE", .target = target, .on_answer = snapshot_deleted});
}

/* ---- events ---- */

void agent_watch_events(struct exchange *x)
{
        AUTO_FREE char *last = str_dup(http1_value(x->rq->head, "Last-Event-ID"));
        const struct http_header after = {"Last-Event-ID", last};
        char target[EXCHANGE_ID_MAX + 40];

        if (!exchange_may_stream(x))
                return;
        (void)snprintf(target, sizeof(target), "/sandglass/sandboxes/%s/events", x->id);
        relay(x, &(struct relay_options){
                         .to = ASK_API, .method = "GET", .target = target, .header = last && last[0] ? &after : NULL});
}
