#include "engine/host/syscall_filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"

/* Numbers newer than the library's tables; the same on every architecture. */
#define NR_OPEN_TREE_ATTR 467
#define IPPROTO_L2TP_NR 115
#define IPPROTO_SMC_NR 256
#define NAMESPACE_FLAGS                                                                                                \
        (CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)
#define CLONE_NEWTIME_FLAG 0x80
#ifndef IPV6_TRANSPARENT
#define IPV6_TRANSPARENT 75
#endif

/* Root inside holds capabilities over its own namespaces; these calls would let it use them on kernel code that expects
 * the host's root, or see what is not the sandbox's.  EPERM where a program should see a refusal, ENOSYS where it
 * should look for another way. */
static const struct {
        const char *name;
        int nr; /* used when name is NULL */
        int error;
} denied[] = {
        /* mounts: the tree is made by the engine; file system parsers are not for untrusted input.
         * move_mount stays for the init process, which hangs up its root with it. */
        {"mount", 0, EPERM},
        {"umount2", 0, EPERM},
        {"pivot_root", 0, EPERM},
        {"fsopen", 0, EPERM},
        {"fsconfig", 0, EPERM},
        {"fsmount", 0, EPERM},
        {"fspick", 0, EPERM},
        {"open_tree", 0, EPERM},
        {NULL, NR_OPEN_TREE_ATTR, EPERM},
        {"mount_setattr", 0, EPERM},
        {"quotactl", 0, EPERM},
        {"quotactl_fd", 0, EPERM},
        {"swapon", 0, EPERM},
        {"swapoff", 0, EPERM},
        /* namespaces: no nesting, since nested root reaches more of the kernel; clone3 hides its flags in memory */
        {"setns", 0, EPERM},
        {"clone3", 0, ENOSYS},
        /* large, young or often broken parts of the kernel that programs can do without */
        {"io_uring_setup", 0, ENOSYS},
        {"io_uring_enter", 0, ENOSYS},
        {"io_uring_register", 0, ENOSYS},
        {"io_setup", 0, ENOSYS}, /* and its contexts are counted for the whole machine */
        {"bpf", 0, EPERM},
        {"perf_event_open", 0, EPERM},
        {"userfaultfd", 0, EPERM},
        /* keys are not separated by namespace */
        {"add_key", 0, ENOSYS},
        {"request_key", 0, ENOSYS},
        {"keyctl", 0, ENOSYS},
        /* the machine itself */
        {"kexec_load", 0, EPERM},
        {"kexec_file_load", 0, EPERM},
        {"init_module", 0, EPERM},
        {"finit_module", 0, EPERM},
        {"delete_module", 0, EPERM},
        {"reboot", 0, EPERM},
        {"acct", 0, EPERM},
        {"syslog", 0, EPERM},
        {"settimeofday", 0, EPERM},
        {"clock_settime", 0, EPERM},
        {"clock_adjtime", 0, EPERM},
        {"adjtimex", 0, EPERM},
        {"iopl", 0, EPERM},
        {"ioperm", 0, EPERM},
        {"vhangup", 0, EPERM},
        /* opens files by number, past every directory's permissions */
        {"open_by_handle_at", 0, EPERM},
        {"lookup_dcookie", 0, EPERM},
        {"nfsservctl", 0, ENOSYS},
};

static int deny(scmp_filter_ctx ctx, int error, int nr, unsigned argc, const struct scmp_arg_cmp *args)
{
        int r = seccomp_rule_add_array(ctx, SCMP_ACT_ERRNO((uint16_t)error), nr, argc, args);

        return r == -EEXIST ? 0 : r;
}

static int deny_calls(scmp_filter_ctx ctx)
{
        for (size_t i = 0; i < ARRAY_LEN(denied); i++) {
                int nr = denied[i].name ? seccomp_syscall_resolve_name(denied[i].name) : denied[i].nr, r;

                if (nr == __NR_SCMP_ERROR)
                        return -ENOENT;
                if (nr < 0)
                        continue; /* this architecture does not have it */
                r = deny(ctx, denied[i].error, nr, 0, NULL);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* One rule per bit: any of them set is a refusal, whatever else the word holds. */
static int deny_namespaces(scmp_filter_ctx ctx)
{
        for (unsigned bit = 0; bit < 32; bit++) {
                uint64_t flag = 1ull << bit;
                struct scmp_arg_cmp has = SCMP_CMP(0, SCMP_CMP_MASKED_EQ, flag, flag);
                int r = 0;

                if (flag & NAMESPACE_FLAGS)
                        r = deny(ctx, EPERM, SCMP_SYS(clone), 1, &has);
                if (r == 0 && (flag & (NAMESPACE_FLAGS | CLONE_NEWTIME_FLAG)))
                        r = deny(ctx, EPERM, SCMP_SYS(unshare), 1, &has);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Unix, IPv4, IPv6 and route netlink; the rest (packet, vsock, alg, ...) is attack surface.  The kernel looks at the
 * low half of the word only, so a value with anything in the high half is above the last allowed one: refused too. */
static int deny_socket_families(scmp_filter_ctx ctx)
{
        struct scmp_arg_cmp above = SCMP_CMP(0, SCMP_CMP_GT, AF_NETLINK);
        struct scmp_arg_cmp not_route[] = {SCMP_CMP(0, SCMP_CMP_EQ, AF_NETLINK), SCMP_CMP(2, SCMP_CMP_NE, 0)};
        int r;

        for (uint64_t family = 0; family < AF_NETLINK; family++) {
                struct scmp_arg_cmp is = SCMP_CMP(0, SCMP_CMP_EQ, family);

                if (family == AF_UNIX || family == AF_INET || family == AF_INET6)
                        continue;
                r = deny(ctx, EAFNOSUPPORT, SCMP_SYS(socket), 1, &is);
                if (r < 0)
                        return r;
        }
        r = deny(ctx, EAFNOSUPPORT, SCMP_SYS(socket), 1, &above);
        return r < 0 ? r : deny(ctx, EAFNOSUPPORT, SCMP_SYS(socket), 2, not_route);
}

/* Packets made by hand.  A restored sandbox owns its network namespace (checkpoints need that for TCP), and CAP_NET_RAW
 * would count there; in one that was never restored it does not.  Both refuse alike, for everybody inside: raw sockets of
 * IPv4 and IPv6, and packet sockets under their old name (a type of AF_INET).  Echo requests go by datagram sockets, which
 * need no right; netlink's SOCK_RAW is another thing.  The kernel looks at the low four bits for the type. */
static int deny_raw_packets(scmp_filter_ctx ctx)
{
        static const struct {
                uint64_t family, type;
        } raw[] = {{AF_INET, SOCK_RAW}, {AF_INET6, SOCK_RAW}, {AF_INET, SOCK_PACKET}};

        for (size_t i = 0; i < ARRAY_LEN(raw); i++) {
                struct scmp_arg_cmp is[] = {SCMP_CMP(0, SCMP_CMP_EQ, raw[i].family),
                                            SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xf, raw[i].type)};
                int r = deny(ctx, EPERM, SCMP_SYS(socket), ARRAY_LEN(is), is);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* And foreign sender addresses and marks, which the same right allows: a proxy inside has no use for them. */
static int deny_foreign_senders(scmp_filter_ctx ctx)
{
        static const struct {
                uint64_t level, option;
        } transparent[] = {{IPPROTO_IP, IP_TRANSPARENT}, {IPPROTO_IPV6, IPV6_TRANSPARENT}, {SOL_SOCKET, SO_MARK}};

        for (size_t i = 0; i < ARRAY_LEN(transparent); i++) {
                struct scmp_arg_cmp is[] = {SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xffffffffu, transparent[i].level),
                                            SCMP_CMP(2, SCMP_CMP_MASKED_EQ, 0xffffffffu, transparent[i].option)};
                int r = deny(ctx, EPERM, SCMP_SYS(setsockopt), ARRAY_LEN(is), is);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* Protocols for which the kernel would load a module that hardly anybody else uses. */
static int deny_rare_protocols(scmp_filter_ctx ctx)
{
        static const uint64_t rare[] = {IPPROTO_DCCP, IPPROTO_L2TP_NR, IPPROTO_SCTP, IPPROTO_SMC_NR};

        for (size_t i = 0; i < ARRAY_LEN(rare); i++) {
                struct scmp_arg_cmp is = SCMP_CMP(2, SCMP_CMP_MASKED_EQ, 0xffffffffu, rare[i]);
                int r = deny(ctx, EPROTONOSUPPORT, SCMP_SYS(socket), 1, &is);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* cell_child.c says why.  It is said to have worked, since programs that hide secrets from dumps (sudo) insist on it, and
 * there is no dump. */
static int keep_core_limit(scmp_filter_ctx ctx)
{
        struct scmp_arg_cmp set = SCMP_CMP(0, SCMP_CMP_MASKED_EQ, 0xffffffffu, RLIMIT_CORE);
        struct scmp_arg_cmp change[] = {SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xffffffffu, RLIMIT_CORE),
                                        SCMP_CMP(2, SCMP_CMP_NE, 0)};
        int r = deny(ctx, 0, SCMP_SYS(setrlimit), 1, &set);

        return r < 0 ? r : deny(ctx, 0, SCMP_SYS(prlimit64), 2, change);
}

/* Typing into someone else's terminal. */
static int deny_terminal_injection(scmp_filter_ctx ctx)
{
        static const uint64_t requests[] = {TIOCSTI, TIOCLINUX};

        for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
                struct scmp_arg_cmp is = SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xffffffffu, requests[i]);
                int r = deny(ctx, EPERM, SCMP_SYS(ioctl), 1, &is);

                if (r < 0)
                        return r;
        }
        return 0;
}

static int export_program(scmp_filter_ctx ctx, struct sock_fprog *ret)
{
        AUTO_CLOSE int fd = memfd_create("seccomp", MFD_CLOEXEC);
        AUTO_FREE struct sock_filter *code = NULL;
        struct stat st;
        int r;

        if (fd < 0)
                return -errno;
        r = seccomp_export_bpf(ctx, fd);
        if (r < 0)
                return r;
        if (fstat(fd, &st) < 0)
                return -errno;
        code = malloc((size_t)st.st_size);
        if (!code)
                return -ENOMEM;
        if (pread(fd, code, (size_t)st.st_size, 0) != st.st_size)
                return -EIO;
        ret->len = (unsigned short)((size_t)st.st_size / sizeof(*code));
        ret->filter = TAKE_PTR(code);
        return 0;
}

int syscall_filter_compile(struct sock_fprog *ret, struct err *err)
{
        scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
        int r;

        if (!ctx)
                return err_sys(err, -ENOMEM, "seccomp filter");
        r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS); /* 32-bit and x32 calls */
        if (r == 0)
                r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree, not a list: fewer steps per call */
        if (r == 0)
                r = deny_calls(ctx);
        if (r == 0)
                r = deny_namespaces(ctx);
        if (r == 0)
                r = deny_socket_families(ctx);
        if (r == 0)
                r = deny_raw_packets(ctx);
        if (r == 0)
                r = deny_foreign_senders(ctx);
        if (r == 0)
                r = deny_rare_protocols(ctx);
        if (r == 0)
                r = keep_core_limit(ctx);
        if (r == 0)
                r = deny_terminal_injection(ctx);
        if (r == 0)
                r = export_program(ctx, ret);
        seccomp_release(ctx);
        return r < 0 ? err_sys(err, r, "seccomp filter") : 0;
}

int syscall_filter_install(const struct sock_fprog *prog)
{
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, prog) < 0 ? -errno : 0;
}
