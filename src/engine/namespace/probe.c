#include "engine/namespace/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/host/cgroups.h"
#include "engine/net/firewall.h"
#include "engine/host/syscall_filter.h"
#include "sys/fs.h"
#include "sys/mnt.h"
#include "sys/netlink.h"
#include "sys/proc.h"

#define PROBE_UID 0x3fff0000u /* below every range we hand out */
#define BIT(cap) (1ull << (cap))

static int say(char *out, const char *fmt, ...) PRINTF(2, 3);
static int say(char *out, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        (void)vsnprintf(out, PROBE_DETAIL_MAX, fmt, ap);
        va_end(ap);
        return -1;
}

static int say_errno(char *out, const char *what, int r)
{
        return say(out, "%s: %s", what, strerror(-r));
}

/* ------------------------------------------------------------- the probes: 0, or -1 with words */

static int probe_capabilities(char *out)
{
        static const struct {
                unsigned cap;
                const char *name;
        } needed[] = {{CAP_SYS_ADMIN, "SYS_ADMIN"}, {CAP_NET_ADMIN, "NET_ADMIN"}, {CAP_SETUID, "SETUID"},
                      {CAP_SETGID, "SETGID"},       {CAP_SETPCAP, "SETPCAP"},     {CAP_SYS_PTRACE, "SYS_PTRACE"},
                      {CAP_MKNOD, "MKNOD"},         {CAP_CHOWN, "CHOWN"},         {CAP_DAC_OVERRIDE, "DAC_OVERRIDE"}};
        struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct d[2];

        if (geteuid() != 0)
                return say(out, "not root");
        if (syscall(SYS_capget, &h, d) < 0)
                return say_errno(out, "capget", -errno);
        for (size_t i = 0; i < ARRAY_LEN(needed); i++)
                if (!(d[needed[i].cap / 32].permitted >> (needed[i].cap % 32) & 1))
                        return say(out, "capability %s is missing", needed[i].name);
        return 0;
}

static int make_tmpfs(char *out)
{
        AUTO_CLOSE int fs = sys_fsopen("tmpfs");
        int r = fs < 0 ? fs : sys_fs_create(fs);

        if (r == 0)
                r = sys_fsmount(fs, 0);
        return r < 0 ? say_errno(out, "mount tmpfs by file descriptor", r) : r;
}

static int probe_detached(char *out)
{
        AUTO_CLOSE int tmp = make_tmpfs(out), copy = -1;

        if (tmp < 0)
                return -1;
        copy = sys_clone_tree(tmp, "");
        if (copy < 0)
                return say_errno(out, "copy a detached mount", copy);
        if (mkdirat(tmp, "d", 0700) < 0 || sys_move_mount(copy, tmp, "d") < 0)
                return say(out, "a detached mount cannot be attached to another one");
        return 0;
}

static int probe_proc(char *out)
{
        AUTO_CLOSE int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), fs = sys_fsopen("proc"), ns = -1;
        int r;

        ns = sys_ns_open(proc, 0, "pid");
        r = fs < 0 ? fs : ns < 0 ? ns : sys_fs_fd(fs, "pidns", ns);
        return r < 0 ? say_errno(out, "proc of another PID namespace (pidns=)", r) : 0;
}

static int probe_overlay(char *out)
{
        AUTO_CLOSE int tmp = make_tmpfs(out), fs = -1, l = -1, u = -1, w = -1;
        int r;

        if (tmp < 0)
                return -1;
        fs = sys_fsopen("overlay");
        if (fs < 0)
                return say_errno(out, "overlay", fs);
        if (mkdirat(tmp, "l", 0755) < 0 || mkdirat(tmp, "u", 0755) < 0 || mkdirat(tmp, "w", 0755) < 0)
                return say_errno(out, "mkdir", -errno);
        l = openat(tmp, "l", O_PATH | O_DIRECTORY | O_CLOEXEC);
        u = openat(tmp, "u", O_PATH | O_DIRECTORY | O_CLOEXEC);
        w = openat(tmp, "w", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if ((r = sys_fs_fd(fs, "lowerdir+", l)) < 0 || (r = sys_fs_fd(fs, "upperdir", u)) < 0 ||
            (r = sys_fs_fd(fs, "workdir", w)) < 0)
                return say_errno(out, "overlay with layers given by file descriptor", r);
        r = sys_fs_create(fs);
        return r < 0 ? say_errno(out, "mount overlay", r) : 0;
}

/* A process in all namespaces a cell has, waiting to be ended. */
static pid_t clone_cell(int *ret_pidfd)
{
        struct sys_clone how = {
                .flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWTIME,
                .cgroup = -1,
                .ret_pidfd = ret_pidfd,
        };
        pid_t pid = sys_clone(&how);

        if (pid == 0) {
                (void)pause();
                _exit(0);
        }
        return pid;
}

static void end_cell(pid_t pid, int pidfd)
{
        (void)sys_pidfd_kill(pidfd, SIGKILL);
        (void)sys_pidfd_wait(pidfd, 5000);
        (void)waitpid(pid, NULL, WNOHANG);
}

static int probe_namespaces(char *out)
{
        AUTO_CLOSE int pidfd = -1;
        pid_t pid = clone_cell(&pidfd);

        if (pid < 0)
                return say_errno(out, "clone into new namespaces", pid);
        end_cell(pid, pidfd);
        return 0;
}

static int map_and_try(pid_t pid, char *out)
{
        AUTO_CLOSE int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), userns = -1, tmp = make_tmpfs(out),
                       copy = -1;
        char path[32], map[32];
        int r;

        if (tmp < 0)
                return -1;
        (void)snprintf(map, sizeof(map), "0 %u 65536", PROBE_UID);
        (void)snprintf(path, sizeof(path), "%d/uid_map", pid);
        r = sys_write_at(proc, path, map);
        (void)snprintf(path, sizeof(path), "%d/gid_map", pid);
        if (r == 0)
                r = sys_write_at(proc, path, map);
        if (r < 0)
                return say_errno(out, "map user ids", r);
        userns = sys_ns_open(proc, pid, "user");
        copy = sys_clone_tree(tmp, "");
        r = userns < 0 ? userns : copy < 0 ? copy : sys_mount_idmap(copy, userns);
        return r < 0 ? say_errno(out, "idmapped mount", r) : 0;
}

static int probe_idmap(char *out)
{
        AUTO_CLOSE int pidfd = -1;
        pid_t pid = clone_cell(&pidfd);
        int r;

        if (pid < 0)
                return say_errno(out, "clone into new namespaces", pid);
        r = map_and_try(pid, out);
        end_cell(pid, pidfd);
        return r;
}

static int probe_cgroups(char *out)
{
        char parent[40];
        struct cgroups c;
        struct err err = {0};

        (void)snprintf(parent, sizeof(parent), "sandglass-probe-%d", (int)getpid());
        if (cgroups_open(parent, &c, &err) < 0)
                return say(out, "%s", err.msg);
        (void)say(out, "memory %s, pids %s, cpu %s", c.in_v2[CGROUP_MEMORY] ? "v2" : "v1",
                  c.in_v2[CGROUP_PIDS] ? "v2" : "v1", c.in_v2[CGROUP_CPU] ? "v2" : "v1");
        cgroups_done(&c);
        (void)cgroups_remove_parent(parent);
        return 0;
}

static int probe_seccomp(char *out)
{
        struct sock_fprog prog;
        struct err err = {0};

        if (syscall_filter_compile(&prog, &err) < 0)
                return say(out, "%s", err.msg);
        free(prog.filter);
        return 0;
}

/* In a child's own network namespace: it goes with the child. */
static int probe_link(char *out)
{
        static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1}, peer_mac[6] = {2, 0, 0, 0, 0, 2};
        pid_t pid = fork();
        int st = 0;

        if (pid < 0)
                return say_errno(out, "fork", -errno);
        if (pid == 0) {
                int proc = open("/proc", O_PATH | O_CLOEXEC), nl, ns;

                if (unshare(CLONE_NEWNET) < 0)
                        _exit(errno);
                nl = netlink_open();
                ns = sys_ns_open(proc, 0, "net");
                _exit(-netlink_veth_create(
                        nl, &(struct netlink_veth){
                                    .name = "a", .peer = "b", .peer_netns = ns, .mac = mac, .peer_mac = peer_mac}));
        }
        if (waitpid(pid, &st, 0) < 0)
                return say_errno(out, "wait", -errno);
        return WIFEXITED(st) && WEXITSTATUS(st) == 0 ? 0 : say_errno(out, "make a veth pair", -WEXITSTATUS(st));
}

static int probe_firewall(char *out)
{
        struct err err = {0};

        return firewall_check(&err) < 0 ? say(out, "%s", err.msg) : 0;
}

/* ------------------------------------------------------------- the table */

static const struct {
        const char *name;
        int (*run)(char *out);
        bool is_needed;
        const char *fix;
} probes[] = {
        {"root", probe_capabilities, true, "run as root, in a container with --privileged"},
        {"namespaces", probe_namespaces, true,
         "allow user namespaces: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone"},
        {"detached mounts", probe_detached, true, "use Linux 6.15 or newer"},
        {"proc of a PID namespace", probe_proc, true, "use Linux 6.17 or newer"},
        {"overlay", probe_overlay, true, "modprobe overlay; use Linux 6.13 or newer"},
        {"idmapped mounts", probe_idmap, true, "use Linux 6.3 or newer"},
        {"cgroups", probe_cgroups, true, "mount cgroup2 on /sys/fs/cgroup with the memory, pids and cpu controllers"},
        {"seccomp", probe_seccomp, true, "the kernel needs CONFIG_SECCOMP_FILTER"},
        {"network links", probe_link, false, "modprobe veth; without it sandboxes have loopback only"},
        {"packet filter", probe_firewall, false,
         "modprobe nf_tables nft_masq nft_ct nft_fib_inet; without it sandboxes have loopback only"},
};

size_t probe_all(struct probe_result out[PROBES_MAX])
{
        _Static_assert(ARRAY_LEN(probes) <= PROBES_MAX, "room for all");

        for (size_t i = 0; i < ARRAY_LEN(probes); i++) {
                out[i] = (struct probe_result){.name = probes[i].name, .is_needed = probes[i].is_needed};
                out[i].ok = probes[i].run(out[i].detail) == 0;
                out[i].fix = out[i].ok ? NULL : probes[i].fix;
        }
        return ARRAY_LEN(probes);
}

const struct probe_result *probe_find_missing(const struct probe_result *results, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (results[i].is_needed && !results[i].ok)
                        return &results[i];
        return NULL;
}
