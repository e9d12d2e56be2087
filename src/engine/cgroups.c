#include "engine/cgroups.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "sys/fs.h"

#define CPU_PERIOD_US 100000u
#define SOCKETS_SHARE 4u /* of the memory limit, on top of it */

static const char *const control_names[CGROUP_CONTROLS] = {"memory", "pids", "cpu", "freezer"};

/* ------------------------------------------------------------- finding the hierarchies */

struct hierarchies {
        int v2, v1[CGROUP_CONTROLS]; /* fds of the mount points */
};

static void hierarchies_done(struct hierarchies *h)
{
        close_fd(&h->v2);
        for (int i = 0; i < CGROUP_CONTROLS; i++)
                close_fd(&h->v1[i]);
}

static bool has_option(const char *options, const char *name)
{
        struct str rest = str_of(options), head;
        bool more;

        do {
                more = str_cut(&rest, ',', &head);
                if (str_is(head, name))
                        return true;
        } while (more);
        return false;
}

static int open_mount_point(const char *path)
{
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 ? -1 : fd;
}

static void note_mount(struct hierarchies *h, const char *point, const char *type, const char *options)
{
        if (strcmp(type, "cgroup2") == 0 && h->v2 < 0)
                h->v2 = open_mount_point(point);
        if (strcmp(type, "cgroup") != 0)
                return;
        for (int i = 0; i < CGROUP_CONTROLS; i++)
                if (h->v1[i] < 0 && has_option(options, control_names[i]))
                        h->v1[i] = open_mount_point(point);
}

static int find_hierarchies(struct hierarchies *ret)
{
        char line[4096], point[1024], type[64], options[1024];
        FILE *f = fopen("/proc/self/mounts", "re");

        if (!f)
                return -errno;
        *ret = (struct hierarchies){-1, {-1, -1, -1, -1}};
        while (fgets(line, sizeof(line), f))
                if (sscanf(line, "%*s %1023s %63s %1023s", point, type, options) == 3)
                        note_mount(ret, point, type, options);
        (void)fclose(f);
        return 0;
}

static bool v2_offers(int v2, const char *file, const char *control)
{
        char text[512];
        struct str rest, head;
        bool more;

        if (v2 < 0 || sys_read_at(v2, file, text, sizeof(text)) < 0)
                return false;
        text[strcspn(text, "\n")] = '\0';
        rest = str_of(text);
        do {
                more = str_cut(&rest, ' ', &head);
                if (str_is(head, control))
                        return true;
        } while (more);
        return false;
}

static int open_parent(int at, const char *parent, int *ret)
{
        int r = sys_make_dir(at, parent, 0755);

        if (r < 0)
                return r;
        r = sys_open_dir(at, parent);
        if (r < 0)
                return r;
        *ret = r;
        return 0;
}

/* Let the slots below the parent have the controller. */
static bool delegate(int root, int parent, const char *control)
{
        char plus[32];

        (void)snprintf(plus, sizeof(plus), "+%s", control);
        if (!v2_offers(root, "cgroup.subtree_control", control) &&
            sys_write_at(root, "cgroup.subtree_control", plus) < 0)
                return false;
        return sys_write_at(parent, "cgroup.subtree_control", plus) == 0;
}

static int open_all(const struct hierarchies *h, const char *parent, struct cgroups *c, struct err *err)
{
        int r;

        if (h->v2 >= 0) {
                r = open_parent(h->v2, parent, &c->v2);
                if (r < 0)
                        return err_sys(err, r, "make cgroup '%s'", parent);
        }
        for (int i = 0; i < CGROUP_CONTROLS; i++) {
                if (i == CGROUP_FREEZER && c->v2 >= 0) {
                        c->in_v2[i] = true; /* cgroup.freeze is part of v2 itself */
                        continue;
                }
                if (v2_offers(h->v2, "cgroup.controllers", control_names[i]))
                        c->in_v2[i] = delegate(h->v2, c->v2, control_names[i]);
                if (c->in_v2[i])
                        continue;
                if (h->v1[i] < 0)
                        return err_set(err, ERR_UNAVAILABLE, "no cgroup hierarchy has the %s controller",
                                       control_names[i]);
                r = open_parent(h->v1[i], parent, &c->v1[i]);
                if (r < 0)
                        return err_sys(err, r, "make %s cgroup '%s'", control_names[i], parent);
        }
        return 0;
}

int cgroups_open(const char *parent, struct cgroups *ret, struct err *err)
{
        struct cgroups c = {.v2 = -1, .v1 = {-1, -1, -1, -1}};
        struct hierarchies h;
        int r;

        r = find_hierarchies(&h);
        if (r < 0)
                return err_sys(err, r, "find cgroups");
        r = open_all(&h, parent, &c, err);
        hierarchies_done(&h);
        if (r < 0) {
                cgroups_done(&c);
                return r;
        }
        *ret = c;
        return 0;
}

void cgroups_done(struct cgroups *c)
{
        close_fd(&c->v2);
        for (int i = 0; i < CGROUP_CONTROLS; i++)
                close_fd(&c->v1[i]);
}

unsigned cgroups_fds(const struct cgroups *c, int out[CGROUPS_FDS_MAX])
{
        unsigned n = 0;

        if (c->v2 >= 0)
                out[n++] = c->v2;
        for (int i = 0; i < CGROUP_CONTROLS; i++)
                if (c->v1[i] >= 0)
                        out[n++] = c->v1[i];
        return n;
}

int cgroups_remove_parent(const char *parent)
{
        struct hierarchies h;
        int r = find_hierarchies(&h);

        if (r < 0)
                return r;
        if (h.v2 >= 0 && unlinkat(h.v2, parent, AT_REMOVEDIR) < 0 && errno != ENOENT)
                r = -errno;
        for (int i = 0; i < CGROUP_CONTROLS; i++)
                if (h.v1[i] >= 0 && unlinkat(h.v1[i], parent, AT_REMOVEDIR) < 0 && errno != ENOENT)
                        r = -errno;
        hierarchies_done(&h);
        return r;
}

/* ------------------------------------------------------------- slots */

static void slot_path(char out[64], unsigned slot, const char *file)
{
        if (file)
                (void)snprintf(out, 64, "%u/%s", slot, file);
        else
                (void)snprintf(out, 64, "%u", slot);
}

static int write_slot(int dir, unsigned slot, const char *file, const char *text)
{
        char path[64];

        slot_path(path, slot, file);
        return sys_write_at(dir, path, text);
}

static int write_number(int dir, unsigned slot, const char *file, uint64_t n)
{
        char text[24];

        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
        return write_slot(dir, slot, file, text);
}

static int limit_memory_v2(int dir, unsigned slot, uint64_t bytes)
{
        int r = write_number(dir, slot, "memory.max", bytes);

        if (r == 0)
                r = write_slot(dir, slot, "memory.swap.max", "0");
        return r == -ENOENT ? 0 : r; /* no swap accounting */
}

/* v1 counts what waits in sockets apart, and only once it is limited; without, one sandbox could take all the memory the
 * machine has for sockets. */
static int limit_sockets_v1(int dir, unsigned slot, uint64_t bytes)
{
        int r = write_number(dir, slot, "memory.kmem.tcp.limit_in_bytes", bytes / SOCKETS_SHARE);

        return r == -ENOENT || r == -EOPNOTSUPP ? 0 : r; /* a kernel without it */
}

/* v1 wants memory <= memory+swap at every moment: growing needs the second raised first, shrinking the other way. */
static int limit_memory_v1(int dir, unsigned slot, uint64_t bytes)
{
        int swap = write_number(dir, slot, "memory.memsw.limit_in_bytes", bytes), r;

        r = write_number(dir, slot, "memory.limit_in_bytes", bytes);
        if (r == 0 && swap == -EINVAL)
                swap = write_number(dir, slot, "memory.memsw.limit_in_bytes", bytes);
        if (r == 0 && swap < 0 && swap != -ENOENT && swap != -EOPNOTSUPP)
                r = swap;
        return r < 0 ? r : limit_sockets_v1(dir, slot, bytes);
}

/* As many as there are is no limit. */
static int limit_cpu(const struct cgroups *c, unsigned slot, const struct plan_limits *old, uint32_t count)
{
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        bool is_limit = online < 1 || count < (unsigned long)online;
        char text[48];

        if (!is_limit && !old)
                return 0; /* a new group has none */
        if (c->in_v2[CGROUP_CPU]) {
                if (is_limit)
                        (void)snprintf(text, sizeof(text), "%llu %u", (unsigned long long)count * CPU_PERIOD_US,
                                       CPU_PERIOD_US);
                else
                        (void)snprintf(text, sizeof(text), "max %u", CPU_PERIOD_US);
                return write_slot(c->v2, slot, "cpu.max", text);
        }
        if (!is_limit)
                return write_slot(c->v1[CGROUP_CPU], slot, "cpu.cfs_quota_us", "-1");
        return write_number(c->v1[CGROUP_CPU], slot, "cpu.cfs_quota_us", (uint64_t)count * CPU_PERIOD_US);
}

int cgroups_limit(const struct cgroups *c, unsigned slot, const struct plan_limits *old, const struct plan_limits *l,
                  struct err *err)
{
        int r = 0;

        if (!old || old->memory_bytes != l->memory_bytes)
                r = c->in_v2[CGROUP_MEMORY] ? limit_memory_v2(c->v2, slot, l->memory_bytes)
                                            : limit_memory_v1(c->v1[CGROUP_MEMORY], slot, l->memory_bytes);
        if (r == 0 && (!old || old->pids != l->pids))
                r = write_number(c->in_v2[CGROUP_PIDS] ? c->v2 : c->v1[CGROUP_PIDS], slot, "pids.max", l->pids);
        if (r == 0 && (!old || old->cpu_count != l->cpu_count))
                r = limit_cpu(c, slot, old, l->cpu_count);
        return r < 0 ? err_sys(err, r, "set limits of slot %u", slot) : 0;
}

int cgroups_make(const struct cgroups *c, unsigned slot, const struct plan_limits *l, int *ret_v2, struct err *err)
{
        int fds[CGROUPS_FDS_MAX], v2 = -1, r = 0;
        unsigned n = cgroups_fds(c, fds);
        char name[64];

        slot_path(name, slot, NULL);
        for (unsigned i = 0; i < n && r == 0; i++)
                if (mkdirat(fds[i], name, 0755) < 0 && (errno != EEXIST || fds[i] != c->v1[CGROUP_MEMORY]))
                        r = err_sys(err, -errno, "make cgroup of slot %u", slot);
        if (r == 0)
                r = cgroups_limit(c, slot, NULL, l, err);
        if (r == 0 && c->v2 >= 0) {
                v2 = sys_open_dir(c->v2, name);
                if (v2 < 0)
                        r = err_sys(err, v2, "open cgroup of slot %u", slot);
        }
        if (r < 0) {
                (void)cgroups_remove(c, slot);
                return r;
        }
        *ret_v2 = v2;
        return 0;
}

static int join_v1(const struct cgroups *c, unsigned slot, const char *file, pid_t pid, struct err *err)
{
        for (int i = 0; i < CGROUP_CONTROLS; i++) {
                int r = c->v1[i] < 0 ? 0 : write_number(c->v1[i], slot, file, (uint64_t)pid);

                if (r < 0)
                        return err_sys(err, r, "join %s cgroup of slot %u", control_names[i], slot);
        }
        return 0;
}

int cgroups_join_v1(const struct cgroups *c, unsigned slot, pid_t pid, struct err *err)
{
        return join_v1(c, slot, "cgroup.procs", pid, err);
}

int cgroups_join_thread_v1(const struct cgroups *c, unsigned slot, struct err *err)
{
        return join_v1(c, slot, "tasks", 0, err);
}

/* ------------------------------------------------------------- freezing */

int cgroups_freeze(const struct cgroups *c, unsigned slot, bool is_frozen)
{
        return c->v2 < 0 ? -EOPNOTSUPP : write_slot(c->v2, slot, "cgroup.freeze", is_frozen ? "1" : "0");
}

int cgroups_wait_frozen(const struct cgroups *c, unsigned slot, int timeout_ms)
{
        AUTO_CLOSE int fd = -1;
        char path[64], text[256];

        slot_path(path, slot, "cgroup.events");
        fd = openat(c->v2, path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        for (;;) { /* the kernel tells of each change once it was read */
                struct pollfd p = {.fd = fd, .events = POLLPRI};
                ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

                if (n < 0)
                        return -errno;
                text[n] = '\0';
                if (strstr(text, "frozen 1"))
                        return 0;
                if (poll(&p, 1, timeout_ms) != 1)
                        return -ETIMEDOUT;
        }
}

char *cgroups_v2_path(const struct cgroups *c, unsigned slot)
{
        char link[64], at[PATH_MAX], *path;
        ssize_t n;

        (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", c->v2);
        n = c->v2 < 0 ? -1 : readlink(link, at, sizeof(at) - 1);
        if (n < 0)
                return NULL;
        at[n] = '\0';
        return asprintf(&path, "%s/%u", at, slot) < 0 ? NULL : path;
}

/* ------------------------------------------------------------- ending */

/* Without v2: one by one.  PID 1 of the sandbox is among them, and takes the others along. */
static void kill_listed(int dir, unsigned slot)
{
        char path[64], text[4096];
        struct str rest, head;
        uint32_t pid;

        slot_path(path, slot, "cgroup.procs");
        if (sys_read_at(dir, path, text, sizeof(text)) < 0)
                return;
        rest = str_of(text);
        while (str_cut(&rest, '\n', &head))
                if (parse_u32(head, 2, INT32_MAX, &pid) == 0)
                        (void)kill((pid_t)pid, SIGKILL);
}

void cgroups_kill(const struct cgroups *c, unsigned slot)
{
        if (c->v1[CGROUP_FREEZER] >= 0)
                (void)write_slot(c->v1[CGROUP_FREEZER], slot, "freezer.state", "THAWED");
        if (c->v2 >= 0)
                (void)write_slot(c->v2, slot, "cgroup.kill", "1"); /* frozen ones die as well */
        else
                kill_listed(c->v1[CGROUP_PIDS], slot);
}

static int remove_but(const struct cgroups *c, unsigned slot, int kept)
{
        int fds[CGROUPS_FDS_MAX], r = 0;
        unsigned n = cgroups_fds(c, fds);
        char name[64];

        slot_path(name, slot, NULL);
        for (unsigned i = 0; i < n; i++)
                if (fds[i] != kept && unlinkat(fds[i], name, AT_REMOVEDIR) < 0 && errno != ENOENT)
                        r = -errno;
        return r;
}

int cgroups_remove(const struct cgroups *c, unsigned slot)
{
        return remove_but(c, slot, -1);
}

int cgroups_recycle(const struct cgroups *c, unsigned slot)
{
        return remove_but(c, slot, c->v1[CGROUP_MEMORY]);
}

/* ------------------------------------------------------------- looking */

static int read_number(int dir, unsigned slot, const char *file, uint64_t *ret)
{
        char path[64], text[64];
        ssize_t n;

        slot_path(path, slot, file);
        n = sys_read_at(dir, path, text, sizeof(text));
        if (n < 0)
                return (int)n;
        text[strcspn(text, "\n")] = '\0';
        if (strcmp(text, "max") == 0) {
                *ret = UINT64_MAX;
                return 0;
        }
        return parse_u64(str_of(text), 0, UINT64_MAX, ret);
}

int cgroups_processes(const struct cgroups *c, unsigned slot, pid_t *out, size_t max, size_t *ret_count)
{
        AUTO_CLOSE int fd = -1;
        char path[64], text[4096];
        unsigned long pid = 0;
        ssize_t n;

        slot_path(path, slot, "cgroup.procs");
        fd = c->v2 < 0 ? -1 : openat(c->v2, path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return c->v2 < 0 ? -EOPNOTSUPP : -errno;
        *ret_count = 0;
        while ((n = read(fd, text, sizeof(text))) > 0)
                for (ssize_t i = 0; i < n; i++) {
                        if (text[i] != '\n') {
                                pid = pid * 10 + (unsigned long)(text[i] - '0');
                                continue;
                        }
                        if (*ret_count < max)
                                out[*ret_count] = (pid_t)pid;
                        (*ret_count)++;
                        pid = 0;
                }
        return n < 0 ? -errno : 0;
}

static int read_cpu_us(const struct cgroups *c, unsigned slot, uint64_t *ret)
{
        char path[64], text[2048];
        struct str rest, head;
        ssize_t n;

        *ret = 0;
        if (c->v2 < 0)
                return 0; /* nobody counts it for us */
        slot_path(path, slot, "cpu.stat");
        n = sys_read_at(c->v2, path, text, sizeof(text));
        if (n < 0)
                return (int)n;
        rest = str_of(text);
        while (str_cut(&rest, '\n', &head))
                if (str_starts(head, "usage_usec "))
                        return parse_u64((struct str){head.p + 11, head.n - 11}, 0, UINT64_MAX, ret);
        return -EBADMSG;
}

int cgroups_usage(const struct cgroups *c, unsigned slot, struct cgroup_usage *ret, struct err *err)
{
        bool m2 = c->in_v2[CGROUP_MEMORY], p2 = c->in_v2[CGROUP_PIDS];
        int mem = m2 ? c->v2 : c->v1[CGROUP_MEMORY], pids = p2 ? c->v2 : c->v1[CGROUP_PIDS], r;

        if ((r = read_number(mem, slot, m2 ? "memory.current" : "memory.usage_in_bytes", &ret->memory_bytes)) < 0 ||
            (r = read_number(mem, slot, m2 ? "memory.max" : "memory.limit_in_bytes", &ret->memory_limit)) < 0 ||
            (r = read_number(pids, slot, "pids.current", &ret->pids)) < 0 ||
            (r = read_cpu_us(c, slot, &ret->cpu_us)) < 0)
                return err_sys(err, r, "usage of slot %u", slot);
        return 0;
}

static void each_dir(int parent, void (*fn)(unsigned slot, void *arg), void *arg)
{
        int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *e;
        uint32_t slot;

        if (!d) {
                if (fd >= 0)
                        (void)close(fd);
                return;
        }
        while ((e = readdir(d)))
                if (e->d_type == DT_DIR && parse_u32(str_of(e->d_name), 0, UINT32_MAX, &slot) == 0)
                        fn(slot, arg);
        (void)closedir(d);
}

void cgroups_each(const struct cgroups *c, void (*fn)(unsigned slot, void *arg), void *arg)
{
        int fds[CGROUPS_FDS_MAX];
        unsigned n = cgroups_fds(c, fds);

        for (unsigned i = 0; i < n; i++)
                each_dir(fds[i], fn, arg); /* a slot may be told more than once */
}

struct used {
        int dir;
        bool any;
};

static void look_for_process(unsigned slot, void *arg)
{
        struct used *u = arg;
        char path[64], text[8];
        ssize_t n;

        slot_path(path, slot, "cgroup.procs");
        n = sys_read_at(u->dir, path, text, sizeof(text));
        if (n > 0 || n == -E2BIG)
                u->any = true;
}

bool cgroups_is_used(const char *parent)
{
        struct hierarchies h;
        struct used u = {0};

        if (find_hierarchies(&h) < 0)
                return true;
        for (int i = -1; i < CGROUP_CONTROLS && !u.any; i++) {
                int at = i < 0 ? h.v2 : h.v1[i];
                AUTO_CLOSE int dir = at < 0 ? -1 : sys_open_dir(at, parent);

                u.dir = dir;
                if (dir >= 0)
                        each_dir(dir, look_for_process, &u);
        }
        hierarchies_done(&h);
        return u.any;
}
