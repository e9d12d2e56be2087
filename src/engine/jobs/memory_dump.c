#include "engine/jobs/memory_dump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/criu/criu_log.h"
#include "engine/jobs/envd_copies.h"
#include "engine/jobs/job_files.h"
#include "engine/storage/trash.h"
#include "sys/fs.h"
#include "sys/proc.h"

#define FREEZE_MS 10000
/* Memory and time that CRIU needs to restore processes grow by the square of their number.  More processes would take minutes
 * to save, and could not be restored within SPARE_MEMORY (job_restore.c). */
#define PROCESSES_MAX 1000u
#define DYING_MS 5000
#define FREEZE_ROUNDS 20u /* after each the sandbox runs a millisecond longer */

void memory_dump_init(struct memory_dump *d, const struct job_conf *c, const char *id, const char *checkpoint,
                      const struct job_namespace *sandbox)
{
        *d = (struct memory_dump){.conf = c,
                                  .id = id,
                                  .checkpoint = checkpoint,
                                  .sandbox = sandbox,
                                  .dir = -1,
                                  .checkpoint_dir = -1,
                                  .images = -1};
}

void memory_dump_thaw(const struct memory_dump *d)
{
        int r = cgroups_freeze(d->conf->cgroups, d->sandbox->slot, false);

        if (r < 0 && r != -EOPNOTSUPP)
                log_error("sandbox.stuck", "sandbox=%s slot=%u error=\"%s\"", d->id, d->sandbox->slot, strerror(-r));
}

static int freeze_once(const struct memory_dump *d, struct err *err)
{
        int r = cgroups_freeze(d->conf->cgroups, d->sandbox->slot, true);

        if (r == -EOPNOTSUPP)
                return err_set(err, ERR_UNAVAILABLE, "this host has no cgroup v2 hierarchy to freeze sandboxes with");
        if (r == 0)
                r = cgroups_wait_frozen(d->conf->cgroups, d->sandbox->slot, FREEZE_MS);
        if (r == -ETIMEDOUT)
                return err_set(err, ERR_CONFLICT, "its processes did not stop in %d ms", FREEZE_MS);
        return r < 0 ? err_sys(err, r, "freeze slot %u", d->sandbox->slot) : 0;
}

/* ------------------------------------------------------------- those who wait for a child */

/* In a frozen sandbox: a thread that waits in the kernel where no signal reaches it, for a child that uses its memory (vfork).
 * CRIU could not stop that thread either, and would try for ten seconds, twice. */
static pid_t find_waiting(const struct memory_dump *d, pid_t pid)
{
        char path[48], stat[512];
        AUTO_CLOSE int tasks = -1;
        AUTO_DIR DIR *list = NULL;
        const struct dirent *e;
        const char *at;

        (void)snprintf(path, sizeof(path), "%d/task", (int)pid);
        tasks = sys_open_dir(d->conf->proc_dir, path);
        list = tasks < 0 ? NULL : sys_list(tasks);
        while (list && (e = sys_list_next(list))) {
                (void)snprintf(path, sizeof(path), "%.20s/stat", e->d_name);
                if (sys_read_at(tasks, path, stat, sizeof(stat)) <= 0)
                        continue;
                at = strrchr(stat, ')');
                if (at && (strncmp(at, ") D", 3) == 0 || strncmp(at, ") R", 3) == 0)) /* R: about to */
                        return pid;
        }
        return 0;
}

static pid_t find_any_waiting(const struct memory_dump *d)
{
        static pid_t pids[PROCESSES_MAX];
        size_t n = 0;
        pid_t found = 0;

        if (cgroups_processes(d->conf->cgroups, d->sandbox->slot, pids, PROCESSES_MAX, &n) < 0)
                return 0;
        for (size_t i = 0; i < n && i < PROCESSES_MAX && !found; i++)
                found = find_waiting(d, pids[i]);
        return found;
}

/* By the pid that the process has inside the sandbox. */
static int blame_process(const struct memory_dump *d, pid_t pid, const char *what, struct err *err)
{
        char path[32], status[4096], name[CRIU_COMM_MAX] = "";
        const char *end;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "%d/status", (int)pid);
        n = sys_read_at(d->conf->proc_dir, path, status, sizeof(status));
        end = n > 0 ? strchr(status, '\n') : NULL;
        if (end && end - status > 6)
                criu_log_printable((struct str){status + 6, (size_t)(end - status) - 6}, name, sizeof(name));
        return err_set(err, ERR_CONFLICT, "pid %d (%s): %s; pause with memory:false keeps the files",
                       n > 0 ? (int)criu_log_inner_pid((struct str){status, (size_t)n}) : 0, name, what);
}

/* Its init is about to say that it may be looked at, which the child it lent its memory to took from it (spawn.c of envd).  Of
 * one that was restored, CRIU could not open the namespaces. */
static bool is_hidden(const struct memory_dump *d)
{
        char path[24];
        struct stat st;

        (void)snprintf(path, sizeof(path), "%d/stat",
                       (int)d->sandbox->pid); /* the directory itself is its own in any case */
        return fstatat(d->conf->proc_dir, path, &st, 0) == 0 && st.st_uid != d->sandbox->uid_base;
}

/* A program that starts another needs a moment, in which it must run; no event tells when that is over. */
int memory_dump_freeze(const struct memory_dump *d, struct err *err)
{
        pid_t waiting = 0;

        for (unsigned i = 0; i < FREEZE_ROUNDS; i++) {
                int r = freeze_once(d, err);

                if (r < 0 || !d->checkpoint)
                        return r;
                waiting = find_any_waiting(d);
                if (!waiting && (!is_hidden(d) || i + 1 == FREEZE_ROUNDS))
                        return 0;
                memory_dump_thaw(d);
                (void)nanosleep(&(struct timespec){.tv_nsec = (long)(i + 1) * 1000000}, NULL);
        }
        return blame_process(d, waiting, "waits for a child that uses its memory (vfork)", err);
}

/* ------------------------------------------------------------- its memory */

static int make_dirs(struct memory_dump *d, struct err *err)
{
        const char *cid = d->checkpoint;
        int at = d->conf->checkpoints_dir, dir;

        if (mkdirat(at, cid, 0711) < 0)
                return err_sys(err, -errno, "make checkpoint %s", cid);
        d->is_made = true;
        dir = sys_open_dir(at, cid);
        if (dir < 0)
                return err_sys(err, dir, "open checkpoint %s", cid);
        d->checkpoint_dir = dir;
        if (mkdirat(dir, CHECKPOINT_IMAGES, 0711) < 0)
                return err_sys(err, -errno, "make checkpoint %s", cid);
        d->images = sys_open_dir(dir, CHECKPOINT_IMAGES);
        return d->images < 0 ? err_sys(err, d->images, "open checkpoint %s", cid) : 0;
}

static int dump_with_criu(const struct memory_dump *d, struct criu_stats *stats, struct err *err)
{
        AUTO_FREE char *images = NULL, *group = cgroups_v2_path(d->conf->cgroups, d->sandbox->slot);
        struct criu_dump how = {
                .pid = d->sandbox->pid, .freeze_cgroup = group, .on_written = d->on_written, .arg = d->arg};
        int r;

        if (asprintf(&images, "%s/checkpoints/%s/" CHECKPOINT_IMAGES, d->conf->data_path, d->checkpoint) < 0)
                images = NULL;
        if (!images || !group)
                return err_sys(err, -ENOMEM, "dump");
        how.images = images;
        r = criu_dump(&d->conf->tool, &how, stats, err);
        if (r < 0 && err->kind == ERR_CONFLICT) {
                struct err why = *err;

                return err_set(err, ERR_CONFLICT, "%.170s; pause with memory:false keeps the files", why.msg);
        }
        return r;
}

static int check_processes(const struct memory_dump *d, struct err *err)
{
        static pid_t pids[PROCESSES_MAX];
        size_t n = 0;
        int r = cgroups_processes(d->conf->cgroups, d->sandbox->slot, pids, PROCESSES_MAX, &n);

        if (r < 0)
                return err_sys(err, r, "count processes");
        if (n > PROCESSES_MAX)
                return err_set(err, ERR_CONFLICT,
                               "it has %zu processes, and no more than %u can be saved; pause with memory:false keeps "
                               "the files",
                               n, PROCESSES_MAX);
        for (size_t i = 0; i < n; i++) /* CRIU would wait ten seconds, twice, and then give another reason */
                if (job_is_traced(d->conf, pids[i]))
                        return blame_process(d, pids[i], "another process traces it", err);
        return 0;
}

int memory_dump_write(struct memory_dump *d, struct err *err)
{
        char envd[CHECKPOINT_HASH_MAX];
        struct criu_stats stats = {0};
        int r;

        (void)snprintf(envd, sizeof(envd), "%s", d->sandbox->envd);
        r = check_processes(d, err);
        if (r == 0 && !envd[0])
                r = envd_copies_hash(d->conf->proc_dir, d->sandbox->pid, envd, err);
        if (r == 0)
                r = envd_copies_keep(d->conf, envd, d->sandbox->pid, err);
        if (r == 0)
                r = make_dirs(d, err);
        if (r < 0)
                return r;
        memcpy(d->envd_found, envd, sizeof(envd));
        image_sums_start(&d->sums, d->images, d->is_durable);
        r = dump_with_criu(d, &stats, err);
        d->criu_frozen_us = stats.frozen_us;
        if (r < 0)
                image_sums_stop(&d->sums);
        return r;
}

void memory_dump_await_end(const struct memory_dump *d)
{
        AUTO_CLOSE int fd = sys_is_ending(d->conf->proc_dir, d->sandbox->pid) ? sys_pidfd_open(d->sandbox->pid) : -1;

        if (fd >= 0)
                (void)sys_pidfd_wait(fd, DYING_MS);
}

void memory_dump_discard(const struct memory_dump *d)
{
        if (d->is_made)
                trash_discard(d->conf->trash_dir, d->conf->checkpoints_dir, d->checkpoint);
}

int memory_dump_finish(struct memory_dump *d, uint64_t *ret_bytes, struct err *err)
{
        struct checkpoint_facts f = {
                .uid_base = d->sandbox->uid_base, .address = d->sandbox->address, .frozen_us = d->criu_frozen_us};

        (void)snprintf(f.sandbox, sizeof(f.sandbox), "%s", d->id);
        memcpy(f.envd, d->envd_found, sizeof(f.envd));
        image_sums_stop(&d->sums);
        return checkpoint_finish(d->checkpoint_dir, &f, &d->sums, false, ret_bytes, err);
}
