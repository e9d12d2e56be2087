/* Any bytes on a connection of the server, with SESSION in the place of a session's id: whatever comes, what is sent as events is lines
 * of the right kind with one message in each event, and nothing of the connection stays. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "fuzz.h"
#include "base/buf.h"
#include "base/err.h"
#include "io/loop.h"
#include "http/server.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/jsonrpc.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/serve.h"
#include "mcp/protocol/session.h"
#include "mcp/protocol/tool.h"
#include "mcp/protocol/versions.h"

#define OUT_BYTES_MAX (64u << 20)
#define PLACE "SESSION"
#define PATIENCE_MS 300u /* a stream that nobody has cancelled stays open for a client that only stopped sending */

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

static void call_tool(struct call *c, const char *name, json_t *args)
{
        (void)args;
        call_progress(c, 1, name); /* with a token the answer becomes events */
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

/* The other end of the connection. */
struct peer {
        struct io io;
        struct loop *loop;
        struct buf in, out;
        struct timer patience;
        bool has_sent;
};

static void on_peer(struct io *io, uint32_t events)
{
        struct peer *p = CONTAINER_OF(io, struct peer, io);
        ssize_t n = 1;

        (void)events;
        if (p->out.len)
                n = buf_drain(&p->out, io->fd);
        if (!p->has_sent && (p->out.len == 0 || (n < 0 && n != -EAGAIN))) {
                p->has_sent = true;
                (void)shutdown(io->fd, SHUT_WR);
                loop_want(io, EPOLLIN);
                timer_set(p->loop, &p->patience, PATIENCE_MS);
        }
        n = buf_fill(&p->in, io->fd, 1u << 20);
        if (n == 0 || (n < 0 && n != -EAGAIN))
                loop_stop(p->loop);
}

static void on_patience(struct timer *t)
{
        loop_stop(CONTAINER_OF(t, struct peer, patience)->loop);
}

/* The data of each event is a message; the lines of an event are known. */
static void check_events(struct str all)
{
        struct str line;

        while (all.n) {
                struct str name;

                (void)str_cut(&all, '\n', &line);
                if (!str_starts(line, "data: {"))
                        continue;
                (void)str_cut(&line, ' ', &name);
                struct err err = {0};
                json_t *value = jsonrpc_parse(line, &err);
                struct jsonrpc_message msg;

                MUST(value && jsonrpc_decode(value, &msg, &err) == 0);
                json_decref(value);
        }
}

static void add_input(struct buf *out, struct str input, const char *session)
{
        const char *at;

        while ((at = memmem(input.p, input.n, PLACE, sizeof(PLACE) - 1))) {
                size_t n = (size_t)(at - input.p);

                (void)buf_add(out, input.p, n);
                (void)buf_addc(out, session);
                input = (struct str){at + sizeof(PLACE) - 1, input.n - n - (sizeof(PLACE) - 1)};
        }
        (void)buf_add(out, input.p, input.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct mcp m = {.backend = &backend, .opt = {.workspace = "/"}};
        struct peer peer = {.io = {.on = on_peer}, .patience = {.on = on_patience}};
        struct session *s;
        struct err err = {0};
        int pair[2];

        MUST(mcp_serve_start(&m, -1, &err) == 0);
        MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
        s = session_create(&m, PROTOCOL_NEWEST);
        MUST(s && http_server_accept(m.http, pair[0]) == 0);
        buf_init(&peer.in, OUT_BYTES_MAX);
        buf_init(&peer.out, OUT_BYTES_MAX);
        add_input(&peer.out, (struct str){(const char *)data, size}, s->id);
        peer.io.fd = pair[1];
        peer.loop = m.loop;
        MUST(loop_add(m.loop, &peer.io, EPOLLIN | EPOLLOUT) == 0);
        MUST(mcp_serve_run(&m, &err) == 0);
        check_events((struct str){(const char *)buf_at(&peer.in), peer.in.len});
        timer_clear(&peer.patience);
        loop_del(&peer.io);
        (void)close(pair[1]);
        mcp_serve_end(&m);
        m.loop = loop_free(m.loop);
        buf_done(&peer.in);
        buf_done(&peer.out);
        return 0;
}
