#include "engine/guest/pause.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/guest/standalone_job.h"
#include "engine/guest/trash.h"
#include "engine/guest/warm.h"
#include "engine/guest/guest_job.h"
#include "sys/fs.h"

/* ------------------------------------------------------------- to rest */

static void runs_on(struct guest_job *w, const struct err *err)
{
        struct guest *s = w->guest;

        log_warn("sandbox.runs_on", "sandbox=%s error=\"%s\"", s->record.id, err->msg);
        guest_job_fail(w, err);
        if (s->is_doomed) {
                guest_end(s);
                return;
        }
        if (s->is_dead) {
                guest_exited(s);
                return;
        }
        guest_go(s, GUEST_RUNNING);
        s->engine->alive++;
}

static void rests(struct guest_job *w, const json_t *answer)
{
        struct guest *s = w->guest;
        bool is_orphan = !w->ask->client, is_warm;
        uint64_t us = clock_mono_us() - w->began_us;

        s->paused = w->paused; /* one that is not durable is about to be copied: nobody will wake it as it is */
        is_warm = w->is_durable && s->paused.checkpoint[0] && !s->is_dead && !s->is_doomed && warm_add(s);
        if (!w->is_durable && s->paused.checkpoint[0])
                recent_checkpoints_add(&s->engine->recent, s->paused.checkpoint, clock_mono_us());
        log_info("sandbox.paused", "sandbox=%s checkpoint=%s took_us=%llu warm=%d", s->record.id, s->paused.checkpoint,
                 (unsigned long long)us, is_warm);
        ask_ok(TAKE_PTR(w->ask),
               json_pack("{s:O,s:O,s:I,s:b}", "bytes", json_object_get(answer, "bytes"), "frozen_us",
                         json_object_get(answer, "frozen_us"), "took_us", (json_int_t)us, "warm", is_warm),
               -1);
        if (s->is_doomed)
                guest_end(s);
        else if (!is_warm)
                guest_stop(s);
        if (is_orphan)
                guest_tell(s, "rechecked");
}

static void on_paused(struct guest_job *w, const json_t *answer, const struct err *err, int *fds, size_t nfds)
{
        (void)fds, (void)nfds;
        if (!answer) {
                w->guest->paused = w->paused; /* what was being written */
                guest_go(w->guest, GUEST_BUSY);
                guest_job_recheck(w->guest, TAKE_PTR(w->ask), ADOPT_PAUSED);
        } else if (err->kind != ERR_NONE)
                runs_on(w, err);
        else
                rests(w, answer);
}

json_t *pause_describe_job(const struct guest *s, const char *op, const char *checkpoint, const json_t *origin)
{
        const struct record *r = &s->record;

        return json_pack("{s:s,s:s,s:s*,s:i,s:i,s:I,s:I,s:s,s:O*}", "op", op, "id", r->id, "checkpoint",
                         checkpoint[0] ? checkpoint : NULL, "slot", (int)r->slot, "pid", (int)r->pid, "uid_base",
                         (json_int_t)r->uid_base, "address",
                         (json_int_t)(s->engine->firewall ? instance_address(&s->engine->instance, r->slot) : 0),
                         "envd", r->envd, "origin", origin);
}

static json_t *describe(const struct guest *s, const char *checkpoint, bool is_durable, const json_t *origin)
{
        json_t *job = pause_describe_job(s, "pause", checkpoint, origin);

        if (job && json_object_set_new(job, "durable", json_boolean(is_durable)) < 0) {
                json_decref(job);
                job = NULL;
        }
        return job;
}

void pause_begin(struct guest *s, const char *checkpoint, bool is_durable, const json_t *origin, struct ask *a)
{
        struct job_note note = {.slot = s->record.slot, .net = s->record.net};
        struct guest_job *w = guest_job_create(s, describe(s, checkpoint, is_durable, origin), a);
        struct err err = {0};

        if (!w) {
                (void)err_sys(&err, -ENOMEM, "pause");
                ask_fail(a, &err);
                return;
        }
        (void)snprintf(note.checkpoint, sizeof(note.checkpoint), "%s", checkpoint);
        memcpy(w->paused.checkpoint, note.checkpoint, sizeof(note.checkpoint));
        w->is_durable = is_durable;
        w->on_done = on_paused;
        w->queued.is_long = true;
        guest_go(s, GUEST_PAUSING);
        s->engine->alive--;
        if (guest_job_start(w, &note, &err) < 0) {
                guest_go(s, GUEST_RUNNING);
                s->engine->alive++;
                ask_fail(a, &err);
        }
}

/* ------------------------------------------------------------- paused */

/* Its job process died: what paused.json says counts. */
static bool is_sealed_all_the_same(const struct guest_job *w)
{
        const struct engine *e = w->guest->engine;
        AUTO_CLOSE int dir = sys_open_dir(e->sandboxes_dir, w->guest->record.id);
        struct err err = {0};
        struct paused now;

        return dir >= 0 && paused_read(dir, w->guest->record.id, &now, &err) == 0 &&
               strcmp(now.sealed, w->paused.sealed) == 0 &&
               faccessat(e->sealed_dir, now.sealed, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void on_sealed(struct guest_job *w, const json_t *answer, const struct err *err, int *fds, size_t nfds)
{
        struct guest *s = w->guest;

        (void)fds, (void)nfds;
        if (err->kind == ERR_NONE || (!answer && is_sealed_all_the_same(w))) {
                memcpy(s->paused.sealed, w->paused.sealed, sizeof(s->paused.sealed));
                ask_ok(TAKE_PTR(w->ask), json_pack("{s:O*}", "bytes", json_object_get(answer, "bytes")), -1);
        } else
                ask_fail(TAKE_PTR(w->ask), err);
        if (s->is_doomed)
                guest_end(s);
}

void pause_seal(struct guest *s, const char *layer, const json_t *origin, struct ask *a)
{
        struct job_note note = {0};
        struct err err = {0};
        struct guest_job *w;

        if (s->paused.sealed[0] && strcmp(s->paused.sealed, layer) != 0) {
                (void)err_set(&err, ERR_CONFLICT, "the files of sandbox %s are sealed as layer %s", s->record.id,
                              s->paused.sealed);
                ask_fail(a, &err);
                return;
        }
        w = guest_job_create(
                s, json_pack("{s:s,s:s,s:s,s:O*}", "op", "seal", "id", s->record.id, "layer", layer, "origin", origin),
                a);
        if (!w) {
                (void)err_sys(&err, -ENOMEM, "seal");
                ask_fail(a, &err);
                return;
        }
        (void)snprintf(w->paused.sealed, sizeof(w->paused.sealed), "%s", layer);
        w->on_done = on_sealed;
        w->queued.is_repeatable =
                true; /* a job process may die between moving the files and saying so: they must not be forgotten */
        if (guest_job_start(w, &note, &err) < 0)
                ask_fail(a, &err);
}

static void on_kept(struct guest_job *w, const json_t *answer, const struct err *err, int *fds, size_t nfds)
{
        struct guest *s = w->guest;

        (void)answer, (void)fds, (void)nfds;
        if (err->kind == ERR_NONE) {
                s->paused.boot_id[0] = '\0';
                ask_ok(TAKE_PTR(w->ask), NULL, -1);
        } else
                ask_fail(TAKE_PTR(w->ask), err);
        if (s->is_doomed)
                guest_end(s);
}

void pause_make_durable(struct guest *s, struct ask *a)
{
        struct guest_job *w = guest_job_create(s, json_pack("{s:s}", "op", "make_durable"), a);
        struct err err = {0};

        if (!w) {
                (void)err_sys(&err, -ENOMEM, "make durable");
                ask_fail(a, &err);
                return;
        }
        w->on_done = on_kept;
        w->queued.is_long = w->queued.is_repeatable = true;
        if (guest_job_start(w, &(struct job_note){0}, &err) < 0)
                ask_fail(a, &err);
}

/* ------------------------------------------------------------- what belongs to no sandbox */

void saved_items_flush(struct engine *e, const char *checkpoint, const char *layer, struct ask *a)
{
        if (checkpoint)
                recent_checkpoints_forget(&e->recent, checkpoint);
        standalone_job_run(e,
                           &(struct standalone_job_how){.what = json_pack("{s:s,s:s*,s:s*}", "op", "flush",
                                                                          "checkpoint", checkpoint, "layer", layer),
                                                        .is_long = true},
                           a);
}

int saved_items_drop(struct engine *e, int dir, const char *name)
{
        return trash_throw(e, dir, name);
}
