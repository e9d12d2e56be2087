#include "engine/requests.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "engine/guest/ask.h"
#include "engine/guest/copy.h"
#include "engine/guest/deferred.h"
#include "engine/guest/standalone_job.h"
#include "engine/guest/guest.h"
#include "engine/guest/hand_over.h"
#include "engine/guest/standby.h"
#include "engine/drop.h"
#include "engine/lost.h"
#include "engine/merge.h"
#include "engine/guest/pause.h"
#include "engine/saved_items.h"
#include "engine/guest/resume.h"

#define PATIENCE_MS 1000u /* with a disk, of those who only want to know */

/* ------------------------------------------------------------- what control may ask */

/* One that is being copied counts as running to those who only look at it or want to reach it. */
static struct guest *find_running(struct engine *e, const json_t *msg, bool or_copying, struct err *err)
{
        const json_t *id = json_object_get(msg, "id");
        struct guest *s;

        if (!json_is_string(id) || !sandbox_id_is_valid((struct str){json_string_value(id), json_string_length(id)})) {
                (void)err_set(err, ERR_INVALID, "id: not a sandbox id");
                return NULL;
        }
        s = guest_find(e, json_string_value(id));
        if (s && (s->state == GUEST_RUNNING || (or_copying && s->state == GUEST_COPYING)))
                return s;
        if (!s || s->state == GUEST_ENDED || s->state == GUEST_ENDING)
                (void)err_set(err, ERR_GONE, "there is no sandbox %s", json_string_value(id));
        else
                (void)err_set(err, ERR_CONFLICT, "sandbox %s does not run", json_string_value(id));
        return NULL;
}

static struct guest *running(struct engine *e, const json_t *msg, struct err *err)
{
        return find_running(e, msg, false, err);
}

static int create(struct engine *e, const json_t *msg, struct ask *a, bool by_standby, struct err *err);

static int op_create(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        return create(e, msg, a, true, err);
}

static int create_without_standby(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        return create(e, msg, a, false, err);
}

static int create(struct engine *e, const json_t *msg, struct ask *a, bool by_standby, struct err *err)
{
        struct plan_create plan;
        struct guest *s;
        int r = plan_decode(json_object_get(msg, "plan"), &plan, err);

        if (r < 0)
                return err_wrap(err, "plan");
        s = guest_find(e, plan.id);
        if (s && s->state == GUEST_WARM && !resume_can_thaw(s, &plan))
                guest_stop(s);
        if (s && s->state == GUEST_ENDED &&
            !plan.is_upper_kept) { /* nothing is wanted of what began under this name before */
                guest_end(s);
                s = guest_find(e, plan.id);
        }
        if (s && (s->state == GUEST_STOPPING || s->state == GUEST_ENDING)) {
                plan_done(&plan);
                return deferred_add(s, by_standby ? op_create : create_without_standby, msg, a, err);
        }
        if (!by_standby || !hand_over_begin(e, &plan, msg, a, create_without_standby))
                guest_create(e, &plan, a);
        return 0;
}

/* The guest ended, and its requests were answered; its files are on their way to the trash. */
static bool is_over(const struct guest *s)
{
        return s->state == GUEST_ENDING && s->are_files_worthless && s->files && list_is_empty(&s->deferred);
}

static int op_kill(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const json_t *id = json_object_get(msg, "id");
        struct guest *s = json_is_string(id) ? guest_find(e, json_string_value(id)) : NULL;

        if (!s || guest_is_standby(s) || is_over(s)) /* in any other state it can be killed */
                return err_set(err, ERR_GONE, "no such sandbox");
        guest_kill(s, a);
        return 0;
}

static const char *state_name(const struct guest *s)
{
        switch (s->state) {
        case GUEST_RUNNING: return "running";
        case GUEST_STOPPING:
        case GUEST_PAUSED:
        case GUEST_WARM: return s->job ? "busy" : "paused";
        case GUEST_PAUSING:
        case GUEST_COPYING:
        case GUEST_RESUMING:
        case GUEST_BUSY:
        case GUEST_KILLED: return "busy";
        case GUEST_WAITING:
        case GUEST_STARTING: return s->source == GUEST_WAS_PAUSED ? "busy" : NULL; /* else nobody was told of it yet */
        case GUEST_ENDED: return "ended";
        case GUEST_STANDBY: /* belongs to nobody */
        case GUEST_ENDING: break;
        }
        return NULL;
}

static json_t *guest_describe(const struct guest *s)
{
        const char *state = guest_is_standby(s) ? NULL : state_name(s);

        if (!state)
                return NULL;
        if (s->state == GUEST_RUNNING)
                return json_pack("{s:s,s:s,s:i,s:I}", "id", s->record.id, "state", state, "pid", (int)s->record.pid,
                                 "started_ns", (json_int_t)s->record.started_ns);
        if (s->state == GUEST_ENDED)
                return json_pack("{s:s,s:s,s:b}", "id", s->record.id, "state", state, "rebooted", s->was_rebooted);
        if (strcmp(state, "paused") != 0)
                return json_pack("{s:s,s:s}", "id", s->record.id, "state", state);
        return json_pack("{s:s,s:s,s:s*,s:s*}", "id", s->record.id, "state", state, "checkpoint",
                         s->paused.checkpoint[0] ? s->paused.checkpoint : NULL, "sealed",
                         s->paused.sealed[0] ? s->paused.sealed : NULL);
}

/* As they are at this moment; names of a moment before do not hurt: control asks for what no row names. */
static int add_sandboxes(struct engine *e, json_t *base, const struct job_answer *said, struct err *err)
{
        json_t *list = json_array(), *one;

        (void)said, (void)err;
        MAP_EACH (slot, &e->sandboxes) {
                one = guest_describe(slot->value);
                if (one)
                        (void)json_array_append_new(list, one);
        }
        (void)json_object_set_new(base, "sandboxes", list);
        return 0;
}

/* On a disk that stalls there are no names in it: what nobody needs is then found the next time. */
static int op_list(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        (void)msg;
        (void)err;
        standalone_job_run(e,
                           &(struct standalone_job_how){
                                   .job = {.kind = JOB_NAMES}, .patience_ms = PATIENCE_MS, .complete = add_sandboxes},
                           a);
        return 0;
}

/* ------------------------------------------------------------- pause, copy, seal */

/* A member that is an id, or absent (*ret NULL then), or null where that may be. */
static int get_id(const json_t *msg, const char *key, bool (*is_valid)(struct str), const char **ret, struct err *err)
{
        const json_t *v = json_object_get(msg, key);

        *ret = NULL;
        if (!v || json_is_null(v))
                return 0;
        if (!json_is_string(v) || !is_valid((struct str){json_string_value(v), json_string_length(v)}))
                return err_set(err, ERR_INVALID, "%s: not an id", key);
        *ret = json_string_value(v);
        return 0;
}

/* Nobody else may begin something with it now. */
static bool is_in_transition(const struct guest *s)
{
        return s->state == GUEST_WAITING || s->state == GUEST_STARTING || guest_has_job_process(s);
}

static int op_pause(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const json_t *durable = json_object_get(msg, "durable"), *origin;
        const char *id, *checkpoint;
        struct guest *s;

        if (get_id(msg, "id", sandbox_id_is_valid, &id, err) < 0 ||
            get_id(msg, "checkpoint", checkpoint_id_is_valid, &checkpoint, err) < 0)
                return -EINVAL;
        if (durable && !json_is_boolean(durable))
                return err_set(err, ERR_INVALID, "durable: not a boolean");
        if (plan_origin_decode(json_object_get(msg, "origin"), &origin, err) < 0)
                return -EINVAL;
        s = id ? guest_find(e, id) : NULL;
        if (s && is_in_transition(s))
                return err_set(err, ERR_CONFLICT, "sandbox %s is being started, paused or copied", id);
        s = running(e, msg, err);
        if (!s)
                return -ENOENT;
        if (checkpoint && e->checkpoints_why[0])
                return err_set(err, ERR_UNAVAILABLE, "%.190s; pause with memory:false keeps the files",
                               e->checkpoints_why);
        pause_begin(s, checkpoint ? checkpoint : "", !durable || json_is_true(durable), origin, a);
        return 0;
}

static int op_copy(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const char *id, *checkpoint, *layer;
        const json_t *origin;
        struct guest *s;

        if (get_id(msg, "id", sandbox_id_is_valid, &id, err) < 0 ||
            get_id(msg, "checkpoint", checkpoint_id_is_valid, &checkpoint, err) < 0 ||
            get_id(msg, "layer", sealed_id_is_valid, &layer, err) < 0 ||
            plan_origin_decode(json_object_get(msg, "origin"), &origin, err) < 0)
                return -EINVAL;
        if (!checkpoint || !layer)
                return err_set(err, ERR_INVALID, "checkpoint, layer: not ids");
        s = id ? guest_find(e, id) : NULL;
        if (s && is_in_transition(s))
                return err_set(err, ERR_CONFLICT, "sandbox %s is being started, paused or copied", id);
        s = running(e, msg, err);
        if (!s)
                return -ENOENT;
        if (e->checkpoints_why[0])
                return err_set(err, ERR_UNAVAILABLE, "%s", e->checkpoints_why);
        copy_begin(s, checkpoint, layer, origin, a);
        return 0;
}

static int op_seal(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const char *id, *layer, *below;
        const json_t *origin;
        struct guest *s;

        if (get_id(msg, "id", sandbox_id_is_valid, &id, err) < 0 ||
            get_id(msg, "layer", sealed_id_is_valid, &layer, err) < 0 ||
            get_id(msg, "below", layer_id_is_valid, &below, err) < 0 ||
            plan_origin_decode(json_object_get(msg, "origin"), &origin, err) < 0)
                return -EINVAL;
        if (!layer)
                return err_set(err, ERR_INVALID, "layer: not an id");
        s = id ? guest_find(e, id) : NULL;
        if (!s || s->state == GUEST_ENDED)
                return err_set(err, ERR_GONE, "no such sandbox");
        if (s->state == GUEST_WARM)
                guest_stop(s);
        if (s->state == GUEST_STOPPING)
                return deferred_add(s, op_seal, msg, a, err);
        if (s->state != GUEST_PAUSED || s->job)
                return err_set(err, ERR_CONFLICT, "sandbox %s is not paused", id);
        pause_seal(s, layer, below, origin, a);
        return 0;
}

static int op_keep(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const char *id;
        struct guest *s;

        if (get_id(msg, "id", sandbox_id_is_valid, &id, err) < 0)
                return -EINVAL;
        s = id ? guest_find(e, id) : NULL;
        if (!s || s->state == GUEST_ENDED)
                return err_set(err, ERR_GONE, "no such sandbox");
        if (s->state == GUEST_STOPPING)
                return deferred_add(s, op_keep, msg, a, err);
        if (s->state != GUEST_PAUSED || s->job)
                return err_set(err, ERR_CONFLICT, "sandbox %s is not paused", id);
        pause_make_durable(s, a);
        return 0;
}

static int op_flush(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const char *checkpoint, *layer;

        if (get_id(msg, "checkpoint", checkpoint_id_is_valid, &checkpoint, err) < 0 ||
            get_id(msg, "layer", sealed_id_is_valid, &layer, err) < 0)
                return -EINVAL;
        saved_items_flush(e, checkpoint, layer, a);
        return 0;
}

static void answer_written(void *arg, const struct err *err)
{
        struct ask *a = arg;

        if (err->kind == ERR_NONE)
                ask_ok(a, NULL, -1);
        else
                ask_fail(a, err);
}

/* Of one paused, or of a checkpoint: they stay as they are, but control would describe them otherwise now. */
static int op_origin(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const char *id, *checkpoint;
        const json_t *changes;

        if (get_id(msg, "id", sandbox_id_is_valid, &id, err) < 0 ||
            get_id(msg, "checkpoint", checkpoint_id_is_valid, &checkpoint, err) < 0 ||
            plan_origin_decode(json_object_get(msg, "changes"), &changes, err) < 0)
                return -EINVAL;
        if ((id && !disk_origin(&e->disk, DISK_SANDBOXES, id, changes, NULL, NULL)) ||
            (checkpoint && !disk_origin(&e->disk, DISK_CHECKPOINTS, checkpoint, changes, NULL, NULL)) ||
            !disk_sync(&e->disk, answer_written, a))
                return err_sys(err, -ENOMEM, "note its origin");
        return 0;
}

/* ------------------------------------------------------------- looking, and the network */

static int op_net(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        struct guest *s = running(e, msg, err);
        struct plan_net net;
        int r;

        if (!s)
                return -ENOENT;
        r = plan_net_decode(json_object_get(msg, "net"), &net, err);
        if (r < 0)
                return r;
        r = s->ops->set_net(s, &net, err);
        plan_net_done(&net); /* what was not taken */
        if (r < 0)
                return r;
        /* The rules hold from now on; the request is answered when the next engine would know them, too. */
        return disk_save(&e->disk, &s->record, answer_written, a) ? 0 : err_sys(err, -ENOMEM, "save rules");
}

/* For the next time, when the disk may not say so. */
static int remember_size(struct engine *e, json_t *base, const struct job_answer *said, struct err *err)
{
        struct guest *s = guest_find(e, json_string_value(json_object_get(base, "id")));

        (void)err;
        if (said)
                (void)json_object_set_new(base, "disk_bytes", json_integer((json_int_t)said->disk_bytes));
        if (s && said)
                s->disk_bytes = said->disk_bytes;
        return 0;
}

static int op_stats(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        struct guest *s = find_running(e, msg, true, err);
        struct guest_usage u = {0};
        int r;

        if (!s)
                return -ENOENT;
        r = s->ops->stats(s, &u, err);
        if (r < 0)
                return r;
        standalone_job_run(
                e,
                &(struct standalone_job_how){
                        .job = {.kind = JOB_MEASURE, .id = s->record.id},
                        .base = json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:I}", "id", s->record.id, "memory_bytes",
                                          (json_int_t)u.memory_bytes, "memory_cache", (json_int_t)u.memory_cache,
                                          "memory_limit", (json_int_t)u.memory_limit, "cpu_us", (json_int_t)u.cpu_us,
                                          "pids", (json_int_t)u.pids, "disk_bytes", (json_int_t)s->disk_bytes),
                        .patience_ms = PATIENCE_MS,
                        .complete = remember_size},
                a);
        return 0;
}

static int op_usage(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        (void)msg, (void)err;
        standalone_job_run(e, &(struct standalone_job_how){.job = {.kind = JOB_USAGE}, .is_long = true}, a);
        return 0;
}

static int op_info(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        json_t *info =
                json_pack("{s:s,s:i,s:b,s:s,s:i,s:I}", "isolation", e->kinds[0]->isolation, "alive", (int)e->alive,
                          "checkpoints", !e->checkpoints_why[0], "checkpoints_why", e->checkpoints_why, "warm",
                          (int)e->warm_count, "warm_bytes", (json_int_t)e->warm_bytes);

        (void)msg;
        (void)err;
        standbys_describe(e, info);
        for (size_t i = 0; e->kinds[i] && info; i++)
                e->kinds[i]->describe(e, info);
        ask_ok(a, info, -1);
        return 0;
}

/* ------------------------------------------------------------- what control and the edges may ask */

static int op_dial(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        json_int_t port = json_integer_value(json_object_get(msg, "port"));
        const char *id = json_string_value(json_object_get(msg, "id"));
        struct guest *s = id ? guest_find(e, id) : NULL;

        if (port < 1 || port > 65535)
                return err_set(err, ERR_INVALID, "port: not a port");
        if (s && s->state == GUEST_BUSY) /* most likely it runs, and a job process of the last engine copies it */
                return deferred_add(s, op_dial, msg, a, err);
        s = find_running(e, msg, true, err);
        if (!s)
                return -ENOENT;
        s->ops->dial(s, (uint16_t)port, a);
        return 0;
}

/* ------------------------------------------------------------- tables */

const struct request_op control_ops[] = {
        {"create", op_create},      {"kill", op_kill},
        {"list", op_list},          {"net", op_net},
        {"stats", op_stats},        {"info", op_info},
        {"usage", op_usage},        {"pause", op_pause},
        {"copy", op_copy},          {"seal", op_seal},
        {"keep", op_keep},          {"flush", op_flush},
        {"drop", drop_op},          {"standbys", standbys_want},
        {"merge", merge_request},   {"origin", op_origin},
        {"dial", op_dial},          {"lose", lost_op_lose},
        {"lost", lost_op_list},     {"restore", lost_op_restore},
        {"remove", lost_op_remove}, {NULL, NULL},
};
const struct request_op edge_ops[] = {{"dial", op_dial}, {NULL, NULL}};
