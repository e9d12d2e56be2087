#include "cli/mcp/options.h"

#include <string.h>

#include "base/err.h"
#include "cli/mcp/print_config.h"

static const char default_config[] = "json";

/* The value of `--name VALUE` or `--name=VALUE` at argv[*i]; NULL: it has none. */
static const char *value_of(int argc, char **argv, int *i)
{
        const char *equals = strchr(argv[*i], '=');

        if (equals)
                return equals + 1;
        return *i + 1 < argc ? argv[++*i] : NULL;
}

static bool is_option(const char *word, const char *name)
{
        size_t n = strlen(name);

        return strncmp(word, name, n) == 0 && (word[n] == '\0' || word[n] == '=');
}

static int take(int argc, char **argv, int *i, struct mcp_command *c, struct err *err)
{
        const struct {
                const char *name, **value;
        } texts[] = {{"--data", &c->platform.data_dir},
                     {"--http", &c->http},
                     {"--token-file", &c->token_file},
                     {"--files", &c->platform.files_dir}};
        const struct {
                const char *name;
                bool *flag;
        } flags[] = {{"--kill-on-exit", &c->platform.kills_on_exit},
                     {"--no-token", &c->has_no_token},
                     {"--help", &c->is_help},
                     {"-h", &c->is_help}};
        const char *word = argv[*i];

        for (size_t k = 0; k < ARRAY_LEN(flags); k++)
                if (strcmp(word, flags[k].name) == 0) {
                        *flags[k].flag = true;
                        return 0;
                }
        if (is_option(word, "--print-config")) { /* its value may be left out */
                c->print_config = strchr(word, '=') ? strchr(word, '=') + 1 : default_config;
                return 0;
        }
        for (size_t k = 0; k < ARRAY_LEN(texts); k++)
                if (is_option(word, texts[k].name)) {
                        *texts[k].value = value_of(argc, argv, i);
                        return *texts[k].value && (*texts[k].value)[0]
                                       ? 0
                                       : err_set(err, ERR_INVALID, "option '%s' needs a value", texts[k].name);
                }
        return err_set(err, ERR_INVALID, word[0] == '-' ? "unknown option '%s'" : "unexpected argument '%s'", word);
}

int mcp_options_parse(int argc, char **argv, struct mcp_command *ret, struct err *err)
{
        int r = 0;

        *ret = (struct mcp_command){0};
        for (int i = 1; i < argc && r == 0; i++)
                r = take(argc, argv, &i, ret, err);
        if (r < 0 || ret->is_help)
                return r;
        if (ret->print_config && !print_config_knows(ret->print_config))
                return err_set(err, ERR_INVALID, "--print-config: json, vscode, claude-code, codex or windsurf");
        if (!ret->http && (ret->token_file || ret->has_no_token))
                return err_set(err, ERR_INVALID, "a token is for --http only");
        if (ret->token_file && ret->has_no_token)
                return err_set(err, ERR_INVALID, "--token-file and --no-token exclude each other");
        return 0;
}
