#include "engine/criu/criu.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/criu/criu_failure.h"
#include "engine/criu/criu_rpc.h"
#include "engine/criu/criu_process.h"
#include "sys/fs.h"
#include "sys/proc.h"
#include "wire/protobuf.h"

#define DUMP_LOG "dump.log"
#define RESTORE_LOG "restore.log"
#define STATS "stats-dump"
#define GHOST_BYTES_MAX                                                                                                \
        (1u << 30) /* deleted files that somebody still has open are part of the image up to this size */
#define SCAN_PATHS_MAX 64
#define DUMP_MS_MAX 600000 /* a killed CRIU leaves the processes spoilt: long after any dump is done */
#define RESTORE_MS 30000u
#define FAILING_MS 5000 /* as long as a restore that fails may take to end its processes, and to say why */
#define RESTORE_BYTES_PER_MS (10u << 10) /* 10 MB/s */
enum { LOG_ERRORS = 1, LOG_ALL = 4 };

static int number(struct buf *o, enum criu_rpc_option field, uint64_t value)
{
        return protobuf_add_number(o, field, value);
}

static int text(struct buf *o, enum criu_rpc_option field, const char *value)
{
        return protobuf_add_bytes(o, field, str_of(value));
}

static int textf(struct buf *o, enum criu_rpc_option field, const char *before, const char *value)
{
        AUTO_BUF struct buf whole = BUF_INIT(8192);
        int r = buf_addf(&whole, "%s%s", before, value);

        return r < 0 ? r : protobuf_add_bytes(o, field, (struct str){(const char *)buf_at(&whole), whole.len});
}

/* Its own tmpfs lies over /run while CRIU works. */
static int check_path(const char *path, struct err *err)
{
        if (path[0] != '/' || strcmp(path, "/run") == 0 || strncmp(path, "/run/", 5) == 0)
                return err_set(err, ERR_INVALID, "CRIU cannot reach '%s': not an absolute path, or below /run", path);
        return 0;
}

/* ------------------------------------------------------------- dump */

/* Directories where a watched file may be, each to be searched only when a watch is there to be named.  What is large and
 * hardly ever watched comes last. */
static int add_scan_paths(struct buf *o, pid_t pid)
{
        static const char *const not_ours[] = {"proc", "sys", "dev"}, *const last[] = {"usr"};
        char path[32], name[260];
        struct dirent *e;
        unsigned count = 0;
        DIR *d;
        int r = 0;

        (void)snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
        d = opendir(path);
        if (!d)
                return -errno;
        while (r == 0 && count < SCAN_PATHS_MAX && (e = readdir(d))) {
                bool skip = e->d_type != DT_DIR || e->d_name[0] == '.';

                for (size_t i = 0; i < ARRAY_LEN(not_ours) && !skip; i++)
                        skip = strcmp(e->d_name, not_ours[i]) == 0;
                for (size_t i = 0; i < ARRAY_LEN(last) && !skip; i++)
                        skip = strcmp(e->d_name, last[i]) == 0;
                if (skip)
                        continue;
                (void)snprintf(name, sizeof(name), "/%s", e->d_name);
                r = text(o, CRIU_OPT_IRMAP_SCAN_PATHS, name);
                count++;
        }
        (void)closedir(d);
        return r < 0 ? r : text(o, CRIU_OPT_IRMAP_SCAN_PATHS, "/usr");
}

static int dump_options(struct buf *o, const struct criu_dump *d, unsigned log_level)
{
        char root[32];
        int r;

        (void)snprintf(root, sizeof(root), "/proc/%d/root", (int)d->pid);
        if ((r = number(o, CRIU_OPT_IMAGES_DIR_FD, CRIU_FD_NONE)) < 0 ||
            (r = text(o, CRIU_OPT_IMAGES_DIR, d->images)) < 0 || (r = number(o, CRIU_OPT_PID, (uint64_t)d->pid)) < 0 ||
            (r = number(o, CRIU_OPT_LEAVE_RUNNING, 1)) < 0 || (r = number(o, CRIU_OPT_LOG_LEVEL, log_level)) < 0 ||
            (r = text(o, CRIU_OPT_LOG_FILE, DUMP_LOG)) < 0 || (r = text(o, CRIU_OPT_ROOT, root)) < 0 ||
            (r = text(o, CRIU_OPT_EXTERNAL, "mnt[/dev]:dev")) < 0 ||
            (r = text(o, CRIU_OPT_EXTERNAL, "mnt[/]:root")) < 0 ||
            (r = number(o, CRIU_OPT_MANAGE_CGROUPS_MODE, CRIU_CGROUPS_IGNORE)) < 0 ||
            (r = number(o, CRIU_OPT_EMPTY_NS, CLONE_NEWNET)) < 0 ||
            (r = number(o, CRIU_OPT_NETWORK_LOCK, CRIU_NETWORK_LOCK_SKIP)) < 0 ||
            (r = number(o, CRIU_OPT_TCP_ESTABLISHED, 1)) < 0 || (r = number(o, CRIU_OPT_TCP_SKIP_IN_FLIGHT, 1)) < 0 ||
            (r = number(o, CRIU_OPT_FILE_LOCKS, 1)) < 0 || (r = number(o, CRIU_OPT_LINK_REMAP, 1)) < 0 ||
            (r = number(o, CRIU_OPT_GHOST_LIMIT, GHOST_BYTES_MAX)) < 0 || (r = number(o, CRIU_OPT_FORCE_IRMAP, 1)) < 0)
                return r;
        if (d->on_written && (r = number(o, CRIU_OPT_NOTIFY_SCRIPTS, 1)) < 0)
                return r;
        if (d->freeze_cgroup && (r = text(o, CRIU_OPT_FREEZE_CGROUP, d->freeze_cgroup)) < 0)
                return r;
        return add_scan_paths(o, d->pid);
}

static int empty_dir(int dir)
{
        AUTO_CLOSE int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct dirent *e;
        DIR *d = again < 0 ? NULL : fdopendir(again);
        int r = 0;

        if (!d)
                return -errno;
        again = -1;
        while (r == 0 && (e = readdir(d)))
                if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && unlinkat(dir, e->d_name, 0) < 0)
                        r = -errno;
        (void)closedir(d);
        return r;
}

/* Hooks, until the answer comes.  What ours says is for us alone: CRIU cleans up either way, and a dump that it takes for
 * failed would be tried again. */
static int hear_dump(struct criu_process *w, const struct criu_dump *d, struct buf *in, struct criu_rpc_answer *a,
                     struct err *refusal, struct err *err)
{
        AUTO_BUF struct buf reply = BUF_INIT(64);
        int r = criu_rpc_notified(&reply, true);

        if (r < 0)
                return err_sys(err, r, "hear CRIU");
        do {
                r = criu_process_receive(w, DUMP_MS_MAX, in, a, err);
                if (r < 0 || a->type != CRIU_RPC_NOTIFY)
                        break;
                if (d->on_written && str_is(a->script, "post-dump"))
                        (void)d->on_written(d->arg, refusal);
                r = criu_process_send(w, &reply, err);
        } while (r == 0);
        return r;
}

/* One try.  1: done; 0: CRIU could not, *f says why; negative: there was no talking to it. */
static int dump_once(const struct criu_tool *t, const struct criu_dump *d, unsigned log_level, int dir,
                     struct criu_failure *f, struct err *err)
{
        AUTO_BUF struct buf options = BUF_INIT(CRIU_RPC_BYTES_MAX), message = BUF_INIT(CRIU_RPC_BYTES_MAX);
        AUTO_BUF struct buf in = BUF_INIT(CRIU_RPC_BYTES_MAX);
        struct criu_rpc_answer a;
        struct err refusal = {0};
        struct criu_call call = {
                .tool = t, .paths = {d->images, d->freeze_cgroup}, .path_count = d->freeze_cgroup ? 2 : 1};
        AUTO_CLOSE int proc_dir = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct criu_process w;
        int r = dump_options(&options, d, log_level);

        if (r == 0)
                r = criu_rpc_request(&message, CRIU_RPC_DUMP, &options);
        if (r < 0)
                return err_sys(err, r, "ask CRIU");
        r = criu_process_start(&w, &call, err);
        if (r < 0)
                return r;
        w.proc_dir = proc_dir;
        w.subject = proc_dir < 0 ? 0 : d->pid;
        r = criu_process_send(&w, &message, err);
        if (r == 0)
                r = hear_dump(&w, d, &in, &a, &refusal, err);
        criu_process_done(&w);
        if (r < 0)
                return r;
        if (refusal.kind != ERR_NONE) {
                *err = refusal;
                return err_wrap(err, "dump");
        }
        if (a.type == CRIU_RPC_DUMP && a.is_success)
                return 1;
        criu_failure_explain(dir, DUMP_LOG, a.error, d->pid, f);
        return 0;
}

static int read_stats(int dir, struct criu_stats *ret, struct err *err)
{
        char bytes[4096];
        ssize_t n = sys_read_at(dir, STATS, bytes, sizeof(bytes));
        int r = n < 0 ? (int)n : criu_rpc_stats((struct str){bytes, (size_t)n}, ret);

        return r < 0 ? err_sys(err, r, "read CRIU's " STATS) : 0;
}

int criu_dump(const struct criu_tool *t, const struct criu_dump *d, struct criu_stats *ret, struct err *err)
{
        AUTO_CLOSE int dir = -1;
        struct criu_failure f;
        int r = check_path(d->images, err);

        if (r < 0)
                return r;
        dir = open(d->images, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return err_sys(err, -errno, "open '%s'", d->images);
        r = dump_once(t, d, LOG_ERRORS, dir, &f, err);
        if (r == 0 && !f.is_full) {
                /* Once more with every detail: to know who is to blame, and because some obstacles pass
                 * (a Unix connection whose client left before it was accepted). */
                r = empty_dir(dir);
                r = r < 0 ? err_sys(err, r, "empty '%s'", d->images) : dump_once(t, d, LOG_ALL, dir, &f, err);
        }
        if (r < 0)
                return r;
        if (r == 0)
                return err_set(err, f.is_full ? ERR_NO_SPACE : ERR_CONFLICT, "%s%s",
                               f.is_full ? "disk full: " : f.culprit, f.reason);
        r = read_stats(dir, ret, err);
        (void)unlinkat(dir, STATS, 0);
        (void)unlinkat(dir, DUMP_LOG, 0);
        return r;
}

/* ------------------------------------------------------------- restore */

static int restore_options(struct buf *o, const struct criu_restore *c, int work)
{
        int r;

        if ((r = number(o, CRIU_OPT_IMAGES_DIR_FD, CRIU_FD_NONE)) < 0 ||
            (r = text(o, CRIU_OPT_IMAGES_DIR, c->images)) < 0 ||
            (r = number(o, CRIU_OPT_WORK_DIR_FD, (uint64_t)work)) < 0 ||
            (r = number(o, CRIU_OPT_LOG_LEVEL, LOG_ERRORS)) < 0 || (r = text(o, CRIU_OPT_LOG_FILE, RESTORE_LOG)) < 0 ||
            (r = text(o, CRIU_OPT_ROOT, c->root)) < 0 || (r = textf(o, CRIU_OPT_EXTERNAL, "mnt[dev]:", c->dev)) < 0 ||
            (r = textf(o, CRIU_OPT_EXTERNAL, "mnt[root]:", c->root)) < 0 ||
            (r = number(o, CRIU_OPT_RST_SIBLING, 1)) < 0 ||
            (r = number(o, CRIU_OPT_MANAGE_CGROUPS_MODE, CRIU_CGROUPS_IGNORE)) < 0 ||
            (r = number(o, CRIU_OPT_EMPTY_NS, CLONE_NEWNET)) < 0 || (r = number(o, CRIU_OPT_NOTIFY_SCRIPTS, 1)) < 0 ||
            (r = number(o, CRIU_OPT_TCP_ESTABLISHED, 1)) < 0)
                return r;
        return number(o, CRIU_OPT_FILE_LOCKS, 1);
}

struct criu_restoring {
        const struct criu_restore *what;
        struct criu_process process;
        struct buf in;
        int limit_ms;
        pid_t pid;       /* its init, once there is one; our child */
        bool is_refused; /* by a hook, which has set err */
};

/* CRIU would let them run all the same, whatever it hears.  It dies with them, also where a hook has moved it out of their
 * group: that one of them is traced by it does not hold up their init then. */
static void end_all(const struct criu_restoring *s)
{
        const int *group = s->what->cgroup;

        if ((!group || *group < 0 || sys_write_at(*group, "cgroup.kill", "1") < 0) && s->pid > 0)
                (void)kill(s->pid, SIGKILL);
        (void)kill(-s->process.pid, SIGKILL); /* its group: it is a leader */
}

/* CRIU waits for processes that were killed with their init, and does not see that they are gone. */
static void watch_init(struct criu_restoring *s, pid_t pid)
{
        s->pid = pid;
        s->process.grace_ms = FAILING_MS;
        s->process.subject = s->process.proc_dir < 0 ? 0 : pid;
}

static int on_notify(struct criu_restoring *s, const struct criu_rpc_answer *a, struct err *err)
{
        AUTO_BUF struct buf reply = BUF_INIT(64);
        const struct criu_restore *c = s->what;
        int r = 0;

        if (a->pid > 0)
                watch_init(s, a->pid);
        if (str_is(a->script, "setup-namespaces") && c->on_namespaces)
                r = c->on_namespaces(s->pid, c->arg, err);
        else if (str_is(a->script, "pre-resume") && c->on_before_resume)
                r = c->on_before_resume(s->pid, c->arg, err);
        if (r < 0) {
                s->is_refused = true;
                end_all(s);
        }
        if (criu_rpc_notified(&reply, r >= 0) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        return criu_process_send(&s->process, &reply, s->is_refused ? NULL : err);
}

/* Hooks, until the answer comes. */
static int converse(struct criu_restoring *s, int work, struct err *err)
{
        struct criu_rpc_answer a;
        struct criu_failure f;
        int r;

        do {
                r = criu_process_receive(&s->process, s->limit_ms, &s->in, &a, s->is_refused ? NULL : err);
                if (r == 0 && a.type == CRIU_RPC_NOTIFY)
                        r = on_notify(s, &a, err);
        } while (r == 0 && a.type == CRIU_RPC_NOTIFY);
        if (s->is_refused)
                return err_wrap(err, "restore");
        if (r < 0) {
                end_all(s); /* what it began might run on without it */
                return r;
        }
        if (a.pid > 0)
                s->pid = a.pid;
        if (a.type == CRIU_RPC_RESTORE && a.is_success && a.pid > 0)
                return 0;
        criu_failure_explain(work, RESTORE_LOG, a.error, 0, &f);
        return err_set(err, f.is_full ? ERR_NO_SPACE : ERR_INVALID, "restore: %s%s", f.is_full ? "disk full: " : "",
                       f.reason);
}

/* CRIU ends what it began; if it died itself, this does. */
static void end_init(pid_t pid)
{
        AUTO_CLOSE int fd = -1;

        if (pid <= 0)
                return;
        fd = sys_pidfd_open(pid);
        if (fd >= 0 && sys_pidfd_kill(fd, SIGKILL) == 0)
                (void)sys_pidfd_wait(fd, -1);
        (void)waitpid(pid, NULL, 0);
}

/* Some damaged images keep CRIU busy for ever (one of pages that ends early): as long as slow disks would take. */
static int limit_of(const char *images)
{
        uint64_t bytes = 0, ms;
        struct dirent *e;
        struct stat st;
        DIR *d = opendir(images);

        while (d && (e = readdir(d)))
                if (fstatat(dirfd(d), e->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
                        bytes += (uint64_t)st.st_size;
        if (d)
                (void)closedir(d);
        ms = RESTORE_MS + bytes / RESTORE_BYTES_PER_MS;
        return ms < INT_MAX ? (int)ms : INT_MAX;
}

static int restore_with(struct criu_restoring *s, int work, struct err *err)
{
        AUTO_BUF struct buf options = BUF_INIT(CRIU_RPC_BYTES_MAX), message = BUF_INIT(CRIU_RPC_BYTES_MAX);
        int r = restore_options(&options, s->what, work);

        if (r == 0)
                r = criu_rpc_request(&message, CRIU_RPC_RESTORE, &options);
        if (r < 0)
                return err_sys(err, r, "ask CRIU");
        r = criu_process_send(&s->process, &message, err);
        return r < 0 ? r : converse(s, work, err);
}

int criu_restore(const struct criu_tool *t, const struct criu_restore *c, pid_t *ret_pid, struct err *err)
{
        const struct criu_call call = {.tool = t,
                                       .owner = c->uid_base,
                                       .cgroup = c->cgroup,
                                       .dies_with_caller = c->dies_with_caller,
                                       .paths = {c->images, c->root, c->dev},
                                       .path_count = 3};
        struct criu_restoring s = {.what = c, .in = BUF_INIT(CRIU_RPC_BYTES_MAX)};
        AUTO_CLOSE int work = -1, proc_dir = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        int r;

        if ((r = check_path(c->images, err)) < 0 || (r = check_path(c->root, err)) < 0 ||
            (r = check_path(c->dev, err)) < 0)
                return r;
        work = open(c->work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (work < 0)
                return err_sys(err, -errno, "open '%s'", c->work);
        r = criu_process_start(&s.process, &call, err);
        if (r < 0)
                return r;
        s.process.proc_dir = proc_dir;
        s.limit_ms = c->limit_ms ? c->limit_ms : limit_of(c->images);
        r = restore_with(&s, work, err);
        criu_process_done(&s.process);
        buf_done(&s.in);
        if (r < 0) {
                end_init(s.pid);
                return r;
        }
        (void)unlinkat(work, RESTORE_LOG, 0);
        *ret_pid = s.pid;
        return 0;
}
