/* snapshots.c - sandboxes as they were: snapshots, copies, and the way back. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cli/api.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"

const char snapshot_usage[] =
        "usage: sandglass snapshot [--name NAME[:TAG]] [--json] [--data DIR] SANDBOX\n"
        "Save the state of a sandbox, with its running programs, and print the id of the snapshot.  The sandbox "
        "itself\n"
        "continues to run.  New sandboxes can be started from the snapshot.  A paused sandbox must be resumed first.\n";
const char snapshots_usage[] = "usage: sandglass snapshots [--json] [--data DIR] [SANDBOX]\n"
                               "       sandglass snapshots --delete [--data DIR] SNAPSHOT...\n"
                               "List the snapshots (of one sandbox), the newest first, or delete snapshots.\n";
const char fork_usage[] = "usage: sandglass fork [--count N] [--timeout SECONDS] [--json] [--data DIR] SANDBOX\n"
                          "Make copies of a sandbox, with its running programs, and print their ids.  The sandbox "
                          "itself does not change.\n"
                          "  --count N           how many copies, up to 100 (default 1)\n"
                          "  --timeout SECONDS   how long each copy may run (default: the server's, 300)\n";
const char rollback_usage[] =
        "usage: sandglass rollback [--data DIR] SANDBOX SNAPSHOT\n"
        "Take a sandbox back to one of its snapshots.  Everything that happened after the snapshot is lost.\n";

/* What they have in common: the server is asked for one thing that may take long, and the answer shown. */
struct deed {
        const char *command, *doing, *action, *usage;
        unsigned takes;
        int arg_count;
        bool wants_running; /* a paused sandbox will not do */
        json_t *(*body)(const struct cli_options *o);
        int (*show)(const struct cli_options *o, const json_t *got); /* the exit code */
};

/* The API has no word of its own for a paused sandbox where it wants a running one: there is none, it says. */
static void explain_refusal(struct cli_api *api, const char *id, struct err *err)
{
        struct api_sandbox now = {0};
        struct err ignored = {0};

        if (err->kind == ERR_NOT_FOUND && api_get(api, id, &now, &ignored) == 0 && now.is_paused)
                (void)err_set(err, ERR_CONFLICT, "%s is paused: `sandglass resume %s` lets it run again", id, id);
}

static int deed_main(const struct deed *deed, int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err err = {0};
        json_t *got = NULL;
        struct progress p;
        struct cli_api api;
        int r, code;

        if (cli_options_parse(argc, argv, deed->takes, &o, &err) < 0 || o.help || o.arg_count != deed->arg_count)
                return cli_usage(&o, deed->usage, &err);
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail(deed->command, &err);
        progress_start(&p, &api, deed->doing, o.args[0]);
        r = api_act(&api, &(struct api_act){"", o.args[0], deed->action, deed->body(&o)}, &got, &err);
        progress_end(&p);
        if (r < 0 && deed->wants_running)
                explain_refusal(&api, o.args[0], &err);
        api_close(&api);
        code = r < 0 ? cli_fail(deed->command, &err) : deed->show(&o, got);
        json_decref(got);
        return code;
}

/* ---- snapshot ---- */

static json_t *snapshot_body(const struct cli_options *o)
{
        return o->name ? json_pack("{s:s}", "name", o->name) : json_object();
}

static int snapshot_show(const struct cli_options *o, const json_t *got)
{
        if (o->json)
                output_json(got);
        else
                (void)puts(output_text(got, "snapshotID"));
        return 0;
}

int snapshot_main(int argc, char **argv)
{
        static const struct deed deed = {.command = "snapshot",
                                         .doing = "keeping",
                                         .action = "snapshots",
                                         .usage = snapshot_usage,
                                         .takes = CLI_DATA | CLI_JSON | CLI_NAME,
                                         .arg_count = 1,
                                         .wants_running = true,
                                         .body = snapshot_body,
                                         .show = snapshot_show};

        return deed_main(&deed, argc, argv);
}

/* ---- fork ---- */

static json_t *fork_body(const struct cli_options *o)
{
        json_t *body = json_pack("{s:i}", "count", o->count ? (int)o->count : 1);

        if (o->timeout_s)
                (void)json_object_set_new(body, "timeout", json_integer(o->timeout_s));
        return body;
}

/* Each copy came about or did not. */
static int fork_show(const struct cli_options *o, const json_t *got)
{
        int code = json_is_array(got) ? 0 : 1;
        size_t i;
        json_t *one;

        if (o->json)
                output_json(got);
        json_array_foreach ((json_t *)got, i, one) {
                const json_t *error = json_object_get(one, "error"), *sandbox = json_object_get(one, "sandbox");

                if (error || !sandbox) {
                        (void)fprintf(stderr, "sandglass fork: copy %zu: %s\n", i + 1, output_text(error, "message"));
                        code = 1;
                } else if (!o->json) {
                        (void)puts(output_text(sandbox, "sandboxID"));
                }
        }
        return code;
}

int fork_main(int argc, char **argv)
{
        static const struct deed deed = {.command = "fork",
                                         .doing = "copying",
                                         .action = "fork",
                                         .usage = fork_usage,
                                         .takes = CLI_DATA | CLI_JSON | CLI_COUNT | CLI_TIMEOUT,
                                         .arg_count = 1,
                                         .body = fork_body,
                                         .show = fork_show};

        return deed_main(&deed, argc, argv);
}

/* ---- rollback ---- */

static json_t *rollback_body(const struct cli_options *o)
{
        return json_pack("{s:s}", "snapshotID", o->args[1]);
}

static int show_nothing(const struct cli_options *o, const json_t *got)
{
        (void)o;
        (void)got;
        return 0;
}

int rollback_main(int argc, char **argv)
{
        static const struct deed deed = {.command = "rollback",
                                         .doing = "taking back",
                                         .action = "rollback",
                                         .usage = rollback_usage,
                                         .takes = CLI_DATA,
                                         .arg_count = 2,
                                         .body = rollback_body,
                                         .show = show_nothing};

        return deed_main(&deed, argc, argv);
}

/* ---- snapshots ---- */

static void print_snapshots(const json_t *list)
{
        size_t i, k;
        json_t *s, *name;

        (void)printf("%-40s %s\n", "SNAPSHOT", "NAMES");
        json_array_foreach ((json_t *)list, i, s) {
                const json_t *names = json_object_get(s, "names");

                (void)printf("%-40s ", output_text(s, "snapshotID"));
                if (json_array_size(names) == 0)
                        (void)printf("-");
                json_array_foreach ((json_t *)names, k, name)
                        (void)printf("%s%s", k ? ", " : "", json_string_value(name) ? json_string_value(name) : "-");
                (void)puts("");
        }
}

static int list_snapshots(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        json_t *list = NULL;

        if (api_snapshots(api, o->args[0], &list, err) < 0)
                return cli_fail("snapshots", err);
        output_list(list, o->json, print_snapshots);
        json_decref(list);
        return 0;
}

static int delete_snapshots(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        int code = 0;

        for (int i = 0; i < o->arg_count; i++)
                if (api_snapshot_delete(api, o->args[i], err) < 0)
                        code = cli_fail("snapshots", err);
        return code;
}

int snapshots_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err err = {0};
        struct cli_api api;
        int code;

        if (cli_options_parse(argc, argv, CLI_DATA | CLI_JSON | CLI_DELETE, &o, &err) < 0 || o.help ||
            (o.deletes ? o.arg_count == 0 || o.json : o.arg_count > 1))
                return cli_usage(&o, snapshots_usage, &err);
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("snapshots", &err);
        code = o.deletes ? delete_snapshots(&api, &o, &err) : list_snapshots(&api, &o, &err);
        api_close(&api);
        return code;
}
