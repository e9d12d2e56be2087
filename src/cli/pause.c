/* pause.c - the commands pause and resume. */
#include <stdio.h>

#include "base/err.h"
#include "cli/api.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/progress.h"

const char pause_usage[] = "usage: sandglass pause [--files-only] [--data DIR] SANDBOX...\n"
                           "Pause sandboxes: stop their programs, and keep memory and files on disk.\n"
                           "  --files-only   keep only the files: programs end, and no program runs after a resume\n";
const char resume_usage[] =
        "usage: sandglass resume [--timeout SECONDS] [--files-only] [--data DIR] SANDBOX...\n"
        "Resume paused sandboxes: their programs continue where they stopped.\n"
        "  --timeout SECONDS   how long each sandbox may run from now on (default: the server's, 300)\n"
        "  --files-only        start from the files; the saved memory is deleted\n";

struct pause_command { /* or resume */
        const char *name, *doing, *prefix, *action, *usage;
        unsigned takes;
};

static json_t *pause_body(const struct cli_options *o)
{
        json_t *body = json_object();

        if (o->files_only)
                (void)json_object_set_new(body, "memory", json_false());
        if (o->timeout_s)
                (void)json_object_set_new(body, "timeout", json_integer(o->timeout_s));
        return body;
}

static int pause_each(const struct pause_command *command, struct cli_api *api, const struct cli_options *o,
                      struct err *err)
{
        int code = 0;

        for (int i = 0; i < o->arg_count; i++) {
                const struct api_act act = {command->prefix, o->args[i], command->action, pause_body(o)};
                struct progress p;
                int r;

                progress_start(&p, api, command->doing, o->args[i]);
                r = api_act(api, &act, NULL, err);
                progress_end(&p);
                if (r < 0)
                        code = cli_fail(command->name, err);
        }
        return code;
}

static int pause_command_main(const struct pause_command *command, int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err err = {0};
        struct cli_api api;
        int code;

        if (cli_options_parse(argc, argv, command->takes, &o, &err) < 0 || o.help || o.arg_count == 0)
                return cli_usage(&o, command->usage, &err);
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail(command->name, &err);
        code = pause_each(command, &api, &o, &err);
        api_close(&api);
        return code;
}

int pause_main(int argc, char **argv)
{
        static const struct pause_command command = {"pause", "pausing",   "",
                                                     "pause", pause_usage, CLI_DATA | CLI_FILES_ONLY};

        return pause_command_main(&command, argc, argv);
}

int resume_main(int argc, char **argv)
{
        static const struct pause_command command = {"resume",  "resuming",   "/v2",
                                                     "connect", resume_usage, CLI_DATA | CLI_FILES_ONLY | CLI_TIMEOUT};

        return pause_command_main(&command, argc, argv);
}
