#include "engine/guest/resume.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/guest/pause.h"
#include "engine/guest/warm.h"
#include "engine/guest/guest_job.h"
#include "model/err_json.h"
#include "sys/fs.h"

/* ------------------------------------------------------------- how it ends */

static void is_resumed(struct guest *s, struct ask *a, uint64_t began_us, const char *from,
                       const struct err *envd_silent)
{
        bool is_orphan = !a->client;

        guest_started(s, a, began_us, from, envd_silent);
        if (is_orphan)
                guest_tell(s, "rechecked");
}

/* Its record is what the job process wrote: process, envd. */
int resume_take_over(struct guest *s, struct job_answer *answer, struct err *err)
{
        AUTO_CLOSE int dir = sys_open_dir(s->engine->sandboxes_dir, s->record.id);
        struct record r;
        int x;

        if (answer->pidfd < 0)
                return err_set(err, ERR_INTERNAL, "its job process kept what it should hand over");
        x = dir < 0 ? err_sys(err, dir, "open directory of sandbox %s", s->record.id) : record_read(dir, &r, err);
        if (x < 0)
                return x;
        record_done(&s->record);
        s->record = r;
        x = s->ops->resumed(s, answer, err);
        if (x < 0)
                return x;
        x = guest_watch(s, TAKE_FD(answer->pidfd));
        if (x < 0)
                close_fd(&s->death.fd);
        return x < 0 ? err_sys(err, x, "watch process") : 0;
}

/* As its job process left it: with its memory, unless its processes ran already. */
static bool has_lost_memory(struct guest *s)
{
        AUTO_CLOSE int dir = sys_open_dir(s->engine->sandboxes_dir, s->record.id);
        struct err err = {0};
        struct paused now;

        if (!s->paused.checkpoint[0] || dir < 0 || paused_read(dir, s->record.id, &now, &err) < 0 || now.checkpoint[0])
                return false;
        s->paused = now;
        return true;
}

static void resume_failed(struct guest_job *w, const struct err *err)
{
        struct guest *s = w->guest;
        bool is_orphan = w->ask && !w->ask->client;

        log_warn("sandbox.failed", "sandbox=%s error=\"%s\"", s->record.id, err->msg);
        guest_answer_at_end(s, TAKE_PTR(w->ask), err);
        if (s->source == GUEST_IS_NEW || s->state == GUEST_KILLED) {
                if (is_orphan && s->state != GUEST_KILLED)
                        guest_tell(s, "exited");
                guest_end(s);
                return;
        }
        s->is_news = has_lost_memory(s) || is_orphan;
        guest_stop(s);
}

/* Its job process died half way: what it restored is to be ended, unless it is the same sandbox as before and written down as
 * running.  Where the disk cannot tell, nothing is ended. */
static bool is_half_restored(const struct guest *s)
{
        AUTO_CLOSE int dir = sys_open_dir(s->engine->sandboxes_dir, s->record.id);
        struct err err = {0};
        struct paused paused;
        struct record r;
        bool is_it;

        if (dir < 0)
                return false;
        if (paused_read(dir, s->record.id, &paused, &err) == 0)
                return true;
        if (err.kind != ERR_NOT_FOUND)
                return false;
        if (record_read(dir, &r, &err) < 0)
                return err.kind == ERR_NOT_FOUND;
        is_it = r.is_stranger;
        record_done(&r);
        return is_it;
}

/* It may be anything between paused and running: the disk knows. */
static void resume_recheck(struct guest_job *w)
{
        guest_job_recheck(w->guest, TAKE_PTR(w->ask), ADOPT_RUNNING);
}

static void on_restored(struct guest_job *w, struct job_answer *answer, const struct err *why)
{
        struct guest *s = w->guest;
        struct err err = *why;

        if (!answer) {
                if (is_half_restored(s))
                        s->ops->kill(s);
                resume_recheck(w);
        } else if (err.kind != ERR_NONE) {
                resume_failed(w, &err);
        } else if (resume_take_over(s, answer, &err) < 0) {
                log_warn("sandbox.left", "sandbox=%s error=\"%s\", looking again", s->record.id, err.msg);
                resume_recheck(w);
        } else if (s->state == GUEST_KILLED) {
                (void)err_set(&err, ERR_CONFLICT, "sandbox %s was killed while it was being made", s->record.id);
                resume_failed(w, &err);
        } else
                is_resumed(s, TAKE_PTR(w->ask), w->began_us, "checkpoint",
                           answer->envd_silent.kind != ERR_NONE ? &answer->envd_silent : NULL);
}

/* ------------------------------------------------------------- how it begins */

bool resume_can_thaw(const struct guest *s, const struct plan_create *plan)
{
        return plan->is_upper_kept && strcmp(plan->checkpoint, s->paused.checkpoint) == 0;
}

static int tell_resume_marker(struct guest *s, enum resume_marker_what what)
{
        struct resume_marker_order o = {.turn = s->thaw_turn, .pid = s->record.pid, .what = what, .paused = s->paused};

        memcpy(o.id, s->record.id, sizeof(o.id));
        return helper_send(&s->engine->resume_marker, &o, sizeof(o), NULL, 0);
}

/* A marker that is dead is being replaced, and hears all of it then. */
int resume_mark(struct guest *s)
{
        int r = tell_resume_marker(s, s->thaw_failure.kind == ERR_NONE ? MARK_RESUMES : MARK_PAUSED);

        return r == -EPIPE ? 0 : r;
}

static void stay_paused(struct guest *s)
{
        guest_answer_at_end(s, TAKE_PTR(s->thawing), &s->thaw_failure);
        guest_stop(s);
}

/* Nothing of it has moved: it is paused as before, but for its processes, which are ended. */
static void thaw_give_up(struct guest *s)
{
        log_warn("sandbox.failed", "sandbox=%s error=\"%s\"", s->record.id, s->thaw_failure.msg);
        if (resume_mark(s) == 0)
                return;
        log_error("sandbox.lost", "sandbox=%s, it could not be recorded that the sandbox is paused", s->record.id);
        stay_paused(s);
}

static void thaw_is_given_up(struct guest *s, int result)
{
        if (result < 0)
                log_error("sandbox.lost", "sandbox=%s error=\"%s\"", s->record.id, strerror(-result));
        stay_paused(s);
}

/* That it moves is on disk: now it may.  A crash at any point leaves it paused, or running (resume_marker.c). */
static void thaw_is_marked(struct guest *s, int result)
{
        if (result == 0)
                result = guest_is_dead(s) ? -ESRCH : s->ops->thaw(s);
        if (result < 0) {
                (void)err_sys(&s->thaw_failure, result, "thaw sandbox %s", s->record.id);
                thaw_give_up(s);
                return;
        }
        (void)tell_resume_marker(s, MARK_RUNS); /* else what it throws away goes with the next pause */
        is_resumed(s, TAKE_PTR(s->thawing), s->thaw_began_us, "warm", NULL);
}

void resume_marked(struct guest *s, const struct resume_marker_order *o)
{
        if (!s->thawing || s->thaw_turn != o->turn)
                return; /* it was killed meanwhile */
        if (o->what == MARK_RESUMES && s->thaw_failure.kind == ERR_NONE)
                thaw_is_marked(s, o->result);
        else if (o->what == MARK_PAUSED && s->thaw_failure.kind != ERR_NONE)
                thaw_is_given_up(s, o->result);
}

/* Nobody inside has to be told: it never was anything else, and its connections of before were closed by their other ends.
 * An engine that dies on the way leaves a frozen one, which the next thaws (adopt.c). */
static int resume_by_thaw(struct guest *s, struct plan_create *plan, struct ask *a, struct err *err)
{
        int r = s->ops->set_net(s, &plan->net, err);

        if (r < 0)
                return r;
        warm_forget(s);
        s->thaw_failure = (struct err){0};
        s->thaw_turn = s->engine->mark_turn++;
        r = resume_mark(s);
        if (r < 0)
                return err_sys(err, r, "thaw sandbox %s", s->record.id);
        s->thawing = a;
        s->thaw_began_us = clock_mono_us();
        return 0;
}

static int resume_from_checkpoint(struct guest *s, struct plan_create *plan, struct ask *a, struct err *err)
{
        struct job job = {.kind = JOB_RESTORE, .makes_directory = s->source == GUEST_IS_NEW, .restore.plan = plan};
        struct guest_job *w;
        int r;

        r = s->ops->resume(s, &job, err);
        if (r < 0)
                return r;
        job.note.facts = s->record.facts;
        job.note.net = plan->net;
        memcpy(job.note.checkpoint, plan->checkpoint, sizeof(job.note.checkpoint));
        job.restore.turn = s->engine->mark_turn++;
        job.restore.is_recent = recent_checkpoints_has(&s->engine->recent, plan->checkpoint, clock_mono_us());
        w = guest_job_create(s, &job, a);
        if (!w)
                return err_sys(err, -ENOMEM, "restore sandbox %s", s->record.id);
        w->on_done = on_restored;
        r = s->ops->set_net(s, &plan->net, err);
        if (r < 0)
                guest_job_discard(w);
        else
                guest_job_start(w);
        return r;
}

void resume_begin(struct guest *s, struct plan_create *plan, struct ask *a)
{
        bool is_warm = s->state == GUEST_WARM;
        struct err err = {0};

        s->source = s->state == GUEST_WAITING ? GUEST_IS_NEW : GUEST_WAS_PAUSED;
        guest_go(s, GUEST_RESUMING);
        if (!is_warm && s->engine->checkpoints_why[0])
                (void)err_set(&err, ERR_UNAVAILABLE, "%s", s->engine->checkpoints_why);
        if (err.kind == ERR_NONE &&
            (is_warm ? resume_by_thaw(s, plan, a, &err) : resume_from_checkpoint(s, plan, a, &err)) == 0) {
                plan_done(plan);
                return;
        }
        plan_done(plan);
        guest_answer_at_end(s, a, &err);
        if (s->source == GUEST_WAS_PAUSED)
                guest_stop(s);
        else
                guest_end(s);
}
