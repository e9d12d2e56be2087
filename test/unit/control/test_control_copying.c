/* Snapshots and forks of sandboxes that go on meanwhile: nobody but the taker learns of it, and nothing is left of those that
 * came to nothing. */
#include "control_copy.h"

static size_t row_layers(const char *id) /* how many; and its row says nothing of a copy */
{
        struct seen seen = {.id = id, .row.state = SANDBOX_GONE};
        size_t n;

        (void)store_sandbox_each(rig.control.store, find_row, &seen, NULL);
        n = seen.row.state == SANDBOX_RUNNING && !seen.row.checkpoint[0] ? json_array_size(seen.row.layers) : 0;
        sandbox_done(&seen.row);
        return n;
}

static bool was_asked(const char *op)
{
        return strstr(engine.log, op);
}

static bool end_it(const char *id)
{
        return ask("DELETE", path_of(id, ""), NULL) == 204;
}

static void a_snapshot_does_not_touch_the_original(void)
{
        char id[SANDBOX_ID_MAX], snapshot[160], token[65];
        const json_t *layers;

        CHECK(create("{\"templateID\":\"base\",\"timeout\":60,\"envVars\":{\"A\":\"b\"}}", id));
        (void)snprintf(token, sizeof(token), "%s", text_at("envdAccessToken"));
        CHECK(edge_start());
        engine.log[0] = 0;
        CHECK(take_snapshot(id, NULL, snapshot));
        CHECK(was_asked("copy:") && was_asked("flush"));
        CHECK(!was_asked("pause:") && !was_asked("seal:") && !was_asked("create:"));
        CHECK_INT(state_of(id), ==, SANDBOX_RUNNING);
        CHECK_INT(row_layers(id), ==, 2);
        CHECK_STR(shown(id, "endAt"), "2026-09-21T14:14:20.000000Z");
        run_rounds(20);
        CHECK_STR(edge.log, ""); /* nobody has to know */
        edge.channel = channel_free(edge.channel);

        CHECK(end_it(id)); /* the source may go */
        control_stop();
        CHECK(control_start() && run_until(engine_is_up, NULL));
        CHECK_INT(create_from(snapshot), ==, 201);
        CHECK_STR(json_string_value(json_object_get(engine.plan, "token_before")), token);
        CHECK(json_object_get(engine.plan, "checkpoint") && !json_object_get(engine.plan, "upper"));
        layers = json_object_get(engine.plan, "layers");
        CHECK_INT(json_array_size(layers), ==, 3);
        CHECK(layer_id_is_sealed(json_string_value(json_array_get(layers, 2))));
        CHECK(end_it(text_at("sandboxID")));
        CHECK_INT(delete_template(snapshot), ==, 204);
        CHECK(run_until(nothing_is_left, NULL));
}

static void forks_do_not_touch_the_original(void)
{
        char id[SANDBOX_ID_MAX], one[SANDBOX_ID_MAX], two[SANDBOX_ID_MAX];

        CHECK(create(BASE, id));
        engine.log[0] = 0;
        CHECK_INT(fork_it(id, "{\"count\":2}"), ==, 201);
        CHECK(forked(0) && forked(1));
        (void)snprintf(one, sizeof(one), "%s", forked(0));
        (void)snprintf(two, sizeof(two), "%s", forked(1));
        CHECK(!was_asked("pause:") && !was_asked("seal:"));
        CHECK_INT(row_layers(id), ==, 2);
        CHECK_INT(row_layers(one), ==, 3);
        CHECK(run_until(engine_is_quiet, NULL));
        CHECK_INT(json_object_size(engine.checkpoints), ==, 0); /* all have theirs in memory */
        CHECK_INT(json_object_size(engine.layers), ==, 1);
        CHECK(end_it(id) && end_it(one));
        CHECK_INT(json_object_size(engine.layers), ==, 1);
        CHECK(end_it(two));
        CHECK(run_until(nothing_is_left, NULL));
}

/* What is asked of it meanwhile. */
static void it_is_there_while_it_is_copied(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a, b, c;

        CHECK(create(BASE, id));
        CHECK(edge_start());
        engine.holds = "copy";
        start(&a, "POST", path_of(id, "/snapshots"), "{}");
        CHECK(run_until(engine_has_logged, "copy:"));
        CHECK_INT(row_layers(id), ==, 2);
        CHECK_STR(shown(id, "state"), "running");
        CHECK_INT(connect_to(id, "{\"timeout\":30}"), ==, 200);
        CHECK_INT(ask("POST", path_of(id, "/timeout"), "{\"timeout\":90}"), ==, 204);
        CHECK_STR(shown(id, "endAt"), "2026-09-21T14:14:50.000000Z");
        (void)channel_send(edge.channel, json_pack("{s:s,s:i,s:s}", "op", "route", "req", 7, "id", id), NULL, 0);
        CHECK(run_until(edge_has_heard, "\"req\":7"));
        CHECK(strstr(edge.log, "\"state\":\"running\""));
        edge.log[0] = 0;
        (void)channel_send(edge.channel,
                           json_pack("{s:s,s:i,s:s,s:i}", "op", "resume", "req", 8, "id", id, "port", 3000), NULL, 0);
        CHECK(run_until(edge_has_heard, "\"ok\":true,\"req\":8"));
        start(&b, "POST", path_of(id, "/snapshots"), "{}");
        start(&c, "POST", path_of(id, "/pause"), "{}");
        run_rounds(20);
        CHECK(!b.is_done && !c.is_done); /* these have to wait */
        engine_release();
        CHECK(run_until(client_is_done, &a) && run_until(client_is_done, &b) && run_until(client_is_done, &c));
        CHECK_INT(a.status, ==, 201);
        CHECK_INT(b.status, ==, 201);
        CHECK_INT(c.status, ==, 204);
        CHECK_STR(shown(id, "state"), "paused");
        client_close(&a);
        client_close(&b);
        client_close(&c);
        edge.channel = channel_free(edge.channel);
}

static void its_time_may_run_out_meanwhile(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a;

        CHECK(create(BASE, id));
        engine.holds = "copy";
        start(&a, "POST", path_of(id, "/snapshots"), "{}");
        CHECK(run_until(engine_has_logged, "copy:"));
        rig.now_ns += 61 * S_NS;
        run_rounds(20);
        CHECK(engine_lives(id)); /* not in the middle of it */
        engine_release();
        CHECK(run_until(client_is_done, &a));
        CHECK_INT(a.status, ==, 201);
        CHECK(until(id, SANDBOX_GONE));
        CHECK(!engine_lives(id));
        client_close(&a);
        CHECK_INT(rig.control.snapshots.count, ==, 1);
}

static void a_kill_meanwhile_wins(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a;

        CHECK(create(BASE, id));
        engine.holds = "copy";
        start(&a, "POST", path_of(id, "/fork"), "{}");
        CHECK(run_until(engine_has_logged, "copy:"));
        engine.holds = NULL;
        CHECK(end_it(id));
        CHECK(run_until(client_is_done, &a));
        CHECK_INT(a.status, ==, 409);
        json_decref(engine_do("copy", engine.held)); /* the job process had done it */
        CHECK(!engine_lives(id));
        client_close(&a);
        CHECK(run_until(nothing_is_left, NULL));
}

static void it_may_end_meanwhile(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a;

        for (int is_copied = 0; is_copied < 2; is_copied++) {
                CHECK(create(BASE, id));
                engine.log[0] = 0;
                engine.holds = "copy";
                start(&a, "POST", path_of(id, "/snapshots"), "{}");
                CHECK(run_until(engine_has_logged, "copy:"));
                if (!is_copied)
                        (void)json_object_del(engine.alive, id);
                engine_release();
                (void)json_object_del(engine.alive, id);
                (void)channel_send(engine.channel, json_pack("{s:s,s:s}", "event", "exited", "id", id), NULL, 0);
                CHECK(run_until(client_is_done, &a));
                CHECK_INT(a.status, ==, is_copied ? 201 : 404);
                CHECK(until(id, SANDBOX_GONE));
                CHECK_INT(rig.control.snapshots.count, ==, is_copied);
                client_close(&a);
        }
}

static void a_copy_that_fails_changes_nothing(void)
{
        static const struct {
                const char *op, *kind;
                unsigned status;
        } cases[] = {
                {"copy", "conflict", 409},    {"copy", "limit", 507},     {"copy", "no_space", 507},
                {"copy", "unavailable", 503}, {"copy", "internal", 500},  {"flush", "internal", 500},
                {"flush", "limit", 507},      {"flush", "no_space", 507},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                char id[SANDBOX_ID_MAX];

                CHECK(create(BASE, id));
                engine.fails = cases[i].op;
                engine.fail_kind = cases[i].kind;
                engine.fail_message = "no";
                CHECK_INT(ask("POST", path_of(id, "/snapshots"), "{}"), ==, cases[i].status);
                engine.fails = NULL;
                CHECK_INT(row_layers(id), ==, 2);
                CHECK_INT(state_of(id), ==, SANDBOX_RUNNING);
                CHECK_INT(pause_it(id), ==, 204);
                CHECK_INT(connect_to(id, "{}"), ==, 201);
                CHECK(end_it(id));
                CHECK(run_until(nothing_is_left, NULL));
        }
}

static void one_that_has_grown_too_large_is_copied_the_other_way(void)
{
        char id[SANDBOX_ID_MAX], snapshot[160];

        CHECK(create(BASE, id));
        CHECK(take_snapshot(id, "{}", snapshot));
        engine.is_large = true;
        engine.log[0] = 0;
        CHECK(take_snapshot(id, "{\"name\":\"large\"}", snapshot));
        CHECK(was_asked("copy:") && was_asked("pause:") && was_asked("seal:") && was_asked("create:"));
        CHECK(until(id, SANDBOX_RUNNING));
        CHECK_INT(row_layers(id), ==, 3);
        engine.is_large = false;
        engine.log[0] = 0;
        CHECK_INT(fork_it(id, "{}"), ==, 201);
        CHECK(!was_asked("pause:"));
        CHECK_INT(row_layers(id), ==, 3);
        CHECK_INT(row_layers(forked(0)), ==, 4);
}

static void a_client_that_leaves_leaves_nothing(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a;

        CHECK(create(BASE, id));
        engine.holds = "copy";
        start(&a, "POST", path_of(id, "/snapshots"), "{}");
        CHECK(run_until(engine_has_logged, "copy:"));
        client_close(&a);
        run_rounds(10);
        engine_release();
        CHECK(until(id, SANDBOX_RUNNING));
        CHECK_INT(rig.control.snapshots.count, ==, 0);
        CHECK(run_until(nothing_is_left, NULL));
        CHECK_INT(row_layers(id), ==, 2);
}

static void one_that_is_large_is_not_stopped_for_nobody(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a;

        CHECK(create(BASE, id));
        engine.is_large = true;
        engine.holds = "copy";
        start(&a, "POST", path_of(id, "/snapshots"), "{}");
        CHECK(run_until(engine_has_logged, "copy:"));
        client_close(&a);
        run_rounds(10);
        engine_release();
        CHECK(until(id, SANDBOX_RUNNING));
        run_rounds(20);
        CHECK(!was_asked("pause:"));
        CHECK_INT(state_of(id), ==, SANDBOX_RUNNING);
        CHECK_INT(row_layers(id), ==, 2);
}

/* The link is lost, or control itself, with the copy carried out or not: the sandbox runs, and nothing is left. */
static void a_copy_that_nobody_hears_of_is_dropped(void)
{
        for (int done = 0; done < 2; done++) {
                char id[SANDBOX_ID_MAX];
                struct client a;

                CHECK(create(BASE, id));
                *(done ? &engine.dies_on : &engine.dies_before) = "copy";
                CHECK_INT(ask("POST", path_of(id, "/snapshots"), "{}"), ==, 503);
                CHECK(until(id, SANDBOX_RUNNING));
                CHECK_INT(row_layers(id), ==, 2);
                CHECK(run_until(nothing_is_left, NULL));

                engine.log[0] = 0;
                engine.holds = "copy";
                start(&a, "POST", path_of(id, "/snapshots"), "{}");
                CHECK(run_until(engine_has_logged, "copy:"));
                client_close(&a);
                control_stop();
                engine.holds = NULL;
                if (done)
                        json_decref(engine_do("copy", engine.held));
                CHECK(control_start() && run_until(engine_is_up, NULL));
                CHECK_INT(state_of(id), ==, SANDBOX_RUNNING);
                CHECK_INT(row_layers(id), ==, 2);
                CHECK(run_until(nothing_is_left, NULL));
                CHECK(end_it(id));
        }
}

/* A job process outlives the engine: nothing that it makes is dropped before it is done. */
static void a_busy_one_is_waited_for(void)
{
        char id[SANDBOX_ID_MAX];

        struct client a;

        CHECK(create(BASE, id));
        engine.holds = "copy";
        start(&a, "POST", path_of(id, "/snapshots"), "{}");
        CHECK(run_until(engine_has_logged, "copy:"));
        engine.holds = NULL;
        (void)json_object_set_new(engine.alive, id, json_pack("{s:s}", "state", "busy"));
        engine.channel = channel_free(engine.channel);
        engine.log[0] = 0;
        CHECK(run_until(engine_has_logged, "list") && run_until(engine_is_up, NULL));
        run_rounds(50);
        CHECK(!a.is_done);
        (void)json_object_set_new(engine.alive, id, json_pack("{s:s}", "state", "running"));
        json_decref(engine_do("copy", engine.held)); /* now it is complete */
        (void)channel_send(engine.channel,
                           json_pack("{s:s,s:s,s:s}", "event", "rechecked", "id", id, "state", "running"), NULL, 0);
        CHECK(run_until(client_is_done, &a));
        CHECK_INT(a.status, ==, 503);
        client_close(&a);
        CHECK_INT(state_of(id), ==, SANDBOX_RUNNING);
        CHECK(run_until(nothing_is_left, NULL));
        CHECK_INT(json_object_size(engine.lost), ==, 0);
}

/* The engine restarts in the middle of it, and then the sandbox is not there any more. */
static void a_busy_one_may_have_ended(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a;

        for (int is_copied = 0; is_copied < 2; is_copied++) {
                CHECK(create(BASE, id));
                engine.dies_before = is_copied ? "copy" : "pause";
                (void)json_object_set_new(engine.alive, id, json_pack("{s:s}", "state", "busy"));
                start(&a, "POST", path_of(id, is_copied ? "/snapshots" : "/pause"), "{}");
                run_rounds(50);
                CHECK(run_until(engine_is_up, NULL));
                CHECK(!a.is_done && rig.control.lives.busy == 1);
                (void)json_object_del(engine.alive, id);
                (void)channel_send(engine.channel, json_pack("{s:s,s:s}", "event", "exited", "id", id), NULL, 0);
                CHECK(run_until(client_is_done, &a));
                CHECK_INT(a.status, ==, 404);
                CHECK_INT(state_of(id), ==, SANDBOX_GONE);
                client_close(&a);
        }
}

/* Control was killed while a job process worked on the sandbox, which is ended before the process is done. */
static void what_a_busy_one_leaves_goes_with_it(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a;
        json_t *copy;

        CHECK(create(BASE, id));
        engine.holds = "copy";
        start(&a, "POST", path_of(id, "/snapshots"), "{}");
        CHECK(run_until(engine_has_logged, "copy:"));
        client_close(&a);
        copy = TAKE_PTR(engine.held);
        control_stop();
        (void)json_object_set_new(engine.alive, id, json_pack("{s:s}", "state", "busy"));
        engine.log[0] = 0;
        engine.holds = NULL;
        engine.holds_kill = true;
        CHECK(control_start() && run_until(engine_is_up, NULL));
        start(&a, "DELETE", path_of(id, ""), NULL);
        CHECK(run_until(engine_has_logged, "kill:"));
        (void)json_object_set_new(engine.alive, id, json_pack("{s:s}", "state", "running"));
        json_decref(engine_do("copy", copy));
        json_decref(copy);
        engine_release(); /* it was killed when the job process was done */
        CHECK(run_until(nothing_is_left, NULL));
        CHECK(!engine_lives(id));
        CHECK_INT(json_object_size(engine.lost), ==, 0);
        client_close(&a);
}

/* The same, but nobody knows it. */
static void what_a_busy_stranger_leaves_is_moved_aside_with_it(void)
{
        static char id[] = "istrangerstrangerstra";

        control_stop();
        (void)json_object_set_new(engine.alive, id, json_pack("{s:s}", "state", "busy"));
        engine.log[0] = 0;
        engine.holds = "lose";
        CHECK(control_start() && run_until(engine_is_up, NULL));
        CHECK(run_until(engine_has_logged, "lose:"));
        (void)json_object_set_new(engine.checkpoints, "caaaaaaaaaaaaaaaaaaaa", json_true());
        (void)json_object_set_new(engine.layers, "u-aaaaaaaaaaaaaaaaaaaa", json_true());
        engine_release();
        CHECK(run_until(nothing_is_left, NULL));
        CHECK(!engine_lives(id));
        CHECK_INT(json_object_size(engine.lost), ==, 3);
}

static void snapshots_do_not_lengthen_the_original(void)
{
        char id[SANDBOX_ID_MAX], snapshot[160];

        CHECK(create(BASE, id));
        for (int i = 0; i < LAYERS_SEALED_MAX + 4; i++)
                CHECK(take_snapshot(id, "{\"name\":\"again\"}", snapshot));
        CHECK_INT(row_layers(id), ==, 2);
        CHECK(!was_asked("merge"));
        CHECK(run_until(engine_is_quiet, NULL));
        CHECK_INT(json_object_size(engine.layers), ==, 1);
}

static bool has_merged(void *arg)
{
        (void)arg;
        return was_asked("merge") && engine_is_quiet(NULL);
}

static void forks_of_forks_are_kept_short(void)
{
        char id[SANDBOX_ID_MAX], snapshot[160];

        CHECK(create(BASE, id));
        for (int i = 0; i < LAYERS_SEALED_MAX; i++) {
                CHECK_INT(fork_it(id, "{}"), ==, 201);
                (void)snprintf(id, sizeof(id), "%s", forked(0));
        }
        CHECK(!was_asked("merge"));
        CHECK(take_snapshot(id, "{}", snapshot)); /* one more than the fork has */
        CHECK(run_until(has_merged, NULL));
        CHECK_INT(create_from(snapshot), ==, 201);
        CHECK(json_array_size(json_object_get(engine.plan, "layers")) < 2 + LAYERS_SEALED_MAX);
        CHECK_INT(fork_it(id, "{}"), ==, 201); /* on the merged ones, though the original is not */
        CHECK_INT(row_layers(id), ==, 2 + LAYERS_SEALED_MAX);
        CHECK(row_layers(forked(0)) < 2 + LAYERS_SEALED_MAX);
}

int main(void)
{
        RUN_IN_RIG(a_snapshot_does_not_touch_the_original);
        RUN_IN_RIG(forks_do_not_touch_the_original);
        RUN_IN_RIG(it_is_there_while_it_is_copied);
        RUN_IN_RIG(its_time_may_run_out_meanwhile);
        RUN_IN_RIG(a_kill_meanwhile_wins);
        RUN_IN_RIG(it_may_end_meanwhile);
        RUN_IN_RIG(a_copy_that_fails_changes_nothing);
        RUN_IN_RIG(one_that_has_grown_too_large_is_copied_the_other_way);
        RUN_IN_RIG(a_client_that_leaves_leaves_nothing);
        RUN_IN_RIG(one_that_is_large_is_not_stopped_for_nobody);
        RUN_IN_RIG(a_copy_that_nobody_hears_of_is_dropped);
        RUN_IN_RIG(a_busy_one_is_waited_for);
        RUN_IN_RIG(a_busy_one_may_have_ended);
        RUN_IN_RIG(what_a_busy_one_leaves_goes_with_it);
        RUN_IN_RIG(what_a_busy_stranger_leaves_is_moved_aside_with_it);
        RUN_IN_RIG(snapshots_do_not_lengthen_the_original);
        RUN_IN_RIG(forks_of_forks_are_kept_short);
        return tap_done();
}
