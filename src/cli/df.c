/* df.c - the command df: who holds what on the server's disk. */
#include <stdio.h>

#include "base/err.h"
#include "cli/api.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"

const char df_usage[] =
        "usage: sandglass df [--json] [--data DIR]\n"
        "Show how much of the server's disk each template, snapshot, image and sandbox uses, and the cache of "
        "builds.\n"
        "  SIZE    all that it refers to\n"
        "  ALONE   what nothing else refers to: so much is free when it is deleted\n";

static void print_line(const char *kind, const char *name, json_int_t bytes, json_int_t alone)
{
        char size[16], own[16];

        output_size(bytes, size);
        output_size(alone, own);
        (void)printf("%-10s %-44.44s %11s %11s\n", kind, name, size, own);
}

static json_int_t number_at(const json_t *obj, const char *key)
{
        return json_integer_value(json_object_get(obj, key));
}

static void print_df(const json_t *df)
{
        const json_t *cache = json_object_get(df, "cache");
        char free_text[16], total[16], steps[48];
        size_t i;
        json_t *v;

        (void)printf("%-10s %-44s %11s %11s\n", "KIND", "NAME", "SIZE", "ALONE");
        json_array_foreach (json_object_get(df, "holders"), i, v)
                print_line(output_text(v, "kind"), output_text(v, json_object_get(v, "name") ? "name" : "id"),
                           number_at(v, "bytes"), number_at(v, "alone"));
        (void)snprintf(steps, sizeof(steps), "%lld steps", (long long)number_at(cache, "steps"));
        print_line("cache", steps, number_at(cache, "bytes"), number_at(cache, "alone"));
        print_line("uploads", "-", number_at(df, "uploads"), number_at(df, "uploads"));
        print_line("bases", "-", number_at(df, "bases"), number_at(df, "bases"));
        print_line("lost", "-", number_at(df, "lost"), number_at(df, "lost"));
        print_line("trash", "-", number_at(df, "trash"), number_at(df, "trash"));
        output_size(number_at(df, "free"), free_text);
        output_size(number_at(df, "total"), total);
        (void)printf("%s of %s are free\n", free_text, total);
}

int df_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err err = {0};
        struct cli_api api;
        json_t *df = NULL;
        int r;

        if (cli_options_parse(argc, argv, CLI_DATA | CLI_JSON, &o, &err) < 0 || o.help || o.arg_count > 0)
                return cli_usage(&o, df_usage, &err);
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("df", &err);
        r = api_df(&api, &df, &err);
        api_close(&api);
        if (r < 0)
                return cli_fail("df", &err);
        if (o.json)
                output_json(df);
        else
                print_df(df);
        json_decref(df);
        return 0;
}
