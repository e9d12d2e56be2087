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
#include "engine/guest/warm.h"
#include "engine/guest/guest_job.h"
#include "engine/storage/writable.h"
#include "sys/fs.h"

/* ------------------------------------------------------------- running to paused */

static void pause_failed(struct guest_job *w, const struct err *err)
{
        struct guest *s = w->guest;

        log_warn("sandbox.runs_on", "sandbox=%s error=\"%s\"", s->record.id, err->msg);
        guest_job_fail(w, err);
        if (s->state == GUEST_KILLED)
                guest_end(s);
        else if (guest_is_dead(s))
                guest_exited(s);
        else
                guest_go(s, GUEST_RUNNING);
}

static void pause_done(struct guest_job *w, const struct job_answer *answer)
{
        struct guest *s = w->guest;
        bool is_orphan = !w->ask->client, is_warm;
        uint64_t us = clock_mono_us() - w->began_us;

        s->paused = w->paused; /* one that is not durable is about to be copied: nobody will resume it as it is */
        is_warm = w->is_durable && s->paused.checkpoint[0] && !guest_is_dead(s) && s->state != GUEST_KILLED &&
                  warm_add(s);
        if (!w->is_durable && s->paused.checkpoint[0])
                recent_checkpoints_add(&s->engine->recent, s->paused.checkpoint, clock_mono_us());
        log_info("sandbox.paused", "sandbox=%s checkpoint=%s took_us=%llu warm=%d", s->record.id, s->paused.checkpoint,
                 (unsigned long long)us, is_warm);
        ask_ok(TAKE_PTR(w->ask),
               json_pack("{s:I,s:I,s:I,s:b}", "bytes", (json_int_t)answer->bytes, "frozen_us",
                         (json_int_t)answer->frozen_us, "took_us", (json_int_t)us, "warm", is_warm),
               -1);
        if (s->state == GUEST_KILLED)
                guest_end(s);
        else if (!is_warm)
                guest_stop(s);
        if (is_orphan)
                guest_tell(s, "rechecked");
}

static void on_paused(struct guest_job *w, struct job_answer *answer, const struct err *err)
{
        if (!answer) {
                w->guest->paused = w->paused; /* what was being written */
                guest_job_recheck(w->guest, TAKE_PTR(w->ask), ADOPT_PAUSED);
        } else if (err->kind != ERR_NONE)
                pause_failed(w, err);
        else
                pause_done(w, answer);
}

void pause_begin(struct guest *s, const char *checkpoint, bool is_durable, const json_t *origin, struct ask *a)
{
        struct job job = {
                .kind = JOB_PAUSE,
                .note = {.facts = s->record.facts, .net = s->record.net},
                .pause = {.checkpoint = checkpoint[0] ? checkpoint : NULL, .is_durable = is_durable, .origin = origin}};
        struct err err = {0};
        struct guest_job *w;

        (void)snprintf(job.note.checkpoint, sizeof(job.note.checkpoint), "%s", checkpoint);
        s->ops->pause(s, &job);
        w = guest_job_create(s, &job, a);
        if (!w) {
                (void)err_sys(&err, -ENOMEM, "pause");
                ask_fail(a, &err);
                return;
        }
        memcpy(w->paused.checkpoint, job.note.checkpoint, sizeof(job.note.checkpoint));
        w->is_durable = is_durable;
        w->on_done = on_paused;
        w->queued.is_long = true;
        guest_go(s, GUEST_PAUSING);
        guest_job_start(w);
}

/* ------------------------------------------------------------- paused */

/* Its job process died: what paused.json says counts. */
static bool is_sealed_all_the_same(const struct guest_job *w)
{
        const struct engine *e = w->guest->engine;
        AUTO_CLOSE int dir = sys_open_dir(e->sandboxes_dir, w->guest->record.id);
        const struct writable files = {.dir = dir, .sealed = e->sealed_dir, .trash = e->trash_dir};
        struct err err = {0};
        struct paused now;

        return dir >= 0 && paused_read(dir, w->guest->record.id, &now, &err) == 0 &&
               strcmp(now.sealed, w->paused.sealed) == 0 && writable_is_sealed(&files, now.sealed);
}

static void on_sealed(struct guest_job *w, struct job_answer *answer, const struct err *err)
{
        struct guest *s = w->guest;

        if (err->kind == ERR_NONE || (!answer && is_sealed_all_the_same(w))) {
                memcpy(s->paused.sealed, w->paused.sealed, sizeof(s->paused.sealed));
                ask_ok(TAKE_PTR(w->ask), answer ? json_pack("{s:I}", "bytes", (json_int_t)answer->bytes) : NULL, -1);
        } else
                ask_fail(TAKE_PTR(w->ask), err);
        if (s->state == GUEST_KILLED)
                guest_end(s);
}

void pause_seal(struct guest *s, const char *layer, const char *below, const json_t *origin, struct ask *a)
{
        const struct job job = {.kind = JOB_SEAL, .seal = {.layer = layer, .below = below, .origin = origin}};
        struct err err = {0};
        struct guest_job *w;

        if (s->paused.sealed[0] && strcmp(s->paused.sealed, layer) != 0) {
                (void)err_set(&err, ERR_CONFLICT, "the files of sandbox %s are sealed as layer %s", s->record.id,
                              s->paused.sealed);
                ask_fail(a, &err);
                return;
        }
        w = guest_job_create(s, &job, a);
        if (!w) {
                (void)err_sys(&err, -ENOMEM, "seal");
                ask_fail(a, &err);
                return;
        }
        (void)snprintf(w->paused.sealed, sizeof(w->paused.sealed), "%s", layer);
        w->on_done = on_sealed;
        w->queued.is_repeatable =
                true; /* a job process may die between moving the files and saying so: they must not be forgotten */
        guest_job_start(w);
}

static void on_made_durable(struct guest_job *w, struct job_answer *answer, const struct err *err)
{
        struct guest *s = w->guest;

        (void)answer;
        if (err->kind == ERR_NONE) {
                s->paused.boot_id[0] = '\0';
                ask_ok(TAKE_PTR(w->ask), NULL, -1);
        } else
                ask_fail(TAKE_PTR(w->ask), err);
        if (s->state == GUEST_KILLED)
                guest_end(s);
}

void pause_make_durable(struct guest *s, struct ask *a)
{
        struct guest_job *w = guest_job_create(s, &(struct job){.kind = JOB_MAKE_DURABLE}, a);
        struct err err = {0};

        if (!w) {
                (void)err_sys(&err, -ENOMEM, "make durable");
                ask_fail(a, &err);
                return;
        }
        w->on_done = on_made_durable;
        w->queued.is_long = w->queued.is_repeatable = true;
        guest_job_start(w);
}

/* ------------------------------------------------------------- what belongs to no sandbox */

void saved_items_flush(struct engine *e, const char *checkpoint, const char *layer, struct ask *a)
{
        if (checkpoint)
                recent_checkpoints_forget(&e->recent, checkpoint);
        standalone_job_run(e,
                           &(struct standalone_job_how){
                                   .job = {.kind = JOB_FLUSH, .flush = {.checkpoint = checkpoint, .layer = layer}},
                                   .is_long = true},
                           a);
}
