/* criu_shim.c - preloaded into CRIU: what stands between it and sandboxes made without the host's full powers.
 *
 * A shared library of its own, linked with nothing but the C library.  It changes eight things:
 *
 * 1. Limits of a task in a user namespace that somebody else owns: prlimit64 wants CAP_SYS_RESOURCE over it, which root
 *    has not where the machine itself is a container.  /proc/PID/limits says the same to everybody.
 * 2. "Do all namespaces belong to the user namespace?" asks CRIU by entering them.  A sandbox's first network namespace
 *    is the host's on purpose, and is made anew at restore: being refused there is no finding.
 * 3. The user namespace of a restored sandbox has to be owned by the sandbox's own uid, as that of every other is: the
 *    kernel counts inotify instances and the like per owner.  CRIU clones as root.
 * 4. CRIU raises its own limit of open files; where it may not, it says so in its first error, and the first error is
 *    all that a caller is told.  As far as it goes is far enough.
 * 5. A periodic timerfd that has run out and was not read yet says "nothing left" in /proc, which CRIU takes for "not
 *    set": after restore it would never tick again.  It is due now.
 * 6. A network namespace is dumped with the connections its packet filter follows, twice over, for which the kernel
 *    searches the table of the whole machine: a fifth of a dump.  A sandbox has no such filter, and its namespace is made
 *    anew; the table of expected connections is as empty, and small.
 * 7. What a connection has not sent yet is sent while others are still being restored: whose other end is not there, or not
 *    yet, answers with a reset, and the restore fails.  It counts as sent, and lost: TCP sends it again when all is there.
 * 8. Where the restored sandbox is wanted only by the process that asks for it, CRIU dies with that process, and the processes
 *    that CRIU traces die with CRIU: else they would run.  A signal for the death of the parent is forgotten when CRIU is started
 *    and when it changes its uid: it is asked for after both.  Sockets of a process that dies are closed before that signal is
 *    sent, and CRIU would go on for want of an answer: so the socket is looked at before CRIU lets go of a process. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <linux/sockios.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OWNER "SANDGLASS_USERNS_OWNER"
#define CALLER "SANDGLASS_CALLER"
#define SYSCALL_ARGS 6
#define FDINFO_MAX 1024 /* what is longer is no timer's */

int setns(int fd, int type);
ssize_t read(int fd, void *p, size_t n);
int ioctl(int fd, unsigned long request, ...);
long syscall(long number, ...);
long ptrace(int request, ...);

typedef long raw_fn(long number, ...);

static raw_fn *raw_call(void)
{
        static raw_fn *next;

        if (!next)
                *(void **)&next = dlsym(RTLD_NEXT, "syscall");
        if (!next)
                abort(); /* a C library without it is none */
        return next;
}

#define RAW(...) raw_call()(__VA_ARGS__)

/* ------------------------------------------------------------- the caller's death */

static pid_t caller; /* 0: CRIU outlives it */
static int caller_sock;

static void die_with_caller(void)
{
        if (caller == 0)
                return;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != caller) /* it is dead already */
                _exit(1);
}

/* Programs that CRIU starts have another parent. */
__attribute__((constructor)) static void learn_caller(void)
{
        const char *text = getenv(CALLER);
        char *rest = NULL;

        caller = text ? (pid_t)strtol(text, &rest, 10) : 0;
        caller_sock = rest ? (int)strtol(rest, NULL, 10) : -1;
        (void)unsetenv(CALLER);
        die_with_caller();
}

static bool caller_has_left(void)
{
        char byte;
        ssize_t n = recv(caller_sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

        return n == 0 || (n < 0 && errno == ECONNRESET);
}

typedef long ptrace_fn(int request, ...);

/* Options are set all at once, so each time.  A process that CRIU has let go of is not concerned. */
long ptrace(int request, ...)
{
        static ptrace_fn *next;
        uintptr_t data;
        void *address;
        va_list list;
        pid_t pid;

        va_start(list, request);
        pid = va_arg(list, pid_t);
        address = va_arg(list, void *);
        data = va_arg(list, uintptr_t);
        va_end(list);
        if (!next)
                *(void **)&next = dlsym(RTLD_NEXT, "ptrace");
        if (!next)
                abort(); /* as above */
        if (caller != 0 && (request == PTRACE_SEIZE || request == PTRACE_SETOPTIONS))
                data |= PTRACE_O_EXITKILL;
        if (caller != 0 && request == PTRACE_DETACH && caller_has_left())
                _exit(1); /* and all with it */
        return next(request, pid, address, data);
}

/* ------------------------------------------------------------- limits */

static const char *const limit_names[] = {
        [RLIMIT_CPU] = "Max cpu time",
        [RLIMIT_FSIZE] = "Max file size",
        [RLIMIT_DATA] = "Max data size",
        [RLIMIT_STACK] = "Max stack size",
        [RLIMIT_CORE] = "Max core file size",
        [RLIMIT_RSS] = "Max resident set",
        [RLIMIT_NPROC] = "Max processes",
        [RLIMIT_NOFILE] = "Max open files",
        [RLIMIT_MEMLOCK] = "Max locked memory",
        [RLIMIT_AS] = "Max address space",
        [RLIMIT_LOCKS] = "Max file locks",
        [RLIMIT_SIGPENDING] = "Max pending signals",
        [RLIMIT_MSGQUEUE] = "Max msgqueue size",
        [RLIMIT_NICE] = "Max nice priority",
        [RLIMIT_RTPRIO] = "Max realtime priority",
        [RLIMIT_RTTIME] = "Max realtime timeout",
};
#define LIMITS (sizeof(limit_names) / sizeof(*limit_names))

static rlim_t limit_value(const char *text)
{
        return strcmp(text, "unlimited") == 0 ? RLIM_INFINITY : strtoull(text, NULL, 10);
}

static long read_limit(long pid, unsigned long what, struct rlimit *ret)
{
        char path[48], line[160], soft[24], hard[24];
        size_t n = strlen(limit_names[what]);
        long r = -1;
        FILE *f;

        (void)snprintf(path, sizeof(path), "/proc/%ld/limits", pid);
        f = fopen(path, "re");
        while (f && r < 0 && fgets(line, sizeof(line), f)) {
                if (strncmp(line, limit_names[what], n) != 0 || sscanf(line + n, "%23s %23s", soft, hard) != 2)
                        continue;
                *ret = (struct rlimit){limit_value(soft), limit_value(hard)};
                r = 0;
        }
        if (f)
                (void)fclose(f);
        if (r < 0)
                errno = EPERM;
        return r;
}

/* CRIU sets its own limit of open files through this one. */
int prlimit64(pid_t pid, enum __rlimit_resource what, const struct rlimit64 *set, struct rlimit64 *old)
{
        long r = RAW(SYS_prlimit64, (long)pid, (long)what, set, old);
        struct rlimit most;

        if (r == 0 || errno != EPERM || what != RLIMIT_NOFILE || !set)
                return (int)r;
        if (RAW(SYS_prlimit64, (long)pid, (long)what, NULL, &most) < 0)
                return -1;
        most.rlim_cur = most.rlim_max;
        return (int)RAW(SYS_prlimit64, (long)pid, (long)what, &most, NULL);
}

/* ------------------------------------------------------------- namespaces */

int setns(int fd, int type)
{
        long r = RAW(SYS_setns, (long)fd, (long)type);

        return r < 0 && errno == EPERM && type == CLONE_NEWNET ? 0 : (int)r;
}

/* A change of uid takes the right to be looked at through /proc, which CRIU's own children need. */
static int wear_uid(uid_t uid, int securebits)
{
        if (prctl(PR_SET_SECUREBITS, securebits | SECBIT_NO_SETUID_FIXUP) < 0 ||
            RAW(SYS_setresuid, -1L, (long)uid, -1L) < 0)
                return -1;
        return prctl(PR_SET_SECUREBITS, securebits) < 0 ? -1 : prctl(PR_SET_DUMPABLE, 1);
}

static long clone_owned(const struct clone_args *args, long size, uid_t owner)
{
        int securebits = prctl(PR_GET_SECUREBITS), saved;
        long r;

        if (securebits < 0 || wear_uid(owner, securebits | SECBIT_NO_SETUID_FIXUP) < 0)
                return -1;
        r = RAW(SYS_clone3, args, size);
        if (r == 0)
                return 0; /* the child is nobody outside and root inside; CRIU sets what it shall be */
        saved = errno;
        if (wear_uid(0, securebits) < 0)
                abort(); /* going on as somebody else would fail in stranger ways */
        die_with_caller();
        errno = saved;
        return r;
}

static long clone_maybe_owned(const struct clone_args *args, long size)
{
        const char *text = getenv(OWNER);
        char *end = NULL;
        unsigned long uid = text ? strtoul(text, &end, 10) : 0;

        if (!text || *end || uid == 0 || uid >= UINT32_MAX || !(args->flags & CLONE_NEWUSER))
                return RAW(SYS_clone3, args, size);
        return clone_owned(args, size, (uid_t)uid);
}

/* ------------------------------------------------------------- timers */

static void set_due(char *text, size_t n)
{
        static const char none[] = "it_value: (0, 0)\n", never[] = "it_interval: (0, 0)\n", idle[] = "ticks: 0\n";
        char *value = memmem(text, n, none, sizeof(none) - 1);

        if (value && memmem(text, n, "it_interval: (", 14) && !memmem(text, n, never, sizeof(never) - 1) &&
            !memmem(text, n, idle, sizeof(idle) - 1))
                value[sizeof("it_value: (0, ") - 1] = '1'; /* nanosecond */
}

ssize_t read(int fd, void *p, size_t n)
{
        long r = RAW(SYS_read, (long)fd, p, n);

        if (r > 0 && r < FDINFO_MAX)
                set_due(p, (size_t)r);
        return r;
}

/* ------------------------------------------------------------- connections */

#define ALL_CONNECTIONS ((NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_GET)
#define ALL_EXPECTED ((NFNL_SUBSYS_CTNETLINK_EXP << 8) | IPCTNL_MSG_EXP_GET)

static bool is_netfilter(int fd)
{
        int protocol = -1, domain = -1;
        socklen_t n = sizeof(int);

        return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain == AF_NETLINK &&
               getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &n) == 0 && protocol == NETLINK_NETFILTER;
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
        struct nlmsghdr *h = m->msg_iovlen == 1 ? m->msg_iov[0].iov_base : NULL;

        if (h && m->msg_iov[0].iov_len == sizeof(*h) + sizeof(struct nfgenmsg) && h->nlmsg_type == ALL_CONNECTIONS &&
            (h->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP && is_netfilter(fd))
                h->nlmsg_type = ALL_EXPECTED;
        return RAW(SYS_sendmsg, (long)fd, m, (long)flags);
}

/* ------------------------------------------------------------- every other call */

long syscall(long number, ...)
{
        long a[SYSCALL_ARGS], r;
        va_list ap;

        va_start(ap, number);
        for (int i = 0; i < SYSCALL_ARGS; i++)
                a[i] = va_arg(ap, long); /* what the caller did not give is not looked at */
        va_end(ap);
        if (number == SYS_clone3)
                return clone_maybe_owned((const struct clone_args *)a[0], a[1]);
        r = RAW(number, a[0], a[1], a[2], a[3], a[4], a[5]);
        if (r < 0 && errno == EPERM && number == SYS_prlimit64 && !a[2] && a[3] && (unsigned long)a[1] < LIMITS)
                return read_limit(a[0], (unsigned long)a[1], (struct rlimit *)a[3]);
        return r;
}

/* ------------------------------------------------------------- bytes not sent yet */

int ioctl(int fd, unsigned long request, ...)
{
        va_list ap;
        void *arg;

        va_start(ap, request);
        arg = va_arg(ap, void *);
        va_end(ap);
        if (request == SIOCOUTQNSD) { /* of a connection's queue: the part beyond what was sent */
                *(int *)arg = 0;
                return 0;
        }
        return (int)RAW(SYS_ioctl, fd, request, arg);
}
