#include "engine/namespace/cell.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/namespace/cell_child.h"
#include "engine/net/slot_network.h"
#include "sys/fs.h"
#include "sys/mnt.h"
#include "sys/proc.h"
#include "sys/scm.h"

#define DEATH_MS 5000
#define TTY_GROUP 5u
#define PTYS_MAX "256"      /* the machine's are counted, see kernel_limits.c: no sandbox may take them all */
#define OOM_SCORE_ADJ "300" /* when the host runs out, a sandbox goes before the host's own programs */

void cell_init(struct cell *c)
{
        *c = (struct cell){0};
        for (int i = 0; i < CELL_FDS; i++)
                c->fd[i] = -1;
        for (int i = 0; i < CELL_MOUNTS; i++)
                c->mount[i] = -1;
}

static void cell_close_mounts(struct cell *c)
{
        for (int i = 0; i < CELL_MOUNTS; i++)
                close_fd(&c->mount[i]);
}

void cell_close(struct cell *c)
{
        for (int i = 0; i < CELL_FDS; i++)
                close_fd(&c->fd[i]);
        cell_close_mounts(c);
}

/* ------------------------------------------------------------- mounts */

struct fs_option {
        const char *key, *value;
};

static int make_fs(const char *type, const struct fs_option *options, size_t n, unsigned attrs, int *ret,
                   struct err *err)
{
        AUTO_CLOSE int fs = sys_fsopen(type);
        int r = fs < 0 ? fs : 0;

        for (size_t i = 0; i < n && r == 0; i++)
                r = sys_fs_string(fs, options[i].key, options[i].value);
        if (r == 0)
                r = sys_fs_create(fs);
        if (r == 0)
                r = sys_fsmount(fs, attrs);
        if (r < 0)
                return err_sys(err, r, "mount %s", type);
        *ret = r;
        return 0;
}

static int make_proc(const struct cell_tools *m, struct cell *c, struct err *err)
{
        int r = mount_ways_proc(&m->ways, m->proc_dir, c->pid);

        if (r < 0)
                return err_sys(err, r, "mount proc");
        c->mount[CELL_PROC] = r;
        return 0;
}

static int make_sys(const struct cell_tools *m, struct cell *c, struct err *err)
{
        int r = sys_clone_tree(m->sys, "");

        if (r < 0)
                return err_sys(err, r, "clone /sys");
        c->mount[CELL_SYS] = r;
        return 0;
}

static int make_pts(struct cell *c, struct err *err)
{
        char gid[16];
        const struct fs_option options[] = {{"gid", gid}, {"mode", "620"}, {"ptmxmode", "666"}, {"max", PTYS_MAX}};

        (void)snprintf(gid, sizeof(gid), "%u", c->uid_base + TTY_GROUP);
        return make_fs("devpts", options, ARRAY_LEN(options), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
                       &c->mount[CELL_PTS], err);
}

static int make_shm(struct cell *c, struct err *err)
{
        char id[16];
        const struct fs_option options[] = {{"mode", "1777"}, {"uid", id}, {"gid", id}};

        (void)snprintf(id, sizeof(id), "%u", c->uid_base);
        return make_fs("tmpfs", options, ARRAY_LEN(options), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, &c->mount[CELL_SHM],
                       err);
}

/* The file system of message queues is that of the IPC namespace one is in. */
static int make_mqueue(const struct cell_tools *m, struct cell *c, struct err *err)
{
        AUTO_CLOSE int ipc = sys_ns_open(m->proc_dir, c->pid, "ipc");
        int r;

        if (ipc < 0 || setns(ipc, CLONE_NEWIPC) < 0)
                return err_sys(err, ipc < 0 ? ipc : -errno, "enter IPC namespace");
        r = make_fs("mqueue", NULL, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, &c->mount[CELL_MQUEUE],
                    err);
        if (setns(m->host_ipcns, CLONE_NEWIPC) < 0)
                return err_sys(err, -errno, "leave IPC namespace");
        return r;
}

static int make_mounts(const struct cell_tools *m, struct cell *c, struct err *err)
{
        int r;

        if ((r = make_sys(m, c, err)) < 0 ||
            (r = devices_mount(&m->devices, c->uid_base, &c->mount[CELL_DEV], err)) < 0 || (r = make_pts(c, err)) < 0 ||
            (r = make_shm(c, err)) < 0)
                return r;
        return make_mqueue(m, c, err);
}

/* ------------------------------------------------------------- the process */

/* Under the range's own uid, so that per-user limits (inotify instances, ...) count per sandbox and not for all. */
static int clone_child(const struct cell_tools *m, struct cell *c, int cgroup, int sock)
{
        struct sys_clone how = {
                .flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWTIME,
                .cgroup = cgroup,
                .ret_pidfd = &c->fd[CELL_PIDFD],
        };
        pid_t pid;
        int r;

        r = sys_set_eids(c->uid_base, c->uid_base);
        if (r < 0)
                return r;
        pid = sys_clone(&how);
        if (pid == 0) {
                (void)close(c->fd[CELL_SOCK]); /* else we would never see its end */
                cell_child(sock, &m->filter);
        }
        r = sys_set_eids(0, 0);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten whenever credentials change */
        if (pid < 0)
                return pid;
        c->pid = pid;
        return r;
}

static int write_proc(const struct cell_tools *m, pid_t pid, const char *file, const char *text, struct err *err)
{
        char path[48];
        int r;

        (void)snprintf(path, sizeof(path), "%d/%s", pid, file);
        r = sys_write_at(m->proc_dir, path, text);
        return r < 0 ? err_sys(err, r, "write %s", file) : 0;
}

static int set_up_process(const struct cell_tools *m, struct cell *c, struct err *err)
{
        char map[40];
        int r;

        (void)snprintf(map, sizeof(map), "0 %u %u", c->uid_base, UID_RANGE);
        if ((r = write_proc(m, c->pid, "uid_map", map, err)) < 0 ||
            (r = write_proc(m, c->pid, "gid_map", map, err)) < 0 ||
            (r = write_proc(m, c->pid, "oom_score_adj", OOM_SCORE_ADJ, err)) < 0)
                return r;
        r = sys_start_time(m->proc_dir, c->pid, &c->start_time);
        if (r < 0)
                return err_sys(err, r, "read start time");
        r = sys_ns_open(m->proc_dir, c->pid, "user");
        if (r < 0)
                return err_sys(err, r, "open user namespace");
        c->fd[CELL_USERNS] = r;
        return 0;
}

/* What the child needs to go on: its program and a null device, both on its own /dev, and its mounts. */
static int let_go(struct cell *c, struct err *err)
{
        AUTO_CLOSE int program = openat(c->mount[CELL_DEV], DEVICES_ENVD, O_RDONLY | O_CLOEXEC);
        AUTO_CLOSE int null = openat(c->mount[CELL_DEV], "null", O_RDWR | O_CLOEXEC);
        int fds[CELL_CHILD_FDS] = {[CELL_CHILD_PROGRAM] = program, [CELL_CHILD_NULL] = null};
        ssize_t n;

        if (program < 0 || null < 0)
                return err_sys(err, -errno, "open envd");
        memcpy(fds + CELL_CHILD_MOUNTS, c->mount, sizeof(c->mount));
        n = scm_send(c->fd[CELL_SOCK], "g", 1, fds, CELL_CHILD_FDS);
        if (n < 0)
                return err_sys(err, (int)n, "start cell");
        cell_close_mounts(c); /* the child has them */
        return 0;
}

/* In the slot's network namespace: what must be born in it. */
static int be_born(const struct cell_tools *m, struct cell *c, int cgroup, struct err *err)
{
        int pair[2], r;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return err_sys(err, -errno, "make socket pair");
        c->fd[CELL_SOCK] = pair[0];
        r = clone_child(m, c, cgroup, pair[1]);
        (void)close(pair[1]);
        return r < 0 ? err_sys(err, r, "clone") : 0;
}

static int enter_network(const struct cell_tools *m, struct cell *c, int netns, struct err *err)
{
        if (netns < 0)
                return slot_network_make(m->instance, c->slot, m->has_link, m->host_netlink, m->proc_dir,
                                         &c->fd[CELL_NETNS], err);
        c->fd[CELL_NETNS] = netns;
        return setns(netns, CLONE_NEWNET) < 0 ? err_sys(err, -errno, "enter network namespace") : 0;
}

static int make_in_network(const struct cell_tools *m, struct cell *c, int netns, int cgroup, struct err *err)
{
        int r = enter_network(m, c, netns, err);

        if (r == 0)
                r = be_born(m, c, cgroup, err);
        if (r == 0)
                r = make_proc(m, c, err);
        if (r == 0 && netns < 0)
                r = slot_network_set_up(c->mount[CELL_PROC], err);
        if (setns(m->host_netns, CLONE_NEWNET) < 0)
                return err_sys(err, -errno, "return to the host's network namespace");
        return r;
}

int cell_join(const struct cell_tools *m, struct cell *c, struct err *err)
{
        return cgroups_join_v1(m->cgroups, c->slot, c->pid, err);
}

int cell_finish(const struct cell_tools *m, struct cell *c, struct err *err)
{
        int r;

        if ((r = set_up_process(m, c, err)) < 0 || (r = make_mounts(m, c, err)) < 0)
                return r;
        return let_go(c, err);
}

void cell_undo(const struct cell_tools *m, struct cell *c)
{
        if (c->fd[CELL_PIDFD] >= 0) {
                (void)sys_pidfd_kill(c->fd[CELL_PIDFD], SIGKILL);
                (void)sys_pidfd_wait(c->fd[CELL_PIDFD], DEATH_MS);
        }
        cell_close(c);
        (void)cgroups_remove(m->cgroups, c->slot); /* still busy: the slot cleaner tries again */
}

int cell_begin(const struct cell_tools *m, unsigned slot, uint32_t uid_base, int netns, struct cell *ret,
               struct err *err)
{
        AUTO_CLOSE int cgroup = -1;
        int r;

        cell_init(ret);
        ret->slot = slot;
        ret->uid_base = uid_base;
        (void)cgroups_recycle(m->cgroups, slot); /* of a cell that failed half way */
        r = cgroups_make(m->cgroups, slot, &m->limits, &cgroup, err);
        if (r < 0) {
                close_fd(&netns);
                return r;
        }
        return make_in_network(m, ret, netns, cgroup, err);
}
