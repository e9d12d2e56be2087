#include "engine/guest/guest_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/guest/adopt.h"
#include "engine/storage/trash_remover.h"
#include "sys/proc.h"

static void free_memory(struct task *t)
{
        free(CONTAINER_OF(t, struct guest_job, free_task));
}

static void guest_job_free(struct guest_job *w)
{
        w->free_task.run = free_memory;
        loop_post(w->guest->engine->loop, &w->free_task);
}

/* Its end and its job process's last word arrive in any order; the end counts. */
static void notice_death(struct guest *s)
{
        if (guest_has_job_process(s) && s->death.loop && sys_pidfd_is_dead(s->death.fd))
                loop_del(&s->death);
}

static void guest_job_done(struct queued_job *j, struct job_answer *answer)
{
        struct guest_job *w = CONTAINER_OF(j, struct guest_job, queued);
        const struct err died = {.kind = ERR_INTERNAL, .msg = "its job process died"};
        struct guest *s = w->guest;

        s->job = NULL;
        trash_remover_call(&s->engine->trash_remover); /* job processes throw things away, too */
        notice_death(s);
        w->on_done(w, answer, answer ? &answer->err : &died);
        guest_job_free(w);
}

static json_t *encode_about(const struct guest *s, const struct job *job)
{
        struct job j = *job; /* borrows what it points to */

        j.id = s->record.id;
        memcpy(j.note.boot_id, s->engine->boot_id, sizeof(j.note.boot_id));
        return job_encode(&j);
}

struct guest_job *guest_job_create(struct guest *s, const struct job *job, struct ask *a)
{
        json_t *message = encode_about(s, job);
        struct guest_job *w = message ? calloc(1, sizeof(*w)) : NULL;

        if (!w) {
                json_decref(message);
                return NULL;
        }
        *w = (struct guest_job){.guest = s, .ask = a, .began_us = clock_mono_us()};
        w->queued = (struct queued_job){.kind = job->kind, .message = message, .on_done = guest_job_done};
        return w;
}

void guest_job_discard(struct guest_job *w)
{
        json_decref(w->queued.message);
        guest_job_free(w);
}

void guest_job_start(struct guest_job *w)
{
        w->guest->job = w;
        job_queue_run(&w->guest->engine->job_queue, &w->queued);
}

bool guest_job_give_up(struct guest *s)
{
        struct guest_job *w = s->job;
        struct err err = {0};

        if (!job_queue_cancel(&w->queued))
                return false;
        s->job = NULL;
        (void)err_set(&err, ERR_CONFLICT, "sandbox %s was killed", s->record.id);
        ask_fail(TAKE_PTR(w->ask), &err);
        guest_job_free(w);
        return true;
}

void guest_job_fail(struct guest_job *w, const struct err *err)
{
        struct err why = *err;

        if (guest_is_dead(w->guest)) /* whatever else went wrong */
                why.kind = ERR_GONE;
        ask_fail(TAKE_PTR(w->ask), &why);
}

/* A job process may be at it that this engine did not start. */
static bool guest_has_a_job(const struct guest *s)
{
        return s->job || s->state == GUEST_BUSY;
}

bool guest_job_is_making(const struct engine *e, const char *name)
{
        MAP_EACH (slot, &e->sandboxes) {
                const struct guest *s = slot->value;
                const struct paused *makes = s->job ? &s->job->paused : &s->paused;

                if (guest_has_a_job(s) && (strcmp(makes->checkpoint, name) == 0 || strcmp(makes->sealed, name) == 0))
                        return true;
        }
        return false;
}

/* ------------------------------------------------------------- after a job process that is not ours to hear */

static void on_rechecked(struct guest_job *w, struct job_answer *answer, const struct err *err)
{
        (void)answer, (void)err;
        adopt_recheck(w->guest, TAKE_PTR(w->ask), w->wish);
}

void guest_job_recheck(struct guest *s, struct ask *a, enum adopt_wish wish)
{
        struct guest_job *w = guest_job_create(s, &(struct job){.kind = JOB_RECHECK}, a);

        if (!w) {
                log_error("sandbox.stuck", "sandbox=%s error=\"out of memory\", until the engine starts again",
                          s->record.id);
                ask_fail(a, &(struct err){.kind = ERR_INTERNAL, .msg = "out of memory"});
                return;
        }
        if (s->state != GUEST_BUSY && s->state != GUEST_KILLED)
                guest_go(s, GUEST_BUSY);
        w->queued.only_waits = true;
        w->paused = s->paused;
        w->on_done = on_rechecked;
        w->wish = wish;
        guest_job_start(w);
}
