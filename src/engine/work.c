#include "engine/work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/adopt.h"
#include "engine/janitor.h"
#include "sys/proc.h"

static void free_memory(struct task *t)
{
        free(CONTAINER_OF(t, struct work, free_task));
}

static void work_free(struct work *w)
{
        plan_done(&w->plan);
        w->free_task.run = free_memory;
        loop_post(w->guest->engine->loop, &w->free_task);
}

static void read_error(const json_t *answer, struct err *err)
{
        const json_t *e = json_object_get(answer, "error");
        const char *msg = json_string_value(json_object_get(e, "message"));

        if (!answer)
                (void)err_set(err, ERR_INTERNAL, "its worker died");
        else if (e)
                (void)err_set(err, err_kind_from_name(json_string_value(json_object_get(e, "kind"))), "%s",
                              msg ? msg : "no reason was given");
}

/* Its end and its worker's last word arrive in any order; the end counts. */
static void notice_death(struct guest *s)
{
        bool is_worked_on = s->state == GUEST_PAUSING || s->state == GUEST_COPYING || s->state == GUEST_WAKING ||
                            s->state == GUEST_BUSY;

        if (is_worked_on && s->death.loop && sys_pidfd_is_dead(s->death.fd)) {
                loop_del(&s->death);
                s->is_dead = true;
        }
}

static void on_done(struct vault_job *j, const json_t *answer, int *fds, size_t nfds)
{
        struct work *w = CONTAINER_OF(j, struct work, job);
        struct guest *s = w->guest;
        struct err err = {0};

        read_error(answer, &err);
        s->work = NULL;
        sweeper_call(&s->engine->sweeper); /* workers throw things away, too */
        notice_death(s);
        w->on_done(w, answer, &err, fds, nfds);
        work_free(w);
}

struct work *work_create(struct guest *s, json_t *what, struct ask *a)
{
        struct work *w = what ? calloc(1, sizeof(*w)) : NULL;

        if (!w) {
                json_decref(what);
                return NULL;
        }
        *w = (struct work){.guest = s, .ask = a, .began_us = clock_mono_us()};
        w->job = (struct vault_job){.what = what, .on_done = on_done};
        return w;
}

void work_discard(struct work *w)
{
        json_decref(w->job.what);
        work_free(w);
}

int work_start(struct work *w, const struct work_note *note, struct err *err)
{
        struct guest *s = w->guest;
        struct work_note here = *note; /* borrows its rules */

        memcpy(here.boot_id, s->engine->boot_id, sizeof(here.boot_id));
        if (json_object_set_new(w->job.what, "id", json_string(s->record.id)) < 0 ||
            json_object_set_new(w->job.what, "note", work_note_encode(&here)) < 0) {
                work_discard(w);
                return err_sys(err, -ENOMEM, "work on sandbox %s", s->record.id);
        }
        s->work = w;
        vault_run(&s->engine->vault, &w->job);
        return 0;
}

bool work_give_up(struct guest *s)
{
        struct work *w = s->work;
        struct err err = {0};

        if (!vault_cancel(&w->job))
                return false;
        s->work = NULL;
        (void)err_set(&err, ERR_CONFLICT, "sandbox %s was killed", s->record.id);
        ask_fail(TAKE_PTR(w->ask), &err);
        work_free(w);
        return true;
}

void work_fail(struct work *w, const struct err *err)
{
        struct err why = *err;

        if (w->guest->is_dead) /* whatever else went wrong */
                why.kind = ERR_GONE;
        ask_fail(TAKE_PTR(w->ask), &why);
}

bool work_is_making(const struct engine *e, const char *name)
{
        MAP_EACH (slot, &e->sandboxes) {
                const struct guest *s = slot->value;
                const struct still *makes = s->state == GUEST_BUSY ? &s->still : s->work ? &s->work->still : NULL;

                if (makes && (strcmp(makes->checkpoint, name) == 0 || strcmp(makes->sealed, name) == 0))
                        return true;
        }
        return false;
}

/* ------------------------------------------------------------- after a worker that is not ours to hear */

static void on_settled(struct work *w, const json_t *answer, const struct err *err, int *fds, size_t nfds)
{
        (void)answer, (void)err, (void)fds, (void)nfds;
        adopt_settle(w->guest, TAKE_PTR(w->ask), w->wish);
}

void work_settle(struct guest *s, struct ask *a, enum adopt_wish wish)
{
        struct work *w = work_create(s, json_pack("{s:s,s:s}", "op", "settle", "id", s->record.id), a);

        if (!w) {
                log_error("sandbox.stuck", "sandbox=%s error=\"out of memory\", until the engine starts again",
                          s->record.id);
                ask_fail(a, &(struct err){.kind = ERR_INTERNAL, .msg = "out of memory"});
                return;
        }
        w->job.only_waits = true;
        w->on_done = on_settled;
        w->wish = wish;
        s->work = w;
        vault_run(&s->engine->vault, &w->job);
}
