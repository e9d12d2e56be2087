/* main.c - the MCP tool server: a program inside sandboxes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "io/listener.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/serve.h"
#include "mcp/tools/program.h"
#include "mcp/tools/sandbox_tools.h"
#include "version.h"

static const char usage[] =
        "usage: sandglass-mcp [--listen ADDR:PORT] [--workspace DIR] (--token-file FILE | --no-token) [OPTION...]\n"
        "The MCP tool server of a sandbox: /mcp speaks streamable HTTP, /sse the older transport.\n"
        "--listen ADDR:PORT   where to listen (default 0.0.0.0:6060; port 0: the kernel chooses, and the address is "
        "printed)\n"
        "--workspace DIR      where commands begin (default /workspace)\n"
        "--token-file FILE    clients send the text of this file as bearer token; without the file nobody may ask\n"
        "--no-token           ask for no token\n"
        "Clients that leave without a word (times in seconds):\n"
        "--rest-after S       end the shell of a session that has had no call and no connection for so long (default "
        "600)\n"
        "--end-after S        end the session after so long (default 3600), unless background commands run in it\n"
        "--keep-answers S     how long an answer waits for a client whose connection broke (default 60)\n";

#define SECONDS_MAX 1000000u

struct options {
        const char *listen, *workspace, *token_file, *rest_after, *end_after, *keep_answers;
        bool has_no_token;
};

static int options_parse(int argc, char **argv, struct options *ret)
{
        const struct {
                const char *name, **value;
        } all[] = {{"--listen", &ret->listen},         {"--workspace", &ret->workspace},
                   {"--token-file", &ret->token_file}, {"--rest-after", &ret->rest_after},
                   {"--end-after", &ret->end_after},   {"--keep-answers", &ret->keep_answers}};

        for (int i = 1; i < argc; i++) {
                const char **value = NULL;

                for (size_t k = 0; k < ARRAY_LEN(all); k++)
                        if (strcmp(argv[i], all[k].name) == 0)
                                value = all[k].value;
                if (value && i + 1 < argc)
                        *value = argv[++i];
                else if (strcmp(argv[i], "--no-token") == 0)
                        ret->has_no_token = true;
                else
                        return -EINVAL;
        }
        return (ret->token_file != NULL) != ret->has_no_token ? 0 : -EINVAL;
}

/* Text NULL: not given, and *ret_ms stays 0. */
static int take_seconds(const char *text, uint32_t *ret_ms)
{
        uint32_t s = 0;
        int r = text ? parse_u32(str_of(text), 1, SECONDS_MAX, &s) : 0;

        *ret_ms = s * 1000;
        return r;
}

static int mcp_options_of(const struct options *opt, struct mcp_options *ret)
{
        *ret = (struct mcp_options){.workspace = opt->workspace, .token_file = opt->token_file};
        return take_seconds(opt->rest_after, &ret->rest_after_ms) < 0 ||
                               take_seconds(opt->end_after, &ret->end_after_ms) < 0 ||
                               take_seconds(opt->keep_answers, &ret->kept_ms) < 0
                       ? -EINVAL
                       : 0;
}

static int open_port(const char *address, int *ret_fd, struct err *err)
{
        uint16_t port = 0;
        int fd = -1, r = listen_tcp(str_of(address), false, &fd, err);

        if (r < 0)
                return r;
        if (socket_port(fd, &port) < 0 || printf("listening on port %u\n", port) < 0 || fflush(stdout) != 0) {
                (void)close(fd);
                return err_set(err, ERR_INTERNAL, "the port cannot be told");
        }
        *ret_fd = fd;
        return 0;
}

int main(int argc, char **argv)
{
        struct options opt = {.listen = "0.0.0.0:6060", .workspace = "/workspace"};
        struct mcp m = {0};
        struct err err = {0};
        int fd = -1, r;

        if (argc == 2 && strcmp(argv[1], "--version") == 0) {
                printf("sandglass-mcp %s\n", SANDGLASS_VERSION);
                return 0;
        }
        if (argc == 2 && strcmp(argv[1], "--help") == 0) {
                (void)fputs(usage, stdout);
                return 0;
        }
        if (options_parse(argc, argv, &opt) < 0 || mcp_options_of(&opt, &m.opt) < 0) {
                (void)fputs(usage, stderr);
                return 2;
        }
        log_setup("mcp", LOG_INFO);
        program_raise_limit();
        m.backend = &sandbox_backend;
        r = open_port(opt.listen, &fd, &err);
        if (r == 0 && sandbox_tools_start(&m) < 0)
                r = err_sys(&err, -ENOMEM, "start the tools");
        if (r == 0)
                r = mcp_serve_start(&m, fd, &err);
        if (r == 0)
                r = mcp_serve_run(&m, &err);
        if (r < 0)
                log_error("mcp.failed", "why=\"%s\"", err.msg);
        mcp_serve_end(&m);
        sandbox_tools_stop(&m);
        m.loop = loop_free(m.loop);
        return r < 0 ? 1 : 0;
}
