/* job_restore.c - processes of a sandbox are made from a checkpoint, step by step (enum restore_step).
 *
 * A step that fails leads back (restore_undo), unless the processes have run on files that are kept. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/net/slot_network.h"
#include "engine/records/origin.h"
#include "engine/checkpoint/unlinked_files.h"
#include "engine/records/paused.h"
#include "engine/jobs/job_process.h"
#include "engine/jobs/envd_introduce.h"
#include "engine/jobs/envd_copies.h"
#include "engine/jobs/hostname.h"
#include "engine/jobs/restore_freeze.h"
#include "engine/jobs/restore_place.h"
#include "engine/checkpoint/used_checkpoints.h"
#include "sys/fs.h"
#include "sys/netlink.h"

#define DEATH_MS 10000
#define DYING_MS 2000 /* a sandbox that does not answer may be about to die: that takes a moment */
#define FROZEN_MS 10000
/* CRIU works in the sandbox's cgroups, and needs room there for itself: for what it knows of each process. */
#define SPARE_MEMORY (1u << 30)
#define SPARE_PIDS 64u

struct restoring {
        const struct job_conf *conf;
        const struct plan_create *plan;
        struct record record; /* as it will be */
        struct paused paused; /* as it is paused, and will be again if the restore fails */
        bool was_paused;
        uint64_t turn;            /* of its mark: used_checkpoints.h */
        bool is_recent;           /* recent_checkpoints.h */
        bool has_moved;           /* its processes run, or may have run */
        int dir;                  /* sandboxes/<id> */
        struct writable writable; /* its files */
        int host_netns, host_netlink;
        struct checkpoint *checkpoint;
        struct restore_place place;
        pthread_t verifier;
        bool is_verifying;
        struct err damage;
        bool is_standby;
        char host_version[HOST_LAYER_VERSION_MAX]; /* then: host_layer.h */
        int cgroup;                                /* of v2; -1: none */
        int netns;                                 /* its own */
};

/* ------------------------------------------------------------- checking while CRIU reads */

static void *verify_images(void *arg)
{
        struct restoring *w = arg;

        (void)checkpoint_verify_large(w->checkpoint, &w->damage);
        return NULL;
}

static int await_verdict(struct restoring *w, struct err *err)
{
        if (w->is_verifying)
                (void)pthread_join(w->verifier, NULL);
        w->is_verifying = false;
        if (w->damage.kind == ERR_NONE)
                return 0;
        *err = w->damage;
        return -EINVAL;
}

static int open_checkpoint(struct restoring *w, struct err *err)
{
        AUTO_CLOSE int dir = sys_open_dir(w->conf->checkpoints_dir, w->plan->checkpoint);
        int r;

        if (dir < 0)
                return err_sys(err, dir, "checkpoint %s", w->plan->checkpoint);
        r = checkpoint_open(dir, &w->checkpoint, err);
        if (r == 0)
                r = checkpoint_verify_small(w->checkpoint, err);
        if (r < 0 || w->is_recent)
                return r;
        if (pthread_create(&w->verifier, NULL, verify_images, w) == 0)
                w->is_verifying = true;
        else
                r = checkpoint_verify_large(w->checkpoint, err);
        return r;
}

/* ------------------------------------------------------------- what CRIU asks on the way */

static int on_namespaces(pid_t pid, void *arg, struct err *err)
{
        struct restoring *w = arg;
        const struct job_conf *c = w->conf;
        int r;

        w->netns = sys_ns_open(c->proc_dir, pid, "net");
        if (w->netns < 0)
                return err_sys(err, w->netns, "open network namespace");
        r = slot_network_furnish(c->instance, w->record.facts.namespace.slot, c->has_link, w->host_netlink, w->netns,
                                 checkpoint_facts(w->checkpoint)->address, err);
        if (setns(w->host_netns, CLONE_NEWNET) < 0)
                return err_sys(err, -errno, "return to the host's network namespace");
        return r;
}

static int set_hostname(struct restoring *w, pid_t pid, struct err *err)
{
        AUTO_CLOSE int uts = sys_ns_open(w->conf->proc_dir, pid, "uts");

        return uts < 0 ? err_sys(err, uts, "open UTS namespace") : hostname_set(w->conf, w->plan, uts, err);
}

/* After a power cut the sandbox must not be restored from this checkpoint again: its files have changed (used_checkpoints.h). */
static int leave_pause(struct restoring *w, struct err *err)
{
        const struct job_conf *c = w->conf;
        bool is_marked = w->plan->is_upper_kept && c->used_checkpoints >= 0;
        int r = is_marked ? used_checkpoints_mark(c->used_checkpoints, w->turn, w->plan->checkpoint, c->boot_id, err)
                          : 0;

        if (r < 0)
                return r;
        job_stall_point(c, "marked");
        r = paused_remove(w->dir);
        if (r < 0) {
                if (is_marked)
                        (void)used_checkpoints_unmark(c->used_checkpoints, w->plan->checkpoint, NULL);
                return err_sys(err, r, "restore sandbox %s", w->plan->id);
        }
        return w->plan->is_upper_kept && !is_marked ? used_checkpoints_flush(w->dir, err) : 0;
}

/* From here on the sandbox runs. */
static int on_before_resume(pid_t pid, void *arg, struct err *err)
{
        struct restoring *w = arg;
        int r;

        if ((r = await_verdict(w, err)) < 0 || (r = set_hostname(w, pid, err)) < 0)
                return r;
        w->record.pid = pid;
        w->record.is_stranger = strcmp(checkpoint_facts(w->checkpoint)->sandbox, w->plan->id) != 0;
        r = sys_start_time(w->conf->proc_dir, pid, &w->record.start_time);
        if (r < 0)
                return err_sys(err, r, "read start time");
        job_stall_point(w->conf, w->is_standby ? "standby_restored" : "restored");
        r = record_write(w->dir, &w->record, err);
        if (r == 0 && w->is_standby)
                r = restore_freeze(w->conf, w->record.facts.namespace.slot, err);
        if (r == 0 && w->was_paused)
                r = leave_pause(w, err);
        w->has_moved = r == 0;
        return r;
}

/* ------------------------------------------------------------- the steps */

/* A copy counts as another machine, and has another machine-id. */
static void renew_machine_id(struct restoring *w)
{
        AUTO_CLOSE int etc = -1, fd = -1;
        uint8_t bytes[16];
        char text[34];

        if (w->plan->is_upper_kept || strcmp(checkpoint_facts(w->checkpoint)->sandbox, w->plan->id) == 0)
                return;
        etc = sys_open_dir(w->place.rootfs.mount, "etc");
        if (etc < 0 || faccessat(etc, "machine-id", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                return;
        random_bytes(bytes, sizeof(bytes));
        hex_encode(bytes, sizeof(bytes), text);
        text[32] = '\n';
        sys_set_fsids(w->record.facts.namespace.uid_base, w->record.facts.namespace.uid_base);
        if (unlinkat(etc, "machine-id", 0) == 0)
                fd = openat(etc, "machine-id", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
        if (fd < 0 || write(fd, text, 33) != 33)
                log_warn("machine_id.kept", "sandbox=%s error=\"%s\"", w->plan->id, strerror(errno));
        sys_set_fsids(0, 0);
}

static struct plan_limits limits_with_criu(const struct restoring *w)
{
        struct plan_limits l = w->plan->limits;

        l.memory_bytes += SPARE_MEMORY;
        l.pids += SPARE_PIDS;
        return l;
}

/* CRIU is gone: only what the sandbox itself may use. */
static int limit_again(const struct restoring *w, struct err *err)
{
        const struct plan_limits before = limits_with_criu(w);

        return cgroups_limit(w->conf->cgroups, w->record.facts.namespace.slot, &before, &w->plan->limits, err);
}

static int enter_cgroups(struct restoring *w, struct err *err)
{
        const struct cgroups *c = w->conf->cgroups;
        const struct plan_limits limits = limits_with_criu(w);
        int r;

        (void)cgroups_recycle(c, w->record.facts.namespace.slot); /* of a restore that failed half way */
        r = cgroups_make(c, w->record.facts.namespace.slot, &limits, &w->cgroup, err);
        return r < 0 ? r : cgroups_join_thread_v1(c, w->record.facts.namespace.slot, err);
}

static int restore_processes(struct restoring *w, pid_t *ret_pid, struct err *err)
{
        const struct criu_restore what = {.images = w->place.images,
                                          .work = w->place.work,
                                          .root = w->place.root,
                                          .dev = w->place.dev,
                                          .uid_base = w->record.facts.namespace.uid_base,
                                          .cgroup = &w->cgroup,
                                          .dies_with_caller = w->is_standby, /* nobody else wants it */
                                          .on_namespaces = on_namespaces,
                                          .on_before_resume = on_before_resume,
                                          .arg = w};
        int r;

        w->host_netns = sys_ns_open(w->conf->proc_dir, 0, "net");
        w->host_netlink = netlink_open();
        if (w->host_netns < 0 || w->host_netlink < 0)
                return err_sys(err, w->host_netns < 0 ? w->host_netns : w->host_netlink, "open own network namespace");
        r = criu_restore(&w->conf->tool, &what, ret_pid, err);
        if (r < 0 && w->damage.kind != ERR_NONE)
                *err = w->damage; /* the damage may be why CRIU failed */
        return r;
}

static int init_envd(struct restoring *w, struct err *err)
{
        json_t *init = json_copy(w->plan->init);
        int r;

        (void)json_object_set_new(init, "resumed", json_true());
        r = envd_introduce(w->netns, w->plan->token_before, init, err);
        json_decref(init);
        if (r < 0 || !w->record.is_stranger)
                return r;
        w->record.is_stranger = false;
        return record_write(w->dir, &w->record, err);
}

/* CRIU has let go of them: each stops before it is back in its own program. */
static int await_frozen(const struct restoring *w, struct err *err)
{
        int r = cgroups_wait_frozen(w->conf->cgroups, w->record.facts.namespace.slot, FROZEN_MS);

        return r < 0 ? err_sys(err, r, "freeze slot %u", w->record.facts.namespace.slot) : 0;
}

static void kill_restored(pid_t pid)
{
        AUTO_CLOSE int fd = sys_pidfd_open(pid);

        if (fd < 0 || sys_pidfd_kill(fd, SIGKILL) < 0 || sys_pidfd_wait(fd, DEATH_MS) < 0)
                log_error("sandbox.left", "pid=%d", pid);
}

/* Its processes have run on the files that are kept, and may have changed them: the checkpoint does not fit these files any more. */
static bool is_spent(const struct restoring *w)
{
        return w->has_moved && w->was_paused && w->plan->is_upper_kept;
}

/* Paused as before, with its memory where that still fits its files.  What was not paused before is removed by the engine. */
static void restore_undo(struct restoring *w, pid_t pid, struct err *err)
{
        struct err why = {0}, first = *err;

        if (w->is_verifying)
                (void)pthread_join(w->verifier, NULL);
        if (pid > 0)
                kill_restored(pid);
        if (is_spent(w)) {
                w->paused.checkpoint[0] = '\0';
                (void)err_set(err, first.kind, "%.160s; its processes had begun to run: only its files are kept",
                              first.msg);
        }
        if (w->was_paused && !w->plan->is_upper_kept)
                writable_discard(&w->writable); /* the processes may have written to it */
        if (w->was_paused && w->paused.boot_id[0] && writable_flush(&w->writable, &why) == 0)
                w->paused.boot_id[0] = '\0'; /* it was paused only for a moment, now it may be for long */
        if (w->was_paused && paused_write(w->dir, w->plan->id, &w->paused, true, &why) < 0)
                log_error("sandbox.lost", "sandbox=%s error=\"%s\"", w->plan->id, why.msg);
        (void)record_remove(w->dir);
}

/* The sandbox that runs is handed over to the engine, also if its envd does not answer. */
static int hand_over(struct restoring *w, pid_t pid, const struct err *envd_silent, struct job_answer *ret,
                     struct err *err)
{
        int fd = sys_pidfd_open(pid);

        if (fd >= 0 && (envd_silent ? sys_pidfd_wait(fd, DYING_MS) == 0 : sys_pidfd_is_dead(fd)))
                close_fd(&fd), fd = -ESRCH;
        if (fd < 0)
                return envd_silent ? fd : err_sys(err, fd, "watch process");
        ret->pidfd = fd;
        ret->netns = w->netns;
        memcpy(ret->host_version, w->host_version, sizeof(ret->host_version));
        if (envd_silent)
                ret->envd_silent = *envd_silent;
        return 0;
}

enum restore_step { STEP_CHECK, STEP_PLACE, STEP_GROUPS, STEP_RESTORE, STEP_INIT, STEPS };

static void restore_log_steps(const struct restoring *w, const uint64_t at[STEPS + 1])
{
        log_debug("restore.steps", "sandbox=%s check_us=%llu place_us=%llu groups_us=%llu restore_us=%llu init_us=%llu",
                  w->plan->id, (unsigned long long)(at[1] - at[0]), (unsigned long long)(at[2] - at[1]),
                  (unsigned long long)(at[3] - at[2]), (unsigned long long)(at[4] - at[3]),
                  (unsigned long long)(at[5] - at[4]));
}

static int restore_run_step(struct restoring *w, enum restore_step step, pid_t *pid, struct err *err)
{
        int r;

        switch (step) {
        case STEP_CHECK: return open_checkpoint(w, err);
        case STEP_PLACE:
                if (w->is_standby && host_layer_version(w->conf->host_dir, w->host_version) < 0)
                        w->host_version[0] = '\0'; /* before they are looked at: what changes meanwhile has changed */
                memcpy(w->record.envd, checkpoint_facts(w->checkpoint)->envd, sizeof(w->record.envd));
                r = w->plan->is_upper_kept ? unlinked_files_put_back(&w->writable, err) : 0;
                if (r < 0)
                        return r;
                origin_write(w->dir, w->plan->id, w->plan->origin);
                r = restore_place_make(&w->place, w->conf, w->dir, w->plan, w->checkpoint,
                                       w->record.facts.namespace.uid_base, err);
                if (r == 0)
                        renew_machine_id(w);
                return r;
        case STEP_GROUPS: return enter_cgroups(w, err);
        case STEP_RESTORE:
                job_stall_point(w->conf, w->is_standby ? "standby_placed" : "placed");
                r = restore_processes(w, pid, err);
                job_stall_point(w->conf, w->is_standby ? "standby_frozen" : "running");
                return r < 0 ? r : limit_again(w, err);
        case STEP_INIT:
                if (w->is_standby)
                        return await_frozen(w, err);
                job_stall_point(w->conf, "resumed");
                job_say_waits(w->conf);
                return init_envd(w, err);
        case STEPS: break;
        }
        return 0;
}

static int restore_sandbox(struct restoring *w, struct job_answer *ret, struct err *err)
{
        uint64_t at[STEPS + 1] = {clock_mono_us()};
        pid_t pid = 0;
        int r = 0;

        for (int step = 0; step < STEPS && r == 0; step++) {
                r = restore_run_step(w, (enum restore_step)step, &pid, err);
                at[step + 1] = clock_mono_us();
        }
        if (r == 0) {
                restore_log_steps(w, at);
                r = hand_over(w, pid, NULL, ret, err);
        } else if (pid > 0 && is_spent(w)) { /* control pauses it as it is now */
                r = hand_over(w, pid, err, ret, NULL);
                if (r == 0)
                        *err = (struct err){0};
        }
        if (r < 0)
                restore_undo(w, pid, err);
        else
                (void)writable_names_discard(&w->writable);
        restore_place_clear(&w->place, w->conf, w->dir);
        return r;
}

int job_restore(const struct job_conf *c, const struct job *job, struct job_answer *ret, struct err *err)
{
        const struct job_restore *how = &job->restore;
        struct restoring w = {.conf = c,
                              .plan = how->plan,
                              .turn = how->turn,
                              .is_recent = how->is_recent,
                              .is_standby = how->is_standby,
                              .cgroup = -1,
                              .netns = -1,
                              .host_netns = -1,
                              .host_netlink = -1};
        struct err none = {0};

        restore_place_init(&w.place);
        w.dir = sys_open_dir(c->sandboxes_dir, job->id);
        if (w.dir < 0)
                return err_sys(err, w.dir, "open directory of sandbox %s", job->id);
        w.writable = job_writable(c, w.dir);
        w.was_paused = paused_read(w.dir, job->id, &w.paused, &none) == 0;
        if (!w.was_paused && none.kind != ERR_NOT_FOUND) { /* not known: nothing is begun that could not be undone */
                *err = none;
                return err_wrap(err, "sandbox %s", job->id);
        }
        memcpy(w.record.id, how->plan->id, sizeof(w.record.id));
        memcpy(w.record.boot_id, c->boot_id, sizeof(w.record.boot_id));
        w.record.facts.namespace.slot = how->namespace.slot;
        w.record.facts.namespace.uid_base = how->namespace.uid_base;
        w.record.started_ns = clock_real_ns();
        w.record.net = how->plan->net;
        w.record.limits = how->plan->limits;
        w.record.facts.namespace.is_restored = true;
        return restore_sandbox(&w, ret, err);
}
