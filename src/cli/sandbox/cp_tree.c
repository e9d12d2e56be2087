/* Directories: tar here, tar in the sandbox, and our standard input or output between them. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/remote_command.h"
#include "cli/sandbox/cp.h"

extern char **environ;

/* Our fd `number` is `fd` (stolen) until redirect_undo() gets what is returned. */
static int redirect(int number, int fd)
{
        int before = fcntl(number, F_DUPFD_CLOEXEC, 3);

        (void)dup2(fd, number);
        (void)close(fd);
        return before;
}

static void redirect_undo(int number, int before)
{
        if (before < 0) {
                (void)close(number);
                return;
        }
        (void)dup2(before, number);
        (void)close(before);
}

/* tar with one end of a pipe as its fd `number`; the other end is the caller's. */
static int start_tar(char *const argv[], int number, pid_t *ret_pid, int *ret_end, struct err *err)
{
        posix_spawn_file_actions_t actions;
        int ends[2], own = number == STDOUT_FILENO ? 0 : 1, r;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_sys(err, -errno, "make a pipe");
        r = posix_spawn_file_actions_init(&actions);
        if (r == 0) {
                (void)posix_spawn_file_actions_adddup2(&actions, ends[!own], number);
                r = posix_spawnp(ret_pid, argv[0], &actions, NULL, argv, environ);
                (void)posix_spawn_file_actions_destroy(&actions);
        }
        (void)close(ends[!own]);
        if (r != 0) {
                (void)close(ends[own]);
                return err_sys(err, -r, "start 'tar'");
        }
        *ret_end = ends[own];
        return 0;
}

static int remote_run(struct copying *c, char *const *argv)
{
        const struct remote_command_options command = {
                .api = c->api, .sandbox = c->sandbox, .argv = argv, .user = c->user, .ends_on_signal = true};

        return remote_command_run(&command, c->err);
}

/* Both sides must have succeeded. */
static int judge(struct copying *c, pid_t pid, int code, const char *what)
{
        int status = 0;

        (void)waitpid(pid, &status, 0);
        if (code < 0)
                return code;
        if (code != 0 || status != 0)
                return err_set(c->err, ERR_INTERNAL, "'%s' was not copied: tar failed%s", what,
                               code ? " in the sandbox" : "");
        return 0;
}

int run_in_sandbox(struct copying *c, char *const *argv)
{
        int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC), before, code;

        if (nothing < 0)
                return err_sys(c->err, -errno, "open '/dev/null'");
        before = redirect(STDIN_FILENO, nothing);
        code = remote_run(c, argv);
        redirect_undo(STDIN_FILENO, before);
        return code > 0 ? err_set(c->err, ERR_INTERNAL, "'%s' failed in the sandbox", argv[0]) : code;
}

int copy_tree_up(struct copying *c, const char *from, const char *to)
{
        char *const here[] = {"tar", "-C", (char *)from, "-c", "-f", "-", ".", NULL};
        char *const there[] = {
                "/bin/sh", "-c",       "mkdir -p -- \"$1\" && exec tar -C \"$1\" --no-same-owner -x -f -",
                "sh",      (char *)to, NULL};
        pid_t pid;
        int end = -1, before, code, r = start_tar(here, STDOUT_FILENO, &pid, &end, c->err);

        if (r < 0)
                return r;
        before = redirect(STDIN_FILENO, end);
        code = remote_run(c, there);
        redirect_undo(STDIN_FILENO, before); /* closes the pipe: tar ends, also when the sandbox is gone */
        return judge(c, pid, code, from);
}

int copy_tree_down(struct copying *c, const char *from, const char *to)
{
        char *const here[] = {"tar", "-C", (char *)to, "--no-same-owner", "-x", "-f", "-", NULL};
        char *const there[] = {"tar", "-C", (char *)from, "-c", "-f", "-", ".", NULL};
        pid_t pid;
        int end = -1, before, code, r;

        if (mkdir(to, 0777) < 0 && errno != EEXIST)
                return err_sys(c->err, -errno, "make '%s'", to);
        r = start_tar(here, STDIN_FILENO, &pid, &end, c->err);
        if (r < 0)
                return r;
        before = redirect(STDOUT_FILENO, end);
        code = remote_run(c, there);
        redirect_undo(STDOUT_FILENO, before);
        return judge(c, pid, code, from);
}
