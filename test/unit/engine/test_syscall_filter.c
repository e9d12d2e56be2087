/* The system call filter, applied to the test's own children: what it refuses, what it lets through. */
#include "engine/host/syscall_filter.h"

#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"

static struct sock_fprog filter;

/* The errno a call gives under the filter, 0 when it works, -signal when it kills. */
static int under_filter(long nr, uint64_t a, uint64_t b, uint64_t c)
{
        int st = 0;
        pid_t pid = fork();

        if (pid == 0) {
                long r;

                if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall_filter_install(&filter) < 0)
                        _exit(255);
                r = syscall(nr, a, b, c, 0, 0, 0);
                _exit(r < 0 ? errno : 0);
        }
        if (waitpid(pid, &st, 0) < 0)
                return 255;
        return WIFSIGNALED(st) ? -WTERMSIG(st) : WEXITSTATUS(st);
}

static void refuses_what_the_table_says(void)
{
        CHECK_INT(under_filter(SYS_mount, 0, 0, 0), ==, EPERM);
        CHECK_INT(under_filter(SYS_fsopen, 0, 0, 0), ==, EPERM);
        CHECK_INT(under_filter(467 /* open_tree_attr */, 0, 0, 0), ==, EPERM);
        CHECK_INT(under_filter(SYS_setns, 0, 0, 0), ==, EPERM);
        CHECK_INT(under_filter(SYS_clone3, 0, 0, 0), ==, ENOSYS);
        CHECK_INT(under_filter(SYS_io_uring_setup, 0, 0, 0), ==, ENOSYS);
        CHECK_INT(under_filter(SYS_keyctl, 0, 0, 0), ==, ENOSYS);
        CHECK_INT(under_filter(SYS_reboot, 0, 0, 0), ==, EPERM);
        CHECK_INT(under_filter(SYS_open_by_handle_at, 0, 0, 0), ==, EPERM);
}

static void refuses_every_namespace_flag(void)
{
        static const uint64_t flags[] = {CLONE_NEWNS,  CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET,
                                         CLONE_NEWIPC, CLONE_NEWUTS,  CLONE_NEWCGROUP, 0x80 /* NEWTIME */};

        for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
                CHECK_INT(under_filter(SYS_unshare, flags[i] | CLONE_FILES, 0, 0), ==, EPERM);
                CHECK_INT(under_filter(SYS_unshare, flags[i] | 0xffff00000000ull, 0, 0), ==, EPERM);
        }
        CHECK_INT(under_filter(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0), ==, EPERM);
        CHECK_INT(under_filter(SYS_unshare, CLONE_FILES, 0, 0), ==, 0);
}

static void lets_the_usual_sockets_through(void)
{
        CHECK_INT(under_filter(SYS_socket, AF_UNIX, SOCK_STREAM, 0), ==, 0);
        CHECK_INT(under_filter(SYS_socket, AF_INET, SOCK_STREAM, 0), ==, 0);
        CHECK_INT(under_filter(SYS_socket, AF_INET6, SOCK_DGRAM, 0), ==, 0);
        CHECK_INT(under_filter(SYS_socket, AF_NETLINK, SOCK_RAW, 0), ==, 0);
}

static void refuses_packets_made_by_hand(void)
{
        static const uint64_t flags[] = {0, SOCK_CLOEXEC, SOCK_NONBLOCK | SOCK_CLOEXEC, 0xabc00000000ull};

        for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
                CHECK_INT(under_filter(SYS_socket, AF_INET, SOCK_RAW | flags[i], IPPROTO_ICMP), ==, EPERM);
                CHECK_INT(under_filter(SYS_socket, AF_INET, SOCK_RAW | flags[i], IPPROTO_RAW), ==, EPERM);
                CHECK_INT(under_filter(SYS_socket, AF_INET6, SOCK_RAW | flags[i], IPPROTO_ICMPV6), ==, EPERM);
                CHECK_INT(under_filter(SYS_socket, AF_INET, SOCK_PACKET | flags[i], 0), ==, EPERM);
        }
        CHECK_INT(under_filter(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ==, 0);
}

static void refuses_foreign_senders(void)
{
        CHECK_INT(under_filter(SYS_setsockopt, (uint64_t)-1, IPPROTO_IP, IP_TRANSPARENT), ==, EPERM);
        CHECK_INT(under_filter(SYS_setsockopt, (uint64_t)-1, IPPROTO_IPV6, 75 /* IPV6_TRANSPARENT */), ==, EPERM);
        CHECK_INT(under_filter(SYS_setsockopt, (uint64_t)-1, 0xab00000000ull | IPPROTO_IP, IP_TRANSPARENT), ==, EPERM);
        CHECK_INT(under_filter(SYS_setsockopt, (uint64_t)-1, SOL_SOCKET, SO_MARK), ==, EPERM);
        CHECK_INT(under_filter(SYS_setsockopt, (uint64_t)-1, IPPROTO_IP, IP_TTL), ==, EBADF);
}

static void refuses_the_others_also_with_garbage_above(void)
{
        for (uint64_t family = 0; family < 64; family++) {
                if (family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK)
                        continue;
                CHECK_INT(under_filter(SYS_socket, family, SOCK_RAW, 0), ==, EAFNOSUPPORT);
        }
        CHECK_INT(under_filter(SYS_socket, 0x100000000ull | AF_PACKET, SOCK_RAW, 0), ==, EAFNOSUPPORT);
        CHECK_INT(under_filter(SYS_socket, AF_NETLINK, SOCK_RAW, 4), ==, EAFNOSUPPORT);
        CHECK_INT(under_filter(SYS_ioctl, 0, 0xffffffff00005412ull /* TIOCSTI */, 0), ==, EPERM);
}

static void kills_calls_of_another_abi(void)
{
#ifdef __x86_64__
        CHECK_INT(under_filter(0x40000000 | SYS_getpid, 0, 0, 0), ==, -SIGSYS);
#else
        SKIP("x32 is of x86-64 only");
#endif
}

int main(void)
{
        struct err err = {0};

        if (syscall_filter_compile(&filter, &err) < 0)
                return 1;
        RUN(refuses_what_the_table_says);
        RUN(refuses_every_namespace_flag);
        RUN(lets_the_usual_sockets_through);
        RUN(refuses_packets_made_by_hand);
        RUN(refuses_foreign_senders);
        RUN(refuses_the_others_also_with_garbage_above);
        RUN(kills_calls_of_another_abi);
        free(filter.filter);
        return tap_done();
}
