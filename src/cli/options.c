#include "cli/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

#define TIMEOUT_MAX_S (30u * 24 * 3600)
#define COUNT_MAX 100u
#define SIZE_MAX_GIVEN 1000000000u /* what is too large for it, the server knows */

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
        {"tag", 'G', true, CLI_TAG},
        {"file", 'F', true, CLI_FILE},
        {"build-arg", 'B', true, CLI_BUILD},
        {"cpu-count", 'P', true, CLI_BUILD},
        {"memory-mb", 'M', true, CLI_BUILD},
        {"start-cmd", 'S', true, CLI_BUILD},
        {"ready-cmd", 'R', true, CLI_BUILD},
        {"no-cache", 'N', false, CLI_BUILD},
        {"metadata", 'm', true, CLI_METADATA},
        {"follow", 'l', false, CLI_FOLLOW},
        {"language", 'L', true, CLI_CODE | CLI_NOTEBOOK},
        {"context", 'x', true, CLI_CODE},
        {"save", 'v', true, CLI_CODE},
        {"show", 'W', true, CLI_CODE},
        {"out", 'O', true, CLI_NOTEBOOK},
        {"sandbox", 'b', true, CLI_NOTEBOOK},
        {"keep", 'k', false, CLI_NOTEBOOK | CLI_AGENT},
        {"allow-errors", 'A', false, CLI_NOTEBOOK},
        {"team", 'z', false, CLI_SCOPE},
        {"user", 'y', false, CLI_SCOPE},
        {"mode", '1', true, CLI_AGENT},
        {"resume", '2', true, CLI_AGENT},
        {"kill", '3', false, CLI_AGENT},
        {"pass", '4', true, CLI_AGENT},
        {"permissions", '5', true, CLI_AGENT},
        {"max-turns", '6', true, CLI_AGENT},
        {"help", 'h', false, 0},
};

/* NAME=VALUE into *to, an object that is made when it is needed. */
static int add_pair(json_t **to, const char *option, const char *text, struct err *err)
{
        const char *equals = strchr(text, '=');
        char *name;
        int r;

        if (!equals || equals == text)
                return err_set(err, ERR_INVALID, "%s %s: must be NAME=VALUE", option, text);
        name = strndup(text, (size_t)(equals - text));
        if (!*to)
                *to = json_object();
        r = name ? json_object_set_new(*to, name, json_string(equals + 1)) : -1;
        free(name);
        return r < 0 ? err_set(err, ERR_INVALID, "%s: must be UTF-8 text", option) : 0;
}

/* Into *to, an array that is made when it is needed. */
static int add_text(json_t **to, const char *option, const char *text, struct err *err)
{
        if (!*to)
                *to = json_array();
        if (json_array_append_new(*to, json_string(text)) < 0)
                return err_set(err, ERR_INVALID, "%s: must be UTF-8 text", option);
        return 0;
}

static int take_size(const char *option, uint32_t *to, struct err *err)
{
        if (parse_u32(str_of(optarg), 1, SIZE_MAX_GIVEN, to) < 0)
                return err_set(err, ERR_INVALID, "%s %s: must be a number from 1", option, optarg);
        return 0;
}

/* Those of templates. */
static int build_option_take(struct cli_options *o, int letter, struct err *err)
{
        switch (letter) {
        case 'G': return add_text(&o->tags, "--tag", optarg, err);
        case 'F': o->file = optarg; return 0;
        case 'B': return add_pair(&o->build_args, "--build-arg", optarg, err);
        case 'P': return take_size("--cpu-count", &o->cpu_count, err);
        case 'M': return take_size("--memory-mb", &o->memory_mb, err);
        case 'S': o->start_cmd = optarg; return 0;
        case 'R': o->ready_cmd = optarg; return 0;
        default: o->no_cache = true; return 0; /* N */
        }
}

/* Those of code and notebooks. */
static void code_option_take(struct cli_options *o, int letter)
{
        switch (letter) {
        case 'L': o->language = optarg; break;
        case 'x': o->context = optarg; break;
        case 'v': o->save_dir = optarg; break;
        case 'W': o->show = optarg; break;
        case 'O': o->out = optarg; break;
        case 'b': o->sandbox = optarg; break;
        case 'k': o->keep = true; break;
        default: o->allow_errors = true; break; /* A */
        }
}

/* Those of agents. */
static int agent_option_take(struct cli_options *o, int letter, struct err *err)
{
        switch (letter) {
        case '1': o->mode = optarg; return 0;
        case '2': o->resume = optarg; return 0;
        case '3': o->kills = true; return 0;
        case '4': return add_text(&o->pass, "--pass", optarg, err);
        case '5': o->permissions = optarg; return 0;
        default: return take_size("--max-turns", &o->max_turns, err); /* 6 */
        }
}

static int option_take(struct cli_options *o, int letter, char **argv, struct err *err)
{
        switch (letter) {
        case 'd': o->data = optarg; return 0;
        case 'j': o->json = true; return 0;
        case 't': o->template = optarg; return 0;
        case 'e': return add_pair(&o->env, "-e", optarg, err);
        case 'm': return add_pair(&o->metadata, "--metadata", optarg, err);
        case 'l': o->follow = true; return 0;
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
        case 'z': o->of_team = true; return 0;
        case 'y': o->of_user = true; return 0;
        case 'h': o->help = true; return 0;
        case 'G':
        case 'F':
        case 'B':
        case 'P':
        case 'M':
        case 'S':
        case 'R':
        case 'N': return build_option_take(o, letter, err);
        case 'L':
        case 'x':
        case 'v':
        case 'W':
        case 'O':
        case 'b':
        case 'k':
        case 'A': code_option_take(o, letter); return 0;
        case '1':
        case '2':
        case '3':
        case '4':
        case '5':
        case '6': return agent_option_take(o, letter, err);
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
        while (r == 0 &&
               (letter = getopt_long(argc, argv, short_form + !!(takes & CLI_ANYWHERE), long_form, NULL)) != -1)
                r = option_take(&o, letter, argv, err);
        o.args = argv + optind;
        o.arg_count = argc - optind;
        *ret = o; /* also on failure: --help may have come before it */
        return r;
}

void cli_options_done(struct cli_options *o)
{
        json_decref(o->env);
        json_decref(o->build_args);
        json_decref(o->metadata);
        json_decref(o->tags);
        json_decref(o->pass);
        o->env = o->build_args = o->metadata = o->tags = o->pass = NULL;
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
