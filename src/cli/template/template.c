/* `sandglass template`: which templates there are, their builds and tags. */
#include "cli/template/template.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/api.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"

const char template_usage[] =
        "usage: sandglass template build [NAME|DIR] [options] [--json] [--data DIR]\n"
        "       sandglass template check [DIR] [--file FILE] [--build-arg NAME=VALUE] [--json]\n"
        "       sandglass template list [--json] [--data DIR]\n"
        "       sandglass template show [--json] [--data DIR] TEMPLATE\n"
        "       sandglass template tag [--data DIR] TEMPLATE[:TAG] TAG...\n"
        "       sandglass template rollback [--tag TAG] [--data DIR] TEMPLATE [BUILD]\n"
        "       sandglass template delete [--data DIR] TEMPLATE...\n"
        "       sandglass template logs [--json] [--data DIR] TEMPLATE [BUILD]\n"
        "       sandglass template base [--data DIR | --images DIR] [--mirror URL] [--rebuild]\n"
        "Build templates, which sandboxes are started from, and look after them.  `build` reads e2b.toml, if there is "
        "one, and\n"
        "e2b.Dockerfile or Dockerfile of a directory (default: the working directory), or a template that comes with "
        "the\n"
        "program by its NAME.  `check` says what is wrong with these files, and builds nothing.  `rollback` gives a "
        "tag to the\n"
        "build that had it before, or to a certain one (its id or number).  `base` makes the template `base` from "
        "Debian packages, unless "
        "it is\n"
        "there already.\n"
        "  --name NAME[:TAG]        name of the template (default: that of e2b.toml, else that of the directory)\n"
        "  --tag TAG                a tag of the build (default: default); may be given several times\n"
        "  --file FILE              another Dockerfile\n"
        "  --build-arg NAME=VALUE   the value of an ARG\n"
        "  --cpu-count N            processors of the sandboxes\n"
        "  --memory-mb MB           memory of the sandboxes\n"
        "  --start-cmd COMMAND      what runs in each sandbox from its start (default: ENTRYPOINT and CMD)\n"
        "  --ready-cmd COMMAND      succeeds once that is ready (default: HEALTHCHECK)\n"
        "  --no-cache               run all steps, also those that were run before\n"
        "  --mirror URL             where Debian packages come from\n"
        "  --rebuild                make the template base again\n";

/* ---- what they have in common ---- */

struct plea { /* one command of a few calls to the API */
        unsigned takes;
        int args_min, args_max;
        int (*run)(struct cli_api *api, const struct cli_options *o, struct err *err);
};

static int plea_main(const struct plea *p, int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err err = {0};
        struct cli_api api;
        int r;

        if (cli_options_parse(argc, argv, CLI_ANYWHERE | CLI_DATA | p->takes, &o, &err) < 0 || o.help ||
            o.arg_count < p->args_min || o.arg_count > p->args_max)
                return cli_usage(&o, template_usage, &err);
        if (api_open(&api, o.data, &err) < 0)
                return cli_fail("template", &err);
        r = p->run(&api, &o, &err);
        api_close(&api);
        return r < 0 ? cli_fail("template", &err) : r;
}

static int ask(struct cli_api *api, const char *method, const char *before, const char *name, const char *after,
               json_t *body /* stolen */, json_t **ret, struct err *err)
{
        AUTO_FREE char *target = api_target(before, name, after);
        int r = target ? api_request(api, method, target, body, ret, err) : err_set(err, ERR_LIMIT, "out of memory");

        json_decref(body);
        return r;
}

/* ---- list ---- */

static const char *first_name(const json_t *template)
{
        const char *name = json_string_value(json_array_get(json_object_get(template, "names"), 0));

        if (!name)
                name = json_string_value(json_array_get(json_object_get(template, "aliases"), 0));
        return name ? name : "-";
}

static long long number(const json_t *obj, const char *key)
{
        return (long long)json_integer_value(json_object_get(obj, key));
}

static void print_templates(const json_t *list)
{
        size_t i;
        json_t *t;

        (void)printf("%-32s %-22s %-9s %6s %4s %8s %9s\n", "NAME", "TEMPLATE", "STATUS", "BUILDS", "CPUS", "MEMORY",
                     "SANDBOXES");
        json_array_foreach ((json_t *)list, i, t)
                (void)printf("%-32s %-22s %-9s %6lld %4lld %5lld MB %9lld\n", first_name(t),
                             output_text(t, "templateID"), output_text(t, "buildStatus"), number(t, "buildCount"),
                             number(t, "cpuCount"), number(t, "memoryMB"), number(t, "spawnCount"));
}

static int run_list(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        json_t *list = NULL;
        int r = api_request(api, "GET", "/templates", NULL, &list, err);

        if (r == 0)
                output_list(list, o->json, print_templates);
        json_decref(list);
        return r;
}

int template_list_main(int argc, char **argv)
{
        return plea_main(&(struct plea){.takes = CLI_JSON, .run = run_list}, argc, argv);
}

/* ---- show ---- */

/* Tags of a build: "default, v1". */
static void print_tags(const json_t *tags, const char *build)
{
        bool is_first = true;
        size_t i;
        json_t *tag;

        json_array_foreach ((json_t *)tags, i, tag) {
                if (strcmp(output_text(tag, "buildID"), build) != 0)
                        continue;
                (void)printf("%s%s", is_first ? "" : ", ", output_text(tag, "tag"));
                is_first = false;
        }
        (void)puts(is_first ? "-" : "");
}

static void print_template(const json_t *t, const json_t *tags)
{
        size_t i;
        json_t *b;

        (void)printf("template  %s\nname      %s\npublic    %s\ncreated   %s\nsandboxes %lld\n\n",
                     output_text(t, "templateID"), first_name(t),
                     json_is_true(json_object_get(t, "public")) ? "yes" : "no", output_text(t, "createdAt"),
                     number(t, "spawnCount"));
        (void)printf("%-36s  %-8s  %-19.19s  %4s %8s  %s\n", "BUILD", "STATUS", "CREATED", "CPUS", "MEMORY", "TAGS");
        json_array_foreach (json_object_get(t, "builds"), i, b) {
                (void)printf("%-36s  %-8s  %-19.19s  %4lld %5lld MB  ", output_text(b, "buildID"),
                             output_text(b, "status"), output_text(b, "createdAt"), number(b, "cpuCount"),
                             number(b, "memoryMB"));
                print_tags(tags, output_text(b, "buildID"));
        }
}

static int run_show(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        json_t *template = NULL, *tags = NULL;
        int r = ask(api, "GET", "/templates/", o->args[0], "?limit=100", NULL, &template, err);

        if (r == 0)
                r = ask(api, "GET", "/templates/", o->args[0], "/tags", NULL, &tags, err);
        if (r == 0 && o->json) {
                (void)json_object_set(template, "tags", tags);
                output_json(template);
        } else if (r == 0) {
                print_template(template, tags);
        }
        json_decref(template);
        json_decref(tags);
        return r;
}

int template_show_main(int argc, char **argv)
{
        return plea_main(&(struct plea){.takes = CLI_JSON, .args_min = 1, .args_max = 1, .run = run_show}, argc, argv);
}

/* ---- tag, rollback, delete ---- */

static int run_tag(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        json_t *tags = json_array(), *body;
        int r;

        for (int i = 1; i < o->arg_count; i++)
                (void)json_array_append_new(tags, json_string(o->args[i]));
        body = json_pack("{s:s, s:o}", "target", o->args[0], "tags", tags);
        if (!body)
                return err_set(err, ERR_INVALID, "the name is not valid text");
        r = api_request(api, "POST", "/templates/tags", body, NULL, err);
        json_decref(body);
        return r;
}

int template_tag_main(int argc, char **argv)
{
        return plea_main(&(struct plea){.args_min = 2, .args_max = 100, .run = run_tag}, argc, argv);
}

static int run_rollback(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        const char *tag = o->tags ? json_string_value(json_array_get(o->tags, 0)) : "default";
        json_t *body = json_pack("{s:s}", "tag", tag), *got = NULL;
        uint32_t number;
        int r;

        if (body && o->arg_count > 1 && parse_u32(str_of(o->args[1]), 1, INT32_MAX, &number) == 0)
                (void)json_object_set_new(body, "build", json_integer(number));
        else if (body && o->arg_count > 1)
                (void)json_object_set_new(body, "buildID", json_string(o->args[1]));
        r = ask(api, "POST", "/templates/", o->args[0], "/rollback", body, &got, err);
        if (r == 0)
                (void)puts(output_text(got, "buildID"));
        json_decref(got);
        return r;
}

int template_rollback_main(int argc, char **argv)
{
        return plea_main(&(struct plea){.takes = CLI_TAG, .args_min = 1, .args_max = 2, .run = run_rollback}, argc,
                         argv);
}

static int run_delete(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        int code = 0;

        for (int i = 0; i < o->arg_count; i++)
                if (ask(api, "DELETE", "/templates/", o->args[i], "", NULL, NULL, err) < 0)
                        code = cli_fail("template", err);
        return code;
}

int template_delete_main(int argc, char **argv)
{
        return plea_main(&(struct plea){.args_min = 1, .args_max = 1000, .run = run_delete}, argc, argv);
}

/* ---- logs ---- */

static void print_entries(const json_t *entries)
{
        size_t i;
        json_t *e;

        json_array_foreach ((json_t *)entries, i, e)
                (void)printf("%s %-5s %s\n", output_text(e, "timestamp"), output_text(e, "level"),
                             output_text(e, "message"));
}

/* Of the newest build, unless one is named.  *ret_id and *ret_build are the caller's. */
static int find_build(struct cli_api *api, const struct cli_options *o, char **ret_id, char **ret_build,
                      struct err *err)
{
        json_t *template = NULL;
        const char *id, *build;
        int r = ask(api, "GET", "/templates/", o->args[0], "?limit=1", NULL, &template, err);

        if (r < 0)
                return r;
        id = json_string_value(json_object_get(template, "templateID"));
        build = o->arg_count > 1 ? o->args[1]
                                 : json_string_value(json_object_get(
                                           json_array_get(json_object_get(template, "builds"), 0), "buildID"));
        if (!id || !build) {
                r = err_set(err, ERR_NOT_FOUND, "'%s' has no build", o->args[0]);
        } else {
                *ret_id = strdup(id);
                *ret_build = strdup(build);
                r = *ret_id && *ret_build ? 0 : err_set(err, ERR_LIMIT, "out of memory");
        }
        json_decref(template);
        return r;
}

static int run_logs(struct cli_api *api, const struct cli_options *o, struct err *err)
{
        AUTO_FREE char *id = NULL, *build = NULL;
        json_t *all = json_array(), *page = NULL;
        size_t count = 1;
        int r = find_build(api, o, &id, &build, err);

        while (r == 0 && count) {
                AUTO_FREE char *before = NULL, *after = NULL;
                const json_t *entries;

                if (asprintf(&before, "/templates/%s/builds/", id) < 0 ||
                    asprintf(&after, "/status?limit=100&logsOffset=%zu", json_array_size(all)) < 0) {
                        r = err_set(err, ERR_LIMIT, "out of memory");
                        break;
                }
                r = ask(api, "GET", before, build, after, NULL, &page, err);
                entries = json_object_get(page, "logEntries");
                count = json_array_size(entries);
                if (!o->json)
                        print_entries(entries);
                (void)json_array_extend(all, (json_t *)entries);
                json_decref(page);
                page = NULL;
        }
        if (r == 0 && o->json)
                output_json(all);
        json_decref(all);
        return r;
}

int template_logs_main(int argc, char **argv)
{
        return plea_main(&(struct plea){.takes = CLI_JSON, .args_min = 1, .args_max = 2, .run = run_logs}, argc, argv);
}

/* ---- all of them ---- */

int template_cli_main(int argc, char **argv)
{
        static const struct {
                const char *word;
                int (*main)(int argc, char **argv);
        } words[] = {
                {"build", template_build_main},   {"check", template_check_main}, {"list", template_list_main},
                {"show", template_show_main},     {"tag", template_tag_main},     {"rollback", template_rollback_main},
                {"delete", template_delete_main}, {"logs", template_logs_main},
        };
        bool is_help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);

        for (size_t i = 0; argc > 1 && i < ARRAY_LEN(words); i++)
                if (strcmp(words[i].word, argv[1]) == 0)
                        return words[i].main(argc - 1, argv + 1);
        if (argc > 1 && !is_help)
                (void)fprintf(stderr, "sandglass template: %s: no such command\n", argv[1]);
        (void)fputs(template_usage, is_help ? stdout : stderr);
        return is_help ? 0 : 2;
}
