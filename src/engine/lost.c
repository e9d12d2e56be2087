#include "engine/lost.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/guest/adopt.h"
#include "engine/guest/standalone_job.h"
#include "engine/guest/guest.h"
#include "engine/guest/trash_retry.h"
#include "engine/storage/trash_remover.h"

#define LOOK_MS (3600u * 1000u)

/* ------------------------------------------------------------- moving aside */

static void answer_written(void *arg, const struct err *err)
{
        struct ask *a = arg;

        if (err->kind == ERR_NONE)
                ask_ok(a, NULL, -1);
        else
                ask_fail(a, err);
}

static void fill_note(struct lost_note *n, const char *was, const char *why)
{
        *n = (struct lost_note){.lost_ns = clock_real_ns()};
        (void)snprintf(n->was, sizeof(n->was), "%s", was);
        (void)snprintf(n->why, sizeof(n->why), "%.*s", (int)sizeof(n->why) - 1, why ? why : "");
}

static int get_name(const json_t *v, enum lost_kind *ret_kind, struct err *err)
{
        const char *name = json_string_value(v);

        if (!name || strlen(name) != json_string_length(v) || !lost_kind_of(name, ret_kind))
                return err_set(err, ERR_INVALID, "not an id");
        return 0;
}

static int check_names(const json_t *list, bool (*is_valid)(struct str), struct err *err)
{
        const json_t *v;
        size_t i;

        if (list && !json_is_array(list))
                return err_set(err, ERR_INVALID, "checkpoints, layers: not lists of ids");
        json_array_foreach (list, i, v)
                if (!json_is_string(v) || !is_valid((struct str){json_string_value(v), json_string_length(v)}))
                        return err_set(err, ERR_INVALID, "checkpoints, layers: not lists of ids");
        return 0;
}

static int check_lists(const json_t *msg, struct err *err)
{
        int r = check_names(json_object_get(msg, "checkpoints"), checkpoint_id_is_valid, err);

        return r < 0 ? r : check_names(json_object_get(msg, "layers"), sealed_id_is_valid, err);
}

/* Nobody throws these away any more: they are moved aside, or brought back. */
static void keep_from_trash(struct engine *e, enum disk_place place, const json_t *names)
{
        json_t *v;
        size_t i;

        json_array_foreach (names, i, v)
                trash_retry_forget(e, place, json_string_value(v));
}

static void lose_names(struct engine *e, const json_t *msg, const char *key, enum disk_place place)
{
        struct lost_note note;
        json_t *v;
        size_t i;

        fill_note(&note, "complete", json_string_value(json_object_get(msg, "why")));
        keep_from_trash(e, place, json_object_get(msg, key));
        json_array_foreach (json_object_get(msg, key), i, v)
                (void)disk_lose(&e->disk, place, json_string_value(v), &note, NULL, NULL); /* else the next time */
}

/* What is kept of it when it ends is moved aside. */
static int note_loss(struct guest *s, const char *why)
{
        if (s->state == GUEST_ENDING || s->state == GUEST_KILLED || s->lost)
                return 0;
        s->lost = calloc(1, sizeof(*s->lost));
        if (!s->lost)
                return -ENOMEM;
        fill_note(s->lost, s->state == GUEST_RUNNING ? "running" : "paused", why);
        return 0;
}

/* Its processes are ended first, or a job process that is at it comes to its end. */
static int lose_sandbox(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const json_t *id = json_object_get(msg, "id");
        enum lost_kind kind;
        struct guest *s;

        if (get_name(id, &kind, err) < 0 || kind != LOST_SANDBOX)
                return err_set(err, ERR_INVALID, "id: not a sandbox id");
        s = guest_find(e, json_string_value(id));
        if (!s)
                return err_set(err, ERR_NOT_FOUND, "no such sandbox");
        if (note_loss(s, json_string_value(json_object_get(msg, "why"))) < 0)
                return err_sys(err, -ENOMEM, "lose sandbox");
        guest_kill(s, a);
        return 0;
}

int lost_op_lose(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        int r;

        if (json_object_get(msg, "id"))
                return lose_sandbox(e, msg, a, err);
        r = check_lists(msg, err);
        if (r < 0)
                return r;
        lose_names(e, msg, "checkpoints", DISK_CHECKPOINTS);
        lose_names(e, msg, "layers", DISK_SEALED);
        return disk_sync(&e->disk, answer_written, a) ? 0 : err_sys(err, -ENOMEM, "lose");
}

/* ------------------------------------------------------------- looking */

static int on_described(struct engine *e, json_t *base, const struct job_answer *said, struct err *err)
{
        (void)e, (void)base;
        return said->report ? 0 : err_set(err, ERR_INTERNAL, "what its job process reported did not arrive");
}

static int run_list(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const json_t *after = json_object_get(msg, "after"), *id = json_object_get(msg, "id");
        enum lost_kind kind;

        if ((id && get_name(id, &kind, err) < 0) || (after && get_name(after, &kind, err) < 0))
                return -EINVAL;
        standalone_job_run(e,
                           &(struct standalone_job_how){
                                   .job = {.kind = JOB_LOST,
                                           .lost = {.name = json_string_value(id), .after = json_string_value(after)}},
                                   .is_long = true,
                                   .complete = on_described},
                           a);
        return 0;
}

/* ------------------------------------------------------------- bringing back */

/* Its directory is where it was: it is paused. */
static int on_brought_back(struct engine *e, json_t *base, const struct job_answer *said, struct err *err)
{
        const char *id = json_string_value(json_object_get(base, "id"));

        (void)said;
        return id ? adopt_one(e, id, err) : 0;
}

/* Control asked anew for what there is, maybe before it was back: no row will name it. */
static void on_restored_for_nobody(struct engine *e, const json_t *base)
{
        const char *id = json_string_value(json_object_get(base, "id"));
        struct guest *s = id ? guest_find(e, id) : NULL;

        if (s && note_loss(s, "it was restored, and the caller was gone") == 0)
                guest_kill(s, NULL);
}

static int run_restore(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const json_t *checkpoints = json_object_get(msg, "checkpoints"), *layers = json_object_get(msg, "layers");
        const json_t *id = json_object_get(msg, "id");
        enum lost_kind kind;

        if (id && (get_name(id, &kind, err) < 0 || kind != LOST_SANDBOX))
                return err_set(err, ERR_INVALID, "id: not a sandbox id");
        if (id && guest_find(e, json_string_value(id)))
                return err_set(err, ERR_CONFLICT, "sandbox %s exists", json_string_value(id));
        standalone_job_run(e,
                           &(struct standalone_job_how){.job = {.kind = JOB_LOST_RESTORE,
                                                                .lost_restore = {.sandbox = json_string_value(id),
                                                                                 .checkpoints = checkpoints,
                                                                                 .layers = layers}},
                                                        .base = json_pack("{s:s*}", "id", json_string_value(id)),
                                                        .is_long = true,
                                                        .complete = on_brought_back,
                                                        .orphaned = on_restored_for_nobody},
                           a);
        return 0;
}

/* ------------------------------------------------------------- after what is being moved aside */

struct later {
        struct engine *engine;
        request_op *run;
        json_t *msg; /* owned */
        struct ask *ask;
};

static void on_moved(void *arg, const struct err *none)
{
        struct later *l = arg;
        struct err err = {0};

        (void)none;
        if (!l->ask->client) { /* nobody would know what it began */
                (void)err_set(&err, ERR_CONFLICT, "the caller is gone");
                ask_fail(l->ask, &err);
        } else if (l->run(l->engine, l->msg, l->ask, &err) < 0)
                ask_fail(l->ask, &err);
        json_decref(l->msg);
        free(l);
}

/* Whoever looks into lost/ sees what was to be moved there before he asked. */
static int run_later(struct engine *e, request_op *run, const json_t *msg, struct ask *a, struct err *err)
{
        struct later *l = calloc(1, sizeof(*l));

        if (l) {
                *l = (struct later){.engine = e, .run = run, .msg = json_incref((json_t *)(size_t)msg), .ask = a};
                if (disk_sync(&e->disk, on_moved, l))
                        return 0;
                json_decref(l->msg);
        }
        free(l);
        return err_sys(err, -ENOMEM, "wait for the disk");
}

int lost_op_list(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        return run_later(e, run_list, msg, a, err);
}

int lost_op_restore(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const char *id = json_string_value(json_object_get(msg, "id"));
        int r = check_lists(msg, err);

        if (r < 0)
                return r;
        keep_from_trash(e, DISK_CHECKPOINTS, json_object_get(msg, "checkpoints"));
        keep_from_trash(e, DISK_SEALED, json_object_get(msg, "layers"));
        if (id)
                trash_retry_forget(e, DISK_SANDBOXES, id);
        return run_later(e, run_restore, msg, a, err);
}

/* ------------------------------------------------------------- removing */

static void on_removed(void *arg, const struct err *err)
{
        struct ask *a = arg;
        struct engine *e = a->arg;

        trash_remover_call(&e->trash_remover);
        answer_written(a, err);
}

int lost_op_remove(struct engine *e, const json_t *msg, struct ask *a, struct err *err)
{
        const json_t *id = json_object_get(msg, "id");
        enum lost_kind kind;

        if (get_name(id, &kind, err) < 0)
                return -EINVAL;
        a->arg = e;
        return disk_throw(&e->disk, DISK_LOST, json_string_value(id), on_removed, a) ? 0
                                                                                     : err_sys(err, -ENOMEM, "remove");
}

static void on_tidied(void *arg, const struct err *err)
{
        struct engine *e = arg;

        (void)err;
        trash_remover_call(&e->trash_remover);
}

static void on_look(struct timer *t)
{
        struct engine *e = CONTAINER_OF(t, struct engine, lost_timer);

        (void)disk_tidy_lost(&e->disk, e->conf->lost_days, on_tidied, e); /* else in an hour */
        timer_set(e->loop, t, LOOK_MS);
}

void lost_start(struct engine *e)
{
        e->lost_timer.on = on_look;
        on_look(&e->lost_timer);
}
