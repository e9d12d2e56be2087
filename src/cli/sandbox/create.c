/* create and info: a sandbox that stays, and what is known of one. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cli/api.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"

const char create_usage[] =
        "usage: sandglass create [--timeout SECONDS] [-e NAME=VALUE]... [--metadata NAME=VALUE]... [--json] [--data "
        "DIR]"
        " [TEMPLATE]\n"
        "Start a sandbox from a template or snapshot (default base), and print its id.  It runs until its time is up.\n"
        "  --timeout SECONDS       how long the sandbox may run (default: the server's, 300)\n"
        "  -e, --env NAME=VALUE    a variable for everything in the sandbox\n"
        "  --metadata NAME=VALUE   a note that the sandbox keeps\n";
const char info_usage[] = "usage: sandglass info [--json] [--data DIR] SANDBOX\nDescribe a sandbox.\n";

static int get_sandbox(struct cli_api *api, const char *id, json_t **ret, struct err *err)
{
        AUTO_FREE char *target = NULL;

        if (!sandbox_id_is_valid(str_of(id)))
                return err_set(err, ERR_INVALID, "'%s' is not a sandbox id", id);
        target = api_target("/sandboxes/", id, "");
        return target ? api_request(api, "GET", target, NULL, ret, err) : err_set(err, ERR_LIMIT, "out of memory");
}

/* ---- create ---- */

static int create(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        const struct api_create rq = {.template = o->arg_count ? o->args[0] : "base",
                                      .env = o->env,
                                      .metadata = o->metadata,
                                      .timeout_s = o->timeout_s};
        struct api_sandbox made;
        struct progress p;
        json_t *got = NULL;
        int r;

        progress_start(&p, api, "starting", rq.template);
        r = api_create(api, &rq, &made, err);
        progress_end(&p);
        if (r == 0 && o->json) {
                r = get_sandbox(api, made.id, &got, err);
                if (r == 0)
                        output_json(got);
                json_decref(got);
        } else if (r == 0) {
                (void)puts(made.id);
        }
        return r;
}

int create_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err err = {0};
        struct cli_api api;
        int r;

        if (cli_options_parse(argc, argv, CLI_ANYWHERE | CLI_DATA | CLI_JSON | CLI_TIMEOUT | CLI_ENV | CLI_METADATA, &o,
                              &err) < 0 ||
            o.help || o.arg_count > 1)
                return cli_usage(&o, create_usage, &err);
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("create", &err);
        r = create(&api, &o, &err);
        api_close(&api);
        return r < 0 ? cli_fail("create", &err) : 0;
}

/* ---- info ---- */

static void print_number(const json_t *s, const char *label, const char *key, const char *unit)
{
        const json_t *n = json_object_get(s, key);

        if (json_is_integer(n))
                (void)printf("%-10s %lld%s\n", label, (long long)json_integer_value(n), unit);
}

static void print_sandbox(const json_t *s)
{
        const char *alias = output_text(s, "alias"), *name;
        bool is_paused = strcmp(output_text(s, "state"), "paused") == 0;
        json_t *value;

        (void)printf("%-10s %s\n", "sandbox", output_text(s, "sandboxID"));
        (void)printf("%-10s %s%s%s%s\n", "template", output_text(s, "templateID"), strcmp(alias, "-") ? " (" : "",
                     strcmp(alias, "-") ? alias : "", strcmp(alias, "-") ? ")" : "");
        (void)printf("%-10s %s\n", "state", output_text(s, "state"));
        (void)printf("%-10s %s\n", "started", output_text(s, "startedAt"));
        if (!is_paused) /* it has no end */
                (void)printf("%-10s %s\n", "ends", output_text(s, "endAt"));
        print_number(s, "cpus", "cpuCount", "");
        print_number(s, "memory", "memoryMB", " MB");
        print_number(s, "disk", "diskSizeMB", " MB");
        json_object_foreach (json_object_get(s, "metadata"), name, value)
                (void)printf("%-10s %s=%s\n", "metadata", name,
                             json_string_value(value) ? json_string_value(value) : "");
}

int info_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err err = {0};
        struct cli_api api;
        json_t *got = NULL;
        int r;

        if (cli_options_parse(argc, argv, CLI_ANYWHERE | CLI_DATA | CLI_JSON, &o, &err) < 0 || o.help ||
            o.arg_count != 1)
                return cli_usage(&o, info_usage, &err);
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("info", &err);
        r = get_sandbox(&api, o.args[0], &got, &err);
        api_close(&api);
        if (r < 0)
                return cli_fail("info", &err);
        if (o.json)
                output_json(got);
        else
                print_sandbox(got);
        json_decref(got);
        return 0;
}
