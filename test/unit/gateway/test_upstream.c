/* One server behind the gateway: what it sends, and how it ends.  The servers are lines of bash. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "gateway/upstream.h"
#include "io/loop.h"
#include "mcp/tools/program.h"
#include "test/lib/tap.h"

/* Read a request, and answer it: bash has its id in $id. */
#define REQUEST "read -r l; id=${l#*'\"id\":'}; id=${id%%,*};"
#define ANSWER(what) "echo '{\"jsonrpc\":\"2.0\",\"id\":'$id',\"result\":" what "}';"
#define INITIALIZE REQUEST ANSWER("{\"protocolVersion\":\"2025-06-18\"}") "read -r l;"
#define TOOLS REQUEST ANSWER("{\"tools\":[{\"name\":\"echo\"}]}")

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
        RUN(starts_count_in_a_row_only);
        RUN(one_that_ends_with_its_fault_fails_once);
        loop = loop_free(loop);
        return tap_done();
}
