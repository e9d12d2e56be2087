#include "engine/criu/criu_process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/criu/criu.h"
#include "engine/criu/criu_find.h"
#include "engine/criu/criu_root.h"
#include "sys/fs.h"
#include "sys/mnt.h"
#include "sys/proc.h"

#define KDAT "criu.kdat"
#define KDAT_BYTES_MAX (64u << 10)
#define SAID_BYTES_MAX 1024
#define NAME_BYTES_MAX 64
#define SLICE_MS 250
#define BIT(cap) (1ull << (cap))

/* CRIU is root and regains by its start what the engine gave up: it needs most of it (SYS_ADMIN, SYS_PTRACE, CHECKPOINT_RESTORE,
 * NET_ADMIN, SYS_RESOURCE, what root may do to files and ids).  But it reads processes that may be hostile, so what no dump
 * or restore of a sandbox can want is out of its reach. */
static const uint64_t caps_never = BIT(CAP_SYS_MODULE) | BIT(CAP_SYS_RAWIO) | BIT(CAP_SYS_BOOT) | BIT(CAP_SYS_TIME) |
                                   BIT(CAP_SYSLOG) | BIT(CAP_SYS_PACCT) | BIT(CAP_SYS_TTY_CONFIG) | BIT(CAP_NET_RAW) |
                                   BIT(CAP_NET_BROADCAST) | BIT(CAP_AUDIT_CONTROL) | BIT(CAP_AUDIT_READ) |
                                   BIT(CAP_AUDIT_WRITE) | BIT(CAP_MAC_ADMIN) | BIT(CAP_MAC_OVERRIDE) | BIT(CAP_BPF) |
                                   BIT(CAP_PERFMON) | BIT(CAP_BLOCK_SUSPEND);

/* --- what CRIU knows about the kernel, from call to call --- */

/* By boot: the kernel may be another after the next one, and CRIU would not notice. */
static void kdat_name(const struct criu_process *w, char out[NAME_BYTES_MAX])
{
        (void)snprintf(out, NAME_BYTES_MAX, KDAT "-%s", w->boot_id);
}

/* One file from here to there; without it CRIU only takes longer. */
static void carry(int from, const char *from_name, int to, const char *to_name)
{
        AUTO_FREE char *bytes = malloc(KDAT_BYTES_MAX);
        ssize_t n = bytes ? sys_read_at(from, from_name, bytes, KDAT_BYTES_MAX) : -1;

        if (n > 0)
                (void)sys_replace_at(to, to_name, bytes, (size_t)n, 0600);
}

static int make_run(struct criu_process *w)
{
        AUTO_CLOSE int fs = sys_fsopen("tmpfs");
        char name[NAME_BYTES_MAX];
        int r = fs < 0 ? fs : sys_fs_string(fs, "size", "1m");

        if (r == 0)
                r = sys_fs_string(fs, "mode", "700");
        if (r == 0)
                r = sys_fs_create(fs);
        if (r == 0)
                r = sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
        if (r < 0)
                return r;
        w->run = r;
        kdat_name(w, name);
        carry(w->run_dir, name, w->run, KDAT);
        return 0;
}

static void keep_kdat(const struct criu_process *w)
{
        char name[NAME_BYTES_MAX];

        kdat_name(w, name);
        if (w->run >= 0 && faccessat(w->run_dir, name, F_OK, 0) < 0)
                carry(w->run, KDAT, w->run_dir, name);
}

/* --- the process --- */

struct criu_start {
        char ld[256], lib[256], program[256], preload[256], libs[256], owner[64], caller[64], sock[16];
        char *argv[12], *envp[7];
};

static bool print(char out[256], const char *a, const char *b)
{
        int n = snprintf(out, 256, "%s%s", a, b);

        return n > 0 && n < 256;
}

static int criu_describe_command(struct criu_start *s, const struct criu_call *call, int sock, struct err *err)
{
        const struct criu_tool *t = call->tool;
        const char *host = t->dir ? NULL : criu_host_program();
        static char path[] = "PATH=" CRIU_ROOT_PROGRAMS ":/usr/sbin:/usr/bin:/sbin:/bin",
                    by_library[] = "--library-path", by_preload[] = "--preload", no_config[] = "--no-default-config",
                    swrk[] = "swrk";
        size_t n = 0, e = 0;

        if (!print(s->ld, t->dir ? t->dir : "", "/ld.so") || !print(s->lib, t->dir ? t->dir : "", "/lib") ||
            !print(s->program, t->dir ? t->dir : "",
                   t->dir ? "/criu"
                   : host ? host
                          : "/usr/sbin/criu") ||
            !print(s->preload, t->dir ? "" : "LD_PRELOAD=", t->shim) ||
            !print(s->libs, "CRIU_LIBS_DIR=", t->dir ? t->dir : "/usr/lib/criu"))
                return err_set(err, ERR_INVALID, "CRIU: a path is too long");
        (void)snprintf(s->owner, sizeof(s->owner), "SANDGLASS_USERNS_OWNER=%u", call->owner);
        (void)snprintf(s->caller, sizeof(s->caller), "SANDGLASS_CALLER=%d %d", (int)getpid(), sock);
        (void)snprintf(s->sock, sizeof(s->sock), "%d", sock);
        if (t->dir) {
                char *const with_loader[] = {s->ld, by_library, s->lib, by_preload, s->preload};

                for (; n < ARRAY_LEN(with_loader); n++)
                        s->argv[n] = with_loader[n];
        } else {
                s->envp[e++] = s->preload;
        }
        s->argv[n++] = s->program;
        s->argv[n++] = no_config;
        s->argv[n++] = swrk;
        s->argv[n++] = s->sock;
        s->envp[e++] = path; /* it runs tar for what lies in a tmpfs */
        s->envp[e++] = s->libs;
        if (call->owner)
                s->envp[e++] = s->owner;
        if (call->dies_with_caller)
                s->envp[e] = s->caller;
        return 0;
}

static _Noreturn void be_criu(const struct criu_process *w, const struct criu_call *call, const struct criu_start *s,
                              int sock)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC), keep[] = {sock, w->run};
        int r = null < 0 || dup2(null, 0) < 0 || dup2(w->said, 1) < 0 || dup2(w->said, 2) < 0 ? -errno : 0;

        if (r == 0)
                r = sys_close_except(keep, ARRAY_LEN(keep));
        if (r == 0)
                r = sys_signals_default();
        if (r == 0 && call->cgroup && unshare(CLONE_NEWCGROUP) < 0) /* its root is where we are */
                r = -errno;
        if (r == 0)
                r = criu_root_enter(call->tool, w->run, call->paths, call->path_count);
        if (r == 0)
                r = sys_drop_bounding(caps_never);
        if (r == 0 && (close(w->run) < 0 || chdir("/") < 0 || fcntl(sock, F_SETFD, 0) < 0))
                r = -errno;
        (void)setsid();   /* it and its helpers can be ended together */
        (void)umask(022); /* processes it restores open images as another uid */
        if (r == 0) {
                (void)execve(s->argv[0], s->argv, s->envp);
                r = -errno;
        }
        (void)dprintf(2, "%s: %s\n", s->argv[0], strerror(-r));
        _exit(127);
}

static int open_parts(struct criu_process *w, const struct criu_tool *t, int ends[2], struct err *err)
{
        int r = sys_boot_id(w->boot_id);

        w->run_dir = open(t->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (w->run_dir < 0)
                return err_sys(err, -errno, "open '%s'", t->run_dir);
        w->said = memfd_create("criu", MFD_CLOEXEC);
        if (w->said < 0)
                r = -errno;
        if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                r = -errno;
        if (r == 0) {
                w->sock = ends[0];
                r = make_run(w);
        }
        return r < 0 ? err_sys(err, r, "start CRIU") : 0;
}

int criu_process_start(struct criu_process *w, const struct criu_call *call, struct err *err)
{
        AUTO_CLOSE int theirs = -1;
        struct criu_start s = {0};
        int ends[2] = {-1, -1}, r;
        struct sys_clone how = {.cgroup = call->cgroup ? *call->cgroup : -1, .ret_pidfd = &w->pidfd};

        *w = (struct criu_process){.pidfd = -1, .sock = -1, .run = -1, .said = -1, .run_dir = -1};
        r = open_parts(w, call->tool, ends, err);
        theirs = ends[1];
        if (r == 0)
                r = criu_describe_command(&s, call, theirs, err);
        if (r == 0) {
                w->pid = sys_clone(&how);
                if (w->pid == 0)
                        be_criu(w, call, &s, theirs);
                if (w->pid < 0)
                        r = err_sys(err, w->pid, "start CRIU");
        }
        if (r < 0) {
                w->pid = 0;
                criu_process_done(w);
        }
        return r;
}

void criu_process_done(struct criu_process *w)
{
        close_fd(&w->sock); /* one that still waits for us ends by it */
        if (w->pid > 0) {
                (void)sys_pidfd_wait(w->pidfd, -1);
                (void)waitpid(w->pid, NULL, 0); /* fails where ends of children are ignored: then it is gone already */
                keep_kdat(w);
        }
        close_fd(&w->pidfd);
        close_fd(&w->run);
        close_fd(&w->said);
        close_fd(&w->run_dir);
        w->pid = 0;
}

/* --- speaking --- */

/* It ended without an answer: the first line it wrote is the best there is. */
static int ended(const struct criu_process *w, struct err *err)
{
        char text[SAID_BYTES_MAX];
        ssize_t n = pread(w->said, text, sizeof(text), 0);
        struct str rest = {text, n > 0 ? (size_t)n : 0}, line;

        (void)str_cut(&rest, '\n', &line);
        if (line.n == 0)
                return err_set(err, ERR_UNAVAILABLE, "CRIU ended without an answer");
        return err_set(err, ERR_UNAVAILABLE, "CRIU cannot run: %.*s", STR_ARG(line));
}

int criu_process_send(struct criu_process *w, const struct buf *message, struct err *err)
{
        ssize_t n;

        do
                n = send(w->sock, buf_at(message), message->len, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
                return ended(w, err);
        return n < 0 ? err_sys(err, -errno, "ask CRIU") : 0;
}

/* The first process of a sandbox that was killed waits for all others there; those wait for CRIU, which traces them; and
 * CRIU waits for the first.  Nothing tells that, so it is looked for. */
static int await_answer(struct criu_process *w, int limit_ms, struct err *err)
{
        struct pollfd p = {.fd = w->sock, .events = POLLIN};
        int left_ms = limit_ms, grace_ms = w->grace_ms, n = 0;
        bool is_ending = false;

        while (n == 0 && left_ms > 0 && (!is_ending || grace_ms >= 0)) {
                n = poll(&p, 1, left_ms < SLICE_MS ? left_ms : SLICE_MS);
                left_ms -= SLICE_MS;
                if (n < 0 && errno == EINTR)
                        n = 0;
                is_ending = n == 0 && w->subject && sys_is_ending(w->proc_dir, w->subject);
                grace_ms -= is_ending ? SLICE_MS : 0;
        }
        if (n < 0)
                return err_sys(err, -errno, "wait for CRIU");
        if (n > 0)
                return 0;
        (void)kill(-w->pid, SIGKILL); /* its group: it is a leader */
        if (is_ending)
                return err_set(err, ERR_TIMEOUT, "the sandbox ended meanwhile");
        return err_set(err, ERR_TIMEOUT, "CRIU did not come to an end in %d s", limit_ms / 1000);
}

int criu_process_receive(struct criu_process *w, int limit_ms, struct buf *in, struct criu_rpc_answer *ret,
                         struct err *err)
{
        uint8_t *room;
        ssize_t n;
        int r;

        buf_reset(in);
        r = buf_reserve(in, CRIU_RPC_BYTES_MAX, &room);
        if (r < 0)
                return err_sys(err, r, "hear CRIU");
        r = await_answer(w, limit_ms, err);
        if (r < 0)
                return r;
        do
                n = recv(w->sock, room, CRIU_RPC_BYTES_MAX, MSG_TRUNC);
        while (n < 0 && errno == EINTR);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
                return ended(w, err);
        if (n < 0)
                return err_sys(err, -errno, "hear CRIU");
        if (n > (ssize_t)CRIU_RPC_BYTES_MAX)
                return err_set(err, ERR_INTERNAL, "CRIU's answer is too long");
        buf_commit(in, (size_t)n);
        r = criu_rpc_decode((struct str){(const char *)buf_at(in), in->len}, ret);
        return r < 0 ? err_sys(err, r, "CRIU's answer") : 0;
}
