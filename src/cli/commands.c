#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "cli/api.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/remote_command.h"
#include "cli/signals.h"

#define RUN_TIMEOUT_S 3600u

const char run_usage[] =
        "usage: sandglass run [-t TEMPLATE] [--timeout SECONDS] [-e NAME=VALUE]... [-w DIR] [-u USER] [--data DIR]"
        " [--] COMMAND...\n"
        "Run a command in a new sandbox, and end the sandbox with the command.  Input, output and exit code are the "
        "command's.\n"
        "  -t, --template TEMPLATE   a template or snapshot to start the sandbox from (default base)\n"
        "  --timeout SECONDS         how long the sandbox may run (default 3600)\n"
        "  -e, --env NAME=VALUE      a variable for everything in the sandbox\n"
        "  -w, --workdir DIR         the command's working directory (default: the user's home)\n"
        "  -u, --user USER           the user that runs the command (default user, which may use sudo)\n";
const char exec_usage[] =
        "usage: sandglass exec [-e NAME=VALUE]... [-w DIR] [-u USER] [--data DIR] SANDBOX [--] COMMAND...\n"
        "Run a command in a running sandbox.  Input, output and exit code are the command's.\n"
        "  -e, --env NAME=VALUE   a variable for the command\n"
        "  -w, --workdir DIR      the command's working directory (default: the user's home)\n"
        "  -u, --user USER        the user that runs the command (default user, which may use sudo)\n";
const char ps_usage[] = "usage: sandglass ps [--json] [--data DIR]\nList the sandboxes: running, and paused.\n";
const char kill_usage[] = "usage: sandglass kill [--data DIR] SANDBOX...\nEnd sandboxes.\n";

static int run_in_new_sandbox(struct cli_api *api, const struct cli_options *o, int signals, struct err *err)
{
        const struct api_create create = {.template = o->template ? o->template : "base",
                                          .env = o->env,
                                          .timeout_s = o->timeout_s ? o->timeout_s : RUN_TIMEOUT_S};
        struct api_sandbox sandbox;
        struct remote_command_options command = {.api = api,
                                                 .sandbox = &sandbox,
                                                 .argv = o->args,
                                                 .cwd = o->cwd,
                                                 .user = o->user,
                                                 .ends_on_signal = true};
        struct err later = {0};
        int code;

        /* Interrupted here the connection is cut, and the server ends what nobody waits for. */
        if (api_cancel_on(api, signals, err) < 0)
                return -1;
        if (api_create(api, &create, &sandbox, err) < 0)
                return err->sys == EINTR ? EXIT_SIGNALLED + SIGINT : -1;
        (void)api_cancel_on(api, -1, err);
        code = remote_command_run(&command, err);
        if (code < 0 && api_explain_loss(api, &sandbox, "the command", err))
                return code; /* not ours to end */
        if (api_delete(api, sandbox.id, &later) < 0 && later.kind != ERR_NOT_FOUND)
                (void)fprintf(stderr, "sandglass run: sandbox %s may still run: %s\n", sandbox.id, later.msg);
        return code;
}

int run_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err err = {0};
        AUTO_CLOSE int signals = -1;
        struct cli_api api;
        int code;

        if (cli_options_parse(argc, argv, CLI_DATA | CLI_TEMPLATE | CLI_TIMEOUT | CLI_ENV | CLI_CWD | CLI_USER, &o,
                              &err) < 0 ||
            o.help || o.arg_count == 0)
                return cli_usage(&o, run_usage, &err);
        signals = cli_take_signals();
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("run", &err);
        code = run_in_new_sandbox(&api, &o, signals, &err);
        api_close(&api);
        return code < 0 ? cli_fail("run", &err) : code;
}

static int exec_in(struct cli_api *api, const char *id, char **argv, const struct cli_options *o, struct err *err)
{
        struct api_sandbox sandbox = {0};
        struct remote_command_options command = {
                .api = api, .sandbox = &sandbox, .argv = argv, .env = o->env, .cwd = o->cwd, .user = o->user};
        int code;

        if (api_get(api, id, &sandbox, err) < 0)
                return -1;
        if (sandbox.is_paused)
                return err_set(err, ERR_CONFLICT, "%s is paused: `sandglass resume %s` lets it run again", id, id);
        code = remote_command_run(&command, err);
        if (code < 0)
                (void)api_explain_loss(api, &sandbox, "the command", err);
        return code;
}

int exec_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err err = {0};
        AUTO_CLOSE int signals = -1;
        struct cli_api api;
        char **command;
        int code;

        if (cli_options_parse(argc, argv, CLI_DATA | CLI_ENV | CLI_CWD | CLI_USER, &o, &err) < 0 || o.help ||
            o.arg_count < 2)
                return cli_usage(&o, exec_usage, &err);
        command = o.args + 1;
        if (strcmp(command[0], "--") == 0)
                command++;
        if (!command[0])
                return cli_usage(&o, exec_usage, &err);
        signals = cli_take_signals();
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("exec", &err);
        code = exec_in(&api, o.args[0], command, &o, &err);
        api_close(&api);
        return code < 0 ? cli_fail("exec", &err) : code;
}

/* "12s", "3m", "2h", "1d" */
static void format_span(int64_t seconds, char out[24])
{
        static const struct {
                int64_t s;
                char unit;
        } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};

        for (size_t i = 0; i < ARRAY_LEN(units); i++) {
                if (seconds >= units[i].s || units[i].s == 1) {
                        (void)snprintf(out, 24, "%lld%c", (long long)(seconds / units[i].s), units[i].unit);
                        return;
                }
        }
}

static void span_from_now(const json_t *obj, const char *key, int sign, char out[24])
{
        int64_t ns;

        if (clock_parse(str_of(output_text(obj, key)), &ns) < 0) {
                (void)snprintf(out, 24, "-");
                return;
        }
        ns = sign * (ns - clock_real_ns());
        format_span(ns > 0 ? ns / 1000000000 : 0, out);
}

static void print_sandboxes(const json_t *list)
{
        size_t i;
        json_t *s;

        (void)printf("%-22s %-16s %-8s %8s %8s %4s %8s\n", "SANDBOX", "TEMPLATE", "STATE", "AGE", "ENDS IN", "CPUS",
                     "MEMORY");
        json_array_foreach ((json_t *)list, i, s) {
                const char *alias = output_text(s, "alias"), *state = output_text(s, "state");
                char age[24], left[24] = "-";

                span_from_now(s, "startedAt", -1, age);
                if (strcmp(state, "paused") != 0) /* it has no end */
                        span_from_now(s, "endAt", 1, left);
                (void)printf("%-22s %-16s %-8s %8s %8s %4lld %5lld MB\n", output_text(s, "sandboxID"),
                             strcmp(alias, "-") ? alias : output_text(s, "templateID"), state, age, left,
                             (long long)json_integer_value(json_object_get(s, "cpuCount")),
                             (long long)json_integer_value(json_object_get(s, "memoryMB")));
        }
}

int ps_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err err = {0};
        json_t *list = NULL;
        struct cli_api api;
        int r;

        if (cli_options_parse(argc, argv, CLI_DATA | CLI_JSON, &o, &err) < 0 || o.help || o.arg_count)
                return cli_usage(&o, ps_usage, &err);
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("ps", &err);
        r = api_list(&api, &list, &err);
        api_close(&api);
        if (r < 0)
                return cli_fail("ps", &err);
        output_list(list, o.json, print_sandboxes);
        json_decref(list);
        return 0;
}

int kill_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err err = {0};
        struct cli_api api;
        int code = 0;

        if (cli_options_parse(argc, argv, CLI_DATA, &o, &err) < 0 || o.help || o.arg_count == 0)
                return cli_usage(&o, kill_usage, &err);
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("kill", &err);
        for (int i = 0; i < o.arg_count; i++)
                if (api_delete(&api, o.args[i], &err) < 0)
                        code = cli_fail("kill", &err);
        api_close(&api);
        return code;
}
