/* The modes with sandboxes, in front of a fake server: which requests are made of what the caller wants. */
#include "library_rig.h"

#include "sandglass-modes.h"

static void resuming_is_said_to_a_sandbox_that_paused_by_itself(void)
{
        const struct sg_runner_options options = {.mode = SG_MODE_E2B, .client = client, .sandbox_id = ID};
        struct sg_runner *runner;
        struct sg_error err = {0};

        SAY(ok_json(BOX_JSON), ok_json("{}"), ok_json(BOX_JSON));
        CHECK_INT(sg_runner_open(&options, NULL, &runner, &err), ==, 0);
        CHECK_INT(sg_runner_resume(runner, NULL, &err), ==, 0);
        CHECK_INT(atomic_load(&server.requests), ==, 3);
        CHECK(strstr(seen_requests[2], "POST /v2/sandboxes/" ID "/connect ") ||
              strstr(seen_requests[2], "POST /sandboxes/" ID "/connect "));
        CHECK_INT(sg_runner_close(runner, SG_CLOSE_KEEP, NULL, &err), ==, 0);
}

static void a_sandbox_that_cannot_be_paused_is_no_paused_one(void)
{
        const struct sg_runner_options options = {.mode = SG_MODE_E2B, .client = client, .sandbox_id = ID};
        const struct fake_answer conflict = with_status("409 Conflict", "", "{\"message\":\"why\"}");
        struct sg_runner *runner;
        struct sg_error err = {0};

        SAY(ok_json(BOX_JSON), ok_json("{}"), conflict, ok_json(BOX_JSON), conflict,
            ok_json("{\"sandboxID\":\"" ID "\",\"state\":\"paused\"}"));
        CHECK_INT(sg_runner_open(&options, NULL, &runner, &err), ==, 0);
        CHECK_INT(sg_runner_pause(runner, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_CONFLICT);
        CHECK_INT(sg_runner_pause(runner, NULL, &err), ==, 0);
        CHECK_INT(sg_runner_close(runner, SG_CLOSE_KEEP, NULL, &err), ==, 0);
}

static void workers_that_could_not_be_made_do_not_count(void)
{
        const struct sg_runner_options options = {.mode = SG_MODE_HYBRID, .client = client, .workers_max = 1};
        struct sg_runner *runner;
        struct sg_error err = {0};
        char name[16];

        CHECK_INT(sg_runner_open(&options, NULL, &runner, &err), ==, 0);
        SAY(with_status("400 Bad Request", "", "{\"message\":\"no such template\"}"));
        for (unsigned i = 0; i < 5; i++) {
                (void)snprintf(name, sizeof(name), "w%u", i % 3);
                CHECK_INT(sg_runner_write(runner, name, "f", "x", 1, NULL, &err), <, 0);
                CHECK_INT(err.kind, ==, SG_INVALID);
        }
        SAY(ok_json(BOX_JSON), ok_json("{}"), ok_json("[]"));
        CHECK_INT(sg_runner_write(runner, "good", "f", "x", 1, NULL, &err), ==, 0);
        CHECK(sg_runner_sandbox(runner, "good"));
        CHECK(!sg_runner_sandbox(runner, "w1"));
        CHECK_INT(sg_runner_write(runner, "other", "f", "x", 1, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_LIMIT);
        CHECK_INT(sg_runner_write(runner, "good", "f", "x", 1, NULL, &err), ==, 0);
        CHECK_INT(sg_runner_close(runner, SG_CLOSE_KEEP, NULL, &err), ==, 0);
}

int main(void)
{
        char dir[] = "/tmp/modes-sandbox-XXXXXX";
        int code;

        if (!mkdtemp(dir) || chdir(dir) < 0)
                abort();
        rig_start();
        RUN(resuming_is_said_to_a_sandbox_that_paused_by_itself);
        RUN(a_sandbox_that_cannot_be_paused_is_no_paused_one);
        RUN(workers_that_could_not_be_made_do_not_count);
        code = rig_end();
        if (rmdir("workspace") < 0 || chdir("/") < 0 || rmdir(dir) < 0)
                abort();
        return code;
}
