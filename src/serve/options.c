#include "serve/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"

enum { OPT_DATA = 256, OPT_CONFIG, OPT_CHECK, OPT_MIRROR, OPT_STOP, OPT_INSECURE, OPT_TEXT };

/* Options from OPT_TEXT on are configuration keys under another name. */
static const struct text_option {
        const char *option, *key;
        bool is_path;
} texts[] = {
        {"listen", "listen", false},       {"tls-listen", "tls_listen", false}, {"domain", "domain", false},
        {"images", "images_dir", true},    {"tls-cert", "tls_cert", true},      {"tls-key", "tls_key", true},
        {"log-level", "log_level", false}, {"criu", "criu_dir", true},
};

static const struct option options[] = {
        {"data", required_argument, NULL, OPT_DATA},
        {"config", required_argument, NULL, OPT_CONFIG},
        {"check", no_argument, NULL, OPT_CHECK},
        {"mirror", required_argument, NULL, OPT_MIRROR},
        {"stop-sandboxes", no_argument, NULL, OPT_STOP},
        {"insecure-listen", no_argument, NULL, OPT_INSECURE},
        {"help", no_argument, NULL, 'h'},
        {"listen", required_argument, NULL, OPT_TEXT + 0},
        {"tls-listen", required_argument, NULL, OPT_TEXT + 1},
        {"domain", required_argument, NULL, OPT_TEXT + 2},
        {"images", required_argument, NULL, OPT_TEXT + 3},
        {"tls-cert", required_argument, NULL, OPT_TEXT + 4},
        {"tls-key", required_argument, NULL, OPT_TEXT + 5},
        {"log-level", required_argument, NULL, OPT_TEXT + 6},
        {"criu", required_argument, NULL, OPT_TEXT + 7},
        {NULL, 0, NULL, 0},
};

int usage_fault(const char *command, const char *usage, int which, char **argv)
{
        const char *word = argv[which == -1 ? optind : optind - 1], letter[] = {'-', (char)optopt, 0};

        if (which == '?' && !str_starts(str_of(word), "--")) /* within "-xh" optind is not past the word yet */
                word = letter;
        if (word)
                (void)fprintf(stderr, "sandglass %s: %s: %s\n", command, word,
                              which == ':'   ? "needs a value"
                              : which == '?' ? "unknown option"
                                             : "unexpected argument");
        (void)fputs(usage, stderr);
        return 2;
}

char *path_absolute(const char *path)
{
        AUTO_FREE char *here = NULL;
        char *full;

        if (path[0] == '/')
                return strdup(path);
        here = getcwd(NULL, 0);
        if (!here)
                return NULL;
        return asprintf(&full, "%s/%s", strcmp(here, "/") == 0 ? "" : here, path) < 0 ? NULL : full;
}

static int replace(char **to, char *value, struct err *err)
{
        if (!value)
                return err_set(err, ERR_LIMIT, "out of memory");
        free(*to);
        *to = value;
        return 0;
}

struct given { /* what the command line says, before it is applied */
        char *data, *config;
        json_t *over; /* configuration keys that win over the file */
};

static void given_done(struct given *g)
{
        free(g->data);
        free(g->config);
        json_decref(g->over);
}

static int take_text(struct given *g, const struct text_option *t, const char *value, struct err *err)
{
        AUTO_FREE char *path = t->is_path ? path_absolute(value) : strdup(value);

        if (!path || json_object_set_new(g->over, t->key, json_string(path)) < 0)
                return err_set(err, ERR_INVALID, "--%s: not valid text", t->option);
        return 0;
}

static int take_option(int which, struct given *g, struct serve_options *o, char **argv, struct err *err)
{
        switch (which) {
        case OPT_DATA: return replace(&g->data, path_absolute(optarg), err);
        case OPT_CONFIG: return replace(&g->config, strdup(optarg), err);
        case OPT_MIRROR: return replace(&o->mirror, strdup(optarg), err);
        case OPT_CHECK: o->check = true; return 0;
        case OPT_STOP: (void)json_object_set_new(g->over, "stop_sandboxes", json_true()); return 0;
        case OPT_INSECURE: (void)json_object_set_new(g->over, "insecure_listen", json_true()); return 0;
        case 'h': o->help = true; return 0;
        case ':': return err_set(err, ERR_INVALID, "%s: needs a value", argv[optind - 1]);
        case '?':
                if (!str_starts(str_of(argv[optind - 1]), "--")) /* the same */
                        return err_set(err, ERR_INVALID, "-%c: unknown option", optopt);
                return err_set(err, ERR_INVALID, "%s: unknown option", argv[optind - 1]);
        default: return take_text(g, &texts[which - OPT_TEXT], optarg, err);
        }
}

static int take_file(struct serve_options *o, const char *path, struct err *err)
{
        json_error_t where;
        json_t *obj = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
        int r;

        if (!obj)
                return err_set(err, ERR_INVALID, "%s: line %d: %s", path, where.line, where.text);
        r = conf_apply_json(&o->conf, obj, err);
        if (json_object_get(obj, "domain"))
                o->domain_is_given = true;
        if (json_object_get(obj, "control_uid") || json_object_get(obj, "edge_uid") ||
            json_object_get(obj, "builder_uid") || json_object_get(obj, "puller_uid") ||
            json_object_get(obj, "agent_uid"))
                o->uids_are_given = true;
        json_decref(obj);
        return r < 0 ? err_wrap(err, "%s", path) : 0;
}

static int build(struct serve_options *o, const struct given *g, struct err *err)
{
        int r;

        r = conf_defaults(&o->conf, g->data ? g->data : SERVE_DEFAULT_DATA, err);
        if (r == 0 && g->config)
                r = take_file(o, g->config, err);
        if (r == 0)
                r = conf_apply_json(&o->conf, g->over, err);
        if (r == 0)
                r = conf_check(&o->conf, err);
        if (json_object_get(g->over, "domain"))
                o->domain_is_given = true;
        return r;
}

int serve_options_parse(int argc, char **argv, struct serve_options *ret, struct err *err)
{
        AUTO(given_done) struct given g = {.over = json_object()};
        struct serve_options o = {.notify = getenv("NOTIFY_SOCKET")};
        int r = 0, which;

        optind = 0; /* glibc: start over, also when called twice */
        while (r == 0 && (which = getopt_long(argc, argv, "+:h", options, NULL)) != -1)
                r = take_option(which, &g, &o, argv, err);
        if (r == 0 && optind < argc)
                r = err_set(err, ERR_INVALID, "%s: unexpected argument", argv[optind]);
        if (r == 0)
                r = build(&o, &g, err);
        if (r < 0) {
                serve_options_done(&o);
                return r;
        }
        *ret = o;
        return 0;
}

void serve_options_done(struct serve_options *o)
{
        conf_done(&o->conf);
        free(o->mirror);
        o->mirror = NULL;
}
