#include "gateway/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"

const char gateway_usage[] =
        "usage: mcp-gateway --config JSON [OPTION...]\n"
        "       mcp-gateway pull SERVER...\n"
        "Several MCP servers behind one endpoint.  --config starts the gateway in the background and ends when the "
        "servers run or have failed.\n"
        "pull installs servers ahead of time.  The configuration is an object: {\"SERVER\": {...}, "
        "\"github/OWNER/REPOSITORY\": {\"runCmd\": \"...\"}}.\n"
        "Clients send the text of the variable " GATEWAY_TOKEN_VARIABLE " as bearer token.\n"
        "--listen ADDR:PORT   default 0.0.0.0:50005\n"
        "--dir DIR            where servers are installed (default /opt/mcp-servers)\n"
        "--token-file FILE    where the token is kept (default /etc/mcp-gateway/.token)\n"
        "--log FILE           default /var/log/mcp-gateway.log\n"
        "--wait SECONDS       how long to wait for the servers (default 50); they go on starting after that\n";

static int take(const char *word, const char *value, struct gateway_command *c)
{
        const struct {
                const char *word, **value;
        } texts[] = {{"--config", &c->config},
                     {"--listen", &c->listen},
                     {"--dir", &c->install_dir},
                     {"--token-file", &c->token_file},
                     {"--log", &c->log_file}};

        if (!value)
                return -EINVAL;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                if (strcmp(texts[i].word, word) == 0) {
                        *texts[i].value = value;
                        return 0;
                }
        return strcmp(word, "--wait") == 0 ? parse_u32(str_of(value), 0, 3600, &c->wait_s) : -EINVAL;
}

int gateway_options_parse(int argc, char **argv, struct gateway_command *ret)
{
        const char *github = getenv("MCP_GATEWAY_GITHUB_URL");

        *ret = (struct gateway_command){.listen = "0.0.0.0:50005",
                                        .install_dir = "/opt/mcp-servers",
                                        .token_file = "/etc/mcp-gateway/.token",
                                        .log_file = "/var/log/mcp-gateway.log",
                                        .token = getenv(GATEWAY_TOKEN_VARIABLE),
                                        .github_url = github ? github : "https://github.com",
                                        .wait_s = 50};
        for (int i = 1; i < argc; i += 2) {
                if (strcmp(argv[i], "pull") == 0 && i + 1 < argc && !ret->config) {
                        ret->names = argv + i + 1;
                        return 0;
                }
                if (take(argv[i], i + 1 < argc ? argv[i + 1] : NULL, ret) < 0)
                        return -EINVAL;
        }
        return ret->config ? 0 : -EINVAL;
}
