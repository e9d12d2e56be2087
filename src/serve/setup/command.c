#include "serve/setup/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "sys/nosync.h"
#include "sys/proc.h"

#define LINE_MAX_BYTES (64u << 10)
#define EXIT_NOT_FOUND 127

static _Noreturn void command_child(const struct command *c, int out)
{
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

        (void)sys_signals_default();
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        (void)setsid(); /* the terminal's Ctrl-C is ours to judge */
        if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
                _exit(126);
        (void)close_range(3, ~0u, 0);
        if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                _exit(126);
        if (c->root && (chroot(c->root) < 0 || chdir("/") < 0))
                _exit(126);
        if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
                _exit(126);
        if (c->skip_flushes)
                (void)sys_skip_flushes(); /* without it the program is slower, that is all */
        (void)execvp(c->argv[0], (char *const *)c->argv);
        _exit(errno == ENOENT ? EXIT_NOT_FOUND : 126);
}

static void give_lines(const struct command *c, struct buf *text, bool at_end)
{
        struct str all = {(const char *)buf_at(text), text->len}, line;
        size_t used;

        while (str_cut(&all, '\n', &line))
                if (c->on_line)
                        c->on_line(line, c->arg);
        /* str_cut() left the unfinished line in `line` and emptied `all`. */
        if (line.n && c->on_line && (at_end || buf_room(text) == 0)) {
                c->on_line(line, c->arg);
                line.n = 0;
        }
        used = text->len - line.n;
        buf_consume(text, used);
}

/* 0 at the end of the output, -EINTR when a signal came first. */
static int command_read_output(const struct command *c, int out, int signals)
{
        AUTO_BUF struct buf text = BUF_INIT(LINE_MAX_BYTES);
        struct pollfd p[2] = {{.fd = out, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
        ssize_t n = 1;

        while (n > 0) {
                if (poll(p, 2, -1) < 0 && errno != EINTR)
                        return -errno;
                if (p[1].revents)
                        return -EINTR;
                if (!p[0].revents)
                        continue;
                n = buf_fill(&text, out, buf_room(&text));
                give_lines(c, &text, n <= 0);
        }
        return (int)n;
}

static int judge(const struct command *c, int status, struct err *err)
{
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NOT_FOUND)
                return err_set(err, ERR_NOT_FOUND, "%s is not installed", c->argv[0]);
        if (WIFEXITED(status))
                return err_set(err, ERR_INTERNAL, "%s failed with code %d", c->argv[0], WEXITSTATUS(status));
        return err_set(err, ERR_INTERNAL, "%s was ended by signal %d", c->argv[0], WTERMSIG(status));
}

int command_run(const struct command *c, struct err *err)
{
        AUTO_CLOSE int out = -1, in = -1, signals = -1;
        int r, status, ends[2];
        sigset_t set = sys_signals_to_end();
        pid_t pid;

        signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (signals < 0 || pipe2(ends, O_CLOEXEC) < 0)
                return err_sys(err, -errno, "start %s", c->argv[0]);
        out = ends[0];
        in = ends[1];
        pid = sys_clone(&(struct sys_clone){.flags = CLONE_NEWPID | CLONE_NEWNS, .cgroup = -1});
        if (pid < 0)
                return err_sys(err, pid, "start %s", c->argv[0]);
        if (pid == 0)
                command_child(c, in);
        close_fd(&in);
        r = command_read_output(c, out, signals);
        if (r < 0)
                (void)kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                continue;
        if (r == -EINTR)
                return err_set(err, ERR_UNAVAILABLE, "interrupted");
        return r < 0 ? err_sys(err, r, "read from %s", c->argv[0]) : judge(c, status, err);
}
