#include "engine/rest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/errand.h"
#include "engine/trash.h"
#include "engine/warm.h"
#include "engine/work.h"
#include "sys/fs.h"

/* ------------------------------------------------------------- to rest */

static void runs_on(struct work *w, const struct err *err)
{
        struct guest *s = w->guest;

        log_warn("sandbox.awake", "sandbox=%s error=\"%s\"", s->record.id, err->msg);
        work_fail(w, err);
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

static void rests(struct work *w, const json_t *answer)
{
        struct guest *s = w->guest;
        bool is_orphan = !w->ask->client, is_warm;
        uint64_t us = clock_mono_us() - w->began_us;

        s->still = w->still; /* one that is not durable is about to be copied: nobody will wake it as it is */
        is_warm = w->is_durable && s->still.checkpoint[0] && !s->is_dead && !s->is_doomed && warm_add(s);
        if (!w->is_durable && s->still.checkpoint[0])
                fresh_add(&s->engine->fresh, s->still.checkpoint, clock_mono_us());
        log_info("sandbox.paused", "sandbox=%s checkpoint=%s took_us=%llu warm=%d", s->record.id, s->still.checkpoint,
                 (unsigned long long)us, is_warm);
        ask_ok(TAKE_PTR(w->ask),
               json_pack("{s:O,s:O,s:I,s:b}", "bytes", json_object_get(answer, "bytes"), "frozen_us",
                         json_object_get(answer, "frozen_us"), "took_us", (json_int_t)us, "warm", is_warm),
               -1);
        if (s->is_doomed)
                guest_end(s);
        else if (!is_warm)
                guest_leave(s);
        if (is_orphan)
                guest_tell(s, "settled");
}

static void on_paused(struct work *w, const json_t *answer, const struct err *err, int *fds, size_t nfds)
{
        (void)fds, (void)nfds;
        if (!answer) {
                w->guest->still = w->still; /* what was being written */
                guest_go(w->guest, GUEST_BUSY);
                work_settle(w->guest, TAKE_PTR(w->ask), ADOPT_RESTING);
        } else if (err->kind != ERR_NONE)
                runs_on(w, err);
        else
                rests(w, answer);
}

json_t *rest_job(const struct guest *s, const char *op, const char *checkpoint, const json_t *origin)
{
        const struct record *r = &s->record;

        return json_pack("{s:s,s:s,s:s*,s:i,s:i,s:I,s:I,s:s,s:O*}", "op", op, "id", r->id, "checkpoint",
                         checkpoint[0] ? checkpoint : NULL, "slot", (int)r->slot, "pid", (int)r->pid, "uid_base",
                         (json_int_t)r->uid_base, "address",
                         (json_int_t)(s->engine->filter ? instance_address(&s->engine->instance, r->slot) : 0), "envd",
                         r->envd, "origin", origin);
}

static json_t *describe(const struct guest *s, const char *checkpoint, bool is_durable, const json_t *origin)
{
        json_t *job = rest_job(s, "pause", checkpoint, origin);

        if (job && json_object_set_new(job, "durable", json_boolean(is_durable)) < 0) {
                json_decref(job);
                job = NULL;
        }
        return job;
}

void rest_pause(struct guest *s, const char *checkpoint, bool is_durable, const json_t *origin, struct ask *a)
{
        struct work_note note = {.slot = s->record.slot, .net = s->record.net};
        struct work *w = work_create(s, describe(s, checkpoint, is_durable, origin), a);
        struct err err = {0};

        if (!w) {
                (void)err_sys(&err, -ENOMEM, "pause");
                ask_fail(a, &err);
                return;
        }
        (void)snprintf(note.checkpoint, sizeof(note.checkpoint), "%s", checkpoint);
        memcpy(w->still.checkpoint, note.checkpoint, sizeof(note.checkpoint));
        w->is_durable = is_durable;
        w->on_done = on_paused;
        w->job.is_long = true;
        guest_go(s, GUEST_PAUSING);
        s->engine->alive--;
        if (work_start(w, &note, &err) < 0) {
                guest_go(s, GUEST_RUNNING);
                s->engine->alive++;
                ask_fail(a, &err);
        }
}

/* ------------------------------------------------------------- at rest */

/* Its worker died: what still.json says counts. */
static bool is_sealed_all_the_same(const struct work *w)
{
        const struct engine *e = w->guest->engine;
        AUTO_CLOSE int dir = sys_open_dir(e->sandboxes_dir, w->guest->record.id);
        struct err err = {0};
        struct still now;

        return dir >= 0 && still_read(dir, w->guest->record.id, &now, &err) == 0 &&
               strcmp(now.sealed, w->still.sealed) == 0 &&
               faccessat(e->sealed_dir, now.sealed, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void on_sealed(struct work *w, const json_t *answer, const struct err *err, int *fds, size_t nfds)
{
        struct guest *s = w->guest;

        (void)fds, (void)nfds;
        if (err->kind == ERR_NONE || (!answer && is_sealed_all_the_same(w))) {
                memcpy(s->still.sealed, w->still.sealed, sizeof(s->still.sealed));
                ask_ok(TAKE_PTR(w->ask), json_pack("{s:O*}", "bytes", json_object_get(answer, "bytes")), -1);
        } else
                ask_fail(TAKE_PTR(w->ask), err);
        if (s->is_doomed)
                guest_end(s);
}

void rest_seal(struct guest *s, const char *layer, const json_t *origin, struct ask *a)
{
        struct work_note note = {0};
        struct err err = {0};
        struct work *w;

        if (s->still.sealed[0] && strcmp(s->still.sealed, layer) != 0) {
                (void)err_set(&err, ERR_CONFLICT, "the files of sandbox %s are sealed as layer %s", s->record.id,
                              s->still.sealed);
                ask_fail(a, &err);
                return;
        }
        w = work_create(
                s, json_pack("{s:s,s:s,s:s,s:O*}", "op", "seal", "id", s->record.id, "layer", layer, "origin", origin),
                a);
        if (!w) {
                (void)err_sys(&err, -ENOMEM, "seal");
                ask_fail(a, &err);
                return;
        }
        (void)snprintf(w->still.sealed, sizeof(w->still.sealed), "%s", layer);
        w->on_done = on_sealed;
        w->job.is_repeatable =
                true; /* a worker may die between moving the files and saying so: they must not be forgotten */
        if (work_start(w, &note, &err) < 0)
                ask_fail(a, &err);
}

static void on_kept(struct work *w, const json_t *answer, const struct err *err, int *fds, size_t nfds)
{
        struct guest *s = w->guest;

        (void)answer, (void)fds, (void)nfds;
        if (err->kind == ERR_NONE) {
                s->still.boot_id[0] = '\0';
                ask_ok(TAKE_PTR(w->ask), NULL, -1);
        } else
                ask_fail(TAKE_PTR(w->ask), err);
        if (s->is_doomed)
                guest_end(s);
}

void rest_keep(struct guest *s, struct ask *a)
{
        struct work *w = work_create(s, json_pack("{s:s}", "op", "keep"), a);
        struct err err = {0};

        if (!w) {
                (void)err_sys(&err, -ENOMEM, "keep");
                ask_fail(a, &err);
                return;
        }
        w->on_done = on_kept;
        w->job.is_long = w->job.is_repeatable = true;
        if (work_start(w, &(struct work_note){0}, &err) < 0)
                ask_fail(a, &err);
}

/* ------------------------------------------------------------- what belongs to no sandbox */

void rest_flush(struct engine *e, const char *checkpoint, const char *layer, struct ask *a)
{
        if (checkpoint)
                fresh_forget(&e->fresh, checkpoint);
        errand_run(e,
                   &(struct errand_how){.what = json_pack("{s:s,s:s*,s:s*}", "op", "flush", "checkpoint", checkpoint,
                                                          "layer", layer),
                                        .is_long = true},
                   a);
}

int rest_drop(struct engine *e, int dir, const char *name)
{
        return trash_throw(e, dir, name);
}
