/* Parts of `sandglass agent`: commands of workers have limits, templates may have to be built, and a sandbox that was resumed does not run on. */
#include <fcntl.h>
#include <signal.h>

#include "../client/library_rig.h"

#include "cli/agent/agent_resumed.h"
#include "base/clock.h"
#include "cli/agent/agent_workers.h"
#include "cli/patience.h"

/* ---- workers: on this machine, which is the same to them ---- */

static struct sg_runner *runner;
static struct patience *with_patience;

/* What is answered to this request; lives to the next call. */
static const char *answer_to(const char *request, const struct sg_call *call)
{
        static char text[64 << 10];
        json_t *message = json_loads(request, 0, NULL);
        struct agent_workers w = {.runner = runner, .patience = with_patience, .unread = BUF_INIT(AGENT_UNREAD_MAX)};
        ssize_t n = 0;
        int p[2];

        text[0] = 0;
        if (message && pipe2(p, O_CLOEXEC) == 0) {
                w.answers = p[1];
                if (agent_workers_serve(&w, message, call) == 0)
                        n = read(p[0], text, sizeof(text) - 1);
                text[n > 0 ? n : 0] = 0;
                (void)close(p[0]);
                (void)close(p[1]);
                agent_workers_done(&w);
        }
        json_decref(message);
        return text;
}

#define ASK(rest) "{\"type\":\"sandglass\",\"event\":\"worker\",\"id\":1,\"worker\":\"one\"," rest "}"

static void a_command_of_a_worker_has_a_time_limit(void)
{
        const struct sg_call call = {.timeout_ms = 60000}, brief = {.timeout_ms = 200};
        const char *text = answer_to(ASK("\"command\":\"echo begun; sleep 60\",\"timeout\":5"), &call);

        CHECK(strstr(text, "\"error\":\"the command took longer than 5 s, and was ended\""));
        CHECK(strstr(text, "\"output\":\""));
        text = answer_to(ASK("\"command\":\"echo begun; exit 3\""), &call);
        CHECK(strstr(text, "\"exitCode\":3"));
        CHECK(strstr(text, "\"output\":\"begun\\n\""));
        text = answer_to(ASK("\"command\":\"sleep 60\",\"timeout\":\"x\""), &brief); /* that of the agent comes first */
        CHECK(strstr(text, "\"error\":") && !strstr(text, "and was ended"));
}

static void long_output_is_cut_and_what_is_missing_is_told(void)
{
        const struct sg_call call = {.timeout_ms = 60000};
        const char *text = answer_to(ASK("\"command\":\"seq 1 10000\""), &call);

        CHECK(strstr(text, "\"output\":\"1\\n2\\n3\\n"));
        CHECK(strstr(text, "\"note\":\"28894 bytes more are left out\"")); /* of 48894 */
        CHECK(strstr(text, "\"exitCode\":0"));
        text = answer_to(ASK("\"command\":\"head -c 30000 /dev/zero | tr '\\\\0' x; echo; echo after\""), &call);
        CHECK(strstr(text, "\"output\":\"xxxxxxxxxx"));
        CHECK(strstr(text, "\"note\":\"10007 bytes more are left out\""));
        /* Two bytes each, and an odd place to cut. */
        text = answer_to(ASK("\"command\":\"printf x; for i in {1..15000}; do printf '\\\\303\\\\251'; done; echo\""),
                         &call);
        CHECK(strstr(text, "\"output\":\"x\303\251"));
        CHECK(strstr(text, "\"note\":\"10003 bytes more are left out\""));
        text = answer_to(ASK("\"command\":\"head -c 19999 /dev/zero | tr '\\\\0' x; echo\""), &call);
        CHECK(strstr(text, "\"exitCode\":0") && !strstr(text, "\"note\""));
        text = answer_to(ASK("\"command\":\"seq 1 10000; sleep 60\",\"timeout\":5"), &call);
        CHECK(strstr(text, "\"error\":\"the command took longer") && strstr(text, "\"note\":\""));
}

static void what_the_pipe_has_no_room_for_is_sent_as_it_is_read(void)
{
        struct agent_workers w = {.unread = BUF_INIT(AGENT_UNREAD_MAX)};
        const size_t n = 1 << 20;
        AUTO_FREE char *line = calloc(1, n + 1), *piece = malloc(n);
        size_t got = 0;
        int p[2];

        CHECK(line && piece && pipe2(p, O_CLOEXEC | O_NONBLOCK) == 0);
        memset(line, 'x', n);
        w.answers = p[1];
        CHECK_INT(agent_workers_send(&w, line), ==, 0);
        CHECK_INT(w.unread.len, >, 0);
        for (ssize_t r; (r = read(p[0], piece, n)) > 0 && got < 2 * n; got += (size_t)r)
                CHECK_INT(agent_workers_flush(&w), ==, 0);
        CHECK_INT(got, ==, n + 1);
        CHECK_INT(w.unread.len, ==, 0);
        for (unsigned i = 0; i < 15; i++)
                CHECK_INT(agent_workers_send(&w, line), ==, 0);
        CHECK_INT(agent_workers_send(&w, line), ==, 0); /* with what is in the pipe */
        CHECK_INT(agent_workers_send(&w, line), ==, -E2BIG);
        (void)close(p[0]);
        CHECK_INT(agent_workers_flush(&w), ==, -EPIPE);
        (void)close(p[1]);
        agent_workers_done(&w);
}

/* ---- a template that is built for its first use ---- */

#define BEING_BUILT "{\"message\":\"template 't' is being built for its first use\"}"

static void a_worker_waits_until_its_template_is_built(void)
{
        const struct sg_call call = {.timeout_ms = 60000};
        struct sg_client *once = rig_client(&(struct sg_client_options){.retries = SG_NO_RETRIES});
        const struct sg_runner_options options = {.mode = SG_MODE_HYBRID, .client = once};
        struct patience patience = {.who = "test", .deadline_ms = clock_mono_ms() + 60000, .cancel_fd = -1};
        struct sg_runner *here = runner;
        const char *text;

        CHECK_INT(sg_runner_open(&options, NULL, &runner, NULL), ==, 0);
        with_patience = &patience;
        SAY(with_status("503 Service Unavailable", "Retry-After: 1\r\n", BEING_BUILT),
            with_status("400 Bad Request", "", "{\"message\":\"no more\"}"));
        text = answer_to(ASK("\"command\":\"true\",\"timeout\":1"), &call);
        CHECK(strstr(text, "\"error\":\"worker one: no more\""));
        CHECK_INT(atomic_load(&server.requests), ==, 2);
        CHECK(patience.told_ms != 0);
        with_patience = NULL;
        SAY(with_status("503 Service Unavailable", "Retry-After: 1\r\n", BEING_BUILT));
        text = answer_to(ASK("\"command\":\"true\""), &call);
        CHECK(strstr(text, "is being built for its first use"));
        CHECK_INT(atomic_load(&server.requests), ==, 1);
        CHECK_INT(sg_runner_close(runner, SG_CLOSE_KILL, NULL, NULL), ==, 0);
        runner = here;
        sg_client_free(once);
}

static void only_what_the_server_wants_later_is_waited_for(void)
{
        struct patience p = {.who = "test", .deadline_ms = clock_mono_ms() + 5000, .cancel_fd = -1};
        struct sg_error why = {.kind = SG_UNAVAILABLE, .http_status = 503};
        int pipe_fds[2];

        CHECK(!patience_wait(&p, &why));
        why.retry_after_s = 60; /* longer than there is time */
        CHECK(!patience_wait(&p, &why));
        why.retry_after_s = 1;
        why.http_status = 429;
        CHECK(!patience_wait(&p, &why));
        CHECK_INT(p.told_ms, ==, 0);
        CHECK(pipe2(pipe_fds, O_CLOEXEC) == 0 && write(pipe_fds[1], "x", 1) == 1);
        p.cancel_fd = pipe_fds[0];
        p.deadline_ms += 3600 * 1000;
        why.http_status = 503;
        why.retry_after_s = 3600;
        CHECK(patience_wait(&p, &why)); /* at once: the request then ends as cancelled */
        (void)close(pipe_fds[0]);
        (void)close(pipe_fds[1]);
}

/* ---- what was resumed ---- */

static const struct fake_answer *of_pause(void)
{
        static struct fake_answer list[3];

        list[0] = with_status("409 Conflict", "", "{\"code\":409,\"message\":\"already paused\"}");
        list[1] = with_status("204 No Content", "", "");
        list[2] = with_status("404 Not Found", "", "{\"message\":\"none\"}");
        return list;
}

static void a_sandbox_whose_resuming_failed_ends_as_any_other(void)
{
        const struct fake_answer *say = of_pause();
        struct sg_error err = {0};

        SAY(say[1]);
        CHECK_INT(agent_resumed_end(client, ID, SG_CLOSE_PAUSE, NULL, &err), ==, 1);
        CHECK(strstr(seen_requests[0], "POST /sandboxes/" ID "/pause "));
        SAY(say[1]);
        CHECK_INT(agent_resumed_end(client, ID, SG_CLOSE_KILL, NULL, &err), ==, 1);
        CHECK(strstr(seen_requests[0], "DELETE /sandboxes/" ID " "));
        SAY(say[0], say[1]); /* the request to resume came after the first one */
        CHECK_INT(agent_resumed_end(client, ID, SG_CLOSE_PAUSE, NULL, &err), ==, 1);
        CHECK_INT(atomic_load(&server.requests), ==, 2);
        SAY(say[0], say[0], ok_json("{\"sandboxID\":\"" ID "\",\"state\":\"paused\"}"));
        CHECK_INT(agent_resumed_end(client, ID, SG_CLOSE_PAUSE, NULL, &err), ==, 1);
        SAY(say[0], say[0], ok_json(BOX_JSON)); /* it cannot be paused */
        CHECK_INT(agent_resumed_end(client, ID, SG_CLOSE_PAUSE, NULL, &err), <, 0);
        SAY(say[2]);
        CHECK_INT(agent_resumed_end(client, ID, SG_CLOSE_PAUSE, NULL, &err), ==, 0);
        SAY(with_status("500 Internal Server Error", "", "{\"message\":\"disk\"}"));
        CHECK_INT(agent_resumed_end(client, ID, SG_CLOSE_PAUSE, NULL, &err), <, 0);
        SAY(say[1]);
        CHECK_INT(agent_resumed_end(client, ID, SG_CLOSE_KEEP, NULL, &err), ==, 0);
        CHECK_INT(atomic_load(&server.requests), ==, 0);
}

int main(void)
{
        char dir[] = "/tmp/agent-parts-XXXXXX";
        int code;

        /* Its login shells have no profile of the user, which may take long, and must not be killed half way. */
        if (!mkdtemp(dir) || chdir(dir) < 0 || setenv("HOME", dir, 1) < 0 ||
            sg_runner_open(&(struct sg_runner_options){.mode = SG_MODE_LOCAL}, NULL, &runner, NULL) < 0)
                abort();
        (void)signal(SIGPIPE, SIG_IGN); /* as the command does */
        rig_start();
        RUN(a_command_of_a_worker_has_a_time_limit);
        RUN(long_output_is_cut_and_what_is_missing_is_told);
        RUN(what_the_pipe_has_no_room_for_is_sent_as_it_is_read);
        RUN(a_worker_waits_until_its_template_is_built);
        RUN(only_what_the_server_wants_later_is_waited_for);
        RUN(a_sandbox_whose_resuming_failed_ends_as_any_other);
        code = rig_end();
        if (sg_runner_close(runner, SG_CLOSE_KILL, NULL, NULL) < 0 || rmdir("workspace") < 0 || chdir("/") < 0 ||
            rmdir(dir) < 0)
                abort();
        return code;
}
