/* lost.c - the command lost: what the server moved aside because it had no record of it is listed, restored, removed. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cli/api.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"

const char lost_usage[] =
        "usage: sandglass lost [--json] [--data DIR]\n"
        "       sandglass lost restore [--json] [--data DIR] ID...\n"
        "       sandglass lost remove [--data DIR] ID... | --all\n"
        "List what the server found in its data directory, but not in its database, and moved to DIR/lost.\n"
        "  restore   restore a sandbox (paused), or make a new, paused sandbox from a checkpoint (of a snapshot)\n"
        "  remove    delete for good\n";

static void print_lost(const json_t *list)
{
        char size[16];
        size_t i;
        json_t *v;

        (void)printf("%-23s %-10s %-9s %-20s %11s  %s\n", "ID", "KIND", "WAS", "LOST", "SIZE", "WHY");
        json_array_foreach ((json_t *)list, i, v) {
                output_size(json_integer_value(json_object_get(v, "bytes")), size);
                (void)printf("%-23s %-10s %-9s %-20.19s %11s  %s\n", output_text(v, "id"), output_text(v, "kind"),
                             output_text(v, "was"), output_text(v, "lostAt"), size, output_text(v, "why"));
        }
}

static int list_lost(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        json_t *list = NULL;

        if (api_lost(api, &list, err) < 0)
                return cli_fail("lost", err);
        output_list(list, o->json, print_lost);
        json_decref(list);
        return 0;
}

static int restore_lost(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        int code = 0;

        for (int i = 0; i < o->arg_count; i++) {
                json_t *got = NULL;

                if (api_lost_restore(api, o->args[i], &got, err) < 0)
                        code = cli_fail("lost", err);
                else if (o->json)
                        output_json(got);
                else
                        (void)puts(output_text(got, "sandboxID"));
                json_decref(got);
        }
        return code;
}

static int remove_all(struct cli_api *api, struct err *err)
{
        json_t *list = NULL, *v;
        int code = 0;
        size_t i;

        if (api_lost(api, &list, err) < 0)
                return cli_fail("lost", err);
        json_array_foreach (list, i, v)
                if (api_lost_remove(api, output_text(v, "id"), err) < 0)
                        code = cli_fail("lost", err);
        json_decref(list);
        return code;
}

static int remove_lost(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        int code = 0;

        if (o->all)
                return remove_all(api, err);
        for (int i = 0; i < o->arg_count; i++)
                if (api_lost_remove(api, o->args[i], err) < 0)
                        code = cli_fail("lost", err);
        return code;
}

static const struct deed {
        const char *word; /* NULL: without one */
        unsigned takes;
        bool has_args;
        int (*run)(struct cli_api *api, const struct cli_options *o, struct err *err);
} deeds[] = {
        {"restore", CLI_DATA | CLI_JSON, true, restore_lost},
        {"remove", CLI_DATA | CLI_ALL, true, remove_lost},
        {NULL, CLI_DATA | CLI_JSON, false, list_lost},
};

int lost_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        const struct deed *d = deeds;
        struct err err = {0};
        struct cli_api api;
        int code;

        while (d->word && (argc < 2 || strcmp(d->word, argv[1]) != 0))
                d++;
        if (d->word)
                argc--, argv++;
        if (cli_options_parse(argc, argv, d->takes, &o, &err) < 0 || o.help ||
            (o.arg_count > 0) != (d->has_args && !o.all))
                return cli_usage(&o, lost_usage, &err);
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("lost", &err);
        code = d->run(&api, &o, &err);
        api_close(&api);
        return code;
}
