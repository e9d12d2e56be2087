/* One slot's control groups: making them, limits, who is in them, what they use, and their end. */
#include "engine/host/cgroups.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "engine/host/cgroup_processes.h"
#include "sys/fs.h"

#define CPU_PERIOD_US 100000u
#define SOCKETS_SHARE 4u /* of the memory limit, on top of it */

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
                        return err_sys(err, r, "join %s cgroup of slot %u", cgroup_control_names[i], slot);
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

static int kill_process(pid_t pid, void *arg)
{
        (void)arg;
        if (pid > 1)
                (void)kill(pid, SIGKILL);
        return 0;
}

/* Without v2: one by one.  PID 1 of the sandbox is among them, and takes the others along. */
static void kill_listed(int dir, unsigned slot)
{
        char path[64];

        slot_path(path, slot, "cgroup.procs");
        (void)cgroup_each_process(dir, path, kill_process, NULL);
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

struct listing {
        pid_t *out;
        size_t max, count;
};

static int list_process(pid_t pid, void *arg)
{
        struct listing *l = arg;

        if (l->count < l->max)
                l->out[l->count] = pid;
        l->count++;
        return 0;
}

int cgroups_processes(const struct cgroups *c, unsigned slot, pid_t *out, size_t max, size_t *ret_count)
{
        struct listing l = {.out = out, .max = max};
        char path[64];
        int r;

        if (c->v2 < 0)
                return -EOPNOTSUPP;
        slot_path(path, slot, "cgroup.procs");
        r = cgroup_each_process(c->v2, path, list_process, &l);
        if (r == 0)
                *ret_count = l.count;
        return r;
}

/* "name 123" in a file of such lines. */
static int read_field(int dir, unsigned slot, const char *file, const char *name, uint64_t *ret)
{
        char path[64], text[4096];
        struct str rest, head;
        ssize_t n;

        slot_path(path, slot, file);
        n = sys_read_at(dir, path, text, sizeof(text));
        if (n < 0)
                return (int)n;
        rest = str_of(text);
        while (str_cut(&rest, '\n', &head)) {
                struct str key;

                if (str_cut(&head, ' ', &key) && str_is(key, name))
                        return parse_u64(head, 0, UINT64_MAX, ret);
        }
        return -EBADMSG;
}

static int read_cpu_us(const struct cgroups *c, unsigned slot, uint64_t *ret)
{
        *ret = 0;
        return c->v2 < 0 ? 0 : read_field(c->v2, slot, "cpu.stat", "usage_usec", ret); /* else nobody counts it */
}

int cgroups_usage(const struct cgroups *c, unsigned slot, struct cgroup_usage *ret, struct err *err)
{
        bool m2 = c->in_v2[CGROUP_MEMORY], p2 = c->in_v2[CGROUP_PIDS];
        int mem = m2 ? c->v2 : c->v1[CGROUP_MEMORY], pids = p2 ? c->v2 : c->v1[CGROUP_PIDS], r;

        if ((r = read_number(mem, slot, m2 ? "memory.current" : "memory.usage_in_bytes", &ret->memory_bytes)) < 0 ||
            (r = read_number(mem, slot, m2 ? "memory.max" : "memory.limit_in_bytes", &ret->memory_limit)) < 0 ||
            (r = read_field(mem, slot, "memory.stat", m2 ? "file" : "total_cache", &ret->memory_cache)) < 0 ||
            (r = read_number(pids, slot, "pids.current", &ret->pids)) < 0 ||
            (r = read_cpu_us(c, slot, &ret->cpu_us)) < 0)
                return err_sys(err, r, "usage of slot %u", slot);
        return 0;
}
