#include "engine/guest/copy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/guest/pause.h"
#include "engine/guest/guest_job.h"

static void answer_copied(struct guest_job *w, const struct job_answer *answer)
{
        struct guest *s = w->guest;
        uint64_t us = clock_mono_us() - w->began_us;

        recent_checkpoints_add(&s->engine->recent, w->paused.checkpoint, clock_mono_us());
        log_info("sandbox.copied", "sandbox=%s checkpoint=%s took_us=%llu frozen_us=%llu", s->record.id,
                 w->paused.checkpoint, (unsigned long long)us, (unsigned long long)answer->frozen_us);
        ask_ok(TAKE_PTR(w->ask),
               json_pack("{s:I,s:I,s:I,s:I}", "bytes", (json_int_t)answer->bytes, "layer_bytes",
                         (json_int_t)answer->layer_bytes, "frozen_us", (json_int_t)answer->frozen_us, "took_us",
                         (json_int_t)us),
               -1);
}

static void copy_failed(struct guest_job *w, const struct err *err)
{
        if (err->kind != ERR_TOO_LARGE)
                log_warn("sandbox.copy", "sandbox=%s error=\"%s\"", w->guest->record.id, err->msg);
        guest_job_fail(w, err);
}

/* It goes on; unless it ended, by itself or because it was to. */
static void copy_end(struct guest *s, bool is_orphan)
{
        if (s->state == GUEST_KILLED) {
                guest_end(s);
                return;
        }
        guest_go(s, GUEST_RUNNING);
        if (guest_is_dead(s))
                guest_exited(s);
        else if (is_orphan)
                guest_tell(s, "rechecked"); /* who came instead was told that it is busy */
}

static void on_copied(struct guest_job *w, struct job_answer *answer, const struct err *err)
{
        struct guest *s = w->guest;
        bool is_orphan = !w->ask->client;

        if (!answer) {
                s->paused = w->paused; /* half-written */
                guest_job_recheck(s, TAKE_PTR(w->ask), ADOPT_NOTHING);
                return;
        }
        if (err->kind == ERR_NONE)
                answer_copied(w, answer);
        else
                copy_failed(w, err);
        copy_end(s, is_orphan);
}

void copy_begin(struct guest *s, const char *checkpoint, const char *layer, const json_t *origin, struct ask *a)
{
        struct job job = {.kind = JOB_COPY,
                          .note = {.facts = s->record.facts, .net = s->record.net},
                          .copy = {.checkpoint = checkpoint, .layer = layer, .origin = origin}};
        struct err err = {0};
        struct guest_job *w;

        (void)snprintf(job.note.checkpoint, sizeof(job.note.checkpoint), "%s", checkpoint);
        (void)snprintf(job.note.layer, sizeof(job.note.layer), "%s", layer);
        s->ops->copy(s, &job);
        w = guest_job_create(s, &job, a);
        if (!w) {
                (void)err_sys(&err, -ENOMEM, "copy");
                ask_fail(a, &err);
                return;
        }
        memcpy(w->paused.checkpoint, job.note.checkpoint, sizeof(job.note.checkpoint));
        memcpy(w->paused.sealed, job.note.layer, sizeof(job.note.layer));
        w->on_done = on_copied;
        w->queued.is_long = true;
        guest_go(s, GUEST_COPYING);
        guest_job_start(w);
}
