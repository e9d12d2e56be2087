/* Snapshots, forks and rolling back: what the engine is asked for in which order, and what is left after failures.  Sandboxes
 * are too large here to be copied while they run; the others: test_control_copying.c. */
#include "control_copy.h"

/* ---- snapshots ---- */

static void a_snapshot_is_a_template(void)
{
        char id[SANDBOX_ID_MAX], copy[SANDBOX_ID_MAX], snapshot[160], before[65];
        const json_t *layers;

        CHECK(create("{\"templateID\":\"base\",\"timeout\":60,\"envVars\":{\"A\":\"b\"}}", id));
        (void)snprintf(before, sizeof(before), "%s", text_at("envdAccessToken"));
        engine.log[0] = 0;
        CHECK(take_snapshot(id, NULL, snapshot));
        CHECK_INT(strlen(snapshot), ==, 20 + strlen(":default"));
        CHECK_INT(json_array_size(json_object_get(last.json, "names")), ==, 0);
        CHECK(strstr(engine.log, "pause:") && strstr(engine.log, "seal:") > strstr(engine.log, "pause:"));
        CHECK(strstr(engine.log, "create:") > strstr(engine.log, "seal:") && strstr(engine.log, "flush"));
        CHECK(until(id, SANDBOX_RUNNING) && engine_has(id, "running"));
        CHECK_STR(json_string_value(json_object_get(engine.plan, "token_before")), before);
        CHECK(!json_object_get(engine.plan, "upper"));
        layers = json_object_get(engine.plan, "layers");
        CHECK_INT(json_array_size(layers), ==, 3);
        CHECK(layer_id_is_sealed(json_string_value(json_array_get(layers, 2))));
        CHECK_STR(shown(id, "state"), "running");
        CHECK_STR(text_at("endAt"), "2026-09-21T14:14:20.000000Z"); /* as it was */

        CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204); /* the source may go */
        control_stop();
        CHECK(control_start() && run_until(engine_is_up, NULL));
        CHECK_INT(create_from(snapshot), ==, 201);
        (void)snprintf(copy, sizeof(copy), "%s", text_at("sandboxID"));
        CHECK_INT(strncmp(text_at("templateID"), snapshot, 20), ==, 0);
        CHECK(strcmp(text_at("envdAccessToken"), before) != 0);
        CHECK_STR(json_string_value(json_object_get(engine.plan, "token_before")), before);
        CHECK(json_object_get(engine.plan, "checkpoint"));
        layers = json_object_get(json_object_get(engine.plan, "init"), "envVars");
        CHECK(json_object_get(layers, "A") && json_object_get(layers, "C"));
        CHECK_INT(create_from(snapshot), ==, 201); /* as often as wanted */
        CHECK_INT(delete_template(snapshot), ==, 400);
        CHECK(strstr(text_at("message"), "because there are running sandboxes using it"));
        CHECK_INT(ask("DELETE", path_of(text_at("sandboxID") ? "" : copy, ""), NULL), ==, 204);
        CHECK_INT(ask("GET", "/v2/sandboxes", NULL), ==, 200);
        (void)snprintf(copy, sizeof(copy), "%s",
                       json_string_value(json_object_get(json_array_get(last.json, 0), "sandboxID")));
        CHECK_INT(pause_it(copy), ==, 204);
        CHECK_INT(delete_template(snapshot), ==, 400);
        CHECK(strstr(text_at("message"), "because there are paused sandboxes using it"));
        CHECK_INT(ask("DELETE", path_of(copy, ""), NULL), ==, 204);
        CHECK_INT(delete_template(snapshot), ==, 204);
        CHECK_INT(delete_template(snapshot), ==, 404);
        CHECK(run_until(nothing_is_left, NULL));
}

static void names_move_and_are_listed(void)
{
        char a[SANDBOX_ID_MAX], b[SANDBOX_ID_MAX], path[200], token[128];
        char one[160], two[160], three[160];

        CHECK(create(BASE, a) && create(BASE, b));
        CHECK(take_snapshot(a, "{\"name\":\"Snap\"}", one));
        CHECK_STR(one, "default/snap:default");
        CHECK_STR(json_string_value(json_array_get(json_object_get(last.json, "names"), 0)), "default/snap");
        rig.now_ns += S_NS;
        CHECK(take_snapshot(b, "{\"name\":\"default/snap:v2\"}", two));
        CHECK_STR(two, "default/snap:v2");
        rig.now_ns += S_NS;
        CHECK(take_snapshot(a, "{}", three));
        CHECK_INT(ask("GET", "/snapshots", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 3);
        CHECK_STR(json_string_value(json_object_get(json_array_get(last.json, 0), "snapshotID")), three);
        CHECK_STR(json_string_value(json_object_get(json_array_get(last.json, 2), "snapshotID")), one);
        CHECK_INT(ask("GET", "/snapshots?limit=2", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 2);
        (void)snprintf(token, sizeof(token), "%.*s", STR_ARG(http1_find(&last.head, "X-Next-Token")->value));
        (void)snprintf(path, sizeof(path), "/snapshots?limit=2&nextToken=%s", token);
        CHECK_INT(ask("GET", path, NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 1);
        CHECK(!http1_find(&last.head, "X-Next-Token"));
        (void)snprintf(path, sizeof(path), "/snapshots?sandboxID=%s-6532622b", b);
        CHECK_INT(ask("GET", path, NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 1);
        CHECK_INT(ask("GET", "/snapshots?name=snap", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 2);
        CHECK_INT(ask("GET", "/snapshots?name=default%2Fsnap%3Av2", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 1);
        CHECK_INT(ask("GET", "/snapshots?name=other", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 0);
        CHECK_INT(ask("GET", "/snapshots?sandboxID=nope", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 0);
        CHECK_INT(ask("GET", "/snapshots?nextToken=AAAA", NULL), ==, 400);
        CHECK_INT(ask("GET", "/snapshots?limit=0", NULL), ==, 400);
        CHECK_INT(ask("GET", "/snapshots?name=a%20b", NULL), ==, 400);
        CHECK_INT(create_from("snap"), ==, 201);
        CHECK_STR(text_at("alias"), "snap");
        CHECK_INT(ask("DELETE", path_of(text_at("sandboxID"), ""), NULL), ==, 204);
        CHECK_INT(create_from("snap:v3"), ==, 404);
        CHECK(is_error(404, "tag 'v3' does not exist for template 'snap'"));
        CHECK_INT(create_from("default/snap:v2"), ==, 201);
        CHECK_INT(ask("DELETE", path_of(text_at("sandboxID"), ""), NULL), ==, 204);
        CHECK_INT(create_from("other/snap"), ==, 404);

        CHECK(take_snapshot(b, "{\"name\":\"snap\"}", one)); /* the name moves, the one before goes */
        CHECK_INT(ask("GET", "/snapshots?name=snap", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 2);
        CHECK(run_until(engine_is_quiet, NULL));
        CHECK_INT(json_object_size(engine.checkpoints), ==, 3);
        CHECK_INT(ask("DELETE", "/sandglass/snapshots/other%2Fsnap", NULL), ==, 404);
        CHECK_INT(ask("DELETE", "/sandglass/snapshots/snap%3Av3", NULL), ==, 404);
        CHECK_INT(ask("DELETE", "/sandglass/snapshots/base", NULL), ==, 404);
        CHECK_INT(ask("DELETE", "/sandglass/snapshots/%20", NULL), ==, 400);
        CHECK_INT(ask("DELETE", "/sandglass/snapshots/default%2Fsnap%3Adefault", NULL), ==, 204); /* all tags */
        CHECK_INT(delete_template("default%2Fsnap%3Av2"), ==, 404);
        CHECK_INT(ask("GET", "/snapshots", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 1);
}

static void bad_names_are_400(void)
{
        char id[SANDBOX_ID_MAX];

        CHECK(create(BASE, id));
        CHECK_INT(ask("POST", path_of(id, "/snapshots"), "{\"name\":\"a b\"}"), ==, 400);
        CHECK(is_error(400, "Invalid name: invalid template ID: a b"));
        CHECK_INT(ask("POST", path_of(id, "/snapshots"), "{\"name\":\"other/a\"}"), ==, 400);
        CHECK_INT(ask("POST", path_of(id, "/snapshots"), "{\"name\":\"base\"}"), ==, 400);
        CHECK_INT(ask("POST", path_of(id, "/snapshots"), "{\"name\":3}"), ==, 400);
        CHECK_INT(ask("POST", "/sandboxes/inone/snapshots", "{}"), ==, 404);
        CHECK_INT(delete_template("base"), ==, 403);
        CHECK_INT(delete_template("%20"), ==, 400);
        CHECK_INT(delete_template("other%2Fbase"), ==, 404);
        CHECK_INT(pause_it(id), ==, 204);
        CHECK_INT(ask("POST", path_of(id, "/snapshots"), "{}"), ==, 404);
}

static void others_wait_while_it_is_copied(void)
{
        char id[SANDBOX_ID_MAX], path[128];
        struct client a, b, c, d;

        CHECK(create(BASE, id));
        CHECK(edge_start());
        engine.holds = "pause";
        start(&a, "POST", path_of(id, "/snapshots"), "{}");
        CHECK(run_until(engine_has_logged, "pause:"));
        CHECK_INT(row_state(id), ==, SANDBOX_SNAPSHOTTING);
        CHECK(run_until(edge_has_heard, "\"resumes\":true,\"state\":\"paused\"")); /* requests wait */
        CHECK_STR(shown(id, "state"), "running");
        CHECK_INT(ask("POST", path_of(id, "/timeout"), "{\"timeout\":9}"), ==, 409);
        CHECK(is_error(409, say("Sandbox \"%s\" is being snapshotted", id)));
        (void)snprintf(path, sizeof(path), "/v2/sandboxes/%s/connect", id);
        start(&b, "POST", path, "{}");
        start(&c, "POST", path_of(id, "/snapshots"), "{}");
        start(&d, "POST", path_of(id, "/pause"), "{}");
        run_rounds(20);
        CHECK(!b.is_done && !c.is_done && !d.is_done);
        engine_release();
        CHECK(run_until(client_is_done, &a) && run_until(client_is_done, &b) && run_until(client_is_done, &c) &&
              run_until(client_is_done, &d));
        CHECK_INT(a.status, ==, 201);
        CHECK_INT(b.status, ==, 200);
        CHECK_INT(c.status, ==, 201);
        CHECK_INT(d.status, ==, 204);
        CHECK_STR(shown(id, "state"), "paused");
        client_close(&a);
        client_close(&b);
        client_close(&c);
        client_close(&d);
        edge.channel = channel_free(edge.channel);
}

static void a_snapshot_while_pausing_or_killing_is_409(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a, k;

        CHECK(create(BASE, id));
        engine.holds = "pause";
        start(&a, "POST", path_of(id, "/pause"), "{}");
        CHECK(run_until(engine_has_logged, "pause:"));
        CHECK_INT(ask("POST", path_of(id, "/snapshots"), "{}"), ==, 409);
        CHECK(is_error(409, say("Sandbox '%s' cannot be snapshotted while in 'pausing' state", id)));
        CHECK_INT(fork_it(id, "{}"), ==, 409);
        engine.holds_kill = true;
        start(&k, "DELETE", path_of(id, ""), NULL);
        CHECK(run_until(engine_has_logged, "kill:"));
        CHECK_INT(ask("POST", path_of(id, "/snapshots"), "{}"), ==, 409);
        CHECK_INT(fork_it(id, "{}"), ==, 409);
        CHECK_INT(roll_back(id, "x"), ==, 404);
        engine_release();
        CHECK(run_until(client_is_done, &k) && run_until(client_is_done, &a));
        client_close(&a);
        client_close(&k);
}

static void a_kill_while_it_is_copied_wins(void)
{
        static const char *const at[] = {"pause", "seal", "create"};

        for (size_t i = 0; i < ARRAY_LEN(at); i++) {
                char id[SANDBOX_ID_MAX], entry[16];
                struct client a, k;

                CHECK(create(BASE, id));
                engine.log[0] = 0;
                engine.holds = at[i];
                (void)snprintf(entry, sizeof(entry), "%s:", at[i]);
                start(&a, "POST", path_of(id, "/snapshots"), "{}");
                CHECK(run_until(engine_has_logged, entry));
                run_rounds(10);
                start(&k, "DELETE", path_of(id, ""), NULL);
                run_rounds(50);
                if (i == 2)
                        engine_release(); /* what is being made has to be there first */
                engine.holds = NULL;
                CHECK(run_until(client_is_done, &k));
                CHECK_INT(k.status, ==, 204);
                CHECK(run_until(client_is_done, &a));
                CHECK_INT(a.status, ==, 409);
                CHECK(!engine_lives(id));
                client_close(&a);
                client_close(&k);
        }
}

static void a_copy_that_fails_leaves_it_running(void)
{
        static const struct {
                const char *op, *kind;
                unsigned status;
        } cases[] = {
                {"pause", "conflict", 409},    {"pause", "limit", 507},    {"pause", "no_space", 507},
                {"pause", "unavailable", 503}, {"seal", "internal", 500},  {"flush", "internal", 500},
                {"flush", "limit", 507},       {"flush", "no_space", 507},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                char id[SANDBOX_ID_MAX];

                CHECK(create(BASE, id));
                engine.fails = cases[i].op;
                engine.fail_kind = cases[i].kind;
                engine.fail_message = "no";
                CHECK_INT(ask("POST", path_of(id, "/snapshots"), "{}"), ==, cases[i].status);
                engine.fails = NULL;
                CHECK(until(id, SANDBOX_RUNNING) && engine_has(id, "running"));
                CHECK_INT(row_state(id), ==, SANDBOX_RUNNING);
                CHECK_INT(pause_it(id), ==, 204);
                CHECK_INT(connect_to(id, "{}"), ==, 201);
                CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
                CHECK(run_until(nothing_is_left, NULL));
        }
}

/* The engine has made a layer of its files: whoever drops that layer drops the files. */
static void a_paused_one_whose_layer_is_not_flushed_keeps_its_files(void)
{
        char id[SANDBOX_ID_MAX];
        const json_t *layers;

        CHECK(create(BASE, id));
        CHECK_INT(pause_it(id), ==, 204);
        engine.fails = "flush";
        engine.fail_kind = "internal";
        engine.fail_message = "no";
        CHECK_INT(fork_it(id, "{}"), ==, 500);
        run_rounds(50);
        CHECK_INT(json_object_size(engine.layers), ==, 1);
        engine.fails = NULL;
        CHECK_INT(connect_to(id, "{}"), ==, 201); /* when the layer is on disk */
        CHECK(until(id, SANDBOX_RUNNING) && !engine.broken);
        layers = json_object_get(engine.plan, "layers");
        CHECK_INT(json_array_size(layers), ==, 3);
        CHECK(json_object_get(engine.layers, json_string_value(json_array_get(layers, 2))));
        CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
        CHECK(run_until(nothing_is_left, NULL));
}

static bool stays_after_a_reboot(const char *id)
{
        return json_is_false(json_object_get(json_object_get(engine.alive, id), "fleeting"));
}

static void an_original_that_cannot_go_on_is_paused(void)
{
        char id[SANDBOX_ID_MAX], snapshot[160];

        CHECK(create(BASE, id));
        engine.fails = "create";
        engine.fail_kind = "internal";
        engine.fail_message = "no";
        CHECK(take_snapshot(id, "{}", snapshot)); /* the copy is good */
        CHECK(until(id, SANDBOX_PAUSED));
        CHECK_STR(shown(id, "state"), "paused");
        CHECK(stays_after_a_reboot(id));
        engine.fails = NULL;
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK_INT(create_from(snapshot), ==, 201);
}

/* Until it is on disk, the next boot would take it for ended. */
static void an_original_that_cannot_be_kept_is_not_called_paused(void)
{
        char id[SANDBOX_ID_MAX], snapshot[160];

        CHECK(create(BASE, id));
        engine.fails_create = true;
        engine.fails = "keep";
        engine.fail_kind = "internal";
        engine.fail_message = "no";
        CHECK(take_snapshot(id, "{}", snapshot));
        CHECK(run_until(engine_has_logged, "keep:"));
        run_rounds(50);
        CHECK_INT(state_of(id), ==, SANDBOX_SNAPSHOTTING);
        CHECK_INT(row_state(id), ==, SANDBOX_SNAPSHOTTING);
        engine.fails = NULL;
        CHECK(until(id, SANDBOX_PAUSED));
        CHECK(stays_after_a_reboot(id));
        engine.fails_create = false;
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
}

static int times_logged(const char *op)
{
        int n = 0;

        for (const char *at = engine.log; (at = strstr(at, op)); at++)
                n++;
        return n;
}

static void an_original_that_ended_twice_is_kept_by_its_image(void)
{
        char id[SANDBOX_ID_MAX], snapshot[160];

        CHECK(create(BASE, id));
        engine.fails_create = true;
        engine.fails = "keep";
        engine.fail_kind = "gone";
        engine.fail_message = "no such sandbox";
        engine.log[0] = 0;
        CHECK(take_snapshot(id, "{}", snapshot));
        CHECK(run_until(engine_has_logged, "keep:"));
        (void)json_object_del(engine.alive, id);
        CHECK(until(id, SANDBOX_PAUSED));
        CHECK_INT(times_logged("flush"), ==, 3); /* checkpoint and layer for the snapshot, both for its own row */
        engine.fails = NULL;
        engine.fails_create = false;
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
}

static void a_client_that_leaves_leaves_no_copy(void)
{
        static const char *const at[] = {"pause", "seal", "flush"};

        for (size_t i = 0; i < ARRAY_LEN(at); i++) {
                char id[SANDBOX_ID_MAX];
                struct client a;

                CHECK(create(BASE, id));
                engine.log[0] = 0;
                engine.holds = at[i];
                start(&a, "POST", path_of(id, "/snapshots"), "{}");
                CHECK(run_until(engine_has_logged, (void *)at[i]));
                run_rounds(10);
                client_close(&a);
                run_rounds(10);
                engine_release();
                CHECK(until(id, SANDBOX_RUNNING));
                CHECK_INT(rig.control.snapshots.count, ==, 0);
                CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
                CHECK(run_until(nothing_is_left, NULL));
        }
}

/* The link is lost at each op, before or after it was carried out: in the end the sandbox runs, and nothing is left. */
static void a_copy_lost_with_the_engine_ends_well(void)
{
        static const char *const at[] = {"pause", "seal", "create", "flush"};

        for (size_t i = 0; i < ARRAY_LEN(at); i++)
                for (int done = 0; done < 2; done++) {
                        char id[SANDBOX_ID_MAX];
                        unsigned status;

                        CHECK(create(BASE, id));
                        *(done ? &engine.dies_on : &engine.dies_before) = at[i];
                        status = ask("POST", path_of(id, "/snapshots"), "{}");
                        CHECK(status == 503 || status == 201);
                        CHECK(until(id, SANDBOX_RUNNING) && engine_has(id, "running"));
                        if (status == 201)
                                CHECK_INT(delete_template(snapshot_id()), ==, 204);
                        CHECK_INT(pause_it(id), ==, 204);
                        CHECK_INT(connect_to(id, "{}"), ==, 201);
                        CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
                        CHECK(run_until(nothing_is_left, NULL));
                }
}

/* Control itself is lost with each op under way, carried out or not. */
static void a_copy_lost_with_control_ends_well(void)
{
        static const char *const at[] = {"pause", "seal", "create", "flush"};

        for (size_t i = 0; i < ARRAY_LEN(at); i++)
                for (int done = 0; done < 2; done++) {
                        char id[SANDBOX_ID_MAX];
                        struct client a;

                        CHECK(create(BASE, id));
                        engine.log[0] = 0;
                        engine.holds = at[i];
                        start(&a, "POST", path_of(id, "/snapshots"), "{}");
                        CHECK(run_until(engine_has_logged, (void *)at[i]));
                        run_rounds(10);
                        client_close(&a);
                        control_stop();
                        engine.holds = NULL;
                        if (done)
                                json_decref(engine_do(at[i], engine.held));
                        CHECK(control_start() && run_until(engine_is_up, NULL));
                        CHECK(until(id, SANDBOX_RUNNING) && engine_has(id, "running"));
                        CHECK(run_until(engine_is_quiet, NULL));
                        CHECK_INT(json_object_size(engine.checkpoints), ==, rig.control.snapshots.count);
                        if (rig.control.snapshots.count) /* it was finished before */
                                CHECK_INT(delete_template(LIST_ENTRY(rig.control.snapshots.all.next,
                                                                     struct snapshot_entry, node)
                                                                  ->snapshot.template_id),
                                          ==, 204);
                        CHECK_INT(pause_it(id), ==, 204);
                        CHECK_INT(connect_to(id, "{}"), ==, 201);
                        CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
                        CHECK(run_until(nothing_is_left, NULL));
                }
}

/* ---- forks ---- */

static void forks_are_sandboxes_of_their_own(void)
{
        char id[SANDBOX_ID_MAX], token[65], copy[SANDBOX_ID_MAX];

        CHECK(create("{\"templateID\":\"base\",\"timeout\":60,\"metadata\":{\"k\":\"v\"},\"autoPause\":true}", id));
        (void)snprintf(token, sizeof(token), "%s", text_at("envdAccessToken"));
        CHECK_INT(fork_it(id, "{\"count\":3}"), ==, 201);
        CHECK_INT(json_array_size(last.json), ==, 3);
        CHECK(forked(0) && forked(1) && forked(2) && strcmp(forked(0), forked(1)) != 0);
        CHECK_STR(json_string_value(json_object_get(engine.plan, "token_before")), token);
        (void)snprintf(copy, sizeof(copy), "%s", forked(2));
        CHECK(until(id, SANDBOX_RUNNING));
        CHECK_INT(team_count(), ==, 4);
        CHECK_STR(shown(id, "endAt"), "2026-09-21T14:14:20.000000Z");
        CHECK_STR(shown(copy, "endAt"), "2026-09-21T14:18:20.000000Z"); /* 300 s: clients leave it out */
        CHECK_STR(json_string_value(json_object_get(json_object_get(last.json, "metadata"), "k")), "v");
        CHECK_STR(json_string_value(json_object_get(json_object_get(last.json, "lifecycle"), "onTimeout")), "pause");
        CHECK(strcmp(text_at("envdAccessToken"), token) != 0);
        CHECK(run_until(engine_is_quiet, NULL));
        CHECK_INT(json_object_size(engine.checkpoints), ==, 0); /* all have theirs in memory */
        CHECK_INT(json_object_size(engine.layers), ==, 1);
        CHECK_INT(ask("DELETE", path_of(id, ""), NULL), ==, 204);
        CHECK_INT(fork_it(copy, NULL), ==, 201); /* a fork of a fork */
        CHECK_INT(json_array_size(last.json), ==, 1);
        CHECK_INT(json_array_size(json_object_get(engine.plan, "layers")), ==, 4);
}

static void a_paused_one_is_forked_too(void)
{
        char id[SANDBOX_ID_MAX], path[128];
        struct client a, b;

        CHECK(create(BASE, id) && pause_it(id) == 204);
        engine.log[0] = 0;
        engine.holds = "seal";
        start(&a, "POST", path_of(id, "/fork"), "{\"count\":2}");
        CHECK(run_until(engine_has_logged, "seal:"));
        CHECK_STR(shown(id, "state"), "paused");
        CHECK_INT(pause_it(id), ==, 409);
        (void)snprintf(path, sizeof(path), "/v2/sandboxes/%s/connect", id);
        start(&b, "POST", path, "{}");
        run_rounds(20);
        CHECK(!b.is_done);
        engine_release();
        CHECK(run_until(client_is_done, &a) && run_until(client_is_done, &b));
        CHECK_INT(a.status, ==, 201);
        CHECK_INT(json_array_size(a.json), ==, 2);
        CHECK_INT(b.status, ==, 201);
        CHECK(!json_object_get(engine.plan, "upper"));
        CHECK_INT(json_array_size(json_object_get(engine.plan, "layers")), ==, 3);
        client_close(&a);
        client_close(&b);
        CHECK_INT(pause_it(id), ==, 204);
        CHECK_INT(fork_it(id, "{}"), ==, 201);
        CHECK_STR(shown(id, "state"), "paused");
        engine.log[0] = 0;
        CHECK_INT(fork_it(id, "{}"), ==, 201); /* nothing to seal any more */
        CHECK(!strstr(engine.log, "seal:"));
        CHECK_INT(connect_to(id, "{}"), ==, 201);
        CHECK_INT(ask("POST", path_of(id, "/pause"), "{\"memory\":false}"), ==, 204);
        CHECK_INT(fork_it(id, "{}"), ==, 201);
        CHECK(forked(0) && !json_object_get(engine.plan, "checkpoint"));
}

static void each_fork_may_fail_alone(void)
{
        char id[SANDBOX_ID_MAX], other[SANDBOX_ID_MAX];
        const json_t *error;

        rig.conf.sandboxes_max = 4;
        CHECK(create(BASE, id) && create(BASE, other));
        CHECK_INT(fork_it(id, "{\"count\":0}"), ==, 400);
        CHECK(is_error(400, "Count must be at least 1"));
        CHECK_INT(fork_it(id, "{\"count\":101}"), ==, 400);
        CHECK(is_error(400, "Count cannot be greater than 100"));
        CHECK_INT(fork_it(id, "{\"count\":4}"), ==, 400);
        CHECK(is_error(400, "Count must be lower than the maximum number of concurrent sandboxes (4)"));
        CHECK_INT(fork_it(id, "{\"timeout\":0}"), ==, 400);
        CHECK_INT(fork_it(id, "{\"timeout\":86401}"), ==, 400);
        CHECK_INT(fork_it("inone", "{}"), ==, 404);
        CHECK_INT(fork_it(id, "{\"count\":3}"), ==, 201);
        CHECK(forked(0) && forked(1) && !forked(2));
        error = json_object_get(json_array_get(last.json, 2), "error");
        CHECK_INT(json_integer_value(json_object_get(error, "code")), ==, 429);
        CHECK(until(id, SANDBOX_RUNNING));
}

static void forks_that_do_not_start_say_so(void)
{
        char id[SANDBOX_ID_MAX];
        const json_t *error;

        CHECK(create(BASE, id) && pause_it(id) == 204);
        engine.fails = "create";
        engine.fail_kind = "limit";
        engine.fail_message = "no slot is free";
        CHECK_INT(fork_it(id, "{\"count\":2}"), ==, 201);
        error = json_object_get(json_array_get(last.json, 1), "error");
        CHECK_INT(json_integer_value(json_object_get(error, "code")), ==, 503);
        CHECK_STR(json_string_value(json_object_get(error, "message")), "Failed to place sandbox: no slot is free");
        CHECK_INT(team_count(), ==, 0);
        engine.fails = NULL;
        CHECK_INT(connect_to(id, "{}"), ==, 201);
}

static void a_client_that_leaves_leaves_no_forks(void)
{
        char id[SANDBOX_ID_MAX];
        struct client a;

        CHECK(create(BASE, id) && pause_it(id) == 204);
        engine.log[0] = 0;
        engine.holds_create = true;
        start(&a, "POST", path_of(id, "/fork"), "{\"count\":2}");
        CHECK(run_until(engine_has_logged, "create:"));
        run_rounds(20);
        client_close(&a);
        run_rounds(20);
        engine_release(); /* the last of them; the other is lost with the link */
        engine.channel = channel_free(engine.channel);
        CHECK(run_until(engine_is_up, NULL));
        CHECK(run_until(engine_is_quiet, NULL));
        run_rounds(50);
        CHECK_INT(rig.control.lives.count, ==, 1);
        CHECK_INT(json_object_size(engine.alive), ==, 1);
}

int main(void)
{
        rig_is_large = true;
        RUN_IN_RIG(a_snapshot_is_a_template);
        RUN_IN_RIG(names_move_and_are_listed);
        RUN_IN_RIG(bad_names_are_400);
        RUN_IN_RIG(others_wait_while_it_is_copied);
        RUN_IN_RIG(a_snapshot_while_pausing_or_killing_is_409);
        RUN_IN_RIG(a_kill_while_it_is_copied_wins);
        RUN_IN_RIG(a_copy_that_fails_leaves_it_running);
        RUN_IN_RIG(a_paused_one_whose_layer_is_not_flushed_keeps_its_files);
        RUN_IN_RIG(an_original_that_cannot_go_on_is_paused);
        RUN_IN_RIG(an_original_that_cannot_be_kept_is_not_called_paused);
        RUN_IN_RIG(an_original_that_ended_twice_is_kept_by_its_image);
        RUN_IN_RIG(a_client_that_leaves_leaves_no_copy);
        RUN_IN_RIG(a_copy_lost_with_the_engine_ends_well);
        RUN_IN_RIG(a_copy_lost_with_control_ends_well);
        RUN_IN_RIG(forks_are_sandboxes_of_their_own);
        RUN_IN_RIG(a_paused_one_is_forked_too);
        RUN_IN_RIG(each_fork_may_fail_alone);
        RUN_IN_RIG(forks_that_do_not_start_say_so);
        RUN_IN_RIG(a_client_that_leaves_leaves_no_forks);
        return tap_done();
}
