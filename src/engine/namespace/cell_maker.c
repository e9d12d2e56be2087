#include "engine/namespace/cell_maker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/host/helper.h"
#include "engine/host/syscall_filter.h"
#include "sys/mnt.h"
#include "sys/netlink.h"
#include "sys/proc.h"
#include "sys/scm.h"

#define TINY_AT "/run/sandglass" /* any directory that is there */
#define TINY_DEVICES "/devices"
#define TINY_SYSFS "/sysfs"

/* Mount points for a cell, and for what we mount from. */
static int make_mount_points(void)
{
        static const char *const dirs[] = {"/proc", "/sys", "/dev", TINY_DEVICES, TINY_SYSFS};

        for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
                if (mkdir(dirs[i], 0555) < 0)
                        return -errno;
        return 0;
}

/* Live in a mount namespace with nothing but one small read-only tmpfs, and what all cells share: cloning copies three mounts
 * instead of the host's, and what a cell moves over its root covers nothing worth seeing. */
static int enter_tiny_root(void)
{
        int r;

        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("tiny", TINY_AT, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,nr_inodes=8,mode=555") < 0)
                return -errno;
        r = sys_pivot_into(TINY_AT);
        if (r == 0)
                r = make_mount_points();
        if (r < 0)
                return r;
        return mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0
                       ? -errno
                       : 0;
}

/* One for all sandboxes: the kernel looks through every sysfs there is to make another, so one each would make the
 * thousandth slow.  It shows the links of the namespace it is made in, and there are none in this one. */
static int make_sysfs(const struct cell_tools *m, int *ret, struct err *err)
{
        AUTO_CLOSE int fs = -1;
        int r = unshare(CLONE_NEWNET) < 0 ? -errno : 0;

        if (r == 0)
                r = fs = sys_fsopen("sysfs");
        if (r >= 0)
                r = sys_fs_create(fs);
        if (r == 0)
                r = sys_fsmount(fs, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
        if (setns(m->host_netns, CLONE_NEWNET) < 0)
                return err_sys(err, -errno, "return to the host's network namespace");
        if (r < 0)
                return err_sys(err, r, "mount sysfs");
        *ret = r;
        r = sys_move_mount(*ret, AT_FDCWD, TINY_SYSFS); /* only what is attached can be cloned */
        return r < 0 ? err_sys(err, r, "attach sysfs") : 0;
}

static int set_up(const struct cell_maker_conf *c, struct cell_tools *m, struct err *err)
{
        int r;

        m->instance = c->instance;
        m->cgroups = c->cgroups;
        m->limits = c->limits;
        m->has_link = c->has_link;
        m->ways = c->ways;
        m->host_netlink = -1;
        m->proc_dir = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (m->proc_dir < 0)
                return err_sys(err, -errno, "open /proc");
        m->host_netns = sys_ns_open(m->proc_dir, 0, "net");
        m->host_ipcns = sys_ns_open(m->proc_dir, 0, "ipc");
        if (m->host_netns < 0 || m->host_ipcns < 0)
                return err_sys(err, -EIO, "open own namespaces");
        if (c->has_link) {
                m->host_netlink = netlink_open();
                if (m->host_netlink < 0)
                        return err_sys(err, m->host_netlink, "open netlink");
        }
        r = syscall_filter_compile(&m->filter, err);
        if (r < 0)
                return r;
        r = enter_tiny_root();
        if (r == 0)
                r = sys_keep_caps(true);
        if (r == 0)
                r = sys_use_cap(CAP_SYS_RESOURCE, true);
        if (r < 0)
                return err_sys(err, r, "enter empty root");
        r = devices_open(&m->devices, c->envd_binary, TINY_DEVICES, err);
        return r < 0 ? r : make_sysfs(m, &m->sys, err);
}

static int cell_maker_send(int sock, struct cell_maker_answer *a, const struct err *err, const int *fds, size_t nfds)
{
        ssize_t r;

        if (err->kind != ERR_NONE) {
                a->pid = 0;
                a->kind = (int32_t)err->kind;
                memcpy(a->why, err->msg, sizeof(a->why));
        }
        r = scm_send(sock, a, sizeof(*a), fds, nfds);
        return r < 0 ? (int)r : 0;
}

struct cell_task { /* one cell being made */
        struct cell_maker_ask ask;
        int netns;
        struct cell cell;
        struct err err; /* ERR_NONE: fine so far */
};

/* Wait for one ask, and take those that are there already along: 0 when the engine is gone. */
static size_t receive_jobs(int sock, struct cell_task *jobs)
{
        size_t n = 0;

        while (n < CELL_MAKER_BATCH) {
                struct pollfd p = {.fd = sock, .events = POLLIN};
                struct cell_task *j = &jobs[n];
                size_t nfds = 0;

                if (n > 0 && poll(&p, 1, 0) != 1)
                        break;
                *j = (struct cell_task){.netns = -1};
                if (scm_recv(sock, &j->ask, sizeof(j->ask), &j->netns, 1, &nfds) != (ssize_t)sizeof(j->ask))
                        return 0;
                n++;
        }
        return n;
}

static int finish_job(const struct cell_tools *m, int sock, struct cell_task *j)
{
        struct cell_maker_answer a = {.slot = j->ask.slot, .uid_base = j->ask.uid_base, .pid = j->cell.pid};
        bool is_made = j->err.kind == ERR_NONE && cell_finish(m, &j->cell, &j->err) == 0;
        int r;

        if (!is_made)
                cell_undo(m, &j->cell);
        a.start_time = j->cell.start_time;
        r = cell_maker_send(sock, &a, &j->err, j->cell.fd, is_made ? CELL_FDS : 0);
        cell_close(&j->cell); /* with nobody to take it, it ends */
        return r;
}

static int serve_some(const struct cell_tools *m, int sock)
{
        struct cell_task jobs[CELL_MAKER_BATCH];
        size_t n = receive_jobs(sock, jobs);
        int r = n == 0 ? -EPIPE : 0;

        for (size_t i = 0; i < n; i++)
                (void)cell_begin(m, jobs[i].ask.slot, jobs[i].ask.uid_base, jobs[i].netns, &jobs[i].cell, &jobs[i].err);
        for (size_t i = 0; i < n; i++)
                if (jobs[i].err.kind == ERR_NONE)
                        (void)cell_join(m, &jobs[i].cell, &jobs[i].err);
        for (size_t i = 0; i < n; i++)
                if (finish_job(m, sock, &jobs[i]) < 0)
                        r = -EPIPE;
        return r;
}

static _Noreturn void run(const struct cell_maker_conf *c, int sock)
{
        struct cell_tools m = {0};
        struct cell_maker_answer hello = {0};
        struct err err = {0};
        int r;

        r = set_up(c, &m, &err);
        (void)close(c->envd_binary);
        r = cell_maker_send(sock, &hello, &err, NULL, 0) < 0 ? -EPIPE : r;
        while (r >= 0)
                r = serve_some(&m, sock);
        _exit(r == -EPIPE ? 0 : 1);
}

int cell_maker_fork(const struct cell_maker_conf *c, int *ret_sock, struct err *err)
{
        int keep[CGROUPS_FDS_MAX + 2];
        unsigned n = cgroups_fds(c->cgroups, keep);
        struct cell_maker_answer hello;
        AUTO_CLOSE int sock = -1;
        size_t nfds = 0;
        pid_t pid;

        keep[n++] = c->envd_binary;
        keep[n++] = c->instance->lock; /* the number stays ours until the last cell in the making is gone */
        pid = helper_fork("sg-cell-maker", keep, n, &sock);
        if (pid < 0)
                return err_sys(err, pid, "fork cell maker");
        if (pid == 0)
                run(c, sock);
        if (scm_recv(sock, &hello, sizeof(hello), NULL, 0, &nfds) != (ssize_t)sizeof(hello))
                return err_set(err, ERR_INTERNAL, "cell maker ended while setting up");
        if (hello.kind != ERR_NONE)
                return err_set(err, (enum err_kind)hello.kind, "cell maker: %s", hello.why);
        *ret_sock = TAKE_FD(sock);
        return 0;
}
