#include "cli/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

#define TIMEOUT_MAX_S (30u * 24 * 3600)
#define COUNT_MAX 100u

static const struct {
        const char *name;
        char letter;
        bool has_value;
        unsigned which; /* CLI_*; 0: always */
} all[] = {
        {"data", 'd', true, CLI_DATA},
        {"json", 'j', false, CLI_JSON},
        {"template", 't', true, CLI_TEMPLATE},
        {"timeout", 'T', true, CLI_TIMEOUT},
        {"env", 'e', true, CLI_ENV},
        {"workdir", 'w', true, CLI_CWD},
        {"user", 'u', true, CLI_USER},
        {"undo", 'U', false, CLI_UNDO},
        {"count", 'c', true, CLI_COUNT},
        {"name", 'n', true, CLI_NAME},
        {"files-only", 'f', false, CLI_FILES_ONLY},
        {"delete", 'D', false, CLI_DELETE},
        {"images", 'i', true, CLI_IMAGES},
        {"criu", 'C', true, CLI_CRIU},
        {"all", 'a', false, CLI_ALL},
        {"team", 'g', true, CLI_TEAM},
        {"save", 's', false, CLI_SAVE},
        {"remote", 'r', false, CLI_REMOTE},
        {"domain", 'o', true, CLI_DOMAIN},
        {"help", 'h', false, 0},
};

static int add_env(struct cli_options *o, const char *text, struct err *err)
{
        const char *equals = strchr(text, '=');
        char *name;
        int r;

        if (!equals || equals == text)
                return err_set(err, ERR_INVALID, "-e %s: must be NAME=VALUE", text);
        name = strndup(text, (size_t)(equals - text));
        if (!o->env)
                o->env = json_object();
        r = name ? json_object_set_new(o->env, name, json_string(equals + 1)) : -1;
        free(name);
        return r < 0 ? err_set(err, ERR_INVALID, "-e: must be UTF-8 text") : 0;
}

static int option_take(struct cli_options *o, int letter, char **argv, struct err *err)
{
        switch (letter) {
        case 'd': o->data = optarg; return 0;
        case 'j': o->json = true; return 0;
        case 't': o->template = optarg; return 0;
        case 'e': return add_env(o, optarg, err);
        case 'w': o->cwd = optarg; return 0;
        case 'u': o->user = optarg; return 0;
        case 'U': o->undo = true; return 0;
        case 'n': o->name = optarg; return 0;
        case 'f': o->files_only = true; return 0;
        case 'D': o->deletes = true; return 0;
        case 'i': o->images = optarg; return 0;
        case 'C': o->criu = optarg; return 0;
        case 'a': o->all = true; return 0;
        case 'g': o->team = optarg; return 0;
        case 's': o->save = true; return 0;
        case 'r': o->remote = true; return 0;
        case 'o': o->domain = optarg; return 0;
        case 'h': o->help = true; return 0;
        case 'c':
                if (parse_u32(str_of(optarg), 1, COUNT_MAX, &o->count) < 0)
                        return err_set(err, ERR_INVALID, "--count %s: must be from 1 to %u", optarg, COUNT_MAX);
                return 0;
        case 'T':
                if (parse_u32(str_of(optarg), 1, TIMEOUT_MAX_S, &o->timeout_s) < 0)
                        return err_set(err, ERR_INVALID, "--timeout %s: must be seconds from 1 to %u", optarg,
                                       TIMEOUT_MAX_S);
                return 0;
        case ':': return err_set(err, ERR_INVALID, "%s: needs a value", argv[optind - 1]);
        default:
                if (!str_starts(str_of(argv[optind - 1]), "--")) /* within "-xh" it is not past the word yet */
                        return err_set(err, ERR_INVALID, "-%c: unknown option", optopt);
                return err_set(err, ERR_INVALID, "%s: unknown option", argv[optind - 1]);
        }
}

int cli_options_parse(int argc, char **argv, unsigned takes, struct cli_options *ret, struct err *err)
{
        struct option long_form[ARRAY_LEN(all) + 1] = {0};
        char short_form[4 + 2 * ARRAY_LEN(all)] = "+:h";
        struct cli_options o = {0};
        size_t n = 0, m = strlen("+:h");
        int r = 0, letter;

        for (size_t i = 0; i < ARRAY_LEN(all); i++) {
                if (all[i].which && !(all[i].which & takes))
                        continue;
                long_form[n++] = (struct option){all[i].name, all[i].has_value, NULL, all[i].letter};
                if (strchr("tewu", all[i].letter)) { /* those with a customary short form */
                        short_form[m++] = all[i].letter;
                        short_form[m++] = ':';
                }
        }
        short_form[m] = 0;
        optind = 0; /* glibc: start over, also when called twice */
        while (r == 0 && (letter = getopt_long(argc, argv, short_form, long_form, NULL)) != -1)
                r = option_take(&o, letter, argv, err);
        o.args = argv + optind;
        o.arg_count = argc - optind;
        *ret = o; /* also on failure: --help may have come before it */
        return r;
}

void cli_options_done(struct cli_options *o)
{
        json_decref(o->env);
        o->env = NULL;
}

int cli_fail(const char *command, const struct err *err)
{
        (void)fprintf(stderr, "sandglass %s: %s\n", command, err->msg);
        return 1;
}

int cli_usage(const struct cli_options *o, const char *usage, const struct err *err)
{
        if (o->help) {
                (void)fputs(usage, stdout);
                return 0;
        }
        if (err->msg[0])
                (void)fprintf(stderr, "sandglass: %s\n", err->msg);
        (void)fputs(usage, stderr);
        return 2;
}
