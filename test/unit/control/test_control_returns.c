/* Going back to a snapshot, chains of layers that are kept short, and traffic that resumes. */
#include "control_copy.h"

#include "model/plan.h"

/* ---- going back ---- */

static void it_goes_back_to_its_snapshot(void)
{
        char id[SANDBOX_ID_MAX], other[SANDBOX_ID_MAX], snapshot[160], foreign[160], token[65];

        CHECK(create(BASE, id) && create(BASE, other));
        CHECK(take_snapshot(id, "{\"name\":\"mine\"}", snapshot) && take_snapshot(other, "{}", foreign));
        CHECK(until(id, SANDBOX_RUNNING));
        CHECK_INT(ask("GET", path_of(id, ""), NULL), ==, 200);
        (void)snprintf(token, sizeof(token), "%s", text_at("envdAccessToken"));
        engine.log[0] = 0;
        CHECK_INT(roll_back(id, snapshot), ==, 200);
        CHECK_STR(text_at("sandboxID"), id);
        CHECK_STR(text_at("state"), "running");
        CHECK_STR(text_at("envdAccessToken"), token);
        CHECK_STR(text_at("endAt"), "2026-09-21T14:14:20.000000Z");
        CHECK(strstr(engine.log, "kill:") && strstr(engine.log, "create:") > strstr(engine.log, "kill:"));
        CHECK_INT(json_array_size(json_object_get(engine.plan, "layers")), ==, 3);
        CHECK(!json_object_get(engine.plan, "upper") && json_object_get(engine.plan, "checkpoint"));
        CHECK_INT(roll_back(id, "mine"), ==, 200); /* as often as wanted */
        CHECK_INT(roll_back(id, foreign), ==, 400);
        CHECK_INT(roll_back(id, "none"), ==, 404);
        CHECK_INT(roll_back(id, "a b"), ==, 400);
        CHECK_INT(ask("POST", path_of(id, "/rollback"), "{}"), ==, 400);
        CHECK_INT(roll_back("inone", "mine"), ==, 404);

        CHECK_INT(pause_it(id), ==, 204);
        CHECK_INT(roll_back(id, snapshot), ==, 200); /* stays paused */
        CHECK_STR(text_at("state"), "paused");
        CHECK(!engine_lives(id));
        control_stop();
        CHECK(control_start() && run_until(engine_is_up, NULL));
        CHECK_STR(shown(id, "state"), "paused");
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK(!json_object_get(engine.plan, "upper") && json_object_get(engine.plan, "checkpoint"));
        CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
        CHECK_INT(ask("DELETE", path_of(other, ""), NULL), ==, 204);
        CHECK_INT(delete_template("mine") == 204 && delete_template(foreign) == 204, ==, 1);
        CHECK(run_until(nothing_is_left, NULL));
}

/* What it was is gone by then: a job process that dies must not leave it paused. */
static void going_back_is_tried_again(void)
{
        char id[SANDBOX_ID_MAX], snapshot[160], path[128], body[200];
        struct client a;

        CHECK(create(BASE, id) && take_snapshot(id, "{}", snapshot) && until(id, SANDBOX_RUNNING));
        (void)snprintf(path, sizeof(path), "%s", path_of(id, "/rollback"));
        (void)snprintf(body, sizeof(body), "{\"snapshotID\":\"%s\"}", snapshot);
        engine.holds_create = true;
        engine.log[0] = 0;
        start(&a, "POST", path, body);
        CHECK(run_until(engine_has_logged, "create:"));
        engine.holds_create = false;
        engine_answer(engine.held, engine_refusal("internal", "its job process died"));
        CHECK(run_until(client_is_done, &a));
        CHECK_INT(a.status, ==, 200);
        client_close(&a);
        CHECK(until(id, SANDBOX_RUNNING) && engine_has(id, "running"));
        CHECK_STR(shown(id, "state"), "running");
}

static void going_back_is_finished_after_a_crash(void)
{
        static const char *const at[] = {"kill", "create"};

        for (size_t i = 0; i < ARRAY_LEN(at); i++)
                for (int done = 0; done < 2; done++) {
                        char id[SANDBOX_ID_MAX], snapshot[160];
                        struct client a;

                        CHECK(create(BASE, id) && take_snapshot(id, "{}", snapshot) && until(id, SANDBOX_RUNNING));
                        *(done ? &engine.dies_on : &engine.dies_before) = at[i];
                        CHECK_INT(roll_back(id, snapshot), ==, 200);
                        CHECK(engine_has(id, "running"));

                        engine.log[0] = 0;
                        engine.holds = at[i];
                        char path[128], body[200];
                        (void)snprintf(path, sizeof(path), "%s", path_of(id, "/rollback"));
                        (void)snprintf(body, sizeof(body), "{\"snapshotID\":\"%s\"}", snapshot);
                        start(&a, "POST", path, body);
                        CHECK(run_until(engine_has_logged, (void *)at[i]));
                        client_close(&a);
                        control_stop();
                        engine.holds = NULL;
                        if (done)
                                json_decref(engine_do(at[i], engine.held));
                        CHECK(control_start() && run_until(engine_is_up, NULL));
                        CHECK(until(id, SANDBOX_RUNNING) && engine_has(id, "running"));
                        CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
                        CHECK_INT(delete_template(snapshot), ==, 204);
                        CHECK(run_until(nothing_is_left, NULL));
                }
}

static void going_back_that_fails_leaves_it_paused(void)
{
        char id[SANDBOX_ID_MAX], snapshot[160];

        CHECK(create(BASE, id) && take_snapshot(id, "{}", snapshot) && until(id, SANDBOX_RUNNING));
        engine.fails_create = true;
        engine.fail_kind = "invalid";
        engine.fail_message = "checkpoint damaged: x";
        CHECK_INT(roll_back(id, snapshot), ==, 500);
        CHECK_STR(shown(id, "state"), "paused");
        engine.fails_create = false;
        CHECK_INT(connect_to(id, "{\"memory\":false}"), ==, 201);
}

/* ---- chains of layers ---- */

static bool is_short(void *arg)
{
        const struct life *l = lives_find(&rig.control.lives, arg);

        return json_array_size(l->merged_layers ? l->merged_layers : l->sandbox.layers) <= 2 + LAYERS_SEALED_MAX;
}

static void layer_chains_are_kept_short(void)
{
        char id[SANDBOX_ID_MAX], snapshot[160], first[160];

        CHECK(create(BASE, id));
        CHECK(take_snapshot(id, "{}", first));
        for (int i = 0; i < 40; i++) {
                CHECK(take_snapshot(id, "{\"name\":\"again\"}", snapshot));
                CHECK(until(id, SANDBOX_RUNNING));
        }
        CHECK(strstr(engine.log, "merge"));
        CHECK(run_until(engine_is_quiet, NULL) && run_until(is_short, id));
        CHECK(json_object_size(engine.layers) <= 2 * LAYERS_SEALED_MAX + 4);
        CHECK_INT(create_from(snapshot), ==, 201);
        CHECK(json_array_size(json_object_get(engine.plan, "layers")) <= 3 + LAYERS_SEALED_MAX);
        CHECK_INT(create_from(first), ==, 201);
        CHECK_INT(roll_back(id, "again"), ==, 200);
        CHECK_INT(fork_it(id, "{}"), ==, 201);
}

static void at_the_limit_a_copy_waits_for_the_merge(void)
{
        char id[SANDBOX_ID_MAX], snapshot[160];

        CHECK(create(BASE, id));
        engine.fails = "merge";
        engine.fail_kind = "internal";
        engine.fail_message = "no";
        for (int i = 0; i < PLAN_LAYERS_MAX - 2; i++) {
                CHECK(take_snapshot(id, "{\"name\":\"again\"}", snapshot));
                CHECK(until(id, SANDBOX_RUNNING));
        }
        CHECK_INT(ask("POST", path_of(id, "/snapshots"), "{}"), ==, 503);
        CHECK(strstr(text_at("message"), "being merged"));
        CHECK_STR(shown(id, "state"), "running");
        engine.fails = NULL;
        rig.control.layer_chains.retry.on(&rig.control.layer_chains.retry); /* the time is not waited for */
        timer_clear(&rig.control.layer_chains.retry);
        CHECK(run_until(is_short, id));
        CHECK(take_snapshot(id, "{}", snapshot));
}

/* Take so many snapshots that its chain wants to be shorter. */
static void make_long(const char *id)
{
        char snapshot[160];

        for (int i = 0; i <= LAYERS_SEALED_MAX; i++) {
                CHECK(take_snapshot(id, "{}", snapshot));
                CHECK(until(id, SANDBOX_RUNNING));
        }
}

static void a_chain_that_cannot_be_merged_is_not_in_the_way_of_others(void)
{
        char id[SANDBOX_ID_MAX], other[SANDBOX_ID_MAX], snapshot[160];
        const struct life *l;

        engine.fails = "merge"; /* until both are long */
        engine.fail_kind = "internal";
        engine.fail_message = "no";
        CHECK(create(BASE, other));
        make_long(other);
        CHECK(create(BASE, id) && take_snapshot(id, "{}", snapshot) && until(id, SANDBOX_RUNNING));
        l = lives_find(&rig.control.lives, id);
        (void)snprintf(engine.unmergeable, sizeof(engine.unmergeable), "%s",
                       json_string_value(json_array_get(l->sandbox.layers, json_array_size(l->sandbox.layers) - 1)));
        make_long(id);
        engine.fails = NULL;
        timer_clear(&rig.control.layer_chains.retry); /* the time is not waited for */
        layer_chains_look(&rig.control.layer_chains);
        CHECK(run_until(is_short, other));
        CHECK(!is_short(id));
        engine.unmergeable[0] = 0;
        CHECK(run_until(engine_is_quiet, NULL));
        timer_clear(&rig.control.layer_chains.retry);
        layer_chains_look(&rig.control.layer_chains);
        CHECK(run_until(is_short, id));
}

/* ---- traffic ---- */

static void ask_to_resume(const char *id, int port, const char *token)
{
        edge.log[0] = 0;
        (void)channel_send(edge.channel,
                           json_pack("{s:s,s:i,s:s,s:i,s:s*}", "op", "resume", "req", 9, "id", id, "port", port,
                                     "access_token", token),
                           NULL, 0);
}

static void traffic_resumes_a_sandbox_that_allows_it(void)
{
        char id[SANDBOX_ID_MAX], token[65];

        CHECK(edge_start());
        CHECK(create("{\"templateID\":\"base\",\"timeout\":10,\"autoPause\":true,\"autoResume\":{\"enabled\":true}}",
                     id));
        (void)snprintf(token, sizeof(token), "%s", text_at("envdAccessToken"));
        CHECK_INT(pause_it(id), ==, 204);
        CHECK(run_until(edge_has_heard, "\"resumes\":true,\"state\":\"paused\""));
        ask_to_resume(id, ENVD_PORT, NULL);
        CHECK(run_until(edge_has_heard, "\"kind\":\"denied\""));
        ask_to_resume(id, ENVD_PORT, "0000000000000000000000000000000000000000000000000000000000000000");
        CHECK(run_until(edge_has_heard, "\"kind\":\"denied\""));
        CHECK(engine_has(id, "paused"));
        engine.log[0] = 0;
        ask_to_resume(id, 3000, NULL);
        ask_to_resume(id, 3001, NULL);
        CHECK(run_until(edge_has_heard, "\"ok\":true,\"req\":9"));
        CHECK(strstr(edge.log, "\"state\":\"running\""));
        run_rounds(20);
        CHECK(!strstr(strstr(engine.log, "create:") + 1, "create:")); /* once */
        CHECK_STR(shown(id, "endAt"), "2026-09-21T14:18:20.000000Z"); /* at least 300 s */
        CHECK_INT(pause_it(id), ==, 204);
        ask_to_resume(id, ENVD_PORT, token);
        CHECK(run_until(edge_has_heard, "\"ok\":true"));
        ask_to_resume(id, 3000, NULL); /* it runs already */
        CHECK(run_until(edge_has_heard, "\"ok\":true"));
        edge.channel = channel_free(edge.channel);
}

static void traffic_does_not_resume_the_others(void)
{
        char id[SANDBOX_ID_MAX], files[SANDBOX_ID_MAX], other[SANDBOX_ID_MAX];

        CHECK(edge_start());
        rig.conf.sandboxes_max = 1;
        CHECK(create(BASE, id) && pause_it(id) == 204);
        CHECK(run_until(edge_has_heard, "\"state\":\"paused\""));
        CHECK(!strstr(edge.log, "resumes"));
        ask_to_resume(id, 3000, NULL);
        CHECK(run_until(edge_has_heard, "\"kind\":\"not_found\""));
        CHECK(create("{\"templateID\":\"base\",\"autoResume\":{\"enabled\":true}}", files));
        CHECK_INT(ask("POST", path_of(files, "/pause"), "{\"memory\":false}"), ==, 204);
        ask_to_resume(files, 3000, NULL);
        CHECK(run_until(edge_has_heard, "\"kind\":\"not_found\""));
        ask_to_resume("inone", 3000, NULL);
        CHECK(run_until(edge_has_heard, "\"kind\":\"not_found\""));
        CHECK_INT(connect_to(files, "{}"), ==, 201);
        CHECK_INT(pause_it(files), ==, 204);
        CHECK(create(BASE, other));
        ask_to_resume(files, 3000, NULL);
        CHECK(run_until(edge_has_heard, "\"kind\":\"limit\""));
        CHECK_INT(ask("DELETE", path_of(other, ""), NULL), ==, 204);
        engine.fails_create = true;
        engine.fail_kind = "unavailable";
        engine.fail_message = "no";
        ask_to_resume(files, 3000, NULL);
        CHECK(run_until(edge_has_heard, "\"kind\":\"unavailable\""));
        edge.channel = channel_free(edge.channel);
}

static void traffic_waits_for_what_is_under_way(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a;

        CHECK(edge_start());
        CHECK(create("{\"templateID\":\"base\",\"autoResume\":{\"enabled\":true}}", id));
        engine.holds = "pause";
        start(&a, "POST", path_of(id, "/pause"), "{}");
        CHECK(run_until(engine_has_logged, "pause:"));
        ask_to_resume(id, 3000, NULL);
        run_rounds(20);
        CHECK(!strstr(edge.log, "req"));
        engine_release();
        CHECK(run_until(edge_has_heard, "\"ok\":true"));
        CHECK(run_until(client_is_done, &a));
        CHECK_INT(a.status, ==, 204);
        client_close(&a);

        engine.holds = "pause"; /* a copy: any request waits, with or without a token */
        engine.log[0] = 0;
        start(&a, "POST", path_of(id, "/snapshots"), "{}");
        CHECK(run_until(engine_has_logged, "pause:"));
        ask_to_resume(id, ENVD_PORT, NULL);
        run_rounds(20);
        engine_release();
        CHECK(run_until(edge_has_heard, "\"ok\":true"));
        CHECK(run_until(client_is_done, &a));
        client_close(&a);

        engine.holds = "pause"; /* an edge that goes while it waits */
        engine.log[0] = 0;
        start(&a, "POST", path_of(id, "/pause"), "{}");
        CHECK(run_until(engine_has_logged, "pause:"));
        ask_to_resume(id, 3000, NULL);
        run_rounds(20);
        edge.channel = channel_free(edge.channel);
        run_rounds(20);
        engine_release();
        CHECK(run_until(client_is_done, &a));
        CHECK(until(id, SANDBOX_PAUSED));
        client_close(&a);
}

int main(void)
{
        rig_is_large = true;
        RUN_IN_RIG(it_goes_back_to_its_snapshot);
        RUN_IN_RIG(going_back_is_tried_again);
        RUN_IN_RIG(going_back_is_finished_after_a_crash);
        RUN_IN_RIG(going_back_that_fails_leaves_it_paused);
        RUN_IN_RIG(layer_chains_are_kept_short);
        RUN_IN_RIG(at_the_limit_a_copy_waits_for_the_merge);
        RUN_IN_RIG(a_chain_that_cannot_be_merged_is_not_in_the_way_of_others);
        RUN_IN_RIG(traffic_resumes_a_sandbox_that_allows_it);
        RUN_IN_RIG(traffic_does_not_resume_the_others);
        RUN_IN_RIG(traffic_waits_for_what_is_under_way);
        return tap_done();
}
