#include "envd/process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/large_buffer.h"

#define CHILD_STACK (64u << 10)
#define OOM_SCORE_STEP 100
#define OOM_SCORE_MAX 1000

/* Between clone and exec the child runs in our memory: it calls nothing that allocates, locks or touches stdio, and
 * changes only this struct and its stack.  Credentials change by raw system call: libc's functions would change all
 * threads of the process in which they believe to be. */
struct spawn_child {
        const struct spawn *sp;
        const char *path; /* PATH of the new environment */
        const char *oom_score_adj;
        sigset_t none;           /* the signal mask that the program starts with */
        int err;                 /* why the child could not try to exec; 0: it tried */
        char file[PATH_MAX + 8]; /* candidate found in PATH */
        char **shell_argv;       /* room for running a script without "#!" */
};

static struct rlimit nofile_found; /* both 0: not asked yet */

void spawn_raise_nofile(void)
{
        struct rlimit more;

        if (getrlimit(RLIMIT_NOFILE, &nofile_found) < 0)
                return;
        more = (struct rlimit){nofile_found.rlim_max, nofile_found.rlim_max};
        (void)setrlimit(RLIMIT_NOFILE, &more);
}

static const char *find_path_variable(char *const *env)
{
        for (; *env; env++)
                if (strncmp(*env, "PATH=", 5) == 0)
                        return *env + 5;
        return "/usr/local/bin:/usr/bin:/bin";
}

static void write_file(const char *path, const char *text)
{
        int fd = open(path, O_WRONLY | O_CLOEXEC);

        if (fd < 0)
                return;
        (void)!write(fd, text, strlen(text));
        (void)close(fd);
}

/* A hundred more than the daemon's own score: when memory runs out, the kernel kills a command before PID 1. */
static const char *child_oom_score_adj(void)
{
        static char text[16];
        char own[16] = "0";
        int fd, score;

        if (text[0])
                return text;
        fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, own, sizeof(own) - 1) < 0)
                own[0] = 0;
        if (fd >= 0)
                (void)close(fd);
        score = (int)strtol(own, NULL, 10);
        score = score < 0 ? OOM_SCORE_STEP : score + OOM_SCORE_STEP;
        (void)snprintf(text, sizeof(text), "%d", score > OOM_SCORE_MAX ? OOM_SCORE_MAX : score);
        return text;
}

static void child_reset_signals(const struct spawn_child *c)
{
        static const uint64_t dfl[4] = {0}; /* the kernel's own struct: default action, no flags, empty mask */

        /* Not through libc, which hides two signals; the process that started the daemon may have ignored them.
         * KILL and STOP fail. */
        for (int sig = 1; sig < NSIG; sig++)
                (void)syscall(SYS_rt_sigaction, sig, dfl, NULL, sizeof(uint64_t));
        (void)sigprocmask(SIG_SETMASK, &c->none, NULL);
}

/* The OOM killer picks the child before the daemon.  Ordinary priorities, limits as the daemon found them. */
static void child_set_limits(const struct spawn_child *c)
{
        write_file("/proc/self/oom_score_adj", c->oom_score_adj); /* best effort: there may be no /proc */
        (void)setpriority(PRIO_PROCESS, 0, 0);
        if (nofile_found.rlim_cur)
                (void)setrlimit(RLIMIT_NOFILE, &nofile_found);
        (void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 4));
}

static int child_set_user(const struct user *u)
{
        if (!u)
                return 0;
        if (syscall(SYS_setgroups, u->group_count, u->groups) < 0 ||
            syscall(SYS_setresgid, u->gid, u->gid, u->gid) < 0 || syscall(SYS_setresuid, u->uid, u->uid, u->uid) < 0)
                return -errno;
        return 0;
}

static int child_set_fds(const struct spawn *sp)
{
        int fds[3] = {sp->stdin_fd, sp->stdout_fd, sp->stderr_fd};

        /* A process group of its own in any case: `kill 0` in one command must not reach the others. */
        if (sp->is_terminal ? setsid() < 0 || ioctl(sp->stdin_fd, TIOCSCTTY, 0) < 0 : setpgid(0, 0) < 0)
                return -errno;
        for (int i = 0; i < 3; i++) /* the caller's fds are above 2: nothing is overwritten that is needed later */
                if (dup2(fds[i], i) < 0)
                        return -errno;
        (void)syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC);
        return 0;
}

/* exec, and for a file that is executable but no program the shell with it as a script, as execvp(3) does. */
static void child_exec_file(struct spawn_child *c, const char *file)
{
        const struct spawn *sp = c->sp;
        size_t n = 0;

        (void)execve(file, sp->argv, sp->env);
        if (errno != ENOEXEC)
                return;
        c->shell_argv[0] = (char *)"/bin/sh";
        c->shell_argv[1] = (char *)file;
        for (n = 1; sp->argv[0] && sp->argv[n]; n++)
                c->shell_argv[n + 1] = sp->argv[n];
        c->shell_argv[n + 1] = NULL;
        (void)execve("/bin/sh", c->shell_argv, sp->env);
        errno = ENOEXEC;
}

/* Try the command in each directory of PATH; returns the errno to report. */
static int child_exec_search(struct spawn_child *c)
{
        size_t cmd_len = strlen(c->sp->cmd), n;
        bool was_denied = false;
        const char *at = c->path, *end;

        if (cmd_len == 0)
                return ENOENT;
        for (;; at = end + 1) {
                end = strchrnul(at, ':');
                n = (size_t)(end - at);
                if (n + 1 + cmd_len < sizeof(c->file)) {
                        memcpy(c->file, at, n);
                        if (n)
                                c->file[n++] = '/';
                        memcpy(c->file + n, c->sp->cmd, cmd_len + 1);
                        child_exec_file(c, c->file);
                        if (errno == EACCES)
                                was_denied = true;
                        else if (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG)
                                return errno;
                }
                if (!*end)
                        return was_denied ? EACCES : ENOENT;
        }
}

static void child_say(const char *a, const char *b)
{
        (void)!write(2, a, strlen(a));
        (void)!write(2, ": ", 2);
        (void)!write(2, b, strlen(b));
        (void)!write(2, "\n", 1);
}

static int child_main(void *arg)
{
        struct spawn_child *c = arg;
        const struct spawn *sp = c->sp;
        const char *why;
        int err;

        child_set_limits(c);
        c->err = -child_set_fds(sp);
        if (!c->err)
                c->err = -child_set_user(sp->user);
        if (!c->err && chdir(sp->cwd) < 0)
                c->err = errno;
        if (c->err)
                _exit(127);
        child_reset_signals(c);
        if (strchr(sp->cmd, '/')) {
                child_exec_file(c, sp->cmd);
                err = errno;
        } else {
                err = child_exec_search(c);
        }
        if (err == E2BIG || err == ENOMEM || err == EAGAIN)
                c->err = err; /* not the program's fault */
        else if ((why = strerrordesc_np(err)))
                child_say(sp->cmd, why);
        _exit(err == ENOENT || err == ENOTDIR ? 127 : 126);
}

pid_t spawn(const struct spawn *sp)
{
        static LARGE_BUFFER uint8_t stack[CHILD_STACK];
        struct spawn_child c = {.sp = sp, .path = find_path_variable(sp->env), .oom_score_adj = child_oom_score_adj()};
        AUTO_FREE char **shell_argv = NULL;
        sigset_t all, before;
        size_t argc = 0;
        pid_t pid;

        while (sp->argv[argc])
                argc++;
        c.shell_argv = shell_argv = calloc(argc + 3, sizeof(*shell_argv));
        if (!shell_argv)
                return -ENOMEM;
        (void)sigemptyset(&c.none);
        (void)sigfillset(&all);
        (void)sigprocmask(SIG_SETMASK, &all, &before); /* no handler of ours may run in the child */
        pid = clone(child_main, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &c);
        if (pid < 0)
                pid = -errno;
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        /* The child's change of user made the shared memory undumpable, and with it our /proc/self unreadable. */
        (void)prctl(PR_SET_DUMPABLE, 1);
        if (pid > 0 && c.err) {
                (void)waitpid(pid, NULL, 0);
                return -c.err;
        }
        return pid;
}
