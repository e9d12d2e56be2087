#include "sys/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"
#include "sys/fs.h"

pid_t sys_clone(const struct sys_clone *c)
{
        struct clone_args a = {.flags = c->flags, .exit_signal = SIGCHLD};
        long pid;

        if (c->ret_pidfd) {
                a.flags |= CLONE_PIDFD;
                a.pidfd = (uintptr_t)c->ret_pidfd;
        }
        if (c->cgroup >= 0) {
                a.flags |= CLONE_INTO_CGROUP;
                a.cgroup = (uint64_t)c->cgroup;
        }
        pid = syscall(SYS_clone3, &a, sizeof(a));
        return pid < 0 ? -errno : (pid_t)pid;
}

int sys_pidfd_open(pid_t pid)
{
        long fd = syscall(SYS_pidfd_open, pid, 0);

        return fd < 0 ? -errno : (int)fd;
}

int sys_pidfd_kill(int pidfd, int signo)
{
        return syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0) < 0 ? -errno : 0;
}

bool sys_pidfd_is_dead(int pidfd)
{
        return sys_pidfd_wait(pidfd, 0) == 0;
}

int sys_pidfd_wait(int pidfd, int timeout_ms)
{
        struct pollfd p = {.fd = pidfd, .events = POLLIN};
        int n;

        do
                n = poll(&p, 1, timeout_ms);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        return n == 0 ? -ETIMEDOUT : 0;
}

static int read_stat(int proc_dir, pid_t pid, int wanted, uint64_t *ret)
{
        char path[32], text[2048];
        struct str rest, field = {0};
        ssize_t n;
        char *p;

        (void)snprintf(path, sizeof(path), "%d/stat", pid);
        n = sys_read_at(proc_dir, path, text, sizeof(text));
        if (n < 0)
                return (int)n;
        p = strrchr(text, ')'); /* the name before it may hold anything */
        if (!p || p[1] != ' ')
                return -EBADMSG;
        rest = str_of(p + 2);
        for (int at = 3; at <= wanted; at++)
                if (!str_cut(&rest, ' ', &field) && at < wanted)
                        return -EBADMSG;
        return parse_u64(field, 0, UINT64_MAX, ret);
}

int sys_start_time(int proc_dir, pid_t pid, uint64_t *ret)
{
        return read_stat(proc_dir, pid, 22, ret);
}

bool sys_is_ending(int proc_dir, pid_t pid)
{
        const uint64_t exiting = 0x4; /* PF_EXITING, from <linux/sched.h> of the kernel itself */
        uint64_t flags;
        int r = read_stat(proc_dir, pid, 9, &flags);

        return r == -ENOENT || r == -ESRCH || (r == 0 && flags & exiting);
}

int sys_boot_id(char out[SYS_BOOT_ID_MAX])
{
        ssize_t n = sys_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", out, SYS_BOOT_ID_MAX);

        if (n < 0)
                return (int)n;
        out[strcspn(out, "\n")] = '\0';
        return 0;
}

int sys_exec_fd(int fd, char *const argv[], char *const envp[])
{
        (void)syscall(SYS_execveat, fd, "", argv, envp, AT_EMPTY_PATH);
        return -errno;
}

int sys_close_from(int first)
{
        return syscall(SYS_close_range, first, ~0u, 0) < 0 ? -errno : 0;
}

static int by_number(const void *a, const void *b)
{
        return *(const int *)a - *(const int *)b;
}

int sys_close_except(int *keep, size_t n)
{
        int from = 3;

        qsort(keep, n, sizeof(*keep), by_number);
        for (size_t i = 0; i < n; i++) {
                if (keep[i] > from && syscall(SYS_close_range, from, keep[i] - 1, 0) < 0)
                        return -errno;
                if (keep[i] >= from)
                        from = keep[i] + 1;
        }
        return sys_close_from(from);
}

int sys_ns_open(int proc_dir, pid_t pid, const char *kind)
{
        char path[48];
        int fd;

        if (pid == 0)
                (void)snprintf(path, sizeof(path), "self/ns/%s", kind);
        else
                (void)snprintf(path, sizeof(path), "%d/ns/%s", pid, kind);
        fd = openat(proc_dir, path, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

sigset_t sys_signals_to_end(void)
{
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGINT);
        (void)sigaddset(&set, SIGTERM);
        (void)sigaddset(&set, SIGHUP);
        return set;
}

int sys_signals_default(void)
{
        sigset_t none;

        for (int s = 1; s < _NSIG; s++)
                if (s != SIGKILL && s != SIGSTOP)
                        (void)signal(s, SIG_DFL); /* refused for the libc's own numbers only */
        (void)sigemptyset(&none);
        return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

int sys_keep_caps(bool keep)
{
        return prctl(PR_SET_SECUREBITS, keep ? SECBIT_NO_SETUID_FIXUP : 0) < 0 ? -errno : 0;
}

int sys_set_eids(uid_t u, gid_t g)
{
        return syscall(SYS_setresgid, -1, g, -1) < 0 || syscall(SYS_setresuid, -1, u, -1) < 0 ? -errno : 0;
}

void sys_set_fsids(uid_t u, gid_t g)
{
        (void)setfsgid(g); /* these say the old value, never an error */
        (void)setfsuid(u);
}

int sys_become_root(void)
{
        if (setresgid(0, 0, 0) < 0 || setgroups(0, NULL) < 0 || setresuid(0, 0, 0) < 0)
                return -errno;
        return 0;
}

int sys_drop_bounding(uint64_t drop)
{
        for (unsigned cap = 0; cap <= CAP_LAST_CAP; cap++)
                if ((drop >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
                        return -errno; /* EINVAL: this kernel does not know it */
        return 0;
}

int sys_keep_only_caps(uint64_t keep)
{
        struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct d[2];

        if (syscall(SYS_capget, &h, d) < 0)
                return -errno;
        for (int i = 0; i < 2; i++) {
                uint32_t mask = (uint32_t)(keep >> (32 * i));

                d[i].permitted &= mask;
                d[i].effective = d[i].permitted;
                d[i].inheritable = 0;
        }
        return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}

int sys_use_cap(unsigned cap, bool use)
{
        struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct d[2];
        uint32_t bit = 1u << (cap % 32);

        if (syscall(SYS_capget, &h, d) < 0)
                return -errno;
        d[cap / 32].effective &= ~bit;
        if (use)
                d[cap / 32].effective |= d[cap / 32].permitted & bit;
        return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}

int sys_raise_nofile(void)
{
        struct rlimit l, more = {1u << 20, 1u << 20};

        if (setrlimit(RLIMIT_NOFILE, &more) == 0)
                return 0;
        if (getrlimit(RLIMIT_NOFILE, &l) < 0)
                return -errno;
        l.rlim_cur = l.rlim_max;
        return setrlimit(RLIMIT_NOFILE, &l) < 0 ? -errno : 0;
}
