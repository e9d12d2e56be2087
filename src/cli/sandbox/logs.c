/* logs: what commands in a sandbox have written. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/remote_command.h"
#include "cli/sandbox/running.h"
#include "cli/signals.h"

const char logs_usage[] = "usage: sandglass logs [--follow] [--json] [--data DIR] SANDBOX [PID]\n"
                          "Print the output of the commands that run in a sandbox, or of one of them: the newest MiB "
                          "of each.  A command that has\n"
                          "ended can be named for ten minutes.\n"
                          "  --follow   go on until the command ends; its exit code is ours\n"
                          "  --json     print the running commands instead of their output\n";

static void print_command(const json_t *process)
{
        const json_t *config = json_object_get(process, "config");
        size_t i;
        json_t *arg;

        (void)printf("==> %lld: %s", (long long)json_integer_value(json_object_get(process, "pid")),
                     output_text(config, "cmd"));
        json_array_foreach (json_object_get(config, "args"), i, arg)
                (void)printf(" %s", json_string_value(arg) ? json_string_value(arg) : "");
        (void)puts(" <==");
        (void)fflush(stdout);
}

/* The exit code, or negative. */
static int print_output(struct cli_api *api, const struct api_sandbox *sandbox, uint32_t pid, bool follows,
                        struct err *err)
{
        const struct remote_command_options command = {
                .api = api, .sandbox = sandbox, .attach_pid = pid, .ends_caught_up = !follows, .ends_on_signal = true};

        return remote_command_run(&command, err);
}

/* {"processes": [...]}, as the daemon lists them. */
static int list_processes(struct cli_api *api, const struct api_sandbox *sandbox, json_t **ret, struct err *err)
{
        const struct sg_call call = api_wait(api, SG_NO_TIMEOUT);
        struct sg_request_options o = {.port = ENVD_PORT};
        struct sg_answer *answer = NULL;
        struct sg_error why = {0};
        int r = api_box(api, sandbox, &o.box, err);

        if (r < 0)
                return r;
        if (sg_request(api->client, "POST", "/process.Process/List", "{}", &o, &call, &answer, &why) < 0)
                r = api_error(api, &why, err);
        else if (!(*ret = json_loadb(answer->body, answer->body_len, 0, NULL)))
                r = err_set(err, ERR_INTERNAL, "the sandbox's answer is not JSON");
        sg_free(answer);
        sg_sandbox_free(o.box);
        return r;
}

static int print_all(struct cli_api *api, const struct api_sandbox *sandbox, const struct cli_options *o,
                     struct err *err)
{
        json_t *list = NULL, *processes, *one;
        size_t i;
        int r = list_processes(api, sandbox, &list, err);

        processes = json_object_get(list, "processes");
        if (r == 0 && o->json) {
                json_t *none = json_array();

                output_json(processes ? processes : none);
                json_decref(none);
        } else if (r == 0 && o->follow && json_array_size(processes) != 1) {
                r = err_set(err, ERR_INVALID, "%zu commands run in %s: name one by its PID", json_array_size(processes),
                            sandbox->id);
        }
        json_array_foreach (processes, i, one) {
                if (r < 0 || o->json)
                        break;
                print_command(one);
                r = print_output(api, sandbox, (uint32_t)json_integer_value(json_object_get(one, "pid")), o->follow,
                                 err);
        }
        json_decref(list);
        return r;
}

int logs_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err err = {0};
        AUTO_CLOSE int signals = -1;
        struct api_sandbox sandbox = {0};
        struct cli_api api;
        uint32_t pid = 0;
        int code;

        if (cli_options_parse(argc, argv, CLI_ANYWHERE | CLI_DATA | CLI_JSON | CLI_FOLLOW, &o, &err) < 0 || o.help ||
            o.arg_count < 1 || o.arg_count > 2)
                return cli_usage(&o, logs_usage, &err);
        if (o.arg_count == 2 && parse_u32(str_of(o.args[1]), 1, INT32_MAX, &pid) < 0) {
                (void)err_set(&err, ERR_INVALID, "'%s' is no process id", o.args[1]);
                return cli_usage(&o, logs_usage, &err);
        }
        signals = cli_take_signals();
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("logs", &err);
        code = api_get_running(&api, o.args[0], &sandbox, &err);
        if (code == 0)
                code = pid ? print_output(&api, &sandbox, pid, o.follow, &err) : print_all(&api, &sandbox, &o, &err);
        api_close(&api);
        return code < 0 ? cli_fail("logs", &err) : code;
}
