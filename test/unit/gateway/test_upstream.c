/* One server behind the gateway: what it sends, and how it ends.  The servers are lines of bash. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "gateway/upstream.h"
#include "io/loop.h"
#include "mcp/tools/program.h"
#include "test/lib/tap.h"

#define ANSWER_INITIALIZE                                                                                              \
        "read -r l; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\"}}';"
#define ANSWER_TOOLS                                                                                                   \
        "read -r l; read -r l; echo '{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"tools\":[{\"name\":\"echo\"}]}}';"

static struct loop *loop;
static unsigned starting_left; /* changes that are waited for */

static void count_change(void *arg)
{
        (void)arg;
        if (--starting_left == 0)
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
        struct upstream *u = upstream_create(loop, "fake", &launch, count_change, NULL);

        starting_left = 1;
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
        check_failure("read -r l; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"no\"}}'; "
                      "echo x; read -r l",
                      "the server refused initialize");
}

static void a_server_whose_list_has_no_tools_fails(void)
{
        check_failure(ANSWER_INITIALIZE
                      "read -r l; read -r l; echo '{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}'; echo x; read -r l",
                      "the answer to tools/list has no tools");
}

static void a_message_that_is_too_long_fails(void)
{
        check_failure("head -c 40000000 /dev/zero; read -r l", "the server sent a message that is too long");
}

static void one_that_ends_with_its_fault_fails_once(void)
{
        check_failure("read -r l; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}'",
                      "the server refused initialize");
}

int main(void)
{
        const int signals[] = {SIGCHLD, 0};

        if (loop_create(&loop) < 0 || loop_signals(loop, signals, on_child, NULL) < 0)
                return 1;
        RUN(a_server_that_refuses_initialize_fails);
        RUN(a_server_whose_list_has_no_tools_fails);
        RUN(a_message_that_is_too_long_fails);
        RUN(one_that_ends_with_its_fault_fails_once);
        loop = loop_free(loop);
        return tap_done();
}
