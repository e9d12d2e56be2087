/* options.h - the command line of mcp-gateway. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define GATEWAY_TOKEN_VARIABLE "GATEWAY_ACCESS_TOKEN"

struct gateway_command {
        const char *config; /* JSON; NULL: `pull` */
        char *const *names; /* of `pull`: NULL-terminated */
        const char *listen, *install_dir, *token_file, *log_file;
        char *token;            /* from GATEWAY_TOKEN_VARIABLE */
        const char *github_url; /* from MCP_GATEWAY_GITHUB_URL: where repositories come from */
        uint32_t wait_s;
};

extern const char gateway_usage[];
int gateway_options_parse(int argc, char **argv, struct gateway_command *ret); /* -EINVAL: the words are off */
