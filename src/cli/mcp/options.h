/* options.h - the options of `sandglass mcp`.  Pure. */
#pragma once
#include <stdbool.h>

#include "cli/mcp/platform.h"

struct mcp_command {
        struct platform_options platform;
        const char *http;         /* ADDR:PORT or PORT; NULL: stdin and stdout */
        const char *token_file;   /* NULL: the usual one */
        const char *print_config; /* for which assistant; NULL: serve */
        bool has_no_token, is_help;
};

/* Borrowed from argv.  ERR_INVALID names the option. */
int mcp_options_parse(int argc, char **argv, struct mcp_command *ret, struct err *err);
