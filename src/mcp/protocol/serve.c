#include "mcp/protocol/serve.h"

#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>

#include "base/err.h"
#include "http/server.h"
#include "mcp/protocol/endpoint.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/session.h"

#define CONNS_MAX 4096
#define HEAD_TIMEOUT_MS 60000
#define IDLE_TIMEOUT_MS 640000

static void on_signal(int sig, void *arg)
{
        struct mcp *m = arg;

        if (sig != SIGCHLD)
                loop_stop(m->loop);
        else if (m->backend->on_child)
                m->backend->on_child();
}

int mcp_serve_start(struct mcp *m, int listen_fd, struct err *err)
{
        static const int signals[] = {SIGCHLD, SIGTERM, SIGINT, 0};
        struct http_server_options http = {.on_request = endpoint_on_request,
                                           .arg = m,
                                           .head_timeout_ms = HEAD_TIMEOUT_MS,
                                           .idle_timeout_ms = IDLE_TIMEOUT_MS,
                                           .conns_max = CONNS_MAX};
        AUTO_CLOSE int fd = listen_fd;
        int r;

        list_init(&m->session_order);
        m->opt.rest_after_ms = m->opt.rest_after_ms ? m->opt.rest_after_ms : MCP_REST_AFTER_MS;
        m->opt.end_after_ms = m->opt.end_after_ms ? m->opt.end_after_ms : MCP_END_AFTER_MS;
        m->opt.kept_ms = m->opt.kept_ms ? m->opt.kept_ms : MCP_KEPT_MS;
        (void)mallopt(M_MMAP_THRESHOLD, 256 << 10); /* fixed, so that the memory of one big request is given back */
        (void)mallopt(M_TRIM_THRESHOLD, 128 << 10);
        if (m->backend->on_child)
                (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* what commands leave behind is reaped here */
        r = m->loop ? 0 : loop_create(&m->loop);
        if (r == 0)
                r = loop_signals(m->loop, signals, on_signal, m);
        http.loop = m->loop;
        if (r == 0)
                r = http_server_create(&http, &m->http);
        if (r == 0 && fd >= 0)
                r = http_server_listen(m->http, TAKE_FD(fd));
        return r < 0 ? err_sys(err, r, "set up") : 0;
}

int mcp_serve_run(struct mcp *m, struct err *err)
{
        int r = loop_run(m->loop);

        return r < 0 ? err_sys(err, r, "wait for events") : 0;
}

void mcp_serve_end(struct mcp *m)
{
        if (!m->loop)
                return;
        while (!list_is_empty(&m->session_order))
                session_end(LIST_ENTRY(m->session_order.next, struct session, node));
        m->http = http_server_free(m->http);
        map_done(&m->sessions);
}
