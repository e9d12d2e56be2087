#include "engine/guest/copy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/guest/pause.h"
#include "engine/guest/guest_job.h"

static void answer_copied(struct guest_job *w, const json_t *answer)
{
        struct guest *s = w->guest;
        uint64_t us = clock_mono_us() - w->began_us;

        recent_checkpoints_add(&s->engine->recent, w->paused.checkpoint, clock_mono_us());
        log_info("sandbox.copied", "sandbox=%s checkpoint=%s took_us=%llu frozen_us=%lld", s->record.id,
                 w->paused.checkpoint, (unsigned long long)us,
                 (long long)json_integer_value(json_object_get(answer, "frozen_us")));
        ask_ok(TAKE_PTR(w->ask),
               json_pack("{s:O,s:O,s:O,s:I}", "bytes", json_object_get(answer, "bytes"), "layer_bytes",
                         json_object_get(answer, "layer_bytes"), "frozen_us", json_object_get(answer, "frozen_us"),
                         "took_us", (json_int_t)us),
               -1);
}

static void answer_failed(struct guest_job *w, const struct err *err)
{
        if (err->kind != ERR_TOO_LARGE)
                log_warn("sandbox.copy", "sandbox=%s error=\"%s\"", w->guest->record.id, err->msg);
        guest_job_fail(w, err);
}

/* It goes on; unless it ended, by itself or because it was to. */
static void goes_on(struct guest *s, bool is_orphan)
{
        guest_go(s, GUEST_RUNNING);
        if (s->is_doomed)
                guest_end(s);
        else if (s->is_dead)
                guest_exited(s);
        else if (is_orphan)
                guest_tell(s, "rechecked"); /* who came instead was told that it is busy */
}

static void on_copied(struct guest_job *w, const json_t *answer, const struct err *err, int *fds, size_t nfds)
{
        struct guest *s = w->guest;
        bool is_orphan = !w->ask->client;

        (void)fds, (void)nfds;
        if (!answer) {
                s->paused = w->paused; /* half-written */
                s->engine->alive--;
                guest_go(s, GUEST_BUSY);
                guest_job_recheck(s, TAKE_PTR(w->ask), ADOPT_NOTHING);
                return;
        }
        if (err->kind == ERR_NONE)
                answer_copied(w, answer);
        else
                answer_failed(w, err);
        goes_on(s, is_orphan);
}

static json_t *describe(const struct guest *s, const char *checkpoint, const char *layer, const json_t *origin)
{
        json_t *job = pause_describe_job(s, "copy", checkpoint, origin);

        if (job && json_object_set_new(job, "layer", json_string(layer)) < 0) {
                json_decref(job);
                job = NULL;
        }
        return job;
}

void copy_begin(struct guest *s, const char *checkpoint, const char *layer, const json_t *origin, struct ask *a)
{
        struct job_note note = {.slot = s->record.slot, .net = s->record.net};
        struct guest_job *w = guest_job_create(s, describe(s, checkpoint, layer, origin), a);
        struct err err = {0};

        if (!w) {
                (void)err_sys(&err, -ENOMEM, "copy");
                ask_fail(a, &err);
                return;
        }
        (void)snprintf(note.checkpoint, sizeof(note.checkpoint), "%s", checkpoint);
        memcpy(w->paused.checkpoint, note.checkpoint, sizeof(note.checkpoint));
        (void)snprintf(note.layer, sizeof(note.layer), "%s", layer);
        memcpy(w->paused.sealed, note.layer, sizeof(note.layer));
        w->on_done = on_copied;
        w->queued.is_long = true;
        guest_go(s, GUEST_COPYING);
        if (guest_job_start(w, &note, &err) < 0) {
                guest_go(s, GUEST_RUNNING);
                ask_fail(a, &err);
        }
}
