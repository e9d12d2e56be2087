/* Templates, builds, tags and uploads as clients see them, with a runner of builds that does what the test says. */
#include "control_rig.h"

#include "control/catalogue/build_log.h"
#include "control/catalogue/build_runner.h"
#include "control/catalogue/builds.h"
#include "model/build/build_request.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define NO_ID "00000000-0000-4000-8000-000000000000"

static struct {
        struct build_runner runner;
        int started, cancelled;
        char last[UUID_MAX];
} fake;

static void fake_start(struct build_runner *r, const char *id)
{
        (void)r;
        fake.started++;
        (void)snprintf(fake.last, sizeof(fake.last), "%s", id);
}

static void fake_cancel(struct build_runner *r, const char *id)
{
        (void)r;
        fake.cancelled++;
        (void)snprintf(fake.last, sizeof(fake.last), "%s", id);
}

static void fake_begin(void)
{
        memset(&fake, 0, sizeof(fake));
        fake.runner = (struct build_runner){.start = fake_start, .cancel = fake_cancel};
        rig.control.api.runner = &fake.runner;
}

struct asked { /* a build that was requested */
        char template_id[TEMPLATE_ID_MAX], build_id[UUID_MAX];
};

static bool request_build(const char *body, struct asked *ret)
{
        if (ask("POST", "/v3/templates", body) != 202 || !text_at("templateID") || !text_at("buildID"))
                return false;
        (void)snprintf(ret->template_id, sizeof(ret->template_id), "%s", text_at("templateID"));
        (void)snprintf(ret->build_id, sizeof(ret->build_id), "%s", text_at("buildID"));
        return true;
}

static unsigned at_build(const char *method, const struct asked *a, const char *version, const char *after,
                         const char *body)
{
        char path[256];

        (void)snprintf(path, sizeof(path), "%s/templates/%s/builds/%s%s", version, a->template_id, a->build_id, after);
        return ask(method, path, body);
}

static unsigned start_build(const struct asked *a, const char *body)
{
        return at_build("POST", a, "/v2", "", body);
}

static const char *status_of(const struct asked *a)
{
        return at_build("GET", a, "", "/status", NULL) == 200 ? text_at("status") : "?";
}

/* As the runner does when a build is done: with a layer that the engine has. */
static bool finish_build(const struct asked *a, const char *layer)
{
        struct build_entry *e = builds_find(&rig.control.template_rows, a->build_id);
        json_t *layers = json_pack("[s,s]", "l1", layer), *made = json_pack("[s]", layer);
        json_t *env = json_pack("{s:s,s:s}", "A", "template", "B", "template");
        struct build_result res = {.checkpoint = "",
                                   .layers = layers,
                                   .image_of = "",
                                   .env = env,
                                   .default_user = "builder",
                                   .default_workdir = "/app",
                                   .start_cmd = "serve"};
        struct err err = {0};
        int r;

        (void)json_object_set_new(engine.layers, layer, json_true());
        r = refs_make(&rig.control.refs, "", made, &err);
        if (r == 0)
                r = e ? build_set_ready(&rig.control.template_rows, e, &res, &err) : -1;
        refs_release(&rig.control.refs, "", made);
        if (r < 0)
                printf("# finish: %s\n", err.msg);
        json_decref(layers);
        json_decref(made);
        json_decref(env);
        return r == 0;
}

static bool build_whole(const char *name, const char *layer, struct asked *ret)
{
        char body[200];

        (void)snprintf(body, sizeof(body), "{\"name\":\"%s\"}", name);
        return request_build(body, ret) && start_build(ret, "{\"fromTemplate\":\"base\"}") == 202 &&
               finish_build(ret, layer);
}

#define LAYER_1 "u-aaaaaaaaaaaaaaaaaaa1"
#define LAYER_2 "u-aaaaaaaaaaaaaaaaaaa2"
#define LAYER_3 "u-aaaaaaaaaaaaaaaaaaa3"

/* ---- requests ---- */

static void a_build_is_requested_and_started(void)
{
        struct asked a, b;

        fake_begin();
        CHECK(request_build("{\"name\":\"My-App:v1\",\"tags\":[\"prod\",\"V1\"],\"cpuCount\":4,\"memoryMB\":2048}",
                            &a));
        CHECK(json_is_false(json_object_get(last.json, "public")));
        CHECK_STR(json_string_value(json_array_get(json_object_get(last.json, "names"), 0)), "default/my-app");
        CHECK_STR(json_string_value(json_array_get(json_object_get(last.json, "aliases"), 0)), "my-app");
        CHECK_INT(json_array_size(json_object_get(last.json, "tags")), ==, 2);
        CHECK_STR(json_string_value(json_array_get(json_object_get(last.json, "tags"), 0)), "v1");
        CHECK_STR(status_of(&a), "waiting");
        CHECK(!json_object_get(last.json, "reason"));
        CHECK_INT(start_build(&a, "{\"fromImage\":\"python:3\",\"steps\":[{\"type\":\"RUN\",\"args\":[\"true\"]}]}"),
                  ==, 202);
        CHECK(str_is(http1_value(&last.head, "Content-Length"), "0"));
        CHECK_INT(fake.started, ==, 1);
        CHECK_STR(fake.last, a.build_id);
        CHECK_STR(status_of(&a), "building");
        CHECK_INT(start_build(&a, "{\"fromImage\":\"python:3\"}"), ==, 400);
        CHECK(is_error(400, "build is not in waiting state"));
        CHECK(request_build("{\"alias\":\"my-app\"}", &b)); /* the same template, by the older field */
        CHECK_STR(a.template_id, b.template_id);
        CHECK(strcmp(a.build_id, b.build_id) != 0);
        CHECK_STR(status_of(&a), "building"); /* another tag */
}

static void bad_requests_are_400(void)
{
        static const char *const cases[][2] = {
                {"{}", "Name is required"},
                {"{\"name\":\"\"}", "Name is required"},
                {"{\"name\":7}", "validation error: field 'name' must be a string"},
                {"{\"name\":\"a b\"}", "Invalid name: invalid template ID: a b"},
                {"{\"name\":\"a:\"}", "Invalid name: invalid tag: "},
                {"{\"name\":\":v1\"}", "Invalid name: invalid template ID: "},
                {"{\"name\":\"other/a\"}", "namespace 'other' must match your team 'default'"},
                {"{\"name\":\"a\",\"tags\":[\":x\"]}", "Invalid tag: :x"},
                {"{\"name\":\"a\",\"tags\":[1]}", "validation error: field 'tags[0]' must be a string"},
                {"{\"name\":\"a\",\"tags\":[\"" NO_ID "\"]}", "Invalid tag: tag cannot be a UUID"},
                {"{\"name\":\"a:" NO_ID "\"}", "Invalid tag: tag cannot be a UUID"},
                {"{\"name\":\"a\",\"cpuCount\":0}", "CPU count must be at least 1"},
                {"{\"name\":\"a\",\"cpuCount\":34}", "CPU count must be at most 32"},
                {"{\"name\":\"a\",\"cpuCount\":3}", "CPU count must be 1 or an even number"},
                {"{\"name\":\"a\",\"memoryMB\":127}", "Memory must be at least 128 MiB"},
                {"{\"name\":\"a\",\"memoryMB\":1025}", "Memory must be divisible by 2"},
                {"{\"name\":\"a\",\"minFreeDiskMb\":-1}",
                 "validation error: field 'minFreeDiskMb' must be from 0 to 1048576"},
        };

        fake_begin();
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                CHECK_INT(ask("POST", "/v3/templates", cases[i][0]), ==, 400);
                CHECK(is_error(400, cases[i][1]));
        }
        CHECK_INT(ask("POST", "/v3/templates", "{\"name\":\"" TEMPLATE_ID "\"}"), ==, 409);
        CHECK(is_error(409, "Alias '" TEMPLATE_ID "' is already used"));
        rig.conf.template_cpus_max = 2;
        rig.conf.template_memory_max_mb = 512;
        CHECK_INT(ask("POST", "/v3/templates", "{\"name\":\"a\",\"cpuCount\":4}"), ==, 400);
        CHECK(str_starts(str_of(text_at("message")), "CPU count can't be higher than 2 ("));
        CHECK_INT(ask("POST", "/v3/templates", "{\"name\":\"a\",\"memoryMB\":1024}"), ==, 400);
        CHECK(str_starts(str_of(text_at("message")), "Memory can't be higher than 512 MiB ("));
}

static void bad_starts_are_refused(void)
{
        static const char *const cases[] = {
                "{}",
                "{\"fromImage\":\"a\",\"fromTemplate\":\"b\"}",
                "{\"fromImage\":\"a\",\"steps\":{}}",
                "{\"fromImage\":\"a\",\"steps\":[{\"type\":\"EXPOSE\",\"args\":[\"1\"]}]}",
                "{\"fromImage\":\"a\",\"steps\":[{\"type\":\"COPY\",\"args\":[\"a\",\"b\"]}]}",
                "{\"fromImage\":\"a\",\"steps\":[{\"type\":\"ENV\",\"args\":[\"a\"]}]}",
                "{\"fromImage\":\"a\",\"cpuCount\":3}",
                "{\"fromImage\":\"a\",\"readyCmd\":{\"waitForPort\":0}}",
        };
        struct asked a;
        char path[200];

        fake_begin();
        CHECK(request_build("{\"name\":\"a\"}", &a));
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                CHECK_INT(start_build(&a, cases[i]), ==, 400);
        CHECK_INT(fake.started, ==, 0);
        CHECK_STR(status_of(&a), "waiting");
        (void)snprintf(path, sizeof(path), "/v2/templates/%s/builds/nonsense", a.template_id);
        CHECK_INT(ask("POST", path, "{\"fromImage\":\"a\"}"), ==, 400);
        (void)snprintf(path, sizeof(path), "/v2/templates/%s/builds/" NO_ID, a.template_id);
        CHECK_INT(ask("POST", path, "{\"fromImage\":\"a\"}"), ==, 404);
        CHECK_INT(ask("POST", "/v2/templates/none/builds/" NO_ID, "{\"fromImage\":\"a\"}"), ==, 404);
        CHECK_INT(ask("POST", "/v2/templates/base/builds/" NO_ID, "{\"fromImage\":\"a\"}"), ==, 403);
        rig.control.api.runner = NULL;
        CHECK_INT(start_build(&a, "{\"fromImage\":\"a\"}"), ==, 503);
}

static void old_clients_run_steps_as_root(void)
{
        struct build_request want = {0};
        struct asked a;
        char path[200], more[200];
        bool is_root;

        fake_begin();
        CHECK(request_build("{\"name\":\"a\"}", &a));
        (void)snprintf(path, sizeof(path), "/v2/templates/%s/builds/%s", a.template_id, a.build_id);
        (void)snprintf(more, sizeof(more), "X-API-Key: %s\r\nUser-Agent: e2b-js-sdk/2.2.10\r\n", rig.key);
        CHECK_INT(ask_with("POST", path, more, "{\"fromImage\":\"a\"}"), ==, 202);
        CHECK_INT(build_load_request(&rig.control.template_rows, builds_find(&rig.control.template_rows, a.build_id),
                                     &want, NULL),
                  ==, 0);
        is_root = want.is_root_default;
        build_request_done(&want);
        CHECK(is_root);
}

static void the_routes_of_version_1_are_gone(void)
{
        CHECK_INT(ask_with("POST", "/templates", "Authorization: Bearer x\r\n", "{\"dockerfile\":\"FROM x\"}"), ==,
                  410);
        CHECK_INT(ask_with("POST", "/templates/abc", "", "{}"), ==, 410);
        CHECK_INT(ask_with("POST", "/templates/abc/builds/def", "", NULL), ==, 410);
        CHECK(strstr(text_at("message"), "sandglass template build"));
}

/* ---- superseding, cancelling, limits ---- */

static void a_newer_build_of_the_same_tag_supersedes(void)
{
        struct asked a, b, c, other;

        fake_begin();
        CHECK(request_build("{\"name\":\"x:v1\"}", &a));
        CHECK(request_build("{\"name\":\"x:v2\"}", &other));
        CHECK(request_build("{\"name\":\"x:v1\"}", &b)); /* a was not started */
        CHECK_STR(status_of(&a), "error");
        CHECK_STR(json_string_value(json_object_get(json_object_get(last.json, "reason"), "message")),
                  BUILD_SUPERSEDED);
        CHECK_STR(status_of(&other), "waiting");
        CHECK_INT(start_build(&other, "{\"fromImage\":\"a\"}"), ==, 202);
        CHECK_INT(start_build(&b, "{\"fromImage\":\"a\"}"), ==, 202);
        CHECK(request_build("{\"name\":\"x:v1\"}", &c)); /* b runs, until c does */
        CHECK_STR(status_of(&b), "building");
        CHECK_INT(fake.cancelled, ==, 0);
        CHECK_INT(start_build(&c, "{\"fromImage\":\"a\"}"), ==, 202);
        CHECK_INT(fake.cancelled, ==, 1);
        CHECK_STR(status_of(&b), "error");
        CHECK_STR(status_of(&other), "building");
        CHECK(!finish_build(&b, LAYER_1)); /* it is over */
}

static void a_build_can_be_cancelled(void)
{
        struct asked a;

        fake_begin();
        CHECK(request_build("{\"name\":\"x\"}", &a));
        CHECK_INT(start_build(&a, "{\"fromImage\":\"a\"}"), ==, 202);
        CHECK_INT(at_build("DELETE", &a, "", "", NULL), ==, 204);
        CHECK_INT(fake.cancelled, ==, 1);
        CHECK_STR(status_of(&a), "error");
        CHECK_STR(json_string_value(json_object_get(json_object_get(last.json, "reason"), "message")),
                  "build was cancelled");
        CHECK_INT(at_build("DELETE", &a, "", "", NULL), ==, 409);
}

static void as_many_builds_run_as_may(void)
{
        struct asked a, b;

        fake_begin();
        rig.conf.builds_max = 1;
        CHECK(request_build("{\"name\":\"x\"}", &a));
        CHECK(request_build("{\"name\":\"y\"}", &b));
        CHECK_INT(start_build(&a, "{\"fromImage\":\"a\"}"), ==, 202);
        CHECK_INT(start_build(&b, "{\"fromImage\":\"a\"}"), ==, 429);
        CHECK_INT(ask("POST", "/v3/templates", "{\"name\":\"z\"}"), ==, 429);
        CHECK(str_starts(str_of(text_at("message")),
                         "you have reached the maximum number of concurrent template builds (1)."));
        CHECK(finish_build(&a, LAYER_1));
        CHECK_INT(start_build(&b, "{\"fromImage\":\"a\"}"), ==, 202);
}

/* ---- status and logs ---- */

static void log_lines(const char *build_id, int from, int to)
{
        for (int i = from; i < to; i++) {
                char text[32];

                (void)snprintf(text, sizeof(text), "line %d", i);
                build_log_add(&rig.control.build_logs, build_id, rig.now_ns + i * S_NS,
                              i % 10 == 0 ? BUILD_LOG_WARN : BUILD_LOG_INFO, i % 2 ? "1" : NULL, text);
        }
}

static const json_t *entry_at(size_t i)
{
        return json_array_get(json_object_get(last.json, "logEntries"), i);
}

static void logs_are_read_page_by_page(void)
{
        struct asked a;

        fake_begin();
        CHECK(request_build("{\"name\":\"x\"}", &a));
        log_lines(a.build_id, 0, 1000);
        CHECK_INT(at_build("GET", &a, "", "/status", NULL), ==, 200);
        CHECK_INT(json_array_size(json_object_get(last.json, "logEntries")), ==, 100);
        CHECK_INT(json_array_size(json_object_get(last.json, "logs")), ==, 100);
        CHECK_STR(json_string_value(json_object_get(entry_at(0), "message")), "line 0");
        CHECK_STR(json_string_value(json_object_get(entry_at(0), "level")), "warn");
        CHECK(!json_object_get(entry_at(0), "step"));
        CHECK_STR(json_string_value(json_object_get(entry_at(1), "step")), "1");
        CHECK_INT(at_build("GET", &a, "", "/status?logsOffset=995&limit=100", NULL), ==, 200);
        CHECK_INT(json_array_size(json_object_get(last.json, "logEntries")), ==, 5);
        CHECK_STR(json_string_value(json_object_get(entry_at(0), "message")), "line 995");
        CHECK_INT(at_build("GET", &a, "", "/status?logsOffset=1000", NULL), ==, 200);
        CHECK_INT(json_array_size(json_object_get(last.json, "logEntries")), ==, 0);
        CHECK_INT(at_build("GET", &a, "", "/status?logsOffset=90&level=warn", NULL), ==, 200);
        CHECK_INT(json_array_size(json_object_get(last.json, "logEntries")), ==, 10);
        CHECK_STR(json_string_value(json_object_get(entry_at(0), "message")), "line 900");
        CHECK_INT(at_build("GET", &a, "", "/status?logsOffset=-1", NULL), ==, 400);
        CHECK_INT(at_build("GET", &a, "", "/status?limit=101", NULL), ==, 400);
        CHECK_INT(at_build("GET", &a, "", "/status?level=loud", NULL), ==, 400);
}

static void logs_survive_and_half_a_line_does_not(void)
{
        struct asked a;
        char path[160], below[80];
        FILE *f;

        fake_begin();
        CHECK(request_build("{\"name\":\"x\"}", &a));
        log_lines(a.build_id, 0, 300);
        control_stop();
        (void)snprintf(below, sizeof(below), "builds/%s.log", a.build_id);
        (void)snprintf(path, sizeof(path), "%s/%s", rig.dir, below);
        f = fopen(path, "ae");
        CHECK(f);
        (void)fputs("{\"t\":1,\"l\":\"in", f);
        (void)fclose(f);
        CHECK(control_start());
        CHECK_INT(at_build("GET", &a, "", "/status?logsOffset=299", NULL), ==, 200);
        CHECK_INT(json_array_size(json_object_get(last.json, "logEntries")), ==, 1);
        log_lines(a.build_id, 300, 301);
        CHECK_INT(at_build("GET", &a, "", "/status?logsOffset=300", NULL), ==, 200);
        CHECK_STR(json_string_value(json_object_get(entry_at(0), "message")), "line 300");
}

static void logs_are_read_by_time(void)
{
        struct asked a;
        char after[80];
        const json_t *logs;

        fake_begin();
        CHECK(request_build("{\"name\":\"x\"}", &a));
        log_lines(a.build_id, 0, 20);
        (void)snprintf(after, sizeof(after), "/logs?cursor=%lld&limit=3",
                       (long long)((rig.now_ns + 9 * S_NS) / 1000000));
        CHECK_INT(at_build("GET", &a, "", after, NULL), ==, 200);
        logs = json_object_get(last.json, "logs");
        CHECK_INT(json_array_size(logs), ==, 3);
        CHECK_STR(json_string_value(json_object_get(json_array_get(logs, 0), "message")), "line 10");
        CHECK_INT(at_build("GET", &a, "", "/logs?direction=backward&limit=2", NULL), ==, 200);
        logs = json_object_get(last.json, "logs");
        CHECK_STR(json_string_value(json_object_get(json_array_get(logs, 0), "message")), "line 19");
        CHECK_INT(at_build("GET", &a, "", "/logs?direction=sideways", NULL), ==, 400);
}

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

/* ---- files ---- */

static const char *link_path(void) /* of the last answer */
{
        const char *url = text_at("url");
        const char *at = url ? strstr(url, "/_upload/") : NULL;

        return at ? at : "/none";
}

static void files_are_uploaded_by_a_link(void)
{
        struct asked a;
        char path[300], files[200], read[16] = "";
        int fd = -1;

        fake_begin();
        CHECK(request_build("{\"name\":\"x\"}", &a));
        (void)snprintf(files, sizeof(files), "/templates/%s/files/" HASH, a.template_id);
        CHECK_INT(ask("GET", files, NULL), ==, 201);
        CHECK(json_is_false(json_object_get(last.json, "present")));
        CHECK(str_starts(str_of(text_at("url")), "http://api.localhost/_upload/"));
        (void)snprintf(path, sizeof(path), "%s", link_path());
        CHECK_INT(ask_with("PUT", path, "", "archive"), ==, 200);
        CHECK_INT(ask("GET", files, NULL), ==, 201);
        CHECK(json_is_true(json_object_get(last.json, "present")));
        CHECK(text_at("url"));
        CHECK_INT(uploads_open(&rig.control.uploads, 1, HASH, &fd, NULL), ==, 0);
        CHECK_INT(pread(fd, read, sizeof(read), 0), ==, 7);
        close_fd(&fd);
        CHECK_STR(read, "archive");
        CHECK_INT(uploads_open(&rig.control.uploads, 2, HASH, &fd, NULL), <, 0);
        CHECK_INT(ask_with("PUT", path, "Content-Length: 0\r\n", NULL), ==, 200); /* again, as a forced upload does */
}

static void bad_uploads_are_refused(void)
{
        struct asked a;
        char path[300], files[200], bad[300];

        fake_begin();
        CHECK(request_build("{\"name\":\"x\"}", &a));
        CHECK_INT(ask("GET", "/templates/x/files/ABC", NULL), ==, 400);
        CHECK(is_error(400, "Invalid files hash"));
        CHECK_INT(ask("GET", "/templates/none/files/" HASH, NULL), ==, 404);
        (void)snprintf(files, sizeof(files), "/templates/x/files/" HASH);
        CHECK_INT(ask("GET", files, NULL), ==, 201);
        (void)snprintf(path, sizeof(path), "%s", link_path());
        (void)snprintf(bad, sizeof(bad), "%s", path);
        bad[strlen("/_upload/")] = '2'; /* another team */
        CHECK_INT(ask_with("PUT", bad, "", "x"), ==, 403);
        CHECK_INT(ask_with("PUT", "/_upload/nonsense?sig=1", "", "x"), ==, 403);
        CHECK_INT(ask_with("PUT", "/_upload/1-" HASH "-99999999999", "", "x"), ==, 403);
        CHECK_INT(ask_with("PUT", path, "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", NULL), ==, 411);
        rig.conf.upload_max_mb = 1;
        CHECK_INT(ask_with("PUT", path, "Content-Length: 1048577\r\n", NULL), ==, 413);
        rig.now_ns += 1801 * S_NS;
        CHECK_INT(ask_with("PUT", path, "", "x"), ==, 403);
        CHECK(is_error(403, "the upload link has expired: ask for another one"));
        CHECK(!uploads_has(&rig.control.uploads, 1, HASH));
}

#define LARGE (3u << 20)

static void a_large_upload_arrives_whole(void)
{
        struct client c;
        struct asked a;
        size_t sent = 0;
        uint8_t piece[4096], back[4096];
        int fd = -1;

        fake_begin();
        CHECK(request_build("{\"name\":\"x\"}", &a));
        CHECK_INT(ask("GET", "/templates/x/files/" HASH, NULL), ==, 201);
        client_send(&c, "PUT", link_path(), "Content-Length: 3145728\r\n", NULL);
        while (sent < LARGE) {
                ssize_t n;

                memset(piece, (int)(sent / sizeof(piece) % 251), sizeof(piece));
                n = write(c.io.fd, piece + sent % sizeof(piece), sizeof(piece) - sent % sizeof(piece));
                if (n > 0)
                        sent += (size_t)n;
                else
                        run_rounds(2);
        }
        CHECK(run_until(client_is_done, &c));
        CHECK_INT(c.status, ==, 200);
        client_close(&c);
        CHECK_INT(uploads_open(&rig.control.uploads, 1, HASH, &fd, NULL), ==, 0);
        for (size_t at = 0; at < LARGE; at += sizeof(piece)) {
                memset(piece, (int)(at / sizeof(piece) % 251), sizeof(piece));
                CHECK_INT(read(fd, back, sizeof(back)), ==, sizeof(back));
                CHECK(memcmp(piece, back, sizeof(back)) == 0);
        }
        CHECK_INT(read(fd, back, sizeof(back)), ==, 0);
        close_fd(&fd);
}

static bool uploads_are_empty(void *arg)
{
        char command[200];

        (void)arg;
        (void)snprintf(command, sizeof(command), "test -z \"$(ls -A '%s/uploads/1' 2>/dev/null)\"", rig.dir);
        return system(command) == 0;
}

static void an_upload_that_breaks_leaves_nothing(void)
{
        struct client c;
        struct asked a;

        fake_begin();
        CHECK(request_build("{\"name\":\"x\"}", &a));
        CHECK_INT(ask("GET", "/templates/x/files/" HASH, NULL), ==, 201);
        client_send(&c, "PUT", link_path(), "Content-Length: 100000\r\n", NULL);
        run_rounds(20);
        CHECK(!uploads_are_empty(NULL));
        client_close(&c);
        CHECK(run_until(uploads_are_empty, NULL));
        CHECK(!uploads_has(&rig.control.uploads, 1, HASH));
}

int main(void)
{
        RUN_IN_RIG(a_build_is_requested_and_started);
        RUN_IN_RIG(bad_requests_are_400);
        RUN_IN_RIG(bad_starts_are_refused);
        RUN_IN_RIG(old_clients_run_steps_as_root);
        RUN_IN_RIG(the_routes_of_version_1_are_gone);
        RUN_IN_RIG(a_newer_build_of_the_same_tag_supersedes);
        RUN_IN_RIG(a_build_can_be_cancelled);
        RUN_IN_RIG(as_many_builds_run_as_may);
        RUN_IN_RIG(logs_are_read_page_by_page);
        RUN_IN_RIG(logs_survive_and_half_a_line_does_not);
        RUN_IN_RIG(logs_are_read_by_time);
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
        RUN_IN_RIG(files_are_uploaded_by_a_link);
        RUN_IN_RIG(bad_uploads_are_refused);
        RUN_IN_RIG(a_large_upload_arrives_whole);
        RUN_IN_RIG(an_upload_that_breaks_leaves_nothing);
        return tap_done();
}
