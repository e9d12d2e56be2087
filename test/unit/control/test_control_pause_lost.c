/* Pausing and resuming when somebody is lost on the way: the engine, control, a row, a client. */
#include "control_life.h"

#include "store/db.h"

static void a_paused_one_survives_a_restart_of_control(void)
{
        char id[SANDBOX_ID_MAX], token[65];

        CHECK(create(BASE, id));
        (void)snprintf(token, sizeof(token), "%s", text_at("envdAccessToken"));
        CHECK_INT(pause_it(id), ==, 204);
        control_stop();
        engine.log[0] = 0;
        CHECK(control_start() && run_until(engine_is_up, NULL));
        run_rounds(20);
        CHECK(!strstr(engine.log, "kill:") && !strstr(engine.log, "drop"));
        CHECK_STR(shown(id, "state"), "paused");
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK_STR(text_at("envdAccessToken"), token);
}

/* Each op is lost with the link once before and once after it was carried out; then everything must come to rest. */
static void a_pause_lost_with_the_engine_ends_well(void)
{
        for (int done = 0; done < 2; done++) {
                char id[SANDBOX_ID_MAX];

                CHECK(create(BASE, id));
                *(done ? &engine.dies_on : &engine.dies_before) = "pause";
                CHECK_INT(pause_it(id), ==, done ? 204 : 503);
                CHECK_INT(state_of(id), ==, done ? SANDBOX_PAUSED : SANDBOX_RUNNING);
                CHECK_INT(row_state(id), ==, done ? SANDBOX_PAUSED : SANDBOX_RUNNING);
                if (done)
                        CHECK_INT(connect_to(id, "{}"), ==, 201);
                CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
                CHECK(run_until(nothing_is_left, NULL));
        }
}

static void a_resume_lost_with_the_engine_ends_well(void)
{
        for (int done = 0; done < 2; done++) {
                char id[SANDBOX_ID_MAX];

                CHECK(create(BASE, id) && pause_it(id) == 204);
                *(done ? &engine.dies_on : &engine.dies_before) = "create";
                CHECK_INT(connect_to(id, "{}"), ==, done ? 201 : 503);
                CHECK_INT(state_of(id), ==, done ? SANDBOX_RUNNING : SANDBOX_PAUSED);
                CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
                CHECK(run_until(nothing_is_left, NULL));
        }
}

/* To be started from its files: the engine gives up the memory before it begins. */
static void memory_given_up_by_a_lost_resume_is_not_asked_for_again(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id) && pause_it(id) == 204);
        (void)json_object_del(json_object_get(engine.alive, id), "checkpoint");
        engine.dies_before = "create";
        CHECK_INT(connect_to(id, "{\"memory\":false}"), ==, 503);
        CHECK_INT(state_of(id), ==, SANDBOX_PAUSED);
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK(!json_object_get(engine.plan, "checkpoint"));
        CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
        CHECK(run_until(nothing_is_left, NULL));
}

/* No answer in time: the engine is asked anew what it has, instead of guessing. */
static void what_is_not_answered_is_asked_anew(void)
{
        for (int done = 0; done < 2; done++) {
                char id[SANDBOX_ID_MAX];
                struct client a;
                struct life *l;

                CHECK(create(BASE, id));
                engine.log[0] = 0;
                engine.holds = "pause";
                start(&a, "POST", path_of(id, "/pause"), "{}");
                CHECK(run_until(engine_has_logged, "pause:"));
                l = lives_find(&rig.control.lives, id);
                if (done)
                        json_decref(engine_do("pause", engine.held));
                engine.holds = NULL;
                l->call.timer.on(&l->call.timer);
                CHECK_INT(rig.control.engine.state, !=, ENGINE_UP);
                CHECK(run_until(client_is_done, &a));
                CHECK_INT(a.status, ==, done ? 204 : 503);
                client_close(&a);
                CHECK_INT(state_of(id), ==, done ? SANDBOX_PAUSED : SANDBOX_RUNNING);
                CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
        }
}

/* The store is full when the engine has paused it: an error, and after a restart it is what the engine says. */
static void a_pause_that_cannot_be_recorded_is_an_error(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a;

        CHECK(create(BASE, id));
        engine.holds = "pause";
        start(&a, "POST", path_of(id, "/pause"), "{}");
        CHECK(run_until(engine_has_logged, "pause:"));
        CHECK_INT(sqlite3_exec(rig.control.store->db,
                               "CREATE TRIGGER no BEFORE UPDATE ON sandbox BEGIN SELECT RAISE(FAIL, 'no'); END", NULL,
                               NULL, NULL),
                  ==, SQLITE_OK);
        engine_release();
        CHECK(run_until(client_is_done, &a));
        CHECK(a.status >= 400 && a.status != 404);
        client_close(&a);
        CHECK_INT(state_of(id), ==, SANDBOX_PAUSED);
        CHECK_INT(connect_to(id, "{}") / 100, ==, 5 - (last.status == 409)); /* not begun without a row that says so */
        CHECK(engine_has(id, "paused"));
        CHECK_INT(sqlite3_exec(rig.control.store->db, "DROP TRIGGER no", NULL, NULL, NULL), ==, SQLITE_OK);
        rig.control.lives.tidy.on(&rig.control.lives.tidy);
        CHECK_INT(row_state(id), ==, SANDBOX_PAUSED); /* tried again */
        CHECK_INT(connect_to(id, "{}"), ==, 201);
}

static void control_lost_while_pausing_goes_by_the_engine(void)
{
        for (int done = 0; done < 2; done++) {
                char id[SANDBOX_ID_MAX];
                struct client a;

                CHECK(create(BASE, id));
                engine.holds = "pause";
                start(&a, "POST", path_of(id, "/pause"), "{}");
                CHECK(run_until(engine_has_logged, "pause:"));
                client_close(&a);
                control_stop();
                if (done)
                        json_decref(engine_do("pause", engine.held));
                engine.holds = NULL;
                engine.log[0] = 0;
                CHECK(control_start() && run_until(engine_is_up, NULL));
                CHECK(until(id, done ? SANDBOX_PAUSED : SANDBOX_RUNNING));
                CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
                CHECK(run_until(nothing_is_left, NULL));
        }
}

static void a_busy_one_is_waited_for(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a;
        json_t *entry;

        CHECK(create(BASE, id));
        engine.holds = "pause";
        start(&a, "POST", path_of(id, "/pause"), "{}");
        CHECK(run_until(engine_has_logged, "pause:"));
        engine.holds = NULL;
        entry = json_object_get(engine.alive, id);
        (void)json_object_set_new(entry, "state", json_string("busy"));
        engine.channel = channel_free(engine.channel);
        engine.log[0] = 0;
        CHECK(run_until(engine_has_logged, "list") && run_until(engine_is_up, NULL));
        run_rounds(20);
        CHECK(!a.is_done && state_of(id) == SANDBOX_PAUSING);
        (void)json_object_set_new(entry, "state", json_string("running"));
        json_decref(engine_do("pause", engine.held));
        (void)channel_send(engine.channel,
                           json_pack("{s:s,s:s,s:s,s:O}", "event", "rechecked", "id", id, "state", "paused",
                                     "checkpoint", json_object_get(entry, "checkpoint")),
                           NULL, 0);
        CHECK(run_until(client_is_done, &a));
        CHECK_INT(a.status, ==, 204);
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        client_close(&a);
}

static void what_nobody_knows_is_moved_aside(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id) && pause_it(id) == 204);
        (void)json_object_set_new(engine.checkpoints, "c00000000000000000000", json_true());
        (void)json_object_set_new(engine.layers, "u-00000000000000000000", json_true());
        control_stop();
        CHECK(control_start() && run_until(engine_is_up, NULL));
        CHECK(run_until(engine_has_logged, "lose"));
        run_rounds(20);
        CHECK_INT(json_object_size(engine.layers), ==, 0);
        CHECK_INT(json_object_size(engine.checkpoints), ==, 1);
        CHECK_INT(json_object_size(engine.lost), ==, 2);
        CHECK(!strstr(engine.log, "drop"));
        CHECK_INT(connect_to(id, "{}"), ==, 201);
}

static void one_of_an_older_version_cannot_be_paused(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id));
        CHECK_INT(sqlite3_exec(rig.control.store->db, "UPDATE sandbox SET layers = NULL", NULL, NULL, NULL), ==,
                  SQLITE_OK);
        control_stop();
        CHECK(control_start() && run_until(engine_is_up, NULL));
        CHECK_INT(pause_it(id), ==, 409);
        CHECK(strstr(text_at("message"), "was started by an older version"));
        CHECK_STR(shown(id, "state"), "running");
}

static void a_client_that_leaves_while_pausing_changes_nothing(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a;

        CHECK(create(BASE, id));
        engine.holds = "pause";
        start(&a, "POST", path_of(id, "/pause"), "{}");
        CHECK(run_until(engine_has_logged, "pause:"));
        client_close(&a);
        run_rounds(20);
        engine_release();
        CHECK(until(id, SANDBOX_PAUSED));
}

/* ---- what is not there ---- */

/* An image disk that is not mounted, say: that is not the end of the sandbox. */
static void a_resume_that_misses_something_else_stays_paused(void)
{
        static const char *const kinds[] = {"not_found", "internal", "denied", "conflict"};

        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                char id[SANDBOX_ID_MAX];

                CHECK(create(BASE, id));
                CHECK_INT(ask("POST", path_of(id, "/pause"), i % 2 ? "{}" : "{\"memory\":false}"), ==, 204);
                engine.fails_create = true;
                engine.fail_kind = kinds[i];
                engine.fail_message = "layer 'l1': No such file or directory";
                CHECK_INT(connect_to(id, "{}"), ==, 500);
                CHECK_INT(connect_to(id, "{\"memory\":false}"), ==, 500);
                CHECK_STR(shown(id, "state"), "paused");
                CHECK_INT(row_state(id), ==, SANDBOX_PAUSED);
                engine.fails_create = false;
                CHECK_INT(connect_to(id, "{}"), ==, 201);
                CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
        }
}

#define MISSING                                                                                                        \
        "Sandbox \"%s\" is paused, and its files are not on this server's disk. It comes back with them, or can be "   \
        "killed."

/* The files are not where they were, and may be back tomorrow: until then nobody sees it, and its row and memory stay. */
static void one_whose_files_are_missing_is_not_forgotten(void)
{
        for (int is_found_at_start = 0; is_found_at_start < 2; is_found_at_start++) {
                char id[SANDBOX_ID_MAX];
                json_t *entry;

                CHECK(create(BASE, id) && pause_it(id) == 204);
                entry = json_incref(json_object_get(engine.alive, id));
                (void)json_object_del(engine.alive, id);
                if (is_found_at_start) {
                        control_stop();
                        CHECK(control_start() && run_until(engine_is_up, NULL));
                } else {
                        CHECK_INT(connect_to(id, "{\"memory\":false}"), ==, 404);
                        CHECK(is_error(404, say(MISSING, id)));
                }
                CHECK_INT(connect_to(id, "{}"), ==, 404);
                CHECK(is_error(404, say(MISSING, id)));
                CHECK_INT(ask("GET", path_of(id, ""), NULL), ==, 404);
                CHECK_INT(ask("GET", "/v2/sandboxes?state=paused", NULL), ==, 200);
                CHECK_INT(json_array_size(last.json), ==, 0);
                CHECK_INT(row_state(id), ==, SANDBOX_PAUSED);
                CHECK_INT(json_object_size(engine.checkpoints), ==, 1);
                (void)json_object_set_new(engine.alive, id, entry);
                engine.log[0] = 0;
                engine.channel = channel_free(engine.channel);
                CHECK(run_until(engine_has_logged, "list") && run_until(engine_is_up, NULL));
                CHECK_STR(shown(id, "state"), "paused");
                CHECK_INT(connect_to(id, "{}"), ==, 201);
                CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
                CHECK(run_until(nothing_is_left, NULL));
        }
}

static void one_whose_files_are_missing_can_be_killed(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id) && pause_it(id) == 204);
        (void)json_object_del(engine.alive, id);
        CHECK_INT(connect_to(id, "{}"), ==, 404);
        CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
        CHECK_INT(row_state(id), ==, SANDBOX_GONE);
        CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 404);
        CHECK(run_until(nothing_is_left, NULL));
}

/* ---- those who wait for a transition when the sandbox ends in the middle of it ---- */

struct crowd {
        struct client all[5];
        size_t n;
};

static void crowd_send(struct crowd *c, const char *path, const char *body)
{
        start(&c->all[c->n++], "POST", path, body);
}

static bool crowd_is_answered(void *arg)
{
        struct crowd *c = arg;

        for (size_t i = 0; i < c->n; i++)
                if (!c->all[i].is_done)
                        return false;
        return true;
}

/* All are answered 404, and can leave. */
static bool crowd_hears_of_its_end(struct crowd *c)
{
        bool is_well = run_until(crowd_is_answered, c);

        for (size_t i = 0; i < c->n; i++) {
                if (c->all[i].status != 404)
                        printf("# client %zu: %u\n", i, c->all[i].status);
                is_well &= c->all[i].status == 404;
                client_close(&c->all[i]);
        }
        run_rounds(20);
        return is_well;
}

static void who_waits_for_a_pause_hears_of_the_end(void)
{
        struct crowd c = {.n = 0};
        char id[SANDBOX_ID_MAX], v2[128];

        CHECK(create(BASE, id));
        engine.holds = "pause";
        crowd_send(&c, path_of(id, "/pause"), "{}");
        CHECK(run_until(engine_has_logged, "pause:"));
        (void)snprintf(v2, sizeof(v2), "/v2/sandboxes/%s/connect", id);
        crowd_send(&c, v2, "{}");
        crowd_send(&c, v2, "{\"memory\":false}");
        crowd_send(&c, path_of(id, "/pause"), "{}");
        run_rounds(20);
        CHECK(state_of(id) == SANDBOX_PAUSING && !c.all[1].is_done && !c.all[2].is_done);
        (void)json_object_del(engine.alive, id); /* its envd was killed */
        engine_release();
        CHECK(crowd_hears_of_its_end(&c));
        CHECK_INT(row_state(id), ==, SANDBOX_GONE);
}

static void who_waits_for_a_copy_hears_of_the_end(void)
{
        struct crowd c = {.n = 0};
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id));
        engine.holds = "copy";
        crowd_send(&c, path_of(id, "/snapshots"), "{}");
        CHECK(run_until(engine_has_logged, "copy:"));
        crowd_send(&c, path_of(id, "/snapshots"), "{}");
        crowd_send(&c, path_of(id, "/fork"), "{}");
        crowd_send(&c, path_of(id, "/pause"), "{}");
        run_rounds(20);
        CHECK(state_of(id) == SANDBOX_COPYING && !c.all[1].is_done && !c.all[2].is_done && !c.all[3].is_done);
        (void)json_object_del(engine.alive, id);
        engine_release();
        CHECK(crowd_hears_of_its_end(&c));
        CHECK_INT(row_state(id), ==, SANDBOX_GONE);
}

/* ---- what takes longer than anything may ---- */

static void a_request_that_gets_no_answer_is_answered_at_last(void)
{
        static const char *const what[] = {"/pause", "/snapshots", "/fork"}, *const ops[] = {"pause", "copy", "copy"};

        for (size_t i = 0; i < ARRAY_LEN(what); i++) {
                char id[SANDBOX_ID_MAX];

                CHECK(create(BASE, id));
                engine.holds = ops[i];
                rig.control.api.answer_ms_max = 20;
                CHECK_INT(ask("POST", path_of(id, what[i]), "{}"), ==, 504);
                rig.control.api.answer_ms_max = 0;
                engine_release(); /* and goes on without whoever asked */
                CHECK(until(id, i == 0 ? SANDBOX_PAUSED : SANDBOX_RUNNING));
                CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
                CHECK(run_until(nothing_is_left, NULL));
        }
}

/* Nobody learns the ids of sandboxes that are made after all. */
static void what_is_made_too_late_is_ended(void)
{
        static const char *const what[] = {"create", "/fork"};

        for (size_t i = 0; i < ARRAY_LEN(what); i++) {
                char id[SANDBOX_ID_MAX];

                CHECK(create(BASE, id));
                engine.holds_create = true;
                rig.control.api.answer_ms_max = 20;
                CHECK_INT(i == 0 ? ask("POST", "/v2/sandboxes", BASE) : ask("POST", path_of(id, what[i]), "{}"), ==,
                          504);
                rig.control.api.answer_ms_max = 0;
                engine_release();
                run_rounds(50);
                CHECK_INT(json_object_size(engine.alive), ==, 1);
                CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
                CHECK(run_until(nothing_is_left, NULL));
        }
}

int main(void)
{
        RUN_IN_RIG(a_paused_one_survives_a_restart_of_control);
        RUN_IN_RIG(a_pause_lost_with_the_engine_ends_well);
        RUN_IN_RIG(a_resume_lost_with_the_engine_ends_well);
        RUN_IN_RIG(memory_given_up_by_a_lost_resume_is_not_asked_for_again);
        RUN_IN_RIG(what_is_not_answered_is_asked_anew);
        RUN_IN_RIG(a_pause_that_cannot_be_recorded_is_an_error);
        RUN_IN_RIG(control_lost_while_pausing_goes_by_the_engine);
        RUN_IN_RIG(a_busy_one_is_waited_for);
        RUN_IN_RIG(what_nobody_knows_is_moved_aside);
        RUN_IN_RIG(one_of_an_older_version_cannot_be_paused);
        RUN_IN_RIG(a_client_that_leaves_while_pausing_changes_nothing);
        RUN_IN_RIG(a_resume_that_misses_something_else_stays_paused);
        RUN_IN_RIG(one_whose_files_are_missing_is_not_forgotten);
        RUN_IN_RIG(one_whose_files_are_missing_can_be_killed);
        RUN_IN_RIG(who_waits_for_a_pause_hears_of_the_end);
        RUN_IN_RIG(who_waits_for_a_copy_hears_of_the_end);
        RUN_IN_RIG(a_request_that_gets_no_answer_is_answered_at_last);
        RUN_IN_RIG(what_is_made_too_late_is_ended);
        return tap_done();
}
