#include <jansson.h>
#include <stdio.h>

#include "base/err.h"
#include "cli/checks.h"
#include "cli/cli.h"
#include "cli/conf.h"
#include "cli/options.h"

const char doctor_usage[] = "usage: sandglass doctor [--json] [--data DIR]\n"
                            "Check what this host can do, and say how to fix what is missing.  Exit code 1 if anything "
                            "needed is.\n";

static const char *const words[] = {[CHECK_OK] = "ok", [CHECK_MISSING] = "missing", [CHECK_NOTE] = "note"};

static void print_line(const char *name, const struct check_result *r)
{
        (void)printf("%-8s %-16s %s\n", words[r->state], name, r->detail);
        if (r->fix && r->state != CHECK_OK)
                (void)printf("%-25s fix: %s\n", "", r->fix);
}

static json_t *as_json(const char *name, const struct check_result *r)
{
        return json_pack("{s:s, s:s, s:s, s:s?}", "name", name, "state", words[r->state], "detail", r->detail, "fix",
                         r->state == CHECK_OK ? NULL : r->fix);
}

int doctor_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct check_env env = {.data_dir = CLI_DEFAULT_DATA};
        struct err err = {0};
        json_t *list;
        unsigned missing = 0;

        if (cli_options_parse(argc, argv, CLI_DATA | CLI_JSON, &o, &err) < 0 || o.help || o.arg_count)
                return cli_usage(&o, doctor_usage, &err);
        if (o.data)
                env.data_dir = o.data;
        list = json_array();
        for (const struct check *c = checks; c->name; c++) {
                struct check_result r = {0};

                c->run(&env, &r);
                missing += r.state == CHECK_MISSING;
                if (o.json)
                        (void)json_array_append_new(list, as_json(c->name, &r));
                else
                        print_line(c->name, &r);
        }
        if (o.json) {
                json_t *all = json_pack("{s:b, s:O}", "ok", missing == 0, "checks", list);

                (void)json_dumpf(all, stdout, JSON_INDENT(2));
                (void)puts("");
                json_decref(all);
        } else {
                (void)printf("\n%s\n", missing ? "Something needed is missing." : "Everything needed is there.");
        }
        json_decref(list);
        return missing ? 1 : 0;
}
