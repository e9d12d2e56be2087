#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/doctor/checks.h"
#include "cli/cli.h"
#include "cli/conf.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/doctor/remote_checks.h"
#include "engine/namespace/probe.h"

const char doctor_usage[] =
        "usage: sandglass doctor [--json] [--data DIR] [--images DIR] [--criu DIR]\n"
        "       sandglass doctor --remote [--json] [--data DIR | --domain NAME[:PORT]]\n"
        "Check what this host can do, and say how to fix what is missing.  The exit code is 1 if something needed is "
        "missing.\n"
        "  --data DIR     data directory of the server (default " CLI_DEFAULT_DATA ")\n"
        "  --images DIR   layers and templates, as given to `serve` (default: images in the data directory)\n"
        "  --criu DIR     program for pausing with memory, as given to `serve` (default: criu in the data directory)\n"
        "  --remote       check whether clients on other machines can use the server: names, certificate, ports, API; "
        "and\n"
        "                 print what they export.  On the server's machine, and on theirs\n"
        "  --domain NAME  the server's domain (default: that of the server in the data directory, or E2B_DOMAIN)\n";

static const char *const words[] = {[CHECK_OK] = "ok", [CHECK_MISSING] = "missing", [CHECK_NOTE] = "note"};

struct report {
        json_t *list; /* owned; NULL: lines are printed instead */
        unsigned missing;
};

static void doctor_add(struct report *all, const char *name, const struct check_result *r)
{
        all->missing += r->state == CHECK_MISSING;
        if (all->list) {
                (void)json_array_append_new(all->list, json_pack("{s:s, s:s, s:s, s:s?}", "name", name, "state",
                                                                 words[r->state], "detail", r->detail, "fix",
                                                                 r->state == CHECK_OK ? NULL : r->fix));
                return;
        }
        (void)printf("%-8s %-24s %s\n", words[r->state], name, r->detail);
        if (r->fix && r->state != CHECK_OK)
                (void)printf("%-33s fix: %s\n", "", r->fix);
        (void)fflush(stdout); /* the checks fork */
}

static void add_engine(struct report *all)
{
        struct probe_result found[PROBES_MAX];
        size_t n;

        if (geteuid() != 0) { /* the others would fail for want of it, and blame the kernel */
                doctor_add(all, "root",
                           &(struct check_result){.state = CHECK_MISSING,
                                                  .detail = "not root; nothing else that the engine needs was checked",
                                                  .fix = "sudo sandglass doctor"});
                return;
        }
        n = probe_all(found);
        for (size_t i = 0; i < n; i++) {
                struct check_result r = {.state = found[i].ok          ? CHECK_OK
                                                  : found[i].is_needed ? CHECK_MISSING
                                                                       : CHECK_NOTE,
                                         .fix = found[i].fix};

                (void)snprintf(r.detail, sizeof(r.detail), "%s", found[i].detail[0] ? found[i].detail : "works");
                doctor_add(all, found[i].name, &r);
        }
}

static void add_rest(struct report *all, const struct check_env *env)
{
        for (const struct check *c = checks; c->name; c++) {
                struct check_result r = {0};

                c->run(env, &r);
                doctor_add(all, c->name, &r);
        }
}

/* exports: stolen; NULL: there are none to print. */
static void doctor_end(struct report *all, json_t *exports)
{
        json_t *obj;

        if (!all->list) {
                (void)printf("\n%s\n", all->missing ? "Something needed is missing." : "Everything needed is there.");
                json_decref(exports);
                return;
        }
        obj = json_pack("{s:b, s:o, s:o*}", "ok", all->missing == 0, "checks", all->list, "exports", exports);
        output_json(obj);
        json_decref(obj);
}

/* What clients on other machines set.  Keys are not printed: everybody should have their own. */
static json_t *remote_exports(const struct remote_env *env)
{
        return json_pack("{s:s, s:s, s:s*, s:s*}", "E2B_DOMAIN", env->domain, "E2B_API_KEY", "e2b_...",
                         "NODE_EXTRA_CA_CERTS", env->authority ? "/path/to/ca.pem" : NULL, "SSL_CERT_FILE",
                         env->authority ? "/path/to/ca.pem" : NULL);
}

static void print_exports(const struct remote_env *env, const json_t *exports)
{
        const char *name;
        json_t *value;

        (void)printf("\nClients on other machines set:\n\n");
        json_object_foreach ((json_t *)exports, name, value)
                (void)printf("  export %s=%s\n", name, json_string_value(value));
        (void)printf("\n`sandglass key create NAME` on the server makes a key.\n");
        if (env->authority)
                (void)printf("ca.pem is a copy of %s.\n", env->authority);
}

static int doctor_remote(const struct cli_options *o)
{
        AUTO(remote_env_done) struct remote_env env = {0};
        struct report all = {0};
        struct err err = {0};
        json_t *exports;

        if (remote_env_find(o, &env, &err) < 0)
                return cli_fail("doctor", &err);
        if (o->json)
                all.list = json_array();
        for (const struct remote_check *c = remote_checks; c->name; c++) {
                struct check_result r = {0};

                c->run(&env, &r);
                doctor_add(&all, c->name, &r);
        }
        exports = remote_exports(&env);
        if (!o->json)
                print_exports(&env, exports);
        doctor_end(&all, exports);
        return all.missing ? 1 : 0;
}

int doctor_main(int argc, char **argv)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        AUTO_FREE char *images = NULL, *criu = NULL;
        struct check_env env;
        struct report all = {0};
        struct err err = {0};

        if (cli_options_parse(argc, argv, CLI_DATA | CLI_JSON | CLI_IMAGES | CLI_CRIU | CLI_REMOTE | CLI_DOMAIN, &o,
                              &err) < 0 ||
            o.help || o.arg_count || (o.domain && !o.remote))
                return cli_usage(&o, doctor_usage, &err);
        if (o.remote)
                return doctor_remote(&o);
        env.data_dir = o.data ? o.data : CLI_DEFAULT_DATA;
        if (asprintf(&images, "%s/images", env.data_dir) < 0 || asprintf(&criu, "%s/criu", env.data_dir) < 0)
                return cli_fail("doctor", &(struct err){.msg = "out of memory"});
        env.images_dir = o.images ? o.images : images;
        env.criu_dir = o.criu ? o.criu : criu;
        if (o.json)
                all.list = json_array();
        add_engine(&all);
        add_rest(&all, &env);
        doctor_end(&all, NULL);
        return all.missing ? 1 : 0;
}
