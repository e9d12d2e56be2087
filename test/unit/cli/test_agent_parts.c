/* Parts of `sandglass agent`: commands of workers have a time limit, and a sandbox that was resumed does not run on. */
#include <fcntl.h>

#include "../client/library_rig.h"

#include "cli/agent/agent_resumed.h"
#include "cli/agent/agent_workers.h"

/* ---- workers: on this machine, which is the same to them ---- */

static struct sg_runner *runner;

/* What is answered to this request; lives to the next call. */
static const char *answer_to(const char *request, const struct sg_call *call)
{
        static char text[4096];
        json_t *message = json_loads(request, 0, NULL);
        struct agent_workers w = {.runner = runner};
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
        }
        json_decref(message);
        return text;
}

#define ASK(rest) "{\"type\":\"sandglass\",\"event\":\"worker\",\"id\":1,\"worker\":\"one\"," rest "}"

static void a_command_of_a_worker_has_a_time_limit(void)
{
        const struct sg_call call = {.timeout_ms = 60000}, brief = {.timeout_ms = 200};
        const char *text = answer_to(ASK("\"command\":\"echo begun; sleep 60\",\"timeout\":1"), &call);

        CHECK(strstr(text, "\"error\":\"the command took longer than 1 s, and was ended\""));
        CHECK(strstr(text, "\"output\":\""));
        text = answer_to(ASK("\"command\":\"echo begun; exit 3\""), &call);
        CHECK(strstr(text, "\"exitCode\":3"));
        CHECK(strstr(text, "\"output\":\"begun\\n\""));
        text = answer_to(ASK("\"command\":\"sleep 60\",\"timeout\":\"x\""), &brief); /* that of the agent comes first */
        CHECK(strstr(text, "\"error\":") && !strstr(text, "and was ended"));
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
        rig_start();
        RUN(a_command_of_a_worker_has_a_time_limit);
        RUN(a_sandbox_whose_resuming_failed_ends_as_any_other);
        code = rig_end();
        if (sg_runner_close(runner, SG_CLOSE_KILL, NULL, NULL) < 0 || rmdir("workspace") < 0 || chdir("/") < 0 ||
            rmdir(dir) < 0)
                abort();
        return code;
}
