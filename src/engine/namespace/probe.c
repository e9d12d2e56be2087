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
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/host/cgroup_place.h"
#include "engine/host/cgroups.h"
#include "engine/host/mount_ways.h"
#include "engine/net/firewall.h"
#include "engine/net/passage.h"
#include "engine/host/syscall_filter.h"
#include "sys/fs.h"
#include "sys/mnt.h"
#include "sys/netlink.h"
#include "sys/proc.h"

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

/* All that is mounted for a sandbox, but for the mapping of owners: that is a matter of the data directory's file system. */
static int probe_mounts(char *out)
{
        struct mount_ways ways;
        struct err err = {0};

        if (mount_ways_find(&ways, &err) < 0)
                return say(out, "%s", err.msg);
        mount_ways_describe(&ways, out, PROBE_DETAIL_MAX);
        return 0;
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
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
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

static int probe_cgroups(char *out)
{
        char parent[40], place[CGROUP_PLACE_MAX];
        struct cgroups c;
        struct err err = {0};
        size_t used;

        (void)snprintf(parent, sizeof(parent), "sandglass-probe-%d", (int)getpid());
        if (cgroups_open(parent, &c, &err) < 0)
                return say(out, "%s", err.msg);
        cgroups_describe(&c, out, PROBE_DETAIL_MAX);
        used = strlen(out);
        if (cgroup_place_noted(place))
                (void)snprintf(out + used, PROBE_DETAIL_MAX - used, "; of a server: in %s", place);
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

static int probe_other_firewalls(char *out)
{
        struct passage_report report;

        passage_look(&report);
        (void)say(out, "%s", report.text);
        return report.outcome == PASSAGE_BLOCKED ? -1 : 0;
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
        {"mounts", probe_mounts, true, "modprobe overlay; use Linux 6.1 or newer"},
        {"cgroups", probe_cgroups, true, "mount cgroup2 on /sys/fs/cgroup with the memory, pids and cpu controllers"},
        {"seccomp", probe_seccomp, true, "the kernel needs CONFIG_SECCOMP_FILTER"},
        {"network links", probe_link, false, "modprobe veth; without it sandboxes have loopback only"},
        {"packet filter", probe_firewall, false,
         "modprobe nf_tables nft_masq nft_ct nft_fib_inet; without it sandboxes have loopback only"},
        {"other firewalls", probe_other_firewalls, false,
         "the log of the server says why (firewall.blocked); docs/server.md has rules that you can add yourself"},
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
