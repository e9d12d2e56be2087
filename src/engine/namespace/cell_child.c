#include "engine/namespace/cell_child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/host/syscall_filter.h"
#include "model/envd_init.h"
#include "sys/mnt.h"
#include "sys/proc.h"
#include "sys/scm.h"

#define BIT(cap) (1ull << (cap))
#define PROGRAM_FD (ENVD_CELL_FD + 1)
/* The host's core_pattern decides what becomes of a crash, and may name a program that the kernel runs as the host's
 * root.  That happens with a limit of 0, too; with 1 it does not.  syscall_filter.c sees to it that 1 stays. */
#define CORE_NEVER 1u
#define NOFILE_SOFT 1024u /* what programs expect; they may raise it to the hard limit */

/* What root inside may do to its own files, processes and users.  Kept for init alone: SYS_ADMIN, with which it hangs up
 * its root and sets the host name, and which it takes out of its bounding set after that. */
static const uint64_t caps_kept = BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_FOWNER) |
                                  BIT(CAP_FSETID) | BIT(CAP_KILL) | BIT(CAP_SETGID) | BIT(CAP_SETUID) |
                                  BIT(CAP_SETPCAP) | BIT(CAP_NET_BIND_SERVICE) | BIT(CAP_NET_RAW) | BIT(CAP_IPC_LOCK) |
                                  BIT(CAP_IPC_OWNER) | BIT(CAP_SYS_CHROOT) | BIT(CAP_SYS_PTRACE) | BIT(CAP_SYS_NICE) |
                                  BIT(CAP_LEASE) | BIT(CAP_AUDIT_WRITE) | BIT(CAP_SETFCAP) | BIT(CAP_MKNOD) |
                                  BIT(CAP_SYS_ADMIN);

static _Noreturn void fail(int sock, const char *what, int r)
{
        char text[160];
        int n = snprintf(text, sizeof(text), "%c%s: %s", ENVD_CELL_FAILED, what, strerror(-r));

        (void)scm_send(sock, text, (size_t)n, NULL, 0);
        _exit(1);
}

static int take_identity(void)
{
        int r = sys_become_root();

        if (r == 0)
                r = sys_keep_caps(false);
        if (r == 0 && unshare(CLONE_NEWCGROUP) < 0) /* only now: its root is where we are, and we have arrived */
                r = -errno;
        return r < 0 ? r : sys_drop_bounding(~caps_kept);
}

static int set_limits(void)
{
        struct rlimit files, core;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || getrlimit(RLIMIT_CORE, &core) < 0)
                return -errno;
        if (files.rlim_cur > NOFILE_SOFT)
                files.rlim_cur = NOFILE_SOFT;
        if (core.rlim_max > CORE_NEVER)
                core.rlim_max = CORE_NEVER;
        core.rlim_cur = core.rlim_max;
        return setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &core) < 0 ? -errno : 0;
}

/* 0-2 the null device, 3 the socket, 4 the program until it runs; everything else closed. */
static int arrange_fds(int *sock, int program, int null)
{
        int high[3] = {fcntl(*sock, F_DUPFD_CLOEXEC, 10), fcntl(program, F_DUPFD_CLOEXEC, 10),
                       fcntl(null, F_DUPFD_CLOEXEC, 10)};

        if (high[0] < 0 || high[1] < 0 || high[2] < 0)
                return -errno;
        *sock = high[0];
        for (int i = 0; i < 3; i++)
                if (dup2(high[2], i) < 0)
                        return -errno;
        if (dup2(high[0], ENVD_CELL_FD) < 0 || dup3(high[1], PROGRAM_FD, O_CLOEXEC) < 0)
                return -errno;
        *sock = ENVD_CELL_FD;
        return sys_close_from(PROGRAM_FD + 1);
}

/* In the empty root, from which envd moves /proc, /sys and /dev to the sandbox's. */
static int hang_mounts(const int mounts[CELL_MOUNTS])
{
        static const char *const places[CELL_MOUNTS] = {
                [CELL_PROC] = "/proc",   [CELL_SYS] = "/sys",     [CELL_DEV] = "/dev",
                [CELL_PTS] = "/dev/pts", [CELL_SHM] = "/dev/shm", [CELL_MQUEUE] = "/dev/mqueue",
        };
        int r = 0;

        for (int i = 0; i < CELL_MOUNTS && r == 0; i++)
                r = sys_move_mount(mounts[i], AT_FDCWD, places[i]);
        return r;
}

_Noreturn void cell_child(int sock, const struct sock_fprog *filter)
{
        static char name[] = "envd", option[] = "--cell";
        char *const argv[] = {name, option, NULL}, *const envp[] = {NULL};
        int fds[CELL_CHILD_FDS], r;
        size_t nfds = 0;
        char go;

        if (scm_recv(sock, &go, 1, fds, CELL_CHILD_FDS, &nfds) != 1 || nfds != CELL_CHILD_FDS)
                _exit(1); /* the cell maker is gone */
        r = take_identity();
        if (r < 0)
                fail(sock, "take identity", r);
        r = hang_mounts(fds + CELL_CHILD_MOUNTS);
        if (r < 0)
                fail(sock, "hang up mounts", r);
        r = set_limits();
        if (r < 0)
                fail(sock, "set limits", r);
        (void)setsid(); /* fails for a leader only, and then it is what we want already */
        (void)umask(022);
        r = arrange_fds(&sock, fds[CELL_CHILD_PROGRAM], fds[CELL_CHILD_NULL]);
        if (r < 0)
                fail(sock, "arrange fds", r);
        r = sys_signals_default();
        if (r == 0)
                r = syscall_filter_install(filter);
        if (r < 0)
                fail(sock, "install filter", r);
        fail(sock, "exec envd", sys_exec_fd(PROGRAM_FD, argv, envp));
}
