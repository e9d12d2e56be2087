#include "engine/jobs/restore_freeze.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/err.h"
#include "engine/jobs/job_process.h"
#include "sys/fs.h"

#define PROCESSES_MAX 65536u

/* In the PID namespace of the host: no process of a sandbox is. */
static bool is_ours(const struct job_conf *c, const struct stat *own, pid_t pid)
{
        char path[32];
        struct stat st;

        (void)snprintf(path, sizeof(path), "%d/ns/pid", (int)pid);
        return fstatat(c->proc_dir, path, &st, 0) == 0 && st.st_ino == own->st_ino && st.st_dev == own->st_dev;
}

static int move_to(int group, pid_t pid)
{
        char number[24];
        int r;

        (void)snprintf(number, sizeof(number), "%d", (int)pid);
        r = sys_write_at(group, "cgroup.procs", number);
        return r == -ESRCH ? 0 : r;
}

/* CRIU, and what it started for itself, joins the group of this process. */
static int move_criu_out(const struct job_conf *c, unsigned slot)
{
        AUTO_CLOSE int group = cgroups_open_own();
        AUTO_FREE pid_t *pids = calloc(PROCESSES_MAX, sizeof(*pids));
        struct stat own;
        size_t count = 0;
        int r;

        if (group < 0 || !pids)
                return group < 0 ? group : -ENOMEM;
        if (fstatat(c->proc_dir, "self/ns/pid", &own, 0) < 0)
                return -errno;
        r = cgroups_processes(c->cgroups, slot, pids, PROCESSES_MAX, &count);
        for (size_t i = 0; r == 0 && i < count && i < PROCESSES_MAX; i++)
                if (is_ours(c, &own, pids[i]))
                        r = move_to(group, pids[i]);
        return r;
}

int restore_freeze(const struct job_conf *c, unsigned slot, struct err *err)
{
        int r = move_criu_out(c, slot);

        job_stall_point(c, "standby_alone");
        if (r == 0)
                r = cgroups_freeze(c->cgroups, slot, true);
        if (r == 0 && job_engine_is_gone(c))
                return err_set(err, ERR_UNAVAILABLE, "the engine has ended, and nobody wants this standby");
        return r < 0 ? err_sys(err, r, "freeze slot %u", slot) : 0;
}
