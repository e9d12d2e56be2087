/* Any bytes as stdin of a server: never anything but one message in each line of stdout, and the server ends when stdin ends. */
#include <stdio.h>
#include <sys/mman.h>

#include "fuzz.h"
#include "base/buf.h"
#include "base/err.h"
#include "io/loop.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/jsonrpc.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/serve.h"
#include "mcp/protocol/stdio.h"
#include "mcp/protocol/tool.h"

#define OUT_BYTES_MAX (64u << 20)

static json_t *instructions(const struct mcp *m)
{
        (void)m;
        return json_string("");
}

static json_t *list_tools(const struct mcp *m)
{
        (void)m;
        return json_array();
}

static void on_cancel(struct call *c)
{
        call_result(c, json_object());
}

/* "wait" is answered when it is cancelled, other names at once. */
static void call_tool(struct call *c, const char *name, json_t *args)
{
        (void)args;
        call_progress(c, 1, name);
        if (strcmp(name, "wait") == 0)
                c->on_cancel = on_cancel;
        else
                tool_text(c, str_of(name), NULL);
}

static const struct mcp_backend backend = {.name = "fuzz",
                                           .title = "fuzz",
                                           .instructions = instructions,
                                           .list_tools = list_tools,
                                           .call_tool = call_tool};

static void on_end(void *arg)
{
        loop_stop(arg);
}

static void check_lines(int fd)
{
        AUTO_BUF struct buf out = BUF_INIT(OUT_BYTES_MAX);
        struct str rest, line;

        MUST(lseek(fd, 0, SEEK_SET) == 0);
        while (buf_fill(&out, fd, 1u << 20) > 0)
                continue;
        rest = (struct str){(const char *)buf_at(&out), out.len};
        MUST(rest.n == 0 || rest.p[rest.n - 1] == '\n');
        while (rest.n) {
                struct jsonrpc_message msg;
                struct err err = {0};
                json_t *value;

                (void)str_cut(&rest, '\n', &line);
                value = jsonrpc_parse(line, &err);
                MUST(value && jsonrpc_decode(value, &msg, &err) == 0 && msg.kind != JSONRPC_REQUEST);
                json_decref(value);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct mcp m = {.backend = &backend, .opt = {.workspace = "/"}};
        AUTO_CLOSE int in = memfd_create("in", MFD_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC);
        struct stdio *io = NULL;
        struct err err = {0};

        MUST(in >= 0 && out >= 0 && write(in, data, size) == (ssize_t)size && lseek(in, 0, SEEK_SET) == 0);
        MUST(mcp_serve_start(&m, -1, &err) == 0);
        MUST(stdio_start(&m, in, out, on_end, m.loop, &io, &err) == 0);
        MUST(mcp_serve_run(&m, &err) == 0);
        io = stdio_free(io);
        mcp_serve_end(&m);
        m.loop = loop_free(m.loop);
        check_lines(out);
        return 0;
}
