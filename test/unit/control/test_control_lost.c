/* What no row knows is moved aside and can be had back; what may be deleted has a name in the store, whenever control dies. */
#include <sqlite3.h>

#include "control_copy.h"
#include "store/db.h"
#include "wire/sha256.h"

static bool row_is_gone(void *arg)
{
        return row_state(arg) == SANDBOX_GONE && state_of(arg) == SANDBOX_GONE;
}

static int count_name(const char *name, void *arg)
{
        (void)name;
        (*(int *)arg)++;
        return 0;
}

static int disposable(void) /* names in the table */
{
        int n = 0;

        return store_disposable_each(rig.control.store, count_name, &n, NULL) < 0 ? -1 : n;
}

static bool all_is_disposed(void *arg)
{
        return nothing_is_left(arg) && disposable() == 0;
}

static bool was_asked(const char *op)
{
        const char *at = strstr(engine.log, op);

        return at && (at[strlen(op)] == ':' || at[strlen(op)] == ' ' || !at[strlen(op)]);
}

static int lost(void)
{
        return (int)json_object_size(engine.lost);
}

static void in_store_dir(const char *command)
{
        char line[256];

        (void)snprintf(line, sizeof(line), "cd '%s' && %s", rig.dir, command);
        if (system(line) != 0)
                abort();
}

static bool restart(void)
{
        control_stop();
        engine.holds = NULL;
        engine.holds_create = engine.holds_kill = false;
        json_decref(engine.held);
        engine.held = NULL;
        return control_start() && run_until(engine_is_up, NULL);
}

static bool start_without_store(void)
{
        control_stop();
        in_store_dir("rm -r store");
        return control_start() && read_key() && run_until(engine_is_up, NULL);
}

static bool has_lost(void *arg)
{
        return lost() >= *(int *)arg && engine_is_quiet(NULL);
}

static bool until_lost(int n)
{
        return run_until(has_lost, &n);
}

static unsigned restore(const char *id)
{
        char path[96];

        (void)snprintf(path, sizeof(path), "/sandglass/lost/%s/restore", id);
        return ask("POST", path, NULL);
}

/* ---- taken away ---- */

#define SECURED                                                                                                        \
        "{\"templateID\":\"base\",\"timeout\":60,\"secure\":true,\"metadata\":{\"k\":\"v\"},\"envVars\":{\"A\":\"b\"}" \
        "}"

static void a_paused_one_comes_back_with_its_memory(void)
{
        char id[SANDBOX_ID_MAX], token[80];

        CHECK(create(SECURED, id));
        (void)snprintf(token, sizeof(token), "%s", text_at("envdAccessToken"));
        CHECK_INT(pause_it(id), ==, 204);
        CHECK(start_without_store());
        CHECK(until_lost(2));
        CHECK(nothing_is_left(NULL) && !was_asked("kill") && !was_asked("drop"));
        CHECK_STR(shown(id, "state"), "none");
        CHECK_INT(ask("GET", "/sandglass/lost", NULL), ==, 200);
        CHECK_INT(json_array_size(json_object_get(last.json, "lost")), ==, 2);

        CHECK_INT(restore(id), ==, 201);
        CHECK_STR(text_at("state"), "paused");
        CHECK_STR(json_string_value(json_object_get(json_object_get(last.json, "metadata"), "k")), "v");
        CHECK_INT(lost(), ==, 0);
        CHECK_INT(restore(id), ==, 409);
        CHECK(restart()); /* it is in the store, token and all */
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK(strcmp(text_at("envdAccessToken"), token) != 0);
        CHECK_STR(json_string_value(json_object_get(engine.plan, "token_before")), token);
        CHECK_STR(json_string_value(json_object_get(engine.plan, "upper")), "kept");
        CHECK(run_until(all_is_disposed, NULL));
        CHECK_INT(json_object_size(rig.control.tokens.of_checkpoints), ==, 0);
        CHECK_INT(pause_it(id), ==, 204); /* from now on its token is this store's */
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK_STR(json_string_value(json_object_get(engine.plan, "token_before")), text_at("envdAccessToken"));
        CHECK_INT(lost(), ==, 0);
}

static void without_its_checkpoint_its_files_come_back(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(SECURED, id) && pause_it(id) == 204);
        CHECK(start_without_store() && until_lost(2));
        (void)json_object_del(engine.lost,
                              json_string_value(json_object_get(json_object_get(engine.lost, id), "checkpoint")));
        CHECK_INT(restore(id), ==, 201);
        (void)json_object_del(json_object_get(engine.alive, id), "checkpoint"); /* as the engine would say */
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK(!json_object_get(engine.plan, "checkpoint"));
        CHECK_STR(json_string_value(
                          json_object_get(json_object_get(json_object_get(engine.plan, "init"), "envVars"), "A")),
                  "b");
}

static void one_that_ran_comes_back_with_its_files(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(SECURED, id));
        CHECK(start_without_store() && until_lost(1));
        CHECK_INT(restore(id), ==, 201);
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK_STR(json_string_value(json_object_get(engine.plan, "upper")), "kept");
}

static void a_snapshot_comes_back_as_a_sandbox(void)
{
        char id[SANDBOX_ID_MAX], snapshot[160], checkpoint[CHECKPOINT_ID_MAX] = "", other[SANDBOX_ID_MAX];
        const char *name;
        json_t *v;

        CHECK(create(SECURED, id) && take_snapshot(id, "{}", snapshot));
        CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
        json_object_foreach (engine.checkpoints, name, v)
                (void)snprintf(checkpoint, sizeof(checkpoint), "%s", name);
        CHECK(start_without_store() && until_lost(2));
        CHECK_INT(restore(checkpoint), ==, 201);
        (void)snprintf(other, sizeof(other), "%s", text_at("sandboxID"));
        CHECK(strcmp(other, id) != 0);
        CHECK_INT(lost(), ==, 0);
        CHECK_INT(connect_to(other, "{}"), ==, 201);
        CHECK_STR(json_string_value(json_object_get(engine.plan, "checkpoint")), checkpoint);
        CHECK_INT(json_array_size(json_object_get(engine.plan, "layers")), ==, 3);
        CHECK(!json_object_get(engine.plan, "upper"));
}

static void one_whose_files_were_sealed_comes_back(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(SECURED, id) && pause_it(id) == 204);
        CHECK_INT(fork_it(id, "{}"), ==, 201);
        CHECK_INT(ask("DELETE", path_of(forked(0), ""), NULL), ==, 204);
        CHECK(start_without_store() && until_lost(3));
        CHECK_INT(restore(id), ==, 201);
        CHECK_INT(lost(), ==, 0);
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK_INT(json_array_size(json_object_get(engine.plan, "layers")), ==, 3);
        CHECK(!json_object_get(engine.plan, "upper"));
}

static void an_older_store_loses_nothing(void)
{
        char id[SANDBOX_ID_MAX], late[SANDBOX_ID_MAX], snapshot[160];

        CHECK(create(BASE, id));
        control_stop();
        in_store_dir("cp -r store older");
        CHECK(control_start() && run_until(engine_is_up, NULL));
        CHECK_INT(pause_it(id), ==, 204);
        CHECK(create(SECURED, late) && take_snapshot(late, "{\"name\":\"s\"}", snapshot) && pause_it(late) == 204);
        control_stop();
        in_store_dir("rm -r store && mv older store");
        CHECK(control_start() && run_until(engine_is_up, NULL));
        CHECK(until_lost(4)); /* the late one, its memory, and the snapshot's two halves */
        CHECK(!was_asked("kill") && !was_asked("drop"));
        CHECK_STR(shown(id, "state"), "paused"); /* the engine knows better than the row */
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK_INT(restore(late), ==, 201);
        CHECK_INT(lost(), ==, 2);
        CHECK_INT(connect_to(late, "{}"), ==, 201);
        CHECK_STR(json_string_value(json_object_get(engine.plan, "token_before")), text_at("envdAccessToken"));
}

static void an_older_row_ends_nothing(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a;

        engine.holds_create = true; /* a copy of the store from while it was being made */
        start(&a, "POST", "/v2/sandboxes", BASE);
        CHECK(run_until(engine_has_logged, "create:"));
        (void)snprintf(id, sizeof(id), "%.21s", strstr(engine.log, "create:") + 7);
        client_close(&a);
        control_stop();
        engine_release();
        (void)json_object_set_new(engine.alive, id, json_pack("{s:s}", "state", "paused"));
        engine.log[0] = 0;
        CHECK(control_start() && run_until(engine_is_up, NULL));
        CHECK(until_lost(1));
        CHECK(json_object_get(engine.lost, id) && !was_asked("kill"));
        CHECK(row_is_gone(id));

        CHECK(create(BASE, id) && pause_it(id) == 204); /* a row of when its files were a layer, and they are not */
        CHECK_INT(sqlite3_exec(rig.control.store->db, "UPDATE sandbox SET upper_kept = 0", NULL, NULL, NULL), ==,
                  SQLITE_OK);
        engine.log[0] = 0;
        CHECK(restart() && until_lost(2));
        CHECK(json_object_get(engine.lost, id) && !was_asked("kill"));
        CHECK_INT(row_state(id), ==, SANDBOX_PAUSED);
        CHECK_INT(sqlite3_exec(rig.control.store->db, "UPDATE sandbox SET state = 77", NULL, NULL, NULL), ==,
                  SQLITE_OK);
        CHECK(restart()); /* a number that says nothing ends nothing */
        CHECK_STR(shown(id, "state"), "paused");
}

/* ---- answers ---- */

static void wrong_wishes_are_refused(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK_INT(restore("i00000000000000000000"), ==, 404);
        CHECK_INT(restore("../../etc"), ==, 404); /* no such route */
        CHECK_INT(restore("x"), ==, 400);
        CHECK_INT(ask("DELETE", "/sandglass/lost/i00000000000000000000", NULL), ==, 404);
        CHECK_INT(ask_with("GET", "/sandglass/lost", "", NULL), ==, 401);
        CHECK(create(BASE, id) && pause_it(id) == 204);
        CHECK_INT(restore(id), ==, 409);
        CHECK_INT(fork_it(id, "{}"), ==, 201);
        CHECK_INT(ask("DELETE", path_of(forked(0), ""), NULL), ==, 204);
        CHECK(start_without_store() && until_lost(3));
        (void)json_object_del(engine.lost,
                              json_string_value(json_object_get(json_object_get(engine.lost, id), "sealed")));
        CHECK_INT(restore(id), ==, 409); /* a layer is missing */
        CHECK_INT(lost(), ==, 2);
        (void)json_object_set_new(json_object_get(json_object_get(engine.lost, id), "origin"), "cpus",
                                  json_string("x"));
        CHECK_INT(restore(id), ==, 409);
        CHECK(strstr(text_at("message"), "cpus"));
        CHECK_INT(ask("DELETE", say("/sandglass/lost/%s", id), NULL), ==, 204);
        CHECK_INT(lost(), ==, 1);
}

static int64_t other_team;

static void only_the_first_team_sees_it(void)
{
        struct store_team t = {.slug = "other", .name = "other"};
        struct store_key k = {.name = "k", .mask = "m"};
        char key[KEY_LEN + 1], more[128];
        struct err err = {0};

        (void)snprintf(key, sizeof(key), KEY_PREFIX "%040d", 7);
        uuid_make(t.id);
        uuid_make(k.id);
        CHECK_INT(store_team_add(rig.control.store, &t, &other_team, &err), ==, 0);
        k.team = other_team;
        sha256(key, KEY_LEN, k.hash);
        CHECK_INT(store_key_add(rig.control.store, &k, &err), ==, 0);
        CHECK(restart());
        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\n", key);
        CHECK_INT(ask_with("GET", "/sandboxes", more, NULL), ==, 200);
        CHECK_INT(ask_with("GET", "/sandglass/lost", more, NULL), ==, 403);
        CHECK_INT(ask_with("POST", "/sandglass/lost/i00000000000000000000/restore", more, NULL), ==, 403);
        CHECK_INT(ask_with("DELETE", "/sandglass/lost/i00000000000000000000", more, NULL), ==, 403);
}

static void a_restore_whose_client_left_is_finished(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a;

        CHECK(create(BASE, id) && pause_it(id) == 204);
        CHECK(start_without_store() && until_lost(2));
        engine.holds = "restore";
        start(&a, "POST", say("/sandglass/lost/%s/restore", id), NULL);
        CHECK(run_until(engine_has_logged, "restore:"));
        client_close(&a);
        run_rounds(20);
        engine_release();
        CHECK(until(id, SANDBOX_PAUSED));
        CHECK_INT(connect_to(id, "{}"), ==, 201);

        CHECK(pause_it(id) == 204 && start_without_store() && until_lost(2));
        engine.dies_on = "restore"; /* done, and nobody heard of it: moved aside again */
        CHECK_INT(restore(id), ==, 503);
        CHECK(until_lost(2));
        CHECK_INT(restore(id), ==, 201);
}

/* Nobody else would ever look for what is back. */
static void a_restore_that_is_not_answered_is_asked_about(void)
{
        char id[SANDBOX_ID_MAX];
        struct engine_call *call;
        struct client a;

        CHECK(create(BASE, id) && pause_it(id) == 204);
        CHECK(start_without_store() && until_lost(2));
        engine.log[0] = 0;
        engine.holds = "restore";
        start(&a, "POST", say("/sandglass/lost/%s/restore", id), NULL);
        CHECK(run_until(engine_has_logged, "restore:"));
        json_decref(engine_do("restore", engine.held)); /* done, and not said */
        engine.holds = NULL;
        CHECK_INT(lost(), ==, 0);
        call = LIST_ENTRY(rig.control.engine.sent.next, struct engine_call, node);
        call->timer.on(&call->timer);
        CHECK(run_until(client_is_done, &a));
        CHECK_INT(a.status, ==, 504);
        client_close(&a);
        CHECK(until_lost(2)); /* moved aside again */
        CHECK_INT(restore(id), ==, 201);
        CHECK_INT(connect_to(id, "{}"), ==, 201);
}

/* ---- control dies ---- */

static void in_the_middle_of_a_kill(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a;

        for (int i = 0; i < 3; i++) {
                CHECK(create(BASE, id));
                if (i > 0)
                        CHECK_INT(pause_it(id), ==, 204);
                engine.holds_kill = true;
                engine.log[0] = 0;
                start(&a, "DELETE", path_of(id, ""), NULL);
                CHECK(run_until(engine_has_logged, "kill:"));
                CHECK_INT(row_state(id), ==, SANDBOX_KILLING); /* what is to be ended has a name */
                CHECK_INT(ask("GET", path_of(id, ""), NULL), ==, 404);
                client_close(&a);
                if (i == 2)
                        json_decref(engine_do("kill", engine.held)); /* and nobody heard of it */
                CHECK(restart());
                CHECK(run_until(row_is_gone, id));
                CHECK(run_until(all_is_disposed, NULL));
                CHECK(!engine_lives(id));
                CHECK_INT(lost(), ==, 0);
        }
}

static void in_the_middle_of_a_drop(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id) && pause_it(id) == 204);
        engine.holds = "drop";
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK_INT(disposable(), ==, 1); /* with the row that let go of it */
        CHECK(run_until(engine_has_logged, "drop"));
        CHECK(restart());
        CHECK(run_until(all_is_disposed, NULL));
        CHECK_INT(pause_it(id), ==, 204);
        CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
        CHECK(restart()); /* before it was even asked for */
        CHECK(run_until(all_is_disposed, NULL));
        CHECK_INT(lost(), ==, 0);
}

static void in_the_middle_of_a_copy(void)
{
        static const char *const points[] = {"copy", "flush", "create"};
        char id[SANDBOX_ID_MAX];
        struct client a;

        for (size_t i = 0; i < 4; i++) { /* the last: a fork's copies are being made */
                const char *point = points[i < 3 ? i : 2];
                bool is_fork = i > 1;

                CHECK(create(BASE, id));
                engine.holds = point;
                engine.log[0] = 0;
                start(&a, "POST", path_of(id, is_fork ? "/fork" : "/snapshots"), "{}");
                CHECK(run_until(engine_has_logged, (void *)(size_t)point));
                client_close(&a);
                control_stop();
                engine.holds = NULL;
                if (i != 2)
                        json_decref(engine_do(point, engine.held));
                CHECK(restart());
                CHECK_INT(state_of(id), ==, SANDBOX_RUNNING);
                CHECK(run_until(all_is_disposed, NULL));
                CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
                CHECK_INT(json_object_size(engine.alive), ==, 0);
                CHECK_INT(lost(), ==, 0);
        }
}

static void in_the_middle_of_a_copy_of_a_large_one(void)
{
        static const char *const points[] = {"pause", "seal", "create"};
        char id[SANDBOX_ID_MAX];
        struct client a;

        engine.is_large = true;
        for (size_t i = 0; i < 6; i++) {
                CHECK(create(BASE, id));
                engine.holds = points[i / 2];
                engine.log[0] = 0;
                start(&a, "POST", path_of(id, "/snapshots"), "{}");
                CHECK(run_until(engine_has_logged, (void *)(size_t)points[i / 2]));
                client_close(&a);
                control_stop();
                engine.holds = NULL;
                if (i % 2)
                        json_decref(engine_do(points[i / 2], engine.held));
                CHECK(restart());
                CHECK(until(id, SANDBOX_RUNNING));
                CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
                CHECK(run_until(all_is_disposed, NULL));
                CHECK_INT(lost(), ==, 0);
        }
}

static void in_the_middle_of_a_roll_back_at_rest(void)
{
        char id[SANDBOX_ID_MAX], snapshot[160], body[256];
        struct client a;

        CHECK(create(BASE, id) && take_snapshot(id, "{}", snapshot) && pause_it(id) == 204);
        engine.holds_kill = true;
        engine.log[0] = 0;
        (void)snprintf(body, sizeof(body), "{\"snapshotID\":\"%s\"}", snapshot);
        start(&a, "POST", path_of(id, "/rollback"), body);
        CHECK(run_until(engine_has_logged, "kill:"));
        CHECK_INT(row_state(id), ==, SANDBOX_ROLLING_BACK_PAUSED);
        client_close(&a);
        engine.log[0] = 0;
        CHECK(restart());
        CHECK(run_until(engine_has_logged, "kill:"));
        CHECK(until(id, SANDBOX_PAUSED));
        CHECK_INT(row_state(id), ==, SANDBOX_PAUSED);
        CHECK(!engine_lives(id));
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK_INT(lost(), ==, 0);
}

static void what_is_still_being_made_is_dropped_later(void)
{
        char id[SANDBOX_ID_MAX];
        json_t *left;

        CHECK(create(BASE, id) && pause_it(id) == 204);
        engine.holds = "drop";
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK(run_until(engine_has_logged, "drop"));
        engine.holds = NULL;
        left = json_incref(json_object_get(engine.held, "checkpoints"));
        engine_answer(engine.held, json_pack("{s:b,s:o}", "ok", 1, "left", left));
        json_decref(engine.held);
        engine.held = NULL;
        engine.log[0] = 0;
        CHECK_INT(disposable(), ==, 1);
        CHECK(run_until(all_is_disposed, NULL));
        CHECK(was_asked("drop"));
}

int main(void)
{
        RUN_IN_RIG(a_paused_one_comes_back_with_its_memory);
        RUN_IN_RIG(without_its_checkpoint_its_files_come_back);
        RUN_IN_RIG(one_that_ran_comes_back_with_its_files);
        RUN_IN_RIG(a_snapshot_comes_back_as_a_sandbox);
        RUN_IN_RIG(one_whose_files_were_sealed_comes_back);
        RUN_IN_RIG(an_older_store_loses_nothing);
        RUN_IN_RIG(an_older_row_ends_nothing);
        RUN_IN_RIG(wrong_wishes_are_refused);
        RUN_IN_RIG(only_the_first_team_sees_it);
        RUN_IN_RIG(a_restore_whose_client_left_is_finished);
        RUN_IN_RIG(a_restore_that_is_not_answered_is_asked_about);
        RUN_IN_RIG(in_the_middle_of_a_kill);
        RUN_IN_RIG(in_the_middle_of_a_drop);
        RUN_IN_RIG(in_the_middle_of_a_copy);
        RUN_IN_RIG(in_the_middle_of_a_copy_of_a_large_one);
        RUN_IN_RIG(in_the_middle_of_a_roll_back_at_rest);
        RUN_IN_RIG(what_is_still_being_made_is_dropped_later);
        return tap_done();
}
