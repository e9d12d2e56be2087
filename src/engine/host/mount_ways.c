#include "engine/host/mount_ways.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/host/mount_stage.h"
#include "engine/host/overlay.h"
#include "sys/fs.h"
#include "sys/mnt.h"
#include "sys/proc.h"

#define TRIAL_UID 0x3fff0000u /* below every range that a sandbox gets */

int mount_ways_proc(const struct mount_ways *w, int proc_dir, pid_t pid)
{
        AUTO_CLOSE int pidns = sys_ns_open(proc_dir, pid, "pid"), own = -1;

        if (pidns < 0)
                return pidns;
        if (w->proc_by_option)
                return sys_mount_proc_by_option(pidns);
        own = sys_ns_open(proc_dir, 0, "pid");
        return own < 0 ? own : sys_mount_proc_by_child(pidns, own);
}

void mount_ways_describe(const struct mount_ways *w, char *out, size_t size)
{
        (void)snprintf(
                out, size, "proc %s, overlay %s, layers by %s",
                w->proc_by_option ? "by pidns=" : "by a process in its namespace",
                w->has_overlay_uuid ? "with uuid=null" : "without uuid=", w->overlay_by_fds ? "descriptor" : "name");
}

/* ------------------------------------------------------------- trying, in a child */

struct mount_trial { /* shared with the child */
        struct mount_ways ways;
        struct err err;
        bool is_over;
};

struct trial_process { /* in user and PID namespaces of its own; it ends when its pipe is closed, also by our death */
        pid_t pid;
        int pidfd, pipe;
};

static int trial_process_start(struct trial_process *t)
{
        const struct sys_clone how = {.flags = CLONE_NEWUSER | CLONE_NEWPID, .cgroup = -1, .ret_pidfd = &t->pidfd};
        int ends[2];
        char byte;

        *t = (struct trial_process){.pid = -1, .pidfd = -1, .pipe = -1};
        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        t->pid = sys_clone(&how);
        if (t->pid == 0) {
                (void)close(ends[1]);
                (void)!read(ends[0], &byte, 1);
                _exit(0);
        }
        (void)close(ends[0]);
        t->pipe = ends[1];
        return t->pid < 0 ? t->pid : 0;
}

static void trial_process_end(struct trial_process *t)
{
        close_fd(&t->pipe);
        if (t->pid > 0) {
                (void)sys_pidfd_wait(t->pidfd, -1);
                (void)waitpid(t->pid, NULL, WNOHANG); /* where children are not reaped by themselves */
        }
        close_fd(&t->pidfd);
}

static int try_proc_once(struct mount_ways *w, int proc_dir, pid_t pid, bool by_option)
{
        AUTO_CLOSE int mount = -1;

        w->proc_by_option = by_option;
        mount = mount_ways_proc(w, proc_dir, pid);
        return mount < 0 ? mount : faccessat(mount, "1/stat", F_OK, 0) < 0 ? -errno : 0;
}

static int try_proc(struct mount_ways *w, struct err *err)
{
        AUTO_CLOSE int proc_dir = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct trial_process t;
        int r = trial_process_start(&t);

        if (r == 0 && try_proc_once(w, proc_dir, t.pid, true) < 0)
                r = try_proc_once(w, proc_dir, t.pid, false);
        trial_process_end(&t);
        return r < 0 ? err_set(err, ERR_UNAVAILABLE, "mount proc of another PID namespace: %s", strerror(-r)) : 0;
}

static int map_some_ids(int proc_dir, pid_t pid)
{
        static const char *const files[] = {"uid_map", "gid_map"};
        char path[32], map[32];
        int r = 0;

        (void)snprintf(map, sizeof(map), "0 %u 65536", TRIAL_UID);
        for (size_t i = 0; i < ARRAY_LEN(files) && r == 0; i++) {
                (void)snprintf(path, sizeof(path), "%d/%s", pid, files[i]);
                r = sys_write_at(proc_dir, path, map);
        }
        return r;
}

int mount_ways_check_owners(int proc_dir, int dir, const char *name, struct err *err)
{
        AUTO_CLOSE int userns = -1, tree = sys_clone_tree(dir, "");
        struct trial_process t;
        int r = trial_process_start(&t), mapped = 0;

        if (r == 0)
                r = map_some_ids(proc_dir, t.pid);
        if (r == 0)
                r = userns = sys_ns_open(proc_dir, t.pid, "user");
        if (r >= 0)
                r = tree;
        if (r >= 0)
                mapped = sys_mount_idmap(tree, userns);
        trial_process_end(&t);
        if (r < 0)
                return err_sys(err, r, "map owners of %s", name);
        if (mapped < 0)
                return err_set(err, ERR_UNAVAILABLE,
                               "%s: its file system cannot be idmapped (%s); put it on ext4, XFS or btrfs", name,
                               strerror(-mapped));
        return 0;
}

/* Once for each try: a volatile overlay leaves a mark in its work directory. */
static int make_upper(int dir, const char *name)
{
        char path[32];

        for (const char *c = "uw"; *c; c++) {
                (void)snprintf(path, sizeof(path), "%s%c", name, *c);
                if (mkdirat(dir, path, 0755) < 0)
                        return -errno;
        }
        return 0;
}

static int check_overlay(const struct overlay *o, struct err *err)
{
        AUTO_CLOSE int mount = -1, file = -1;
        int r = overlay_mount(o, &mount, err);

        if (r < 0)
                return r;
        file = openat(mount, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        return file < 0 ? err_sys(err, -errno, "write to an overlay") : 0;
}

static int try_overlay_once(struct mount_ways *w, const struct mount_stage *s, int files, bool has_uuid,
                            struct err *err)
{
        struct overlay o = {.dir = s->dir, .lower = STAGE_SPARE_1 ":" STAGE_SPARE_0, .has_uuid = has_uuid};
        int r = make_upper(files, has_uuid ? "uuid-" : "");

        w->has_overlay_uuid = has_uuid;
        o.upper = has_uuid ? STAGE_FILES "/uuid-u" : STAGE_FILES "/u";
        o.work = has_uuid ? STAGE_FILES "/uuid-w" : STAGE_FILES "/w";
        return r < 0 ? err_sys(err, r, "make directories") : check_overlay(&o, err);
}

static int mount_tmpfs(void)
{
        AUTO_CLOSE int fs = sys_fsopen("tmpfs");
        int r = fs < 0 ? fs : sys_fs_create(fs);

        return r < 0 ? r : sys_fsmount(fs, 0);
}

/* As a sandbox's: one layer that is a mount, one that is a directory in another mount. */
static bool try_overlay_by_fds(bool has_uuid)
{
        AUTO_CLOSE int files = mount_tmpfs(), layers = mount_tmpfs(), host = mount_tmpfs();
        AUTO_CLOSE int layer = -1, upper = -1, work = -1;
        struct err why;

        if (files < 0 || layers < 0 || host < 0 || make_upper(files, "") < 0 || mkdirat(layers, "layer", 0755) < 0)
                return false;
        layer = sys_open_beneath(layers, "layer", O_PATH | O_DIRECTORY, 0);
        upper = sys_open_beneath(files, "u", O_PATH | O_DIRECTORY, 0);
        work = sys_open_beneath(files, "w", O_PATH | O_DIRECTORY, 0);
        return check_overlay(&(struct overlay){.fds = &(struct overlay_fds){.lower = (int[]){host, layer},
                                                                            .lower_count = 2,
                                                                            .upper = upper,
                                                                            .work = work},
                                               .has_uuid = has_uuid},
                             &why) == 0;
}

static int try_overlay(struct mount_ways *w, struct err *err)
{
        AUTO_CLOSE int files = mount_tmpfs();
        struct mount_stage s;
        struct err first = {0};
        int r;

        mount_stage_init(&s);
        if (files < 0)
                return err_sys(err, files, "mount tmpfs");
        r = mount_stage_open(&s, STAGE_DISK, err);
        if (r == 0 && (r = mount_stage_hang(&s, files, STAGE_FILES)) < 0)
                (void)err_sys(err, r, "hang up tmpfs");
        if (r == 0 && try_overlay_once(w, &s, files, true, &first) < 0)
                r = try_overlay_once(w, &s, files, false, err);
        mount_stage_close(&s);
        if (r < 0)
                return err_wrap(err, "overlay");
        w->overlay_by_fds = try_overlay_by_fds(w->has_overlay_uuid);
        return 0;
}

static _Noreturn void try_all(struct mount_trial *t)
{
        if (sys_keep_caps(true) < 0)
                (void)err_sys(&t->err, -errno, "keep capabilities");
        else if (mount_stage_enter(&t->err) == 0 && try_overlay(&t->ways, &t->err) == 0)
                (void)try_proc(&t->ways, &t->err);
        t->is_over = true;
        _exit(0);
}

static int try_in_child(struct mount_ways *ret, struct err *err)
{
        struct mount_trial *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pid_t pid;
        int r = 0;

        if (t == MAP_FAILED)
                return err_sys(err, -errno, "try mounts");
        pid = fork();
        if (pid == 0)
                try_all(t);
        while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                continue;
        if (pid < 0)
                r = err_sys(err, -errno, "fork");
        else if (!t->is_over)
                r = err_set(err, ERR_INTERNAL, "the process that tries mounts died");
        else if (t->err.kind != ERR_NONE)
                r = err_set(err, ERR_UNAVAILABLE, "%s", t->err.msg);
        else
                *ret = t->ways;
        (void)munmap(t, sizeof(*t));
        return r;
}

int mount_ways_find(struct mount_ways *ret, struct err *err)
{
        static struct mount_ways found;
        static bool is_found;
        int r = is_found ? 0 : try_in_child(&found, err);

        if (r < 0)
                return r;
        is_found = true;
        *ret = found;
        return 0;
}
