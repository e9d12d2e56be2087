/* mcp.c - `sandglass mcp`: the platform as an MCP server, for assistants. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/mcp/options.h"
#include "cli/mcp/platform.h"
#include "cli/mcp/print_config.h"
#include "cli/mcp/token.h"
#include "io/listener.h"
#include "io/loop.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/serve.h"
#include "mcp/protocol/stdio.h"

const char mcp_usage[] =
        "usage: sandglass mcp [--files DIR] [--kill-on-exit] [--data DIR]\n"
        "       sandglass mcp --http [ADDR:]PORT [--token-file FILE | --no-token] [--files DIR] [--kill-on-exit] "
        "[--data DIR]\n"
        "       sandglass mcp --print-config[=ASSISTANT] [OPTION...]\n"
        "Serve sandboxes to an AI assistant, by the Model Context Protocol: on stdin and stdout, or by HTTP at /mcp.\n"
        "The server ends when stdin ends.  Sandboxes go on, and end when their time is up.\n"
        "  --http [ADDR:]PORT          serve by HTTP (default address 127.0.0.1; port 0: the system chooses a port)\n"
        "  --token-file FILE           clients send the text of this file as bearer token (default\n"
        "                              ~/.config/sandglass/mcp-token, made at the first use)\n"
        "  --no-token                  ask for no token; only on a loopback address\n"
        "  --files DIR                 let the assistant copy files between this directory and sandboxes\n"
        "  --kill-on-exit              end the sandboxes that were made here when the server ends\n"
        "  --print-config[=ASSISTANT]  print the settings for an assistant: json (the default; Claude Desktop, Cursor "
        "and\n"
        "                              others), vscode, claude-code, codex or windsurf\n";

/* ---- stdin and stdout ---- */

static void on_client_end(void *arg)
{
        loop_stop(arg);
}

static int serve_stdio(struct mcp *m, struct err *err)
{
        struct stdio *io = NULL;
        int r = mcp_serve_start(m, -1, err);

        if (r == 0)
                r = stdio_start(m, STDIN_FILENO, STDOUT_FILENO, on_client_end, m->loop, &io, err);
        if (r == 0)
                r = mcp_serve_run(m, err);
        io = stdio_free(io);
        mcp_serve_end(m);
        return r;
}

/* ---- HTTP ---- */

/* An address that only programs of this machine reach. */
static bool is_loopback(const char *address)
{
        return strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]:", 6) == 0;
}

static int serve_http(struct mcp *m, const struct mcp_command *cmd, struct err *err)
{
        bool has_address = strchr(cmd->http, ':') != NULL;
        AUTO_FREE char *address = NULL, *token_file = NULL;
        AUTO_CLOSE int fd = -1;
        uint16_t port = 0;
        int r;

        if (asprintf(&address, "%s%s", has_address ? "" : "127.0.0.1:", cmd->http) < 0)
                return err_set(err, ERR_LIMIT, "out of memory");
        if (cmd->has_no_token && !is_loopback(address))
                return err_set(err, ERR_INVALID, "--no-token is for loopback addresses only: others reach %s", address);
        r = cmd->has_no_token ? 0 : token_file_of(cmd->token_file, &token_file, err);
        if (r == 0)
                r = listen_tcp(str_of(address), false, &fd, err);
        if (r < 0)
                return r;
        m->opt.token_file = token_file;
        m->opt.is_local = is_loopback(address);
        if (socket_port(fd, &port) == 0) {
                char *colon = strrchr(address, ':');

                (void)fprintf(stderr, "http://%.*s:%u/mcp\n", (int)(colon - address), address, port);
        }
        if (token_file)
                (void)fprintf(stderr, "bearer token: the text of %s\n", token_file);
        r = mcp_serve_start(m, TAKE_FD(fd), err);
        if (r == 0)
                r = mcp_serve_run(m, err);
        mcp_serve_end(m);
        m->opt.token_file = NULL;
        return r;
}

/* ---- the command ---- */

static int serve(const struct mcp_command *cmd, struct err *err)
{
        struct platform platform;
        struct mcp m = {.opt = {.workspace = "/"}};
        int r = platform_open(&platform, &cmd->platform, err);

        if (r == 0)
                r = loop_create(&m.loop);
        if (r == 0)
                r = platform_start(&platform, &m, err);
        if (r == 0)
                r = cmd->http ? serve_http(&m, cmd, err) : serve_stdio(&m, err);
        platform_close(&platform);
        m.loop = loop_free(m.loop);
        return r;
}

int mcp_main(int argc, char **argv)
{
        struct mcp_command cmd;
        struct err err = {0};
        int r = mcp_options_parse(argc, argv, &cmd, &err);

        if (r == 0 && cmd.is_help) {
                (void)fputs(mcp_usage, stdout);
                return 0;
        }
        if (r < 0) {
                (void)fprintf(stderr, "sandglass mcp: %s\n%s", err.msg, mcp_usage);
                return 2;
        }
        log_setup("mcp", LOG_WARN);
        r = cmd.print_config ? print_config(&cmd, &err) : serve(&cmd, &err);
        if (r < 0)
                (void)fprintf(stderr, "sandglass mcp: %s\n", err.msg);
        return r < 0 ? 1 : 0;
}
