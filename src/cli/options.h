/* options.h - options shared by the client commands.  Pure. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

enum cli_option { /* which of them a command takes */
                  CLI_DATA = 1,
                  CLI_JSON = 2,
                  CLI_TEMPLATE = 4,
                  CLI_TIMEOUT = 8,
                  CLI_ENV = 16,
                  CLI_CWD = 32,
                  CLI_USER = 64,
                  CLI_UNDO = 128,
                  CLI_COUNT = 256,
                  CLI_NAME = 512,
                  CLI_FILES_ONLY = 1024,
                  CLI_DELETE = 2048,
                  CLI_IMAGES = 4096,
                  CLI_CRIU = 8192,
                  CLI_ALL = 16384,
                  CLI_TEAM = 32768,
                  CLI_SAVE = 65536,
                  CLI_REMOTE = 131072,
                  CLI_DOMAIN = 262144,
                  CLI_TAG = 1 << 19,
                  CLI_FILE = 1 << 20,
                  CLI_BUILD = 1 << 21, /* --build-arg, --cpu-count, --memory-mb, --start-cmd, --ready-cmd, --no-cache */
                  CLI_METADATA = 1 << 22,
                  CLI_FOLLOW = 1 << 23,
                  CLI_CODE = 1 << 25,     /* --language, --context, --save DIR, --show */
                  CLI_NOTEBOOK = 1 << 26, /* --language, --out, --sandbox, --keep, --allow-errors */
                  CLI_SCOPE = 1 << 29,    /* --team, --user, both without a value */
                  CLI_AGENT = 1 << 27,    /* --mode, --resume, --keep, --kill, --pass, --permissions, --max-turns */
                  CLI_ANYWHERE = 1 << 24, /* no option: options may follow the arguments, too */
};

struct cli_options {
        /* Borrowed from argv; NULL: not given. */
        const char *data, *template, *cwd, *user, *name, *images, *criu, *team, *domain, *file, *start_cmd, *ready_cmd;
        const char *language, *context, *save_dir, *show, *out, *sandbox;
        const char *mode, *resume, *permissions;
        uint32_t timeout_s, count, cpu_count, memory_mb, max_turns; /* 0: not given */
        json_t *env, *build_args, *metadata;                        /* owned; {name: text}, NULL: none */
        json_t *tags, *pass;                                        /* owned; [text], NULL: none */
        bool json, undo, files_only, deletes, all, save, remote, no_cache, follow, keep, kills, allow_errors, of_team,
                of_user, help;
        char **args; /* what follows the options (and "--"), NULL-terminated: argv's own */
        int arg_count;
};

/* ERR_INVALID names the option. */
int cli_options_parse(int argc, char **argv, unsigned takes, struct cli_options *ret, struct err *err);
void cli_options_done(struct cli_options *o);
int cli_fail(const char *command, const struct err *err); /* err's words on stderr; the exit code, 1 */
/* Print the usage where it belongs and return the exit code: 0 after --help, else err's words first and 2. */
int cli_usage(const struct cli_options *o, const char *usage, const struct err *err);
