/* shell: a terminal in a sandbox. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/api.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/remote_command.h"
#include "cli/sandbox/running.h"
#include "cli/signals.h"

const char shell_usage[] =
        "usage: sandglass shell [-e NAME=VALUE]... [-w DIR] [-u USER] [--data DIR] SANDBOX [COMMAND...]\n"
        "Open a shell in a running sandbox, at this terminal, or another command that wants a terminal.  The exit code "
        "is the\n"
        "shell's.\n"
        "  -e, --env NAME=VALUE   a variable for the shell\n"
        "  -w, --workdir DIR      the shell's working directory (default: the user's home)\n"
        "  -u, --user USER        the user of the shell (default user, which may use sudo)\n";

/* Keys go to the other side as they are: ^C, too. */
static int make_raw(struct termios *before)
{
        struct termios raw;

        if (tcgetattr(STDIN_FILENO, before) < 0)
                return -errno;
        raw = *before;
        cfmakeraw(&raw);
        return tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw) < 0 ? -errno : 0;
}

static json_t *shell_environment(const struct cli_options *o)
{
        const char *term = getenv("TERM");
        json_t *env = json_pack("{s:s, s:s}", "TERM", term && term[0] ? term : "xterm-256color", "LANG", "C.UTF-8");

        if (env && o->env)
                (void)json_object_update(env, o->env);
        return env;
}

static int shell_in(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        char *const usual[] = {"/bin/bash", "-i", "-l", NULL};
        json_t *env = shell_environment(o);
        struct api_sandbox sandbox = {0};
        struct remote_command_options command = {.api = api,
                                                 .sandbox = &sandbox,
                                                 .argv = o->arg_count > 1 ? o->args + 1 : usual,
                                                 .env = env,
                                                 .cwd = o->cwd,
                                                 .user = o->user,
                                                 .has_terminal = true};
        struct termios before;
        int code, r;

        code = api_get_running(api, o->args[0], &sandbox, err);
        if (code == 0) {
                r = make_raw(&before);
                code = r < 0 ? err_sys(err, r, "set the terminal") : remote_command_run(&command, err);
                if (r == 0)
                        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
        }
        json_decref(env);
        return code;
}

int shell_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err err = {0};
        AUTO_CLOSE int signals = -1;
        struct cli_api api;
        sigset_t resize;
        int code;

        if (cli_options_parse(argc, argv, CLI_DATA | CLI_ENV | CLI_CWD | CLI_USER, &o, &err) < 0 || o.help ||
            o.arg_count < 1)
                return cli_usage(&o, shell_usage, &err);
        if (!isatty(STDIN_FILENO)) {
                (void)err_set(&err, ERR_INVALID, "input is no terminal: use `sandglass exec %s COMMAND`", o.args[0]);
                return cli_fail("shell", &err);
        }
        signals = cli_take_signals();
        (void)sigemptyset(&resize);
        (void)sigaddset(&resize, SIGWINCH);
        (void)sigprocmask(SIG_BLOCK, &resize, NULL);
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("shell", &err);
        code = shell_in(&api, &o, &err);
        api_close(&api);
        return code < 0 ? cli_fail("shell", &err) : code;
}
