/* Templates as clients see them: sandboxes from them, lists, names, tags, other teams, and what is collected. */
#include "control_template.h"

#include "control/catalogue/build_log.h"

/* ---- sandboxes from templates ---- */

static bool json_has_text(const json_t *v, const char *text)
{
        char *all = json_dumps(v, 0);
        bool has = all && strstr(all, text);

        free(all);
        return has;
}

static void a_sandbox_starts_from_a_ready_build(void)
{
        struct asked a, b;
        char body[200];
        const json_t *init;

        fake_begin();
        CHECK(request_build("{\"name\":\"x\",\"cpuCount\":4}", &a));
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"x\"}"), ==, 404);
        CHECK(is_error(404, "tag 'default' does not exist for template 'x': its build has not been started"));
        CHECK_INT(start_build(&a, "{\"fromImage\":\"a\"}"), ==, 202);
        CHECK(finish_build(&a, LAYER_1));
        CHECK_STR(status_of(&a), "ready");
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"x\",\"envVars\":{\"B\":\"client\"}}"), ==, 201);
        CHECK_STR(text_at("templateID"), a.template_id);
        CHECK_STR(text_at("alias"), "x");
        CHECK_STR(json_string_value(json_array_get(json_object_get(engine.plan, "layers"), 1)), LAYER_1);
        init = json_object_get(engine.plan, "init");
        CHECK(json_has_text(init, "\"A\": \"template\""));
        CHECK(json_has_text(init, "\"B\": \"client\""));
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"default/x:default\"}"), ==, 201);
        CHECK(build_whole("x:v2", LAYER_2, &b));
        (void)snprintf(body, sizeof(body), "{\"templateID\":\"%s:%s\"}", b.template_id, b.build_id);
        CHECK_INT(ask("POST", "/v2/sandboxes", body), ==, 201);
        CHECK_STR(json_string_value(json_array_get(json_object_get(engine.plan, "layers"), 1)), LAYER_2);
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"x:" NO_ID "\"}"), ==, 404);
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"x:v3\"}"), ==, 404);
        CHECK(is_error(404, "tag 'v3' does not exist for template 'x'"));
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"nothing\"}"), ==, 404);
        CHECK(is_error(404, "template 'nothing' not found. There are: base, x"));
        CHECK_INT(ask("GET", "/templates/x", NULL), ==, 200);
        CHECK_INT(json_integer_value(json_object_get(last.json, "spawnCount")), ==, 3);
        CHECK(json_is_string(json_object_get(last.json, "lastSpawnedAt")));
}

static void a_failed_rebuild_leaves_the_old_build(void)
{
        struct asked a, b;
        struct build_entry *e;

        fake_begin();
        CHECK(build_whole("x", LAYER_1, &a));
        CHECK(request_build("{\"name\":\"x\"}", &b));
        CHECK_INT(start_build(&b, "{\"fromImage\":\"a\"}"), ==, 202);
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"x\"}"), ==, 201);
        e = builds_find(&rig.control.template_rows, b.build_id);
        CHECK_INT(build_set_error(&rig.control.template_rows, e, "failed to run command 'x': exit status 1", "1", NULL),
                  ==, 0);
        CHECK_STR(status_of(&b), "error");
        CHECK_STR(json_string_value(json_object_get(json_object_get(last.json, "reason"), "step")), "1");
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"x\"}"), ==, 201);
        CHECK_STR(json_string_value(json_array_get(json_object_get(engine.plan, "layers"), 1)), LAYER_1);
}

static bool engine_dropped(void *layer)
{
        return !json_object_get(engine.layers, layer);
}

static void deleting_leaves_sandboxes_and_collects_layers(void)
{
        struct asked a, b;
        char id[SANDBOX_ID_MAX], path[100];

        fake_begin();
        CHECK(build_whole("x", LAYER_1, &a));
        CHECK(create("{\"templateID\":\"x\"}", id));
        CHECK(build_whole("x", LAYER_2, &b)); /* LAYER_2: no sandbox uses it */
        CHECK(request_build("{\"name\":\"x\"}", &b));
        CHECK_INT(start_build(&b, "{\"fromImage\":\"a\"}"), ==, 202);
        CHECK_INT(ask("DELETE", "/templates/default%2Fx%3Av1", NULL), ==, 204);
        CHECK_INT(fake.cancelled, ==, 1);
        CHECK_INT(ask("GET", "/templates/x", NULL), ==, 404);
        CHECK_INT(ask("DELETE", "/templates/x", NULL), ==, 404);
        CHECK_INT(ask("DELETE", "/templates/base", NULL), ==, 403);
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        CHECK_INT(ask("GET", path, NULL), ==, 200);
        CHECK(run_until(engine_dropped, (void *)LAYER_2));
        CHECK(json_object_get(engine.layers, LAYER_1)); /* the sandbox has it */
        CHECK_INT(ask("DELETE", path, NULL), ==, 204);
        CHECK(run_until(engine_dropped, (void *)LAYER_1));
        CHECK(request_build("{\"name\":\"x\"}", &b)); /* the alias is free */
        CHECK(strcmp(a.template_id, b.template_id) != 0);
}

static void rows_survive_a_restart(void)
{
        struct asked a;

        fake_begin();
        CHECK(build_whole("x", LAYER_1, &a));
        CHECK_INT(ask("POST", "/templates/tags", "{\"target\":\"x\",\"tags\":[\"prod\"]}"), ==, 201);
        control_stop();
        CHECK(control_start());
        CHECK(run_until(engine_is_up, NULL));
        CHECK_STR(status_of(&a), "ready");
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"x:prod\"}"), ==, 201);
        run_rounds(50);
        CHECK(json_object_get(engine.layers, LAYER_1));
}

/* ---- lists, names, tags ---- */

static void templates_are_listed(void)
{
        struct asked a, b;
        char path[200];

        fake_begin();
        CHECK(build_whole("one", LAYER_1, &a));
        rig.now_ns += S_NS;
        CHECK(build_whole("two", LAYER_2, &b));
        CHECK_INT(ask("GET", "/templates", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 3);
        CHECK_STR(json_string_value(json_object_get(json_array_get(last.json, 1), "templateID")), a.template_id);
        CHECK_STR(json_string_value(json_object_get(json_array_get(last.json, 1), "buildStatus")), "ready");
        CHECK_INT(json_integer_value(json_object_get(json_array_get(last.json, 1), "buildCount")), ==, 1);
        CHECK_INT(ask("GET", "/templates?teamID=other", NULL), ==, 400);
        CHECK(is_error(400, "Team ID param mismatch with the API key"));
        CHECK_INT(ask("GET", "/v2/templates?limit=1", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 1);
        CHECK_STR(json_string_value(json_object_get(json_array_get(last.json, 0), "templateID")), b.template_id);
        (void)snprintf(path, sizeof(path), "/v2/templates?limit=1&nextToken=%.*s",
                       STR_ARG(http1_value(&last.head, "X-Next-Token")));
        CHECK_INT(ask("GET", path, NULL), ==, 200);
        CHECK_STR(json_string_value(json_object_get(json_array_get(last.json, 0), "templateID")), a.template_id);
        CHECK(!http1_find(&last.head, "X-Next-Token"));
        CHECK_INT(ask("GET", "/v2/templates?nextToken=nonsense", NULL), ==, 400);
}

static void a_template_has_its_builds_newest_first(void)
{
        struct asked a, b;
        char path[200];
        const json_t *first;

        fake_begin();
        CHECK(build_whole("x", LAYER_1, &a));
        CHECK(build_whole("x", LAYER_2, &b));
        CHECK_INT(ask("GET", "/templates/x?limit=1", NULL), ==, 200);
        first = json_array_get(json_object_get(last.json, "builds"), 0);
        CHECK_STR(json_string_value(json_object_get(first, "buildID")), b.build_id);
        CHECK_INT(json_integer_value(json_object_get(first, "number")), ==, 2);
        (void)snprintf(path, sizeof(path), "/templates/x?limit=1&nextToken=%.*s",
                       STR_ARG(http1_value(&last.head, "X-Next-Token")));
        CHECK_INT(ask("GET", path, NULL), ==, 200);
        first = json_array_get(json_object_get(last.json, "builds"), 0);
        CHECK_STR(json_string_value(json_object_get(first, "buildID")), a.build_id);
        CHECK(!http1_find(&last.head, "X-Next-Token"));
        CHECK_INT(ask("GET", "/templates/base", NULL), ==, 200);
        CHECK(json_is_true(json_object_get(last.json, "public")));
}

static void names_exist_or_not(void)
{
        struct asked a;

        fake_begin();
        CHECK(build_whole("x:v1", LAYER_1, &a));
        CHECK_INT(ask("GET", "/templates/aliases/base", NULL), ==, 200);
        CHECK_STR(text_at("templateID"), TEMPLATE_ID);
        CHECK(json_is_true(json_object_get(last.json, "public")));
        CHECK_INT(ask("GET", "/templates/aliases/x", NULL), ==, 200);
        CHECK(json_is_false(json_object_get(last.json, "public")));
        CHECK_INT(ask("GET", "/templates/aliases/default%2Fx%3Av1", NULL), ==, 200);
        CHECK_INT(ask("GET", "/templates/aliases/x%3Av2", NULL), ==, 404);
        CHECK_INT(ask("GET", "/templates/aliases/none", NULL), ==, 404);
        CHECK_INT(ask("GET", "/templates/aliases/a%20b", NULL), ==, 400);
        CHECK_INT(ask("GET", "/templates/aliases/other%2Fx", NULL), ==, 404);
}

static void tags_point_to_builds(void)
{
        struct asked a, b;

        fake_begin();
        CHECK(build_whole("x:v1", LAYER_1, &a));
        CHECK_INT(ask("POST", "/templates/tags", "{\"target\":\"x:v1\",\"tags\":[\"production\",\"Latest\"]}"), ==,
                  201);
        CHECK_STR(text_at("buildID"), a.build_id);
        CHECK_STR(json_string_value(json_array_get(json_object_get(last.json, "tags"), 1)), "latest");
        CHECK_INT(ask("GET", "/templates/x/tags", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 3);
        rig.now_ns += S_NS;
        CHECK(build_whole("x:production", LAYER_2, &b)); /* requested later: the tag moves */
        CHECK_STR(template_tag_find(b.template_id[0] ? template_rows_by_id(&rig.control.template_rows, b.template_id)
                                                     : NULL,
                                    "production")
                          ->build->build.id,
                  b.build_id);
        CHECK_INT(ask("POST", "/templates/tags", "{\"target\":\"x:v9\",\"tags\":[\"a\"]}"), ==, 404);
        CHECK_INT(ask("POST", "/templates/tags", "{\"target\":\"none\",\"tags\":[\"a\"]}"), ==, 404);
        CHECK_INT(ask("POST", "/templates/tags", "{\"target\":\"x:v1\",\"tags\":[\":invalid-tag\"]}"), ==, 400);
        CHECK_INT(ask("POST", "/templates/tags", "{\"target\":\"x:\",\"tags\":[\"a\"]}"), ==, 400);
        CHECK_INT(ask("POST", "/templates/tags", "{\"target\":\"x:v1\",\"tags\":[]}"), ==, 400);
        CHECK_INT(ask("POST", "/templates/tags", "{\"target\":\"base\",\"tags\":[\"a\"]}"), ==, 403);
        CHECK_INT(ask("DELETE", "/templates/tags", "{\"name\":\"x\",\"tags\":[\"default\"]}"), ==, 400);
        CHECK(is_error(400, "Cannot delete the 'default' tag"));
        CHECK_INT(ask("DELETE", "/templates/tags", "{\"name\":\"x:v1\",\"tags\":[\"v1\"]}"), ==, 400);
        CHECK_INT(ask("DELETE", "/templates/tags", "{\"name\":\"none\",\"tags\":[\"v1\"]}"), ==, 404);
        CHECK_INT(ask("DELETE", "/templates/tags", "{\"name\":\"x\",\"tags\":[\"v1\"]}"), ==, 204);
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"x:v1\"}"), ==, 404);
}

static void a_tag_given_later_beats_a_build_requested_earlier(void)
{
        struct asked a, b;

        fake_begin();
        CHECK(build_whole("x:v1", LAYER_1, &a));
        rig.now_ns += S_NS;
        CHECK(request_build("{\"name\":\"x:prod\"}", &b));
        CHECK_INT(start_build(&b, "{\"fromImage\":\"a\"}"), ==, 202);
        rig.now_ns += S_NS;
        CHECK_INT(ask("POST", "/templates/tags", "{\"target\":\"x:v1\",\"tags\":[\"prod\"]}"), ==, 201);
        CHECK(finish_build(&b, LAYER_2));
        CHECK_STR(template_tag_find(template_rows_by_id(&rig.control.template_rows, a.template_id), "prod")
                          ->build->build.id,
                  a.build_id);
}

static void a_template_goes_back_to_an_earlier_build(void)
{
        struct asked a, b, c;

        fake_begin();
        CHECK(build_whole("x", LAYER_1, &a));
        CHECK_INT(ask("POST", "/templates/x/rollback", NULL), ==, 409);
        rig.now_ns += S_NS;
        CHECK(build_whole("x", LAYER_2, &b));
        CHECK(request_build("{\"name\":\"x\"}", &c));
        CHECK_INT(ask("POST", "/templates/x/rollback", "{}"), ==, 200);
        CHECK_STR(text_at("buildID"), a.build_id);
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"x\"}"), ==, 201);
        CHECK_STR(json_string_value(json_array_get(json_object_get(engine.plan, "layers"), 1)), LAYER_1);
        CHECK_INT(ask("POST", "/templates/x/rollback", "{\"build\":2}"), ==, 200);
        CHECK_STR(text_at("buildID"), b.build_id);
        CHECK_INT(ask("POST", "/templates/x/rollback", "{\"tag\":\"old\",\"build\":1}"), ==, 200);
        CHECK_INT(ask("POST", "/templates/x/rollback", "{\"buildID\":\"" NO_ID "\"}"), ==, 404);
        CHECK_INT(ask("POST", "/templates/x/rollback", "{\"build\":3}"), ==, 409);
        CHECK_INT(ask("POST", "/templates/x/rollback", "{\"build\":9}"), ==, 404);
        CHECK_INT(ask("POST", "/templates/x/rollback", "{\"build\":\"x\"}"), ==, 400);
        CHECK_INT(ask("POST", "/templates/x/rollback", "{\"tag\":\"none\"}"), ==, 404);
}

static void templates_are_published(void)
{
        struct asked a, b;

        fake_begin();
        CHECK(build_whole("x", LAYER_1, &a));
        CHECK_INT(ask("PATCH", "/v2/templates/x", "{\"public\":true}"), ==, 200);
        CHECK_INT(json_array_size(json_object_get(last.json, "names")), ==, 1);
        CHECK_INT(ask("PATCH", "/templates/x", "{\"public\":true}"), ==, 200);
        CHECK_INT(ask("GET", "/templates/x", NULL), ==, 200);
        CHECK(json_is_true(json_object_get(last.json, "public")));
        CHECK_INT(json_array_size(json_object_get(last.json, "names")), ==, 2);
        CHECK_INT(ask("PATCH", "/templates/x", "{\"public\":false}"), ==, 200);
        CHECK_INT(ask("PATCH", "/templates/x", "{\"public\":\"yes\"}"), ==, 400);
        CHECK_INT(ask("PATCH", "/templates/none", "{\"public\":true}"), ==, 404);
        CHECK_INT(ask("PATCH", "/templates/base", "{\"public\":false}"), ==, 403);
        CHECK(build_whole("base", LAYER_2, &b)); /* one's own beats the server's */
        CHECK_INT(ask("PATCH", "/templates/base", "{\"public\":true}"), ==, 409);
        CHECK_INT(ask("GET", "/templates/aliases/base", NULL), ==, 200);
        CHECK_STR(text_at("templateID"), b.template_id);
}

/* ---- another team ---- */

static char other_key[KEY_LEN + 1];

static bool make_other_team(void)
{
        const struct store_team team = {.id = NO_ID, .slug = "other", .name = "Other"};
        struct api_key *made;
        int64_t no;

        if (store_team_add(rig.control.store, &team, &no, NULL) < 0)
                return false;
        control_stop();
        if (!control_start() || !run_until(engine_is_up, NULL))
                return false;
        fake_begin();
        return keys_make(&rig.control.keys, keys_team_named(&rig.control.keys, STR("other")), "k", other_key, &made,
                         NULL) == 0;
}

static unsigned other_asks(const char *method, const char *path, const char *body)
{
        char more[128];

        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\n", other_key);
        return ask_with(method, path, more, body);
}

static void templates_belong_to_teams(void)
{
        char path[200], by_id[100];
        struct asked a;

        fake_begin();
        CHECK(make_other_team());
        CHECK(build_whole("x", LAYER_1, &a));
        (void)snprintf(by_id, sizeof(by_id), "{\"templateID\":\"%s\"}", a.template_id);
        CHECK_INT(other_asks("POST", "/v2/sandboxes", "{\"templateID\":\"x\"}"), ==, 404);
        CHECK(is_error(404, "template 'x' not found. There are: base"));
        CHECK_INT(other_asks("POST", "/v2/sandboxes", "{\"templateID\":\"default/x\"}"), ==, 403);
        CHECK_INT(other_asks("POST", "/v2/sandboxes", by_id), ==, 403);
        CHECK_INT(other_asks("GET", "/templates/aliases/default%2Fx", NULL), ==, 403);
        CHECK_INT(other_asks("GET", "/templates/aliases/x", NULL), ==, 404);
        CHECK_INT(other_asks("DELETE", "/templates/default%2Fx", NULL), ==, 403);
        CHECK_INT(other_asks("GET", "/templates/default%2Fx/tags", NULL), ==, 403);
        CHECK_INT(other_asks("POST", "/templates/tags", "{\"target\":\"default/x\",\"tags\":[\"a\"]}"), ==, 403);
        CHECK_INT(other_asks("PATCH", "/templates/default%2Fx", "{\"public\":true}"), ==, 403);
        CHECK_INT(other_asks("POST", "/templates/default%2Fx/rollback", NULL), ==, 403);
        (void)snprintf(path, sizeof(path), "/templates/%s/builds/%s/status", a.template_id, a.build_id);
        CHECK_INT(other_asks("GET", path, NULL), ==, 403);
        (void)snprintf(path, sizeof(path), "/templates/%s/files/" HASH, a.template_id);
        CHECK_INT(other_asks("GET", path, NULL), ==, 403);
        CHECK_INT(other_asks("GET", "/templates", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 1); /* base */

        CHECK_INT(ask("PATCH", "/v2/templates/x", "{\"public\":true}"), ==, 200);
        CHECK_INT(other_asks("POST", "/v2/sandboxes", "{\"templateID\":\"default/x\"}"), ==, 201);
        CHECK_INT(other_asks("POST", "/v2/sandboxes", by_id), ==, 201);
        CHECK_INT(other_asks("POST", "/v2/sandboxes", "{\"templateID\":\"x\"}"), ==, 404);
        CHECK_INT(ask("PATCH", "/templates/x", "{\"public\":true}"), ==, 200);
        CHECK_INT(other_asks("POST", "/v2/sandboxes", "{\"templateID\":\"x\"}"), ==, 201);
        CHECK_INT(other_asks("DELETE", "/templates/x", NULL), ==, 403);
        CHECK_INT(other_asks("POST", "/v3/templates", "{\"name\":\"x\"}"), ==, 202); /* in its own namespace */
        CHECK(strcmp(text_at("templateID"), a.template_id) != 0);
        CHECK_INT(ask("PATCH", "/v2/templates/x", "{\"public\":false}"), ==, 200);
        CHECK_INT(other_asks("POST", "/v2/sandboxes", by_id), ==, 403);
}

static void names_of_snapshots_are_names_of_templates(void)
{
        char id[SANDBOX_ID_MAX], path[100];
        struct asked a;

        fake_begin();
        CHECK(create("{\"templateID\":\"base\"}", id));
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/snapshots", id);
        CHECK_INT(ask("POST", path, "{\"name\":\"snap\"}"), ==, 201);
        CHECK_INT(ask("GET", "/templates/aliases/snap", NULL), ==, 200);
        CHECK_INT(ask("GET", "/templates/aliases/default%2Fsnap%3Adefault", NULL), ==, 200);
        CHECK_INT(ask("GET", "/templates/aliases/snap%3Av9", NULL), ==, 404);
        CHECK_INT(ask("POST", "/v3/templates", "{\"name\":\"snap\"}"), ==, 409);
        CHECK(build_whole("built", LAYER_1, &a));
        CHECK_INT(ask("POST", path, "{\"name\":\"built\"}"), ==, 400);
        CHECK_INT(ask("GET", "/templates", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 2); /* base and built: snapshots are not listed */
}

static void old_builds_are_collected(void)
{
        struct asked a, b, c;

        fake_begin();
        CHECK(build_whole("x", LAYER_1, &a));
        CHECK(build_whole("x", LAYER_2, &b));
        CHECK(build_whole("x", LAYER_3, &c));
        CHECK_INT(builds_collect(&rig.control.template_rows, 1, NULL, NULL), ==, 1); /* b stays, c has the tag */
        CHECK(run_until(engine_dropped, (void *)LAYER_1));
        CHECK_STR(status_of(&a), "?");
        CHECK_STR(status_of(&b), "ready");
        CHECK_INT(ask("GET", "/templates", NULL), ==, 200);
        CHECK_INT(json_integer_value(json_object_get(json_array_get(last.json, 1), "buildCount")), ==, 3);
}

static void what_nobody_needs_is_collected(void)
{
        struct asked a, b;
        char path[160];
        struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
        json_t *context = json_object();
        struct cached_step found = {0};

        fake_begin();
        CHECK(build_whole("x", LAYER_1, &a));
        CHECK(request_build("{\"name\":\"y\"}", &b)); /* is never started */
        build_log_add(&rig.control.build_logs, NO_ID, 1, BUILD_LOG_INFO, NULL, "of nobody");
        build_log_add(&rig.control.build_logs, a.build_id, 1, BUILD_LOG_INFO, NULL, "stays");
        CHECK_INT(layer_cache_add(&rig.control.layer_cache, 1, HASH, LAYER_1, context, NULL), ==, 0);
        json_decref(context);
        (void)snprintf(path, sizeof(path), "%s/uploads/1", rig.dir);
        (void)mkdir(path, 0700);
        write_file("uploads/1/" HASH, "x");
        write_file("uploads/1/.up-abc", "x");
        (void)snprintf(path, sizeof(path), "%s/uploads/1/.up-abc", rig.dir);
        CHECK_INT(utimensat(AT_FDCWD, path, old, 0), ==, 0);
        rig.now_ns = clock_real_ns(); /* files have times of their own */
        template_gc_run(&rig.control.template_gc);
        CHECK(access(path, F_OK) < 0);
        CHECK(uploads_has(&rig.control.uploads, 1, HASH));
        CHECK_STR(status_of(&b), "error");
        CHECK_INT(at_build("GET", &a, "", "/status", NULL), ==, 200);
        CHECK_INT(json_array_size(json_object_get(last.json, "logs")), ==, 1);
        (void)snprintf(path, sizeof(path), "%s/builds/" NO_ID ".log", rig.dir);
        CHECK(access(path, F_OK) < 0);
        rig.now_ns += 31 * 24 * 3600 * S_NS;
        template_gc_run(&rig.control.template_gc);
        CHECK(!uploads_has(&rig.control.uploads, 1, HASH));
        CHECK_INT(layer_cache_find(&rig.control.layer_cache, 1, HASH, &found, NULL), ==, 0);
        CHECK_INT(ask("DELETE", "/templates/x", NULL), ==, 204);
        CHECK(run_until(engine_dropped, (void *)LAYER_1));
}

int main(void)
{
        RUN_IN_RIG(a_sandbox_starts_from_a_ready_build);
        RUN_IN_RIG(a_failed_rebuild_leaves_the_old_build);
        RUN_IN_RIG(deleting_leaves_sandboxes_and_collects_layers);
        RUN_IN_RIG(rows_survive_a_restart);
        RUN_IN_RIG(templates_are_listed);
        RUN_IN_RIG(a_template_has_its_builds_newest_first);
        RUN_IN_RIG(names_exist_or_not);
        RUN_IN_RIG(tags_point_to_builds);
        RUN_IN_RIG(a_tag_given_later_beats_a_build_requested_earlier);
        RUN_IN_RIG(a_template_goes_back_to_an_earlier_build);
        RUN_IN_RIG(templates_are_published);
        RUN_IN_RIG(templates_belong_to_teams);
        RUN_IN_RIG(names_of_snapshots_are_names_of_templates);
        RUN_IN_RIG(old_builds_are_collected);
        RUN_IN_RIG(what_nobody_needs_is_collected);
        return tap_done();
}
