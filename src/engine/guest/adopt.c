#include "engine/storage/trash_remover.h"
#include "engine/guest/adopt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/guest/deferred.h"
#include "engine/guest/guest.h"
#include "engine/records/lost_note.h"
#include "engine/checkpoint/unlinked_files.h"
#include "engine/guest/pause.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/used_checkpoints.h"
#include "engine/guest/guest_job.h"
#include "engine/guest/standby.h"
#include "engine/storage/writable.h"
#include "sys/fs.h"

int adopt_boot_id(int data_dir, char out[SYS_BOOT_ID_MAX])
{
        ssize_t n = sys_read_at(data_dir, "stall/boot_id", out, SYS_BOOT_ID_MAX);

        return n > 0 ? 0 : sys_boot_id(out);
}

/* The pid may have been given to another process meanwhile: compare before and after taking hold of it. */
static int find_process(const struct record *r, int proc_dir, const char *boot_id, int *ret_pidfd, struct err *err)
{
        AUTO_CLOSE int pidfd = -1;
        uint64_t start = 0;
        int x;

        if (strcmp(r->boot_id, boot_id) != 0)
                return err_set(err, ERR_NOT_FOUND, "the machine was started again since");
        pidfd = sys_pidfd_open(r->pid);
        x = pidfd < 0 ? pidfd : sys_start_time(proc_dir, r->pid, &start);
        if (x == -ESRCH || x == -ENOENT || (x == 0 && (start != r->start_time || sys_pidfd_is_dead(pidfd))))
                return err_set(err, ERR_NOT_FOUND, "process %d is gone", r->pid);
        if (x < 0)
                return err_sys(err, x, "look at process %d", r->pid);
        *ret_pidfd = TAKE_FD(pidfd);
        return 0;
}

int adopt_find(int dir, int proc_dir, const char *boot_id, struct record *ret, int *ret_pidfd, struct err *err)
{
        struct record r;
        int e = record_read(dir, &r, err);

        if (e < 0)
                return e;
        e = find_process(&r, proc_dir, boot_id, ret_pidfd, err);
        if (e < 0) {
                record_done(&r);
                return e;
        }
        *ret = r;
        return 0;
}

/* ------------------------------------------------------------- one that lives */

static int take_over(struct guest *s, struct record *r, int *pidfd, struct err *err)
{
        int x;

        if (strcmp(r->id, s->record.id) != 0 || r->facts.kind != s->ops->kind)
                return err_set(err, ERR_CONFLICT, "its record belongs elsewhere");
        x = s->ops->adopt(s, r, *pidfd, err);
        if (x < 0)
                return x;
        plan_net_done(&s->record.net);
        s->record = *r;
        *r = (struct record){0};
        x = guest_watch(s, TAKE_FD(*pidfd));
        return x < 0 ? err_sys(err, x, "watch process") : 0;
}

static int find_and_take(struct guest *s, int dir, struct err *err)
{
        AUTO_CLOSE int pidfd = -1;
        struct engine *e = s->engine;
        struct record r;
        int x = adopt_find(dir, e->proc_dir, e->boot_id, &r, &pidfd, err);

        if (x < 0)
                return x;
        x = take_over(s, &r, &pidfd, err);
        if (x < 0 && pidfd >= 0)
                (void)sys_pidfd_kill(pidfd, SIGKILL); /* alive, but nobody could ever reach it */
        record_done(&r);
        return x;
}

/* ------------------------------------------------------------- what there is of it */

static int adopt_running(struct guest *s, struct err *err)
{
        int r;

        if (s->record.is_stranger)
                return err_set(err, ERR_CONFLICT, "its job process died before it knew who it is");
        r = s->ops->go_on(s, err);
        if (r == 0)
                guest_go(s, GUEST_RUNNING);
        return r;
}

/* That it was resumed had reached the disk, but not that it is not paused any more: the power was cut. */
static void give_up_memory(struct guest *s, int dir)
{
        struct err err = {0};

        log_warn("sandbox.resumed_before",
                 "sandbox=%s checkpoint=%s was resumed when the machine went down, keeping its files only",
                 s->record.id, s->paused.checkpoint);
        s->paused.checkpoint[0] = '\0';
        if (paused_write(dir, s->record.id, &s->paused, true, &err) < 0)
                log_error("paused.stale", "sandbox=%s error=\"%s\"", s->record.id, err.msg);
}

static struct writable files_of(const struct guest *s, int dir)
{
        return (struct writable){.dir = dir, .sealed = s->engine->sealed_dir, .trash = s->engine->trash_dir};
}

/* It was to become a layer, and a crash came first: that never was. */
static void finish_seal(struct guest *s, int dir)
{
        const struct writable w = files_of(s, dir);
        struct err err = {0};

        if (!s->paused.sealed[0] || !writable_is_seal_undone(&w, s->paused.sealed))
                return;
        s->paused.sealed[0] = '\0';
        if (paused_write(dir, s->record.id, &s->paused, true, &err) < 0)
                log_error("paused.stale", "sandbox=%s error=\"%s\"", s->record.id, err.msg);
}

/* It is paused on disk: with all that its paused.json says? */
static void check_paused(struct guest *s, int dir)
{
        struct engine *e = s->engine;
        enum checkpoint_use used_checkpoints =
                e->used_checkpoints < 0 ? CHECKPOINT_UNUSED
                                        : used_checkpoints_find(e->used_checkpoints, s->paused.checkpoint, e->boot_id);
        struct err err = {0};

        finish_seal(s, dir);
        if (used_checkpoints == CHECKPOINT_USED_BEFORE)
                give_up_memory(s, dir);
        else if (used_checkpoints == CHECKPOINT_USED_NOW &&
                 used_checkpoints_unmark(e->used_checkpoints, s->paused.checkpoint, &err) < 0)
                log_error("used_checkpoints.stale", "sandbox=%s error=\"%s\"", s->record.id, err.msg);
}

/* It may be paused, and with its memory: to say so without would have that deleted.  Its processes, frozen if there are any, are
 * ended with it. */
static int adopt_unknown(struct guest *s, int dir, int r, const struct err *why, struct err *err)
{
        struct err none = {0};

        log_error("paused.unreadable", "sandbox=%s error=\"%s\"", s->record.id, why->msg);
        if (s->death.fd < 0)
                (void)find_and_take(s, dir, &none);
        *err = *why;
        return r;
}

/* What a job process that died left in its storage. */
static void discard_half_done(const struct guest *s, int dir, bool is_paused)
{
        const struct writable w = files_of(s, dir);
        bool has_copy = writable_copy_discard(&w) > 0, has_names = !is_paused && writable_names_discard(&w) > 0;

        if (has_copy || has_names)
                trash_remover_call(&s->engine->trash_remover);
}

/* BUSY -> what the disk says: paused, or running, or (negative) nothing that could be kept. */
static int recheck_disk(struct guest *s, struct err *err)
{
        struct engine *e = s->engine;
        AUTO_CLOSE int dir = sys_open_dir(e->sandboxes_dir, s->record.id);
        struct paused half = s->paused; /* what a job process was at */
        struct err why = {0};
        bool is_paused;
        int r = 0, read;

        if (dir == -ENOENT)
                return err_set(err, ERR_NOT_FOUND, "its directory is gone");
        if (dir < 0)
                return err_sys(err, dir, "open");
        s->paused = (struct paused){0};
        read = paused_read(dir, s->record.id, &s->paused, &why);
        is_paused = read == 0;
        if (!is_paused && why.kind != ERR_NOT_FOUND)
                return adopt_unknown(s, dir, read, &why, err);
        if (is_paused && s->paused.boot_id[0] && strcmp(s->paused.boot_id, e->boot_id) != 0) {
                (void)err_set(&why, ERR_NOT_FOUND, "it was being copied when the machine stopped");
                is_paused = false;
        }
        if (is_paused)
                check_paused(s, dir);
        if (half.checkpoint[0] && !checkpoint_is_complete(e->checkpoints_dir, half.checkpoint))
                (void)trash_throw(e, e->checkpoints_dir, half.checkpoint);
        discard_half_done(s, dir, is_paused);
        (void)job_note_remove(dir);
        if (s->death.fd < 0)
                r = find_and_take(s, dir, err);
        if (r < 0 && !is_paused)
                return r;
        if (!is_paused)
                return adopt_running(s, err);
        guest_stop(s);
        return 0;
}

/* Of one that is to be ended, if there are any: so that its end is waited for. */
static void find_processes(struct guest *s)
{
        AUTO_CLOSE int dir = sys_open_dir(s->engine->sandboxes_dir, s->record.id);
        struct err err = {0};

        if (s->death.fd < 0 && dir >= 0 && find_and_take(s, dir, &err) < 0)
                s->ops->kill(s);
}

/* Is this not the boot in which it ran?  Without a record that can be read it is not known to be. */
static bool was_rebooted(const struct guest *s)
{
        AUTO_CLOSE int dir = sys_open_dir(s->engine->sandboxes_dir, s->record.id);
        struct err err = {0};
        struct record r;
        bool is_this;

        if (dir < 0 || record_read(dir, &r, &err) < 0)
                return true;
        is_this = strcmp(r.boot_id, s->engine->boot_id) == 0;
        record_done(&r);
        return !is_this;
}

static bool has_paused_file(const struct guest *s)
{
        AUTO_CLOSE int dir = sys_open_dir(s->engine->sandboxes_dir, s->record.id);

        return dir >= 0 && faccessat(dir, PAUSED_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Nothing of it could be taken over.  ERR_NOT_FOUND, and only that: because it is known to be dead, or never began.
 * Whatever else was in the way may pass, and then its files are all there is of it. */
static void adopt_give_up(struct guest *s, const struct err *err)
{
        bool is_dead = err->kind == ERR_NOT_FOUND || s->record.is_stranger;
        struct lost_note *n = is_dead ? NULL : calloc(1, sizeof(*n));

        if (n) {
                n->lost_ns = clock_real_ns();
                (void)snprintf(n->was, sizeof(n->was), "%s", has_paused_file(s) ? "paused" : "running");
                (void)snprintf(n->why, sizeof(n->why), "%.*s", (int)sizeof(n->why) - 1, err->msg);
                s->lost = n;
        }
        if (n || s->death.loop) {
                guest_tell(s, "exited");
                guest_end(s); /* with what lives of it */
                return;
        }
        s->was_rebooted = was_rebooted(s);
        guest_exited(s);
}

static bool is_as_wished(const struct guest *s, enum adopt_wish wish)
{
        switch (wish) {
        case ADOPT_NOTHING: break;
        case ADOPT_RUNNING: return s->state == GUEST_RUNNING;
        case ADOPT_PAUSED: return s->state != GUEST_RUNNING;
        }
        return false;
}

static void fail_interrupted(const struct guest *s, struct ask *a)
{
        struct err err = {0};

        (void)err_set(&err, ERR_INTERRUPTED, "the job process of sandbox %s died: try again", s->record.id);
        ask_fail(a, &err);
}

/* One answer, and then a fact only if the fact says something else: control goes by the last word. */
static void adopt_tell(struct guest *s, struct ask *a, enum adopt_wish wish)
{
        if (is_as_wished(s, wish) && a && a->client) {
                ask_ok(a, json_object(), -1);
                return;
        }
        fail_interrupted(s, a);
        guest_tell(s, "rechecked");
}

void adopt_recheck(struct guest *s, struct ask *a, enum adopt_wish wish)
{
        struct err err = {0};
        int r;

        if (s->state == GUEST_KILLED) {
                fail_interrupted(s, a);
                find_processes(s);
                guest_end(s);
                return;
        }
        if (guest_is_dead(s)) {
                loop_del(&s->death);
                close_fd(&s->death.fd);
        }
        r = recheck_disk(s, &err);
        if (r < 0) {
                log_warn("sandbox.lost", "sandbox=%s error=\"%s\"", s->record.id, err.msg);
                fail_interrupted(s, a);
                adopt_give_up(s, &err);
                return;
        }
        log_info("sandbox.rechecked", "sandbox=%s state=%s", s->record.id,
                 s->state == GUEST_RUNNING ? "running" : "paused");
        adopt_tell(s, a, wish);
        if (s->state == GUEST_RUNNING)
                deferred_run(s);
}

/* ------------------------------------------------------------- all of them */

/* Somebody works on it, or did when everything was killed. */
static bool is_worked_on(struct guest *s, int dir)
{
        struct engine *e = s->engine;
        AUTO_CLOSE int lock = job_lock(e->sandboxes_dir, s->record.id);
        struct job_note note;
        struct err err = {0};
        bool is_of_this_boot;

        if (job_note_read(dir, &note, &err) < 0)
                return lock == -EWOULDBLOCK;
        is_of_this_boot = strcmp(note.boot_id, e->boot_id) == 0;
        if (is_of_this_boot && !kind_facts_is_empty(&note.facts) && s->ops->reserve(s, &note.facts)) {
                s->record.facts = note.facts;
                s->record.net = note.net;
                note.net = (struct plan_net){0};
        }
        memcpy(s->paused.checkpoint, note.checkpoint, sizeof(note.checkpoint));
        memcpy(s->paused.sealed, note.layer, sizeof(note.layer));
        plan_net_done(&note.net);
        return is_of_this_boot;
}

/* Of which kind is the sandbox?  One that nothing says it of is taken for one of the first kind: there is nothing to adopt. */
static const struct engine_ops *find_kind(const struct engine *e, int dir, const char *id)
{
        const struct engine_ops *ops = NULL;
        struct job_note note;
        struct paused paused;
        struct err err = {0};
        struct record r;

        if (record_read(dir, &r, &err) == 0) {
                ops = guest_kind(e, r.facts.kind);
                record_done(&r);
        } else if (job_note_read(dir, &note, &err) == 0) {
                ops = guest_kind(e, note.facts.kind);
                plan_net_done(&note.net);
        } else if (paused_read(dir, id, &paused, &err) == 0)
                ops = guest_kind(e, paused.kind);
        return ops ? ops : e->kinds[0];
}

/* What an engine before this one restored ahead belongs to nobody: it is ended.  While a job process is at it, not yet. */
static int end_standby(struct guest *s, int dir, struct err *err)
{
        bool is_busy = is_worked_on(s, dir);

        guest_go(s, GUEST_KILLED);
        if (is_busy)
                return 0; /* adopt_busy() */
        find_processes(s);
        guest_end(s);
        return err_set(err, ERR_NOT_FOUND, "it is a standby");
}

int adopt_one(struct engine *e, const char *id, struct err *err)
{
        AUTO_CLOSE int dir = sys_open_dir(e->sandboxes_dir, id);
        struct guest *s;
        int r;

        if (dir < 0)
                return err_sys(err, dir, "open");
        r = guest_add(e, id, find_kind(e, dir, id), &s, err);
        if (r < 0)
                return r;
        guest_go(s, GUEST_BUSY);
        if (guest_is_standby(s))
                return end_standby(s, dir, err);
        if (is_worked_on(s, dir))
                return 0;
        r = recheck_disk(s, err);
        if (r < 0)
                adopt_give_up(s, err);
        return r;
}

void adopt_busy(struct engine *e)
{
        MAP_EACH (slot, &e->sandboxes) {
                struct guest *s = slot->value;

                if ((s->state == GUEST_BUSY || s->state == GUEST_KILLED) && !s->job)
                        guest_job_recheck(s, NULL, ADOPT_NOTHING);
        }
}

int adopt_all(struct engine *e, struct err *err)
{
        AUTO_CLOSE int names = sys_open_dir(e->sandboxes_dir, ".");
        AUTO_DIR DIR *d = sys_list(e->sandboxes_dir);
        struct dirent *entry;

        if (!d)
                return err_sys(err, -errno, "read sandboxes directory");
        if (names < 0 ||
            flock(names, LOCK_EX) < 0) /* no standby gets the name of a sandbox meanwhile: job_hand_over.c */
                return err_sys(err, names < 0 ? names : -errno, "lock sandboxes directory");
        while ((entry = sys_list_next(d))) {
                struct err why = {0};

                if (entry->d_name[0] == '.')
                        continue;
                if (!guest_id_is_valid(str_of(entry->d_name)))
                        log_warn("sandbox.foreign", "name=%.64s is none of ours, leaving it", entry->d_name);
                else if (adopt_one(e, entry->d_name, &why) == 0)
                        log_info("sandbox.adopted", "sandbox=%s", entry->d_name);
                else
                        log_info("sandbox.ended", "sandbox=%s reason=\"%s\"", entry->d_name, why.msg);
        }
        return 0;
}
