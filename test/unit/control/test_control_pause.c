/* Pausing and resuming: every row of the life cycle's table, what is told to whom, and what is left after crashes. */
#include "control_life.h"

#include "store/db.h"

/* ---- pause ---- */

static bool engine_is_holding(void *arg)
{
        (void)arg;
        return engine.held;
}

static void a_pause_keeps_all_but_the_processes(void)
{
        char id[SANDBOX_ID_MAX], token[65], checkpoint[CHECKPOINT_ID_MAX];
        const json_t *init;

        CHECK(create("{\"templateID\":\"base\",\"timeout\":60,\"metadata\":{\"k\":\"v\"},\"envVars\":{\"A\":\"b\"}}",
                     id));
        (void)snprintf(token, sizeof(token), "%s", text_at("envdAccessToken"));
        rig.now_ns += 5 * S_NS;
        CHECK_INT(ask("POST", path_of(id, "/pause"), NULL), ==, 204);
        CHECK(engine_has(id, "paused"));
        CHECK_INT(json_object_size(engine.checkpoints), ==, 1);
        CHECK_INT(row_state(id), ==, SANDBOX_PAUSED);
        CHECK_STR(shown(id, "state"), "paused");
        CHECK_STR(text_at("startedAt"), "2026-09-21T14:13:20.000000Z");
        CHECK_STR(text_at("endAt"), "2026-09-21T14:13:25.000000Z");
        CHECK_STR(text_at("envdAccessToken"), token);
        (void)snprintf(checkpoint, sizeof(checkpoint), "%s", lives_find(&rig.control.lives, id)->sandbox.checkpoint);
        CHECK_INT(team_count(), ==, 0);

        rig.now_ns += 100 * S_NS;
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK_STR(text_at("sandboxID"), id);
        CHECK_STR(text_at("envdAccessToken"), token);
        CHECK(text_at("domain") && text_at("envdVersion"));
        CHECK_STR(json_string_value(json_object_get(engine.plan, "checkpoint")), checkpoint);
        CHECK_STR(json_string_value(json_object_get(engine.plan, "upper")), "kept");
        CHECK_STR(json_string_value(json_object_get(engine.plan, "token_before")), token);
        init = json_object_get(engine.plan, "init");
        CHECK_STR(json_string_value(json_object_get(init, "accessToken")), token);
        CHECK(!json_object_get(init, "envVars")); /* envd has them in there */
        CHECK_STR(shown(id, "state"), "running");
        CHECK_STR(text_at("startedAt"), "2026-09-21T14:15:05.000000Z");
        CHECK_STR(text_at("endAt"), "2026-09-21T14:20:05.000000Z");
        CHECK_INT(team_count(), ==, 1);
        CHECK(run_until(nothing_is_left, NULL)); /* the image's bytes are returned */
        CHECK_INT(row_state(id), ==, SANDBOX_RUNNING);
        CHECK_INT(pause_it(id), ==, 204); /* and again */
        CHECK_INT(connect_to(id, "{}"), ==, 201);
}

static void without_memory_it_is_started_anew(void)
{
        char id[SANDBOX_ID_MAX];
        const json_t *init;

        CHECK(create("{\"templateID\":\"base\",\"envVars\":{\"A\":\"b\"}}", id));
        CHECK_INT(ask("POST", path_of(id, "/pause"), "{\"memory\":false}"), ==, 204);
        CHECK_INT(json_object_size(engine.checkpoints), ==, 0);
        control_stop();
        CHECK(control_start() && run_until(engine_is_up, NULL));
        CHECK_INT(connect_to(id, NULL), ==, 201);
        CHECK(!json_object_get(engine.plan, "checkpoint") && !json_object_get(engine.plan, "token_before"));
        CHECK_STR(json_string_value(json_object_get(engine.plan, "upper")), "kept");
        init = json_object_get(engine.plan, "init");
        CHECK_STR(json_string_value(json_object_get(json_object_get(init, "envVars"), "A")), "b");
        CHECK_STR(json_string_value(json_object_get(init, "defaultUser")), "user");
}

static void memory_may_be_left_behind_at_connect(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create("{\"templateID\":\"base\",\"envVars\":{\"A\":\"b\"}}", id));
        CHECK_INT(pause_it(id), ==, 204);
        CHECK_INT(connect_to(id, "{\"memory\":false}"), ==, 201);
        CHECK(!json_object_get(engine.plan, "checkpoint"));
        CHECK(json_object_get(json_object_get(engine.plan, "init"), "envVars"));
        CHECK(run_until(nothing_is_left, NULL));
}

/* Nobody knows its id yet, and a guess is not answered otherwise than any other. */
static void one_that_is_being_started_cannot_be_paused(void)
{
        char id[SANDBOX_ID_MAX];
        struct client c;

        engine.holds_create = true;
        start(&c, "POST", "/v2/sandboxes", BASE);
        CHECK(run_until(engine_is_holding, NULL));
        (void)snprintf(id, sizeof(id), "%s",
                       json_string_value(json_object_get(json_object_get(engine.held, "plan"), "id")));
        CHECK_INT(pause_it(id), ==, 404);
        CHECK_INT(state_of(id), ==, SANDBOX_STARTING);
        engine_release();
        CHECK(run_until(client_is_done, &c));
        CHECK_INT(c.status, ==, 201);
        client_close(&c);
        CHECK_INT(pause_it(id), ==, 204); /* and at once when it is there */
}

static void a_second_pause_is_409(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id));
        CHECK_INT(pause_it(id), ==, 204);
        CHECK_INT(pause_it(id), ==, 409);
        CHECK(is_error(409, say("Error pausing sandbox - sandbox '%s' is already paused", id)));
        CHECK_INT(ask("POST", "/sandboxes/inone/pause", NULL), ==, 404);
        CHECK(is_error(404, say(NO_SANDBOX, "inone")));
        CHECK_INT(ask("POST", path_of(id, "/pause"), "{\"memory\":1}"), ==, 400);
}

static void concurrent_pauses_join(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a, b;

        CHECK(create(BASE, id));
        engine.holds = "pause";
        start(&a, "POST", path_of(id, "/pause"), "{}");
        start(&b, "POST", path_of(id, "/pause"), NULL);
        CHECK(run_until(engine_has_logged, "pause:"));
        run_rounds(20);
        CHECK_INT(row_state(id), ==, SANDBOX_PAUSING); /* before the engine has done anything */
        CHECK_STR(shown(id, "state"), "paused");
        CHECK_INT(ask("POST", path_of(id, "/timeout"), "{\"timeout\":5}"), ==, 409);
        CHECK(is_error(409, say("Sandbox \"%s\" is being paused", id)));
        engine_release();
        CHECK(run_until(client_is_done, &a) && run_until(client_is_done, &b));
        CHECK_INT(a.status, ==, 204);
        CHECK_INT(b.status, ==, 204);
        CHECK(!strstr(strstr(engine.log, "pause:") + 1, "pause:"));
        client_close(&a);
        client_close(&b);
}

static void connect_while_pausing_waits_and_resumes(void)
{
        char id[SANDBOX_ID_MAX], path[128];
        struct client a, b, c;

        CHECK(create(BASE, id));
        engine.holds = "pause";
        start(&a, "POST", path_of(id, "/pause"), "{}");
        CHECK(run_until(engine_has_logged, "pause:"));
        (void)snprintf(path, sizeof(path), "/v2/sandboxes/%s/connect", id);
        start(&b, "POST", path, "{}");
        start(&c, "POST", path, "{\"timeout\":1000}");
        run_rounds(20);
        CHECK(!b.is_done);
        engine_release();
        CHECK(run_until(client_is_done, &a) && run_until(client_is_done, &b) && run_until(client_is_done, &c));
        CHECK_INT(a.status, ==, 204);
        CHECK_INT(b.status, ==, 201);
        CHECK_INT(c.status, ==, 201);
        CHECK_STR(shown(id, "state"), "running");
        CHECK_STR(text_at("endAt"), "2026-09-21T14:30:00.000000Z"); /* the later of the two */
        client_close(&a);
        client_close(&b);
        client_close(&c);
}

static void connects_join_one_resume(void)
{
        char id[SANDBOX_ID_MAX], path[128];
        struct client a, b;

        CHECK(create(BASE, id) && pause_it(id) == 204);
        engine.holds_create = true;
        engine.log[0] = 0;
        (void)snprintf(path, sizeof(path), "/v2/sandboxes/%s/connect", id);
        start(&a, "POST", path, "{}");
        start(&b, "POST", path, "{}");
        CHECK(run_until(engine_has_logged, "create:"));
        run_rounds(20);
        CHECK_INT(row_state(id), ==, SANDBOX_RESUMING);
        CHECK_INT(connect_to(id, "{\"memory\":false}"), ==, 409);
        CHECK_STR(text_at("error_code"), "sandbox_start_in_flight");
        engine_release();
        CHECK(run_until(client_is_done, &a) && run_until(client_is_done, &b));
        CHECK(a.status == 201 && b.status == 201);
        CHECK(!strstr(strstr(engine.log, "create:") + 1, "create:"));
        client_close(&a);
        client_close(&b);
}

static void a_pause_while_resuming_waits_its_turn(void)
{
        char id[SANDBOX_ID_MAX], path[128];
        struct client a, b;

        CHECK(create(BASE, id) && pause_it(id) == 204);
        engine.holds_create = true;
        (void)snprintf(path, sizeof(path), "/v2/sandboxes/%s/connect", id);
        start(&a, "POST", path, "{}");
        CHECK(until(id, SANDBOX_RESUMING));
        start(&b, "POST", path_of(id, "/pause"), "{}");
        run_rounds(50);
        engine_release();
        CHECK(run_until(client_is_done, &a) && run_until(client_is_done, &b));
        CHECK_INT(a.status, ==, 201);
        CHECK_INT(b.status, ==, 204);
        CHECK(engine_has(id, "paused"));
        client_close(&a);
        client_close(&b);
}

static void a_paused_one_has_no_timeout(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id) && pause_it(id) == 204);
        CHECK_INT(ask("POST", path_of(id, "/timeout"), "{\"timeout\":5}"), ==, 404);
        CHECK(is_error(404, say(NO_SANDBOX, id)));
        CHECK_INT(ask("POST", path_of(id, "/refreshes"), NULL), ==, 404);
        CHECK(!deadlines_first(&rig.control.lives.deadlines)); /* it does not expire */
        CHECK_INT(ask("GET", path_of(id, "/metrics"), NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 0);
}

static void lists_show_the_paused(void)
{
        char a[SANDBOX_ID_MAX], b[SANDBOX_ID_MAX];

        CHECK(create(BASE, a) && create(BASE, b) && pause_it(a) == 204);
        CHECK_INT(ask("GET", "/v2/sandboxes?state=paused", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 1);
        CHECK_STR(json_string_value(json_object_get(json_array_get(last.json, 0), "sandboxID")), a);
        CHECK_STR(json_string_value(json_object_get(json_array_get(last.json, 0), "state")), "paused");
        CHECK_INT(ask("GET", "/v2/sandboxes", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 2);
        CHECK(str_is(http1_find(&last.head, "X-Total-Running")->value, "1"));
        CHECK_INT(ask("GET", "/sandboxes", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 1);
}

/* ---- kill ---- */

static void a_paused_one_is_killed_with_its_image(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id) && pause_it(id) == 204);
        CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
        CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 404);
        CHECK(run_until(nothing_is_left, NULL));
        CHECK_INT(row_state(id), ==, SANDBOX_GONE);
        CHECK_INT(team_count(), ==, 0);
}

static void a_kill_while_pausing_wins(void)
{
        char id[SANDBOX_ID_MAX], path[128];
        struct client a, b, k;

        CHECK(create(BASE, id));
        engine.holds = "pause";
        start(&a, "POST", path_of(id, "/pause"), "{}");
        CHECK(run_until(engine_has_logged, "pause:"));
        (void)snprintf(path, sizeof(path), "/v2/sandboxes/%s/connect", id);
        start(&b, "POST", path, "{}");
        run_rounds(20);
        engine.holds_kill = true;
        start(&k, "DELETE", path_of(id, ""), NULL);
        CHECK(run_until(client_is_done, &a) && run_until(client_is_done, &b));
        CHECK_INT(a.status, ==, 409);
        CHECK_STR(json_string_value(json_object_get(a.json, "message")),
                  say("Sandbox '%s' cannot be paused while in 'killing' state", id));
        CHECK_INT(b.status, ==, 409);
        CHECK_STR(json_string_value(json_object_get(b.json, "message")), say("Sandbox \"%s\" is being killed", id));
        CHECK(run_until(engine_has_logged, "kill:"));
        CHECK_INT(pause_it(id), ==, 409);
        CHECK_INT(ask("GET", path_of(id, ""), NULL), ==, 404);
        engine_release();
        CHECK(run_until(client_is_done, &k));
        CHECK_INT(k.status, ==, 204);
        CHECK(!engine_lives(id));
        client_close(&a);
        client_close(&b);
        client_close(&k);
}

static void a_kill_while_resuming_waits_for_it(void)
{
        char id[SANDBOX_ID_MAX], path[128];
        struct client a, k;

        CHECK(create(BASE, id) && pause_it(id) == 204);
        engine.holds_create = true;
        (void)snprintf(path, sizeof(path), "/v2/sandboxes/%s/connect", id);
        start(&a, "POST", path, "{}");
        CHECK(until(id, SANDBOX_RESUMING) && run_until(engine_has_logged, "create:"));
        run_rounds(20);
        engine.log[0] = 0;
        start(&k, "DELETE", path_of(id, ""), NULL);
        CHECK(run_until(client_is_done, &a));
        CHECK_INT(a.status, ==, 409);
        run_rounds(20);
        CHECK(!strstr(engine.log, "kill:"));
        engine_release();
        CHECK(run_until(client_is_done, &k));
        CHECK_INT(k.status, ==, 204);
        CHECK(!engine_lives(id) && run_until(nothing_is_left, NULL));
        client_close(&a);
        client_close(&k);
}

/* ---- what cannot be ---- */

static void what_cannot_be_saved_is_an_error_and_runs_on(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id));
        engine.fails = "pause";
        engine.fail_kind = "conflict";
        engine.fail_message = "pid 7 (node) uses io_uring; pause with memory:false keeps the files";
        CHECK_INT(pause_it(id), ==, 409);
        CHECK_INT(json_integer_value(json_object_get(last.json, "code")), ==, 422); /* clients would see "false" */
        CHECK_STR(text_at("message"),
                  "Error pausing sandbox - pid 7 (node) uses io_uring; pause with memory:false keeps the files");
        CHECK_STR(shown(id, "state"), "running");
        CHECK_STR(text_at("endAt"), "2026-09-21T14:14:20.000000Z"); /* as it was */
        CHECK(timer_is_armed(&rig.control.lives.timer));
        CHECK_INT(row_state(id), ==, SANDBOX_RUNNING);
        engine.fail_kind = "limit";
        engine.fail_message = "no space left";
        CHECK_INT(pause_it(id), ==, 507);
        CHECK(is_error(507, "Error pausing sandbox - no space left"));
        engine.fail_kind = "no_space";
        CHECK_INT(pause_it(id), ==, 507);
        engine.fail_kind = "unavailable";
        CHECK_INT(pause_it(id), ==, 503);
        engine.fail_kind = "internal";
        CHECK_INT(pause_it(id), ==, 500);
        engine.fail_kind = "not_found"; /* something else was not found */
        CHECK_INT(pause_it(id), ==, 500);
        CHECK_STR(shown(id, "state"), "running");
        engine.fail_kind = "gone"; /* it died meanwhile */
        CHECK_INT(pause_it(id), ==, 404);
        CHECK_INT(ask("GET", path_of(id, ""), NULL), ==, 404);
}

static void a_failed_resume_stays_paused(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id));
        rig.now_ns += 5 * S_NS;
        CHECK_INT(pause_it(id), ==, 204);
        rig.now_ns += 5 * S_NS;
        engine.fails_create = true;
        engine.fail_kind = "invalid";
        engine.fail_message = "checkpoint damaged: pages-1.img: checksum";
        CHECK_INT(connect_to(id, "{}"), ==, 500);
        CHECK(is_error(500,
                       "checkpoint damaged: pages-1.img: checksum. Its files are intact: connect with memory:false "
                       "(onResume 'reboot') starts it from them."));
        CHECK_STR(shown(id, "state"), "paused");
        CHECK_STR(text_at("endAt"), "2026-09-21T14:13:25.000000Z");
        CHECK_STR(text_at("startedAt"), "2026-09-21T14:13:20.000000Z");
        CHECK_INT(row_state(id), ==, SANDBOX_PAUSED);
        CHECK_INT(json_object_size(engine.checkpoints), ==, 1);
        engine.fail_kind = "limit";
        engine.fail_message = "no slot is free";
        CHECK_INT(connect_to(id, "{}"), ==, 503);
        CHECK_INT(team_count(), ==, 0);
        engine.fails_create = false;
        CHECK_INT(connect_to(id, "{\"memory\":false}"), ==, 201);
}

/* ---- a resume after which nobody inside answers ---- */

static bool one_image(void *arg)
{
        (void)arg;
        return json_object_size(engine.checkpoints) == 1;
}

/* What has run is what is kept. */
static void one_that_does_not_answer_is_paused_as_it_is_then(void)
{
        char id[SANDBOX_ID_MAX], first[CHECKPOINT_ID_MAX];

        CHECK(create(BASE, id));
        rig.now_ns += 5 * S_NS;
        CHECK_INT(pause_it(id), ==, 204);
        (void)snprintf(first, sizeof(first), "%s", json_object_iter_key(json_object_iter(engine.checkpoints)));
        rig.now_ns += 5 * S_NS;
        engine.envd_silent = "hear from envd: timed out";
        CHECK_INT(connect_to(id, "{}"), ==, 504);
        CHECK(is_error(504, "Failed to place sandbox: hear from envd: timed out"));
        CHECK_STR(shown(id, "state"), "paused");
        CHECK_STR(text_at("startedAt"), "2026-09-21T14:13:20.000000Z");
        CHECK_INT(row_state(id), ==, SANDBOX_PAUSED);
        CHECK_STR(state_at_engine(id), "paused");
        CHECK(run_until(one_image, NULL) && !json_object_get(engine.checkpoints, first));
        CHECK_INT(team_count(), ==, 0);
        engine.envd_silent = NULL;
        CHECK_INT(connect_to(id, "{}"), ==, 201); /* from the newer image, or the engine would have refused */
        CHECK_STR(shown(id, "state"), "running");
}

static void one_that_does_not_answer_and_cannot_be_saved_keeps_its_files(void)
{
        struct client c;
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id));
        CHECK_INT(pause_it(id), ==, 204);
        engine.envd_silent = "hear from envd: timed out";
        engine.fails = "pause";
        engine.fail_kind = "limit";
        engine.fail_message = "disk full";
        engine.holds = "pause";
        start(&c, "POST", path_of(id, "/resume"), "{}");
        CHECK(until(id, SANDBOX_PAUSING) && run_until(engine_is_holding, NULL));
        engine_release();
        engine.holds = "pause"; /* the second one */
        run_rounds(50);
        CHECK(engine.held && json_is_null(json_object_get(engine.held, "checkpoint")));
        engine.fails = NULL;
        engine_release();
        CHECK(run_until(client_is_done, &c));
        CHECK_INT(c.status, ==, 504);
        CHECK(strstr(json_string_value(json_object_get(c.json, "message")),
                     "hear from envd: timed out; only its files are kept: disk full"));
        client_close(&c);
        CHECK_STR(shown(id, "state"), "paused");
        CHECK(run_until(nothing_is_left, NULL));
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK(!json_object_get(engine.plan, "checkpoint"));
}

static void a_pause_meanwhile_finds_it_paused(void)
{
        struct client c, other;
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id));
        CHECK_INT(pause_it(id), ==, 204);
        engine.envd_silent = "hear from envd: timed out";
        engine.holds = "pause";
        start(&c, "POST", path_of(id, "/resume"), "{}");
        CHECK(until(id, SANDBOX_PAUSING));
        start(&other, "POST", path_of(id, "/pause"), "{}");
        run_rounds(50);
        engine_release();
        CHECK(run_until(client_is_done, &c));
        CHECK_INT(c.status, ==, 504);
        CHECK(run_until(client_is_done, &other));
        CHECK_INT(other.status, ==, 409);
        client_close(&c);
        client_close(&other);
}

/* Its processes ran and died: the engine says so after its answer. */
static void memory_that_is_given_up_is_forgotten(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id));
        CHECK_INT(pause_it(id), ==, 204);
        engine.fails_create = true;
        engine.fail_kind = "internal";
        engine.fail_message = "envd hung up; only its files are kept";
        CHECK_INT(connect_to(id, "{}"), ==, 500);
        CHECK_INT(json_object_size(engine.checkpoints), ==, 1);
        (void)json_object_del(json_object_get(engine.alive, id), "checkpoint");
        (void)channel_send(engine.channel,
                           json_pack("{s:s,s:s,s:s}", "event", "rechecked", "id", id, "state", "paused"), NULL, 0);
        CHECK(run_until(nothing_is_left, NULL));
        engine.fails_create = false;
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK(!json_object_get(engine.plan, "checkpoint"));
}

/* A job process of the engine that dies late: an error, and then the fact. */
static void the_last_word_is_the_fact(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id));
        CHECK_INT(pause_it(id), ==, 204);
        engine.fails_create = true;
        engine.fail_kind = "internal";
        engine.fail_message = "its job process died";
        CHECK_INT(connect_to(id, "{}"), ==, 500);
        (void)json_object_set_new(json_object_get(engine.alive, id), "state", json_string("running"));
        (void)channel_send(engine.channel,
                           json_pack("{s:s,s:s,s:s}", "event", "rechecked", "id", id, "state", "running"), NULL, 0);
        CHECK(until(id, SANDBOX_RUNNING));
        CHECK_INT(connect_to(id, "{}"), ==, 200);
        engine.fails_create = false;
        engine.fails = "pause";
        CHECK_INT(pause_it(id), ==, 500);
        CHECK_INT(state_of(id), ==, SANDBOX_RUNNING);
        engine.fails = NULL;
        (void)json_object_set_new(json_object_get(engine.alive, id), "state", json_string("paused"));
        (void)json_object_del(json_object_get(engine.alive, id), "checkpoint");
        (void)channel_send(engine.channel,
                           json_pack("{s:s,s:s,s:s}", "event", "rechecked", "id", id, "state", "paused"), NULL, 0);
        CHECK(until(id, SANDBOX_PAUSED));
        CHECK_INT(connect_to(id, "{}"), ==, 201);
}

static void running_ones_are_counted_at_resume(void)
{
        char a[SANDBOX_ID_MAX], b[SANDBOX_ID_MAX];

        rig.conf.sandboxes_max = 1;
        CHECK(create(BASE, a) && pause_it(a) == 204);
        CHECK(create(BASE, b)); /* the paused one does not count */
        CHECK_INT(connect_to(a, "{}"), ==, 429);
        CHECK(strstr(text_at("message"), "you have reached the maximum number of concurrent E2B sandboxes (1)"));
        CHECK_INT(ask("DELETE", path_of(b, ""), NULL), ==, 204);
        CHECK_INT(connect_to(a, "{}"), ==, 201);
}

static void the_deprecated_resume_works(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id));
        CHECK_INT(ask("POST", path_of(id, "/resume"), "{}"), ==, 409);
        CHECK_INT(pause_it(id), ==, 204);
        CHECK_INT(ask("POST", path_of(id, "/resume"), "{\"autoPause\":true}"), ==, 201);
        CHECK_STR(shown(id, "endAt"), "2026-09-21T14:13:35.000000Z");
        CHECK_STR(json_string_value(json_object_get(json_object_get(last.json, "lifecycle"), "onTimeout")), "pause");
        CHECK_INT(ask("POST", "/sandboxes/inone/resume", "{}"), ==, 404);
        CHECK_INT(pause_it(id), ==, 204);
        CHECK_INT(ask("POST", path_of(id, "/connect"), "{}"), ==, 400); /* v1 wants a timeout */
        CHECK_INT(ask("POST", path_of(id, "/connect"), "{\"timeout\":90000}"), ==, 400);
        CHECK_INT(ask("POST", path_of(id, "/connect"), "{\"timeout\":9}"), ==, 201);
}

/* ---- a clock that is set ---- */

static void a_paused_one_does_not_care_what_time_it_is(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create("{\"templateID\":\"base\",\"timeout\":60,\"autoPause\":true}", id));
        CHECK_INT(pause_it(id), ==, 204);
        rig_set_clock(-86400);
        CHECK_STR(shown(id, "endAt"), "2026-09-21T14:13:20.000000Z"); /* when it was paused, as it seemed then */
        CHECK_INT(connect_to(id, "{\"timeout\":20}"), ==, 201);
        CHECK_STR(shown(id, "endAt"), "2026-09-20T14:13:40.000000Z");
        CHECK_INT(pause_it(id), ==, 204);
        rig_set_clock(2 * 86400);
        CHECK_INT(connect_to(id, "{\"timeout\":20}"), ==, 201);
        CHECK_STR(shown(id, "endAt"), "2026-09-22T14:13:40.000000Z");
        engine.holds = "pause"; /* and in the middle of it */
        CHECK_INT(ask("POST", path_of(id, "/timeout"), "{\"timeout\":0}"), ==, 204);
        CHECK(until(id, SANDBOX_PAUSING) && run_until(engine_is_holding, NULL));
        rig_set_clock(3600);
        engine_release();
        CHECK(until(id, SANDBOX_PAUSED));
        CHECK_STR(shown(id, "endAt"), "2026-09-22T15:13:20.000000Z");
}

/* ---- at the end of its time ---- */

static void expire(void)
{
        struct timer *t = &rig.control.lives.timer;

        t->on(t);
}

static void at_its_end_it_is_paused_if_it_wants(void)
{
        char id[SANDBOX_ID_MAX];
        const json_t *cycle;

        CHECK(create("{\"templateID\":\"base\",\"timeout\":10,\"autoPause\":true,\"autoResume\":{\"enabled\":true}}",
                     id));
        CHECK_INT(ask("GET", path_of(id, ""), NULL), ==, 200);
        cycle = json_object_get(last.json, "lifecycle");
        CHECK_STR(json_string_value(json_object_get(cycle, "onTimeout")), "pause");
        CHECK(json_is_true(json_object_get(cycle, "autoResume")));
        rig.now_ns += 10 * S_NS;
        expire();
        CHECK(until(id, SANDBOX_PAUSED));
        CHECK_INT(json_object_size(engine.checkpoints), ==, 1);
        control_stop();
        CHECK(control_start() && run_until(engine_is_up, NULL));
        CHECK_INT(ask("GET", path_of(id, ""), NULL), ==, 200);
        CHECK_STR(json_string_value(json_object_get(json_object_get(last.json, "lifecycle"), "onTimeout")), "pause");
        CHECK_INT(connect_to(id, "{\"timeout\":20}"), ==, 201);
        CHECK_INT(ask("POST", path_of(id, "/timeout"), "{\"timeout\":0}"), ==, 204);
        CHECK(until(id, SANDBOX_PAUSED));
}

static void at_its_end_files_only_if_it_wants(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create("{\"templateID\":\"base\",\"timeout\":10,\"autoPause\":true,\"autoPauseMemory\":false}", id));
        rig.now_ns += 10 * S_NS;
        expire();
        CHECK(until(id, SANDBOX_PAUSED));
        CHECK_INT(json_object_size(engine.checkpoints), ==, 0);
}

static void at_its_end_what_cannot_be_saved_keeps_its_files(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create("{\"templateID\":\"base\",\"timeout\":10,\"autoPause\":true}", id));
        engine.fails = "pause";
        engine.fail_kind = "conflict";
        engine.fail_message = "io_uring";
        rig.now_ns += 10 * S_NS;
        engine.holds = "pause";
        expire();
        CHECK(run_until(engine_has_logged, "pause:"));
        engine_release();
        engine.holds = "pause"; /* the second one */
        run_rounds(50);
        CHECK(engine.held && json_is_null(json_object_get(engine.held, "checkpoint")));
        engine.fails = NULL;
        engine_release();
        CHECK(until(id, SANDBOX_PAUSED));
        CHECK_INT(json_object_size(engine.checkpoints), ==, 0);
}

static void at_its_end_a_full_disk_is_tried_again(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create("{\"templateID\":\"base\",\"timeout\":10,\"autoPause\":true}", id));
        engine.fails = "pause";
        engine.fail_kind = "limit";
        engine.fail_message = "no space left";
        rig.now_ns += 10 * S_NS;
        expire();
        CHECK(run_until(engine_has_logged, "pause:") && until(id, SANDBOX_RUNNING));
        engine.fails = NULL;
        rig.now_ns += 30 * S_NS;
        expire();
        CHECK(until(id, SANDBOX_PAUSED));
}

int main(void)
{
        RUN_IN_RIG(a_pause_keeps_all_but_the_processes);
        RUN_IN_RIG(without_memory_it_is_started_anew);
        RUN_IN_RIG(memory_may_be_left_behind_at_connect);
        RUN_IN_RIG(one_that_is_being_started_cannot_be_paused);
        RUN_IN_RIG(a_second_pause_is_409);
        RUN_IN_RIG(concurrent_pauses_join);
        RUN_IN_RIG(connect_while_pausing_waits_and_resumes);
        RUN_IN_RIG(connects_join_one_resume);
        RUN_IN_RIG(a_pause_while_resuming_waits_its_turn);
        RUN_IN_RIG(a_paused_one_has_no_timeout);
        RUN_IN_RIG(lists_show_the_paused);
        RUN_IN_RIG(a_paused_one_is_killed_with_its_image);
        RUN_IN_RIG(a_kill_while_pausing_wins);
        RUN_IN_RIG(a_kill_while_resuming_waits_for_it);
        RUN_IN_RIG(what_cannot_be_saved_is_an_error_and_runs_on);
        RUN_IN_RIG(a_failed_resume_stays_paused);
        RUN_IN_RIG(one_that_does_not_answer_is_paused_as_it_is_then);
        RUN_IN_RIG(one_that_does_not_answer_and_cannot_be_saved_keeps_its_files);
        RUN_IN_RIG(a_pause_meanwhile_finds_it_paused);
        RUN_IN_RIG(memory_that_is_given_up_is_forgotten);
        RUN_IN_RIG(the_last_word_is_the_fact);
        RUN_IN_RIG(running_ones_are_counted_at_resume);
        RUN_IN_RIG(the_deprecated_resume_works);
        RUN_IN_RIG(a_paused_one_does_not_care_what_time_it_is);
        RUN_IN_RIG(at_its_end_it_is_paused_if_it_wants);
        RUN_IN_RIG(at_its_end_files_only_if_it_wants);
        RUN_IN_RIG(at_its_end_what_cannot_be_saved_keeps_its_files);
        RUN_IN_RIG(at_its_end_a_full_disk_is_tried_again);
        return tap_done();
}
