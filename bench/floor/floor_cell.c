#include "floor_cell.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <net/if.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/fs.h"
#include "sys/mnt.h"
#include "sys/proc.h"
#include "sys/scm.h"

#define ID_FIRST 1000000 /* the sandbox's uid 0 */
#define ID_MAP "0 1000000 65536"
#define OWN_NAME "sandglass-floor"
enum { SLOT_SOCK = 3, SLOT_AGENT, SLOT_NULL, SLOTS_END }; /* fds the child keeps until exec */

static int must(int r, const char *what)
{
        if (r < 0) {
                errno = -r;
                err(1, "%s", what);
        }
        return r;
}

static int must_c(int r, const char *what) /* of calls that set errno */
{
        if (r < 0)
                err(1, "%s", what);
        return r;
}

/* ---- once ---- */

static void open_slots(struct floor *f, const char *agent)
{
        int fd = must_c(open(agent, O_RDONLY | O_CLOEXEC), agent);
        int null = must_c(open("/dev/null", O_RDWR | O_CLOEXEC), "/dev/null");

        fd = fcntl(fd, F_DUPFD_CLOEXEC, 64);
        null = fcntl(null, F_DUPFD_CLOEXEC, 64);
        must_c(dup3(null, SLOT_SOCK, O_CLOEXEC), "slot");
        must_c(dup3(fd, SLOT_AGENT, O_CLOEXEC), "slot");
        must_c(dup3(null, SLOT_NULL, O_CLOEXEC), "slot");
        f->agent = SLOT_AGENT;
}

/* A detached, read-only tmpfs with the device nodes, copied into every sandbox. */
static void make_dev(struct floor *f)
{
        static const struct {
                const char *name;
                unsigned major, minor;
        } nodes[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
                     {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
        AUTO_CLOSE int fs = must(sys_fsopen("tmpfs"), "fsopen tmpfs");

        must(sys_fs_string(fs, "size", "64k"), "size");
        must(sys_fs_string(fs, "mode", "755"), "mode");
        must(sys_fs_create(fs), "create /dev");
        f->dev = must(sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC), "mount /dev");
        for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
                dev_t dev = makedev(nodes[i].major, nodes[i].minor);
                must_c(mknodat(f->dev, nodes[i].name, S_IFCHR | 0666, dev), nodes[i].name);
                must_c(fchmodat(f->dev, nodes[i].name, 0666, 0), nodes[i].name);
        }
        must_c(mkdirat(f->dev, "shm", 01777), "shm");
        must(sys_mount_attrs(f->dev, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC), "/dev read-only");
}

/* A mount namespace with one empty tmpfs: children cloned from it copy next to nothing and need no pivot_root, which
 * would look at every thread of the machine. */
static void make_tiny_namespace(struct floor *f)
{
        must_c(unshare(CLONE_NEWNS), "unshare mount namespace");
        must_c(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
        f->host_mnt = must_c(openat(f->proc, "thread-self/ns/mnt", O_RDONLY | O_CLOEXEC), "mount namespace");
        must_c(unshare(CLONE_NEWNS), "unshare mount namespace");
        must_c(mount("tiny", f->work, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,nr_inodes=2,mode=555"),
               "tiny");
        must(sys_pivot_into(f->work), "tiny root");
        f->tiny_mnt = must_c(openat(f->proc, "thread-self/ns/mnt", O_RDONLY | O_CLOEXEC), "mount namespace");
        must_c(setns(f->host_mnt, CLONE_NEWNS), "back to our mount namespace");
}

static void lo_up(void)
{
        AUTO_CLOSE int s = must_c(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");
        struct ifreq rq = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

        must_c(ioctl(s, SIOCSIFFLAGS, &rq), "lo up");
}

static void fill_nets(struct floor *f, size_t pool)
{
        f->host_net = must_c(openat(f->proc, "thread-self/ns/net", O_RDONLY | O_CLOEXEC), "network namespace");
        f->nets = calloc(pool, sizeof(*f->nets));
        if (!f->nets)
                err(1, "pool");
        for (; f->net_count < pool; f->net_count++) {
                must_c(unshare(CLONE_NEWNET), "unshare network namespace");
                lo_up();
                int fd = openat(f->proc, "thread-self/ns/net", O_RDONLY | O_CLOEXEC);
                f->nets[f->net_count] = must_c(fd, "network namespace");
                must_c(setns(f->host_net, CLONE_NEWNET), "back to our network namespace");
        }
}

static void open_cgroups(struct floor *f)
{
        static const char *const v1[] = {"memory", "pids", "cpu"};
        char path[128];

        for (size_t i = 0; i < ARRAY_LEN(v1); i++) {
                (void)snprintf(path, sizeof(path), "/sys/fs/cgroup/%s/cgroup.procs", v1[i]);
                if (access(path, F_OK) < 0)
                        continue;
                (void)snprintf(path, sizeof(path), "/sys/fs/cgroup/%s/" OWN_NAME, v1[i]);
                must(sys_make_dir(AT_FDCWD, path, 0755), path);
                f->cgroups[f->cgroup_count++] = must_c(open(path, O_DIRECTORY | O_CLOEXEC), path);
        }
        const char *unified = f->cgroup_count ? "/sys/fs/cgroup/unified/" OWN_NAME : "/sys/fs/cgroup/" OWN_NAME;
        must(sys_make_dir(AT_FDCWD, unified, 0755), unified);
        f->cgroups[f->cgroup_count++] = must_c(open(unified, O_DIRECTORY | O_CLOEXEC), unified);
}

void floor_open(struct floor *f, const char *root, const char *work, const char *agent, size_t pool)
{
        *f = (struct floor){.root = root, .work = work, .later = {-1, -1}};
        must(sys_raise_nofile(), "open file limit");
        open_slots(f, agent);
        f->proc = must_c(open("/proc", O_PATH | O_CLOEXEC), "/proc");
        make_tiny_namespace(f);
        make_dev(f);
        open_cgroups(f);
        fill_nets(f, pool);
}

void floor_close(struct floor *f)
{
        static const char *const dirs[] = {"memory", "pids", "cpu", "unified", "."};
        char path[128];

        while (f->net_count > 0)
                (void)close(f->nets[--f->net_count]);
        free(f->nets);
        for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
                (void)snprintf(path, sizeof(path), "/sys/fs/cgroup/%s/" OWN_NAME, dirs[i]);
                (void)rmdir(path); /* not there: the machine has no such hierarchy */
        }
}

/* ---- the child ---- */

/* Compiled once by libseccomp, as an engine would: the child only hands the program over. */
static struct sock_fprog_bytes {
        void *code;
        size_t size;
} filter;

static void compile_filter(void)
{
        static const int denied[] = {SCMP_SYS(kexec_load),    SCMP_SYS(init_module),
                                     SCMP_SYS(finit_module),  SCMP_SYS(delete_module),
                                     SCMP_SYS(bpf),           SCMP_SYS(perf_event_open),
                                     SCMP_SYS(swapon),        SCMP_SYS(swapoff),
                                     SCMP_SYS(reboot),        SCMP_SYS(acct),
                                     SCMP_SYS(quotactl),      SCMP_SYS(add_key),
                                     SCMP_SYS(request_key),   SCMP_SYS(keyctl),
                                     SCMP_SYS(userfaultfd),   SCMP_SYS(open_by_handle_at),
                                     SCMP_SYS(settimeofday),  SCMP_SYS(clock_settime),
                                     SCMP_SYS(clock_adjtime), SCMP_SYS(adjtimex)};
        AUTO_CLOSE int mem = must_c(memfd_create("filter", MFD_CLOEXEC), "memfd");
        scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);

        (void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree */
        for (size_t i = 0; i < ARRAY_LEN(denied); i++)
                must(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), denied[i], 0), "seccomp rule");
        must(seccomp_export_bpf(ctx, mem), "seccomp export");
        seccomp_release(ctx);
        filter.size = (size_t)lseek(mem, 0, SEEK_END);
        filter.code = mmap(NULL, filter.size, PROT_READ, MAP_PRIVATE, mem, 0);
        if (filter.code == MAP_FAILED)
                err(1, "map filter");
}

static void install_filter(void)
{
        struct {
                unsigned short len;
                void *code;
        } prog = {.len = (unsigned short)(filter.size / 8), .code = filter.code};

        must_c((int)syscall(SYS_seccomp, 1 /* SECCOMP_SET_MODE_FILTER */, 0, &prog), "seccomp");
}

static void child_main(void)
{
        static char *const argv[] = {(char *)"agent", (char *)"/bin/true", NULL}, *const envp[] = {NULL};
        int root = -1;
        size_t count;
        char go;

        /* Own descriptor table, with only what is below the line: the parent may have thousands. */
        must_c((int)syscall(SYS_close_range, SLOTS_END, ~0U, 2 /* CLOSE_RANGE_UNSHARE */), "close_range");
        if (scm_recv(SLOT_SOCK, &go, 1, &root, 1, &count) != 1 || count != 1)
                _exit(100);
        must(sys_become_root(), "become root inside");
        must(sys_move_mount(root, AT_FDCWD, "/"), "attach root");
        must_c(fchdir(root), "enter root");
        must_c(chroot("."), "chroot");
        must_c(sethostname("floor", 5), "host name");
        must(sys_drop_bounding(1u << 16 | 1u << 17 | 1u << 22 | 1u << 25), "capabilities"); /* module rawio boot time */
        install_filter();
        (void)dup2(SLOT_NULL, 0);
        (void)dup2(SLOT_NULL, 1);
        (void)fcntl(SLOT_SOCK, F_SETFD, 0);
        (void)syscall(SYS_execveat, SLOT_AGENT, "", argv, envp, AT_EMPTY_PATH);
        _exit(101);
}

/* clone3 where the child runs child_main() on a stack of its own in our memory until it execs: no page table copied. */
static pid_t clone_child(struct clone_args *ca)
{
#ifdef __x86_64__
        static char *stack;

        if (!stack) {
                stack = mmap(NULL, 256 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (stack == MAP_FAILED)
                        err(1, "stack");
        }
        ca->flags |= CLONE_VM;
        ca->stack = (uintptr_t)stack;
        ca->stack_size = 256 << 10;
        register long r __asm__("rax") = SYS_clone3;
        register void (*fn)(void) __asm__("r12") = child_main;
        __asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\txor %%ebp, %%ebp\n\t"
                         "call *%%r12\n\thlt\n1:"
                         : "+r"(r)
                         : "D"(ca), "S"(sizeof(*ca)), "r"(fn)
                         : "rcx", "r11", "memory");
        errno = r < 0 ? (int)-r : 0;
        return r < 0 ? -1 : (pid_t)r;
#else
        pid_t pid = (pid_t)syscall(SYS_clone3, ca, sizeof(*ca));

        if (pid == 0)
                child_main();
        return pid;
#endif
}

/* ---- one sandbox ---- */

static void make_dirs(struct floor *f, const char *name)
{
        char path[4200];

        static const char *const parts[] = {"", "/u", "/w"};
        for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
                (void)snprintf(path, sizeof(path), "%s/%s%s", f->work, name, parts[i]);
                must_c(mkdir(path, 0755), path);
        }
}

static int make_cgroups(struct floor *f, const char *name)
{
        static const struct {
                const char *file, *value;
        } limits[] = {{"memory.limit_in_bytes", "536870912"}, {"pids.max", "256"}, {"cpu.cfs_quota_us", "100000"}};
        char path[64];

        for (size_t i = 0; i < f->cgroup_count; i++) {
                must_c(mkdirat(f->cgroups[i], name, 0755), "cgroup");
                if (f->cgroup_count == 1 || i + 1 == f->cgroup_count)
                        continue;
                (void)snprintf(path, sizeof(path), "%s/%s", name, limits[i].file);
                must(sys_write_at(f->cgroups[i], path, limits[i].value), path);
        }
        return must_c(openat(f->cgroups[f->cgroup_count - 1], name, O_DIRECTORY | O_CLOEXEC), "cgroup");
}

static void attach_cgroups(struct floor *f, const struct floor_cell *c)
{
        char path[64], pid[16];

        (void)snprintf(pid, sizeof(pid), "%d", c->pid);
        (void)snprintf(path, sizeof(path), "%s/cgroup.procs", c->name);
        for (size_t i = 0; i + 1 < f->cgroup_count; i++)
                must(sys_write_at(f->cgroups[i], path, pid), "attach to cgroup");
}

static int overlay(struct floor *f, const char *name, int userns)
{
        AUTO_CLOSE int fs = must(sys_fsopen("overlay"), "fsopen overlay");
        char path[4200];

        (void)snprintf(path, sizeof(path), "%s/%s", f->work, name);
        f->later[0] = must(sys_clone_tree(AT_FDCWD, f->root), "clone lower");
        f->later[1] = must(sys_clone_tree(AT_FDCWD, path), "clone upper");
        must(sys_mount_idmap(f->later[0], userns), "idmap lower");
        must(sys_mount_idmap(f->later[1], userns), "idmap upper");
        AUTO_CLOSE int upper = must_c(openat(f->later[1], "u", O_PATH | O_CLOEXEC), "upper");
        AUTO_CLOSE int work = must_c(openat(f->later[1], "w", O_PATH | O_CLOEXEC), "work");
        must(sys_fs_fd(fs, "lowerdir+", f->later[0]), "lowerdir");
        must(sys_fs_fd(fs, "upperdir", upper), "upperdir");
        must(sys_fs_fd(fs, "workdir", work), "workdir");
        must(sys_fs_flag(fs, "volatile"), "volatile");
        /* overlayfs works on the upper layer as whoever creates the mount: as an id that is mapped */
        must(sys_keep_caps(true), "keep capabilities");
        sys_set_fsids(ID_FIRST, ID_FIRST);
        int r = sys_fs_create(fs);
        sys_set_fsids(0, 0);
        must(sys_keep_caps(false), "keep capabilities");
        must(r, "create overlay");
        return must(sys_fsmount(fs, MOUNT_ATTR_NODEV), "mount overlay");
}

static int fresh_mount(const char *type, const char *key, const char *value, int pidns, unsigned attrs)
{
        AUTO_CLOSE int fs = must(sys_fsopen(type), type);

        if (key)
                must(sys_fs_string(fs, key, value), key);
        if (pidns >= 0)
                must(sys_fs_fd(fs, "pidns", pidns), "pidns");
        must(sys_fs_create(fs), type);
        return must(sys_fsmount(fs, attrs), type);
}

static void hang(int mount, int root, const char *where)
{
        must(sys_move_mount(mount, root, where), where);
        (void)close(mount);
}

static int make_root(struct floor *f, const struct floor_cell *c)
{
        const unsigned strict = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
        char path[64];

        (void)snprintf(path, sizeof(path), "%d/ns/user", c->pid);
        AUTO_CLOSE int userns = must_c(openat(f->proc, path, O_RDONLY | O_CLOEXEC), "user namespace");
        (void)snprintf(path, sizeof(path), "%d/ns/pid", c->pid);
        AUTO_CLOSE int pidns = must_c(openat(f->proc, path, O_RDONLY | O_CLOEXEC), "pid namespace");
        int root = overlay(f, c->name, userns);

        hang(fresh_mount("proc", NULL, NULL, pidns, strict), root, "proc");
        hang(must(sys_clone_tree(f->dev, ""), "clone /dev"), root, "dev");
        hang(fresh_mount("tmpfs", "size", "64m", -1, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV), root, "dev/shm");
        return root;
}

static void map_ids(struct floor *f, pid_t pid)
{
        char path[64];

        (void)snprintf(path, sizeof(path), "%d/uid_map", pid);
        must(sys_write_at(f->proc, path, ID_MAP), "uid_map");
        (void)snprintf(path, sizeof(path), "%d/gid_map", pid);
        must(sys_write_at(f->proc, path, ID_MAP), "gid_map");
}

static void start_child(struct floor *f, struct floor_cell *c, int cgroup)
{
        int pair[2], net;

        if (f->net_count == 0)
                errx(1, "network namespace pool is empty");
        net = f->nets[--f->net_count];
        must_c(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "socketpair");
        must_c(dup3(pair[1], SLOT_SOCK, O_CLOEXEC), "slot");
        (void)close(pair[1]);
        c->sock = pair[0];
        must_c(setns(net, CLONE_NEWNET), "enter network namespace");
        must_c(setns(f->tiny_mnt, CLONE_NEWNS), "enter tiny mount namespace");
        struct clone_args ca = {
                .flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP |
                         CLONE_PIDFD | CLONE_INTO_CGROUP | CLONE_FILES,
                .pidfd = (uintptr_t)&c->pidfd,
                .exit_signal = SIGCHLD,
                .cgroup = (uint64_t)cgroup,
        };
        c->pid = must_c(clone_child(&ca), "clone3");
        must_c(setns(f->host_mnt, CLONE_NEWNS), "back to our mount namespace");
        must_c(setns(f->host_net, CLONE_NEWNET), "back to our network namespace");
        (void)close(net);
}

void floor_make(struct floor *f, unsigned number, struct floor_cell *ret)
{
        AUTO_CLOSE int cgroup = -1, root = -1;
        char byte;

        if (!filter.code)
                compile_filter();
        *ret = (struct floor_cell){0};
        (void)snprintf(ret->name, sizeof(ret->name), "%u", number);
        make_dirs(f, ret->name);
        cgroup = make_cgroups(f, ret->name);
        start_child(f, ret, cgroup);
        map_ids(f, ret->pid);
        attach_cgroups(f, ret);
        root = make_root(f, ret);
        if (scm_send(ret->sock, "g", 1, &root, 1) != 1)
                err(1, "send root");
        if (read(ret->sock, &byte, 1) != 1 || byte != 'R')
                errx(1, "sandbox %s did not start", ret->name);
}

void floor_ask(const struct floor_cell *c, char what)
{
        char back = 0;

        if (write(c->sock, &what, 1) != 1 || read(c->sock, &back, 1) != 1 || back != what)
                errx(1, "sandbox %s did not answer", c->name);
}

void floor_kill(struct floor_cell *c)
{
        must(sys_pidfd_kill(c->pidfd, SIGKILL), "kill");
        must_c(waitpid(c->pid, NULL, 0), "wait");
        close_fd(&c->pidfd);
        close_fd(&c->sock);
}

void floor_remove(struct floor *f, struct floor_cell *c)
{
        AUTO_CLOSE int work = must_c(open(f->work, O_DIRECTORY | O_CLOEXEC), f->work);

        for (size_t i = 0; i < ARRAY_LEN(f->later); i++)
                close_fd(&f->later[i]); /* dissolves the helper mounts: an RCU wait each */
        for (size_t i = 0; i < f->cgroup_count; i++)
                while (unlinkat(f->cgroups[i], c->name, AT_REMOVEDIR) < 0 && errno == EBUSY)
                        (void)usleep(50); /* v1 tells nobody when the last task has left */
        must(sys_remove_tree(work, c->name), "remove upper layer");
}
