/* One server behind the gateway: what it sends, and how it ends.  The servers are lines of bash. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "gateway/upstream.h"
#include "http/server.h"
#include "io/loop.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/endpoint.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/serve.h"
#include "mcp/protocol/session.h"
#include "mcp/protocol/stream.h"
#include "mcp/tools/program.h"
#include "test/lib/tap.h"

#define TEXT_MAX 1024

/* Read a request, and answer it: bash has its id in $id. */
#define REQUEST "read -r l; id=${l#*'\"id\":'}; id=${id%%,*};"
#define ANSWER(what) "echo '{\"jsonrpc\":\"2.0\",\"id\":'$id',\"result\":" what "}';"
#define INITIALIZE REQUEST ANSWER("{\"protocolVersion\":\"2025-06-18\"}") "read -r l;"
#define TOOLS REQUEST ANSWER("{\"tools\":[{\"name\":\"echo\"}]}")

#define CHANGED "echo '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}';"

static struct loop *loop;

static void on_change(struct upstream *u, bool tools_changed)
{
        (void)tools_changed;
        if (u->state != UPSTREAM_STARTING)
                loop_stop(loop);
}

static void on_child(int signo, void *arg)
{
        (void)signo;
        (void)arg;
        program_reap();
}

static struct upstream *begin(const char *script)
{
        struct launch launch = {.script = strdup(script)};
        struct upstream *u = upstream_create(loop, "fake", &launch, on_change, NULL);

        upstream_start(u);
        return u;
}

static void stop_loop(struct timer *t)
{
        (void)t;
        loop_stop(loop);
}

static void run_once(void)
{
        struct timer soon = {.on = stop_loop};

        timer_set(loop, &soon, 1);
        (void)loop_run(loop);
}

static void check_failure(const char *script, const char *why)
{
        struct upstream *u = begin(script);

        CHECK_INT(loop_run(loop), ==, 0);
        CHECK_INT(u->state, ==, UPSTREAM_FAILED);
        CHECK_STR(u->reason, why);
        CHECK(u->program == NULL);
        u = upstream_free(u);
}

static void a_server_that_refuses_initialize_fails(void)
{
        check_failure("read -r l; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1}}'; echo x; read -r l",
                      "the server refused initialize");
}

static void a_server_whose_list_has_no_tools_fails(void)
{
        check_failure(INITIALIZE REQUEST ANSWER("{}") "echo x; read -r l", "the answer to tools/list has no tools");
}

static void a_message_that_is_too_long_fails(void)
{
        check_failure("head -c 40000000 /dev/zero; read -r l", "the server sent a message that is too long");
}

static void a_refused_list_leaves_the_old_one(void)
{
        struct upstream *u = begin(INITIALIZE TOOLS CHANGED REQUEST
                                   "echo '{\"jsonrpc\":\"2.0\",\"id\":'$id',\"error\":{\"code\":1}}'; exit 0");

        CHECK_INT(loop_run(loop), ==, 0);
        CHECK_INT(json_object_size(u->tools), ==, 1);
        u->starts = UPSTREAM_STARTS; /* its end is the end */
        CHECK_INT(loop_run(loop), ==, 0);
        CHECK_INT(u->state, ==, UPSTREAM_FAILED);
        CHECK(json_object_get(u->tools, "echo"));
        u = upstream_free(u);
}

static void a_change_meanwhile_is_asked_for(void)
{
        struct upstream *u = begin(INITIALIZE TOOLS CHANGED REQUEST CHANGED ANSWER("{\"tools\":[{\"name\":\"two\"}]}")
                                           REQUEST ANSWER("{\"tools\":[{\"name\":\"three\"}]}") "read -r l");

        CHECK_INT(loop_run(loop), ==, 0);
        CHECK(json_object_get(u->tools, "echo"));
        CHECK_INT(loop_run(loop), ==, 0);
        CHECK(json_object_get(u->tools, "two"));
        CHECK_INT(loop_run(loop), ==, 0);
        CHECK(json_object_get(u->tools, "three"));
        u = upstream_free(u);
}

static void a_list_that_does_not_come_is_forgotten(void)
{
        struct upstream *u = begin(INITIALIZE TOOLS CHANGED "read -r l; read -r l;" CHANGED REQUEST ANSWER(
                "{\"tools\":[{\"name\":\"two\"}]}") "read -r l");

        CHECK_INT(loop_run(loop), ==, 0);
        while (!u->pending)
                run_once();
        u->timer.on(&u->timer);
        CHECK(!u->pending);
        CHECK(list_is_empty(&u->requests));
        CHECK(json_object_get(u->tools, "echo"));
        CHECK_INT(program_write(u->program, STR("{\"method\":\"go on\"}\n")), ==, 0);
        CHECK_INT(loop_run(loop), ==, 0);
        CHECK(json_object_get(u->tools, "two"));
        u = upstream_free(u);
}

static void keep_line(struct str message, bool may_drop, void *arg)
{
        (void)may_drop;
        (void)snprintf(arg, TEXT_MAX, "%.*s", STR_ARG(message));
}

static void calls_end_that_nobody_waits_for_or_that_take_too_long(void)
{
        static const struct mcp_backend backend = {.name = "test"};
        struct mcp m = {.loop = loop, .backend = &backend};
        char line[TEXT_MAX] = "";
        struct upstream *u = begin(INITIALIZE TOOLS "while read -r l; do :; done");
        json_t *args = json_object(), *id = json_integer(7);
        struct session *s;
        struct stream *st;

        list_init(&m.session_order);
        CHECK_INT(loop_run(loop), ==, 0);
        s = session_create(&m, "2025-06-18");
        st = stream_open_lines(s, keep_line, line);
        upstream_call(u, call_begin(s, st, id, NULL), "echo", args);
        upstream_call(u, call_begin(s, st, id, NULL), "echo", args);
        CHECK_INT(s->call_count, ==, 2);
        upstream_minute(u);
        CHECK_INT(s->call_count, ==, 2);
        LIST_ENTRY(s->calls.next, struct call, node)->stream = NULL; /* as if its client had left */
        upstream_minute(u);
        CHECK_INT(s->call_count, ==, 1);
        for (unsigned i = 2; i < UPSTREAM_CALL_MINUTES; i++) {
                CHECK_STR(line, "");
                upstream_minute(u);
        }
        CHECK_INT(s->call_count, ==, 0);
        CHECK(strstr(line, "the server fake did not answer for 60 minutes"));
        session_end(s);
        map_done(&m.sessions);
        u = upstream_free(u);
        json_decref(args);
        json_decref(id);
}

/* ---- clients that leave ---- */

#define CALL "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"hang\",\"arguments\":{}}}"

static json_t *instructions(const struct mcp *m)
{
        (void)m;
        return json_string("");
}

static void call_upstream(struct call *c, const char *name, json_t *args)
{
        upstream_call(c->mcp->user, c, name, args);
}

static int connect_client(struct mcp *m)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
                return -1;
        return http_server_accept(m->http, pair[0]) == 0 ? pair[1] : -1;
}

static void say(int fd, const struct session *s, const char *request, const char *more, const char *body)
{
        (void)dprintf(fd,
                      "%s /mcp HTTP/1.1\r\nHost: x\r\nAccept: application/json, text/event-stream\r\nContent-Type: "
                      "application/json\r\nMcp-Session-Id: %s\r\n%sContent-Length: %zu\r\n\r\n%s",
                      request, s->id, more, strlen(body), body);
}

static void run_until(const struct session *s, bool has_client)
{
        do
                run_once();
        while (list_is_empty(&s->streams) ||
               stream_has_client(LIST_ENTRY(s->streams.prev, struct stream, node)) != has_client);
}

static void a_call_ends_whose_client_left_and_does_not_come_back(void)
{
        static const struct mcp_backend backend = {
                .name = "test", .title = "test", .instructions = instructions, .call_tool = call_upstream};
        struct upstream *u = begin(INITIALIZE TOOLS "while read -r l; do :; done");
        struct mcp m = {
                .loop = loop,
                .backend = &backend,
                .user = u,
                .opt = {.kept_ms = MCP_KEPT_MS, .rest_after_ms = MCP_REST_AFTER_MS, .end_after_ms = MCP_END_AFTER_MS}};
        struct http_server_options http = {.loop = loop,
                                           .on_request = endpoint_on_request,
                                           .arg = &m,
                                           .head_timeout_ms = 60000,
                                           .idle_timeout_ms = 60000,
                                           .conns_max = 4};
        struct session *s;
        int fd;

        CHECK_INT(loop_run(loop), ==, 0);
        list_init(&m.session_order);
        CHECK_INT(http_server_create(&http, &m.http), ==, 0);
        s = session_create(&m, "2025-11-25");
        fd = connect_client(&m);
        CHECK(s && fd >= 0);
        say(fd, s, "POST", "", CALL);
        while (s->call_count == 0)
                run_once();
        for (unsigned i = 0; i < 2 * UPSTREAM_AWAY_MINUTES; i++)
                upstream_minute(u);
        CHECK_INT(s->call_count, ==, 1); /* the client waits */

        (void)close(fd);
        run_until(s, false);
        upstream_minute(u);
        CHECK_INT(s->call_count, ==, 1);
        fd = connect_client(&m); /* and comes back */
        CHECK(fd >= 0);
        say(fd, s, "GET", "Last-Event-ID: 1-0\r\n", "");
        run_until(s, true);
        for (unsigned i = 0; i < 2 * UPSTREAM_AWAY_MINUTES; i++)
                upstream_minute(u);
        CHECK_INT(s->call_count, ==, 1);

        (void)close(fd);
        run_until(s, false);
        for (unsigned i = 0; i < UPSTREAM_AWAY_MINUTES; i++)
                upstream_minute(u);
        CHECK_INT(s->call_count, ==, 0);
        CHECK(list_is_empty(&u->requests));
        mcp_serve_end(&m);
        u = upstream_free(u);
}

static void crash(struct upstream *u)
{
        program_signal(u->program, SIGKILL);
        CHECK_INT(loop_run(loop), ==, 0);
}

static void starts_count_in_a_row_only(void)
{
        struct upstream *u = begin(INITIALIZE TOOLS "read -r l");

        CHECK_INT(loop_run(loop), ==, 0);
        for (unsigned i = 0; i < 2 * UPSTREAM_STARTS; i++) {
                CHECK_INT(u->state, ==, UPSTREAM_READY);
                u->ready_ms -= UPSTREAM_WELL_MS; /* as if it had run for so long */
                crash(u);
        }
        for (unsigned i = 0; i < UPSTREAM_STARTS; i++) {
                CHECK_INT(u->state, ==, UPSTREAM_READY);
                CHECK_INT(json_object_size(u->tools), ==, 1);
                crash(u);
        }
        CHECK_INT(u->state, ==, UPSTREAM_FAILED);
        CHECK_STR(u->reason, "ended with exit code 137");
        u = upstream_free(u);
}

static void one_that_ends_with_its_fault_fails_once(void)
{
        check_failure(REQUEST ANSWER("{}"), "the server refused initialize");
}

int main(void)
{
        const int signals[] = {SIGCHLD, 0};

        if (loop_create(&loop) < 0 || loop_signals(loop, signals, on_child, NULL) < 0)
                return 1;
        RUN(a_server_that_refuses_initialize_fails);
        RUN(a_server_whose_list_has_no_tools_fails);
        RUN(a_message_that_is_too_long_fails);
        RUN(a_refused_list_leaves_the_old_one);
        RUN(a_change_meanwhile_is_asked_for);
        RUN(a_list_that_does_not_come_is_forgotten);
        RUN(calls_end_that_nobody_waits_for_or_that_take_too_long);
        RUN(a_call_ends_whose_client_left_and_does_not_come_back);
        RUN(starts_count_in_a_row_only);
        RUN(one_that_ends_with_its_fault_fails_once);
        loop = loop_free(loop);
        return tap_done();
}
