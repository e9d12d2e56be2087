#include "engine/criu/criu_tree.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "sys/fs.h"
#include "sys/mnt.h"
#include "sys/proc.h"
#include "sys/scm.h"

#define PROGRAM "init"
#define PROOF "what was written before is read after"
#define LOAD_AT 0x400000u /* a multiple of every size of pages: 4, 16 and 64 KiB */
#define PORT 4200

/* fork(), then both wait for signals that do not come. */
static const uint8_t code[] = {
#if defined(__x86_64__)
        0xb8, 0x39, 0x00, 0x00, 0x00, /*       mov eax, fork  */
        0x0f, 0x05,                   /*       syscall        */
        0xb8, 0x22, 0x00, 0x00, 0x00, /* more: mov eax, pause */
        0x0f, 0x05,                   /*       syscall        */
        0xeb, 0xf7,                   /*       jmp more       */
#define CODE_MACHINE EM_X86_64
#elif defined(__aarch64__)
        0x20, 0x02, 0x80, 0xd2, /*       mov x0, SIGCHLD */
        0x01, 0x00, 0x80, 0xd2, /*       mov x1, 0       */
        0x02, 0x00, 0x80, 0xd2, /*       mov x2, 0       */
        0x03, 0x00, 0x80, 0xd2, /*       mov x3, 0       */
        0x04, 0x00, 0x80, 0xd2, /*       mov x4, 0       */
        0x88, 0x1b, 0x80, 0xd2, /*       mov x8, clone   */
        0x01, 0x00, 0x00, 0xd4, /*       svc 0           */
        0x00, 0x00, 0x80, 0xd2, /* more: mov x0, 0       */
        0x01, 0x00, 0x80, 0xd2, /*       mov x1, 0       */
        0x02, 0x00, 0x80, 0xd2, /*       mov x2, 0       */
        0x28, 0x09, 0x80, 0xd2, /*       mov x8, ppoll   */
        0x01, 0x00, 0x00, 0xd4, /*       svc 0           */
        0xfb, 0xff, 0xff, 0x17, /*       b more          */
#define CODE_MACHINE EM_AARCH64
#else
#error "no machine code for this processor"
#endif
};

struct program {
        Elf64_Ehdr head;
        Elf64_Phdr part;
        uint8_t text[sizeof(code)];
};

static int write_program(const char *root)
{
        struct program p = {
                .head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                         .e_type = ET_EXEC,
                         .e_machine = CODE_MACHINE,
                         .e_version = EV_CURRENT,
                         .e_entry = LOAD_AT + offsetof(struct program, text),
                         .e_phoff = offsetof(struct program, part),
                         .e_ehsize = sizeof(Elf64_Ehdr),
                         .e_phentsize = sizeof(Elf64_Phdr),
                         .e_phnum = 1},
                .part = {.p_type = PT_LOAD,
                         .p_flags = PF_R | PF_X,
                         .p_vaddr = LOAD_AT,
                         .p_paddr = LOAD_AT,
                         .p_filesz = sizeof(p),
                         .p_memsz = sizeof(p),
                         .p_align = 0x10000},
        };
        AUTO_CLOSE int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (dir < 0)
                return -errno;
        memcpy(p.text, code, sizeof(code));
        return sys_replace_at(dir, PROGRAM, &p, sizeof(p), 0755);
}

static int mount_at(const char *scratch, const char *name, char out[CRIU_TREE_PATH_MAX])
{
        char options[96];
        int n = snprintf(out, CRIU_TREE_PATH_MAX, "%s/%s", scratch, name);

        if (n < 0 || n >= CRIU_TREE_PATH_MAX)
                return -ENAMETOOLONG;
        (void)snprintf(options, sizeof(options), "mode=755,size=1m,uid=%u,gid=%u", CRIU_TREE_UID, CRIU_TREE_UID);
        if (mkdir(out, 0755) < 0 && errno != EEXIST)
                return -errno;
        return mount("tmpfs", out, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0 ? -errno : 0;
}

int criu_tree_furnish(struct criu_tree *t, const char *scratch, struct err *err)
{
        static const char *const dirs[] = {"dev", "proc"};
        char below[CRIU_TREE_PATH_MAX + 8];
        int r = 0;

        *t = (struct criu_tree){0};
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return err_sys(err, -errno, "mount namespace");
        r = mount_at(scratch, "root", t->root);
        if (r == 0)
                r = mount_at(scratch, "dev", t->dev);
        if (r == 0)
                r = write_program(t->root);
        for (size_t i = 0; i < ARRAY_LEN(dirs) && r == 0; i++) {
                (void)snprintf(below, sizeof(below), "%s/%s", t->root, dirs[i]);
                r = mkdir(below, 0755) < 0 ? -errno : 0;
        }
        return r < 0 ? err_sys(err, r, "furnish '%s'", scratch) : 0;
}

/* ------------------------------------------------------------- the processes */

/* Mounts on their way from one mount namespace to another: a path would not do, since directories above scratch may be
 * closed to other uids. */
struct tree_mounts {
        int root, dev, proc;
};

static int tree_mounts_clone(const struct criu_tree *t, struct tree_mounts *ret)
{
        ret->root = sys_clone_tree(AT_FDCWD, t->root);
        ret->dev = sys_clone_tree(AT_FDCWD, t->dev);
        return ret->root < 0 ? ret->root : ret->dev < 0 ? ret->dev : 0;
}

static void tree_mounts_close(struct tree_mounts *m)
{
        close_fd(&m->root);
        close_fd(&m->dev);
        close_fd(&m->proc);
}

/* Any directory will do to hang up the root: it becomes "/", and the old tree goes. */
static int enter_root(const struct tree_mounts *m)
{
        int r = sys_move_mount(m->root, AT_FDCWD, "/proc");

        if (r == 0)
                r = sys_pivot_into("/proc");
        if (r == 0)
                r = sys_move_mount(m->dev, AT_FDCWD, "/dev");
        return r < 0 ? r : sys_move_mount(m->proc, AT_FDCWD, "/proc");
}

struct child_fds {
        int sock; /* word that its ids are mapped comes here, with /proc */
        int extra;
        struct tree_mounts mounts;
};

/* 0 and 1: a pipe with the proof in it; 2: a listening socket; 3: what the caller gave. */
static int open_state(int extra)
{
        const struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
        int pipe_ends[2], sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (sock < 0 || bind(sock, (const struct sockaddr *)&at, sizeof(at)) < 0 || listen(sock, 1) < 0 ||
            pipe2(pipe_ends, O_CLOEXEC) < 0 || write(pipe_ends[1], PROOF, strlen(PROOF)) != (ssize_t)strlen(PROOF))
                return -errno;
        if ((extra >= 0 && dup2(extra, 200) < 0) || dup2(sock, 202) < 0 || dup2(pipe_ends[0], 203) < 0 ||
            dup2(pipe_ends[1], 204) < 0)
                return -errno;
        if (dup2(203, 0) < 0 || dup2(204, 1) < 0 || dup2(202, 2) < 0 || (extra >= 0 && dup2(200, 3) < 0))
                return -errno;
        return sys_close_from(extra >= 0 ? 4 : 3);
}

static _Noreturn void be_init(struct child_fds fds)
{
        static char name[] = "/" PROGRAM;
        char *const argv[] = {name, NULL}, *const envp[] = {NULL};
        size_t nfds = 0;
        char go;

        if (scm_recv(fds.sock, &go, 1, &fds.mounts.proc, 1, &nfds) != 1 || nfds != 1 || sys_become_root() < 0 ||
            sys_keep_caps(false) < 0 || enter_root(&fds.mounts) < 0 || setsid() < 0 || open_state(fds.extra) < 0 ||
            sys_signals_default() < 0)
                _exit(1);
        (void)execve(argv[0], argv, envp);
        _exit(1);
}

/* The network namespace is ours, not that of the new user namespace: as in a sandbox. */
static pid_t clone_init(struct child_fds fds)
{
        const struct sys_clone how = {.flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC |
                                               CLONE_NEWUTS | CLONE_NEWTIME,
                                      .cgroup = -1};
        AUTO_CLOSE int before = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        pid_t pid;

        if (before < 0 || unshare(CLONE_NEWNET) < 0)
                return -errno;
        pid = sys_keep_caps(true);
        if (pid == 0)
                pid = sys_set_eids(CRIU_TREE_UID, CRIU_TREE_UID);
        if (pid == 0 && (pid = sys_clone(&how)) == 0)
                be_init(fds);
        if (sys_set_eids(0, 0) < 0 || sys_keep_caps(false) < 0 || setns(before, CLONE_NEWNET) < 0)
                return -errno; /* then nothing here is as it should be, and the caller ends */
        return pid;
}

static int map_ids(pid_t pid)
{
        static const char *const files[] = {"uid_map", "gid_map"};
        char path[40], map[40];
        int r = 0;

        (void)snprintf(map, sizeof(map), "0 %u 65536", CRIU_TREE_UID);
        for (size_t i = 0; i < ARRAY_LEN(files) && r == 0; i++) {
                (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, files[i]);
                r = sys_write_at(AT_FDCWD, path, map);
        }
        return r;
}

/* Made by us, since the kernel refuses it to who cannot see all of the host's, and CRIU wants one. */
static int mount_proc(pid_t pid)
{
        AUTO_CLOSE int host = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), ns = -1, own = -1;
        int r;

        if (host < 0)
                return -errno;
        ns = sys_ns_open(host, pid, "pid");
        own = sys_ns_open(host, 0, "pid");
        if (ns < 0 || own < 0)
                return ns < 0 ? ns : own;
        r = sys_mount_proc_by_option(ns);
        return r < 0 ? sys_mount_proc_by_child(ns, own) : r;
}

static int let_init_go(pid_t pid, int sock)
{
        AUTO_CLOSE int proc = -1;
        int r = map_ids(pid);

        if (r == 0)
                r = proc = mount_proc(pid);
        return r < 0 ? r : (int)scm_send(sock, "g", 1, &proc, 1);
}

/* Until it runs its program and has its child: the pipe in which exec shows is closed by it. */
static int await_child(pid_t pid)
{
        char path[48], text[32];
        struct timespec pause = {.tv_nsec = 1000000};

        (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
        for (int i = 0; i < 5000; i++) { /* the kernel tells nobody of a grandchild's birth */
                ssize_t n = sys_read_at(AT_FDCWD, path, text, sizeof(text));

                if (n != 0)
                        return n < 0 ? (int)n : 0;
                if (waitpid(pid, NULL, WNOHANG) != 0)
                        return -ECHILD;
                (void)nanosleep(&pause, NULL);
        }
        return -ETIMEDOUT;
}

int criu_tree_start(struct criu_tree *t, int extra, struct err *err)
{
        struct tree_mounts mounts = {-1, -1, -1};
        AUTO_CLOSE int theirs = -1, ours = -1;
        int pair[2], r;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return err_sys(err, -errno, "make a socket pair");
        theirs = pair[0];
        ours = pair[1];
        r = tree_mounts_clone(t, &mounts);
        if (r == 0)
                r = clone_init((struct child_fds){theirs, extra, mounts});
        tree_mounts_close(&mounts);
        if (r < 0)
                return err_sys(err, r, "start processes to try CRIU with");
        t->pid = r;
        r = let_init_go(t->pid, ours);
        close_fd(&ours);
        if (r >= 0)
                r = await_child(t->pid);
        if (r < 0) {
                criu_tree_end(t->pid);
                t->pid = 0;
                return err_sys(err, r, "start processes to try CRIU with");
        }
        return 0;
}

int criu_tree_check(pid_t pid, struct err *err)
{
        char path[48], text[64];
        AUTO_CLOSE int fd = -1;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
        n = sys_read_at(AT_FDCWD, path, text, sizeof(text));
        if (n <= 0)
                return err_set(err, ERR_UNAVAILABLE, "a process is missing after the restore");
        (void)snprintf(path, sizeof(path), "/proc/%d/fd/0", (int)pid);
        fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text));
        if (n != (ssize_t)strlen(PROOF) || memcmp(text, PROOF, strlen(PROOF)) != 0)
                return err_set(err, ERR_UNAVAILABLE, "what was in a pipe is missing after the restore");
        return 0;
}

void criu_tree_end(pid_t pid)
{
        AUTO_CLOSE int fd = pid > 0 ? sys_pidfd_open(pid) : -1;

        if (fd < 0)
                return;
        (void)sys_pidfd_kill(fd, SIGKILL);
        (void)sys_pidfd_wait(fd, -1);
        (void)waitpid(pid, NULL, 0);
}
