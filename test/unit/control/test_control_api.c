/* Every endpoint of control as a client sees it: codes, bodies, headers, words. */
#include "control_rig.h"

#include "wire/sha256.h"

#define NO_SANDBOX(id) "Sandbox \"" id "\" doesn't exist or you don't have access to it"

static struct str header(const char *name)
{
        return http1_value(&last.head, name);
}

/* ---- routing ---- */

static void health_needs_no_key(void)
{
        CHECK_INT(ask_with("GET", "/health", "", NULL), ==, 204);
}

static void unknown_routes_are_404_and_wrong_methods_405(void)
{
        CHECK_INT(ask("GET", "/nothing", NULL), ==, 404);
        CHECK(is_error(404, "Unknown route: GET /nothing"));
        CHECK_INT(ask("GET", "/", NULL), ==, 404);
        CHECK_INT(ask("GET", "/sandboxes/", NULL), ==, 400);
        CHECK_INT(ask("GET", "/v2/sandboxes/ia/nothing", NULL), ==, 404);
        CHECK_INT(ask("PUT", "/sandboxes", NULL), ==, 405);
        CHECK(is_error(405, "Method not allowed"));
        CHECK(str_is(header("Allow"), "POST, GET"));
        CHECK_INT(ask("GET", "/sandboxes/ia/timeout", NULL), ==, 405);
}

static void a_key_is_needed_and_checked(void)
{
        CHECK_INT(ask_with("GET", "/sandboxes", "", NULL), ==, 401);
        CHECK(is_error(401, "authorization header is missing"));
        CHECK_INT(ask_with("GET", "/sandboxes", "X-API-Key: nonsense\r\n", NULL), ==, 401);
        CHECK(is_error(401, "Invalid API key.\nInvalid API key format"));
        CHECK_INT(ask_with("GET", "/sandboxes", "x-api-key: e2b_0123456789012345678901234567890123456789\r\n", NULL),
                  ==, 401);
        CHECK(is_error(401, "Invalid API key.\nCannot get the team for the given API key"));
        CHECK_INT(ask("GET", "/sandboxes", NULL), ==, 200);
}

static void browsers_are_told_what_they_may_see(void)
{
        CHECK_INT(ask_with("OPTIONS", "/v2/sandboxes", "Origin: https://a.example\r\n", NULL), ==, 204);
        CHECK(str_is(header("Access-Control-Allow-Origin"), "*"));
        CHECK(http1_has_token(&last.head, "Access-Control-Allow-Headers", "X-API-Key"));
        CHECK_INT(ask_with("GET", "/sandboxes", "Origin: https://a.example\r\n", NULL), ==, 401);
        CHECK(str_is(header("Access-Control-Allow-Origin"), "*"));
        CHECK(http1_has_token(&last.head, "Access-Control-Expose-Headers", "X-Next-Token"));
        CHECK_INT(ask("GET", "/sandboxes", NULL), ==, 200);
        CHECK(!http1_find(&last.head, "Access-Control-Allow-Origin"));
}

static void bad_bodies_are_400_and_say_where(void)
{
        CHECK_INT(ask("POST", "/sandboxes", "{\"templateID\":\n \"base\",}"), ==, 400);
        CHECK(str_starts(str_of(text_at("message")), "Error when parsing request: line 2 column "));
        CHECK_INT(ask("POST", "/sandboxes", ""), ==, 400);
        CHECK_INT(ask("POST", "/sandboxes", "[]"), ==, 400);
        CHECK(is_error(400, "Error when parsing request: the body must be a JSON object"));
        CHECK_INT(ask("POST", "/sandboxes", "\"\\u0000\""), ==, 400);
        CHECK_INT(ask("POST", "/sandboxes", "{\"templateID\":\"\xff\"}"), ==, 400);
        CHECK_INT(ask("POST", "/sandboxes/ia/timeout", "{"), ==, 400);
}

static void large_bodies_are_413(void)
{
        char *big = calloc(1, 200000);
        unsigned status;

        memset(big, ' ', 199999);
        status = ask("POST", "/sandboxes/ia/timeout", big);
        free(big);
        CHECK_INT(status, ==, 413);
        CHECK_INT(json_integer_value(json_object_get(last.json, "code")), ==, 413);
}

static void chunked_bodies_are_taken(void)
{
        char more[160];

        (void)snprintf(more, sizeof(more),
                       "X-API-Key: %s\r\nTransfer-Encoding: chunked\r\n\r\n15\r\n{\"templateID\":\"base\"}\r\n0\r\n",
                       rig.key);
        CHECK_INT(ask_with("POST", "/v2/sandboxes", more, NULL), ==, 201);
}

static void strange_ids_are_refused(void)
{
        static const char *const bad[] = {"A",    "a%20b", "..", "%2e%2e", "a%2fb",
                                          "i%00", "a-b-c", "-a", "%zz",    "i\xc3\xa9"};
        char path[300], id[201];

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                (void)snprintf(path, sizeof(path), "/sandboxes/%s", bad[i]);
                CHECK_INT(ask("GET", path, NULL), ==, 400);
        }
        CHECK_INT(ask("DELETE", "/sandboxes/a-b-c", NULL), ==, 400);
        CHECK(is_error(400, "Invalid sandbox ID"));
        memset(id, 'a', 200);
        id[200] = 0;
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        CHECK_INT(ask("GET", path, NULL), ==, 400);
        CHECK_INT(ask("GET", "/sandboxes/ia", NULL), ==, 404);
        CHECK(is_error(404, NO_SANDBOX("ia")));
        CHECK_INT(ask("GET", "/sandboxes/ia-6532622b", NULL), ==, 404);
        CHECK(is_error(404, NO_SANDBOX("ia")));
}

/* ---- create ---- */

static void create_v2_is_secured(void)
{
        const json_t *init;

        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"base\",\"envVars\":{\"A\":\"b c\"}}"), ==, 201);
        CHECK(str_starts(header("Content-Type"), "application/json"));
        CHECK(sandbox_id_is_valid(str_of(text_at("sandboxID"))));
        CHECK_STR(text_at("clientID"), "6532622b");
        CHECK_STR(text_at("templateID"), TEMPLATE_ID);
        CHECK_STR(text_at("alias"), "base");
        CHECK_STR(text_at("envdVersion"), ENVD_VERSION);
        CHECK_STR(text_at("domain"), rig.conf.domain);
        CHECK_INT(strlen(text_at("envdAccessToken")), ==, 64);
        CHECK(!json_object_get(last.json, "trafficAccessToken"));
        init = json_object_get(engine.plan, "init");
        CHECK_STR(json_string_value(json_object_get(init, "sandboxID")), text_at("sandboxID"));
        CHECK_STR(json_string_value(json_object_get(init, "templateID")), TEMPLATE_ID);
        CHECK_STR(json_string_value(json_object_get(init, "accessToken")), text_at("envdAccessToken"));
        CHECK_STR(json_string_value(json_object_get(init, "defaultUser")), "user");
        CHECK_STR(json_string_value(json_object_get(init, "defaultWorkdir")), "/home/user");
        CHECK_STR(json_string_value(json_object_get(json_object_get(init, "envVars"), "A")), "b c");
        CHECK_INT(json_array_size(json_object_get(engine.plan, "layers")), ==, 2);
        CHECK_INT(json_integer_value(json_object_get(json_object_get(engine.plan, "limits"), "memory_bytes")), ==,
                  512 << 20);
}

static void create_v1_is_open_unless_secure(void)
{
        CHECK_INT(ask("POST", "/sandboxes", "{\"templateID\":\"base\"}"), ==, 201);
        CHECK(!json_object_get(last.json, "envdAccessToken"));
        CHECK(!json_object_get(json_object_get(engine.plan, "init"), "accessToken"));
        CHECK_INT(ask("POST", "/sandboxes", "{\"templateID\":\"base\",\"secure\":true,\"timeout\":300}"), ==, 201);
        CHECK(text_at("envdAccessToken"));
}

static void templates_have_several_names(void)
{
        static const char *const good[] = {"base", TEMPLATE_ID, "base:default", "BASE", "default/base", "base:latest"};
        char body[128];

        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                (void)snprintf(body, sizeof(body), "{\"templateID\":\"%s\"}", good[i]);
                CHECK_INT(ask("POST", "/v2/sandboxes", body), ==, 201);
        }
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"none\"}"), ==, 404);
        CHECK(is_error(404, "template 'none' not found. There are: base"));
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"other/base\"}"), ==, 404);
        CHECK(is_error(404, "template 'other/base' not found. There are: base"));
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"base:v2\"}"), ==, 404);
        CHECK(is_error(404, "tag 'v2' does not exist for template 'base'"));
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"a b\"}"), ==, 400);
        CHECK(is_error(400, "Invalid template reference: invalid template ID: a b"));
}

static void a_new_template_is_found_without_a_restart(void)
{
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"late\"}"), ==, 404);
        write_file("images/templates/broken.json", "{\"alias\":");
        write_file("images/templates/late.json",
                   "{\"alias\":\"late\",\"templateID\":\"lateabcdefghij012345\",\"layers\":[\"l9\"]}");
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"late\"}"), ==, 201);
        CHECK_STR(text_at("templateID"), "lateabcdefghij012345");
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"broken\"}"), ==, 404);
}

static void the_network_reaches_the_plan(void)
{
        char token[80], path[64];
        const json_t *net;

        CHECK_INT(ask("POST", "/v2/sandboxes",
                      "{\"templateID\":\"base\",\"network\":{\"allowOut\":[\"1.1.1.1\"],\"denyOut\":[\"0.0.0.0/0\"],"
                      "\"allowPublicTraffic\":false,\"maskRequestHost\":\"x.example:${PORT}\"}}"),
                  ==, 201);
        CHECK_INT(strlen(text_at("trafficAccessToken")), ==, 64);
        (void)snprintf(token, sizeof(token), "%s", text_at("trafficAccessToken"));
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", text_at("sandboxID"));
        CHECK_INT(ask("GET", path, NULL), ==, 200);
        CHECK_STR(text_at("trafficAccessToken"), token);
        net = json_object_get(engine.plan, "net");
        CHECK(json_is_false(json_object_get(net, "internet")));
        CHECK_STR(json_string_value(json_array_get(json_object_get(net, "allow"), 0)), "1.1.1.1/32");
        CHECK_INT(ask("POST", "/sandboxes", "{\"templateID\":\"base\",\"network\":{\"allowPublicTraffic\":false}}"), ==,
                  400);
        CHECK_INT(ask("POST", "/sandboxes", "{\"templateID\":\"base\",\"network\":{\"denyOut\":[\"x.y\"]}}"), ==, 400);
        CHECK(is_error(400, "invalid denied CIDR x.y"));
}

static void too_many_sandboxes_are_429(void)
{
        char id[SANDBOX_ID_MAX], path[64];

        rig.conf.sandboxes_max = 2;
        CHECK(create("{\"templateID\":\"base\"}", id) && create("{\"templateID\":\"base\"}", id));
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"base\"}"), ==, 429);
        CHECK(str_starts(str_of(text_at("message")),
                         "you have reached the maximum number of concurrent E2B sandboxes (2)."));
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        CHECK_INT(ask("DELETE", path, NULL), ==, 204);
        CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"base\"}"), ==, 201);
}

static void what_the_engine_refuses_has_a_status(void)
{
        static const struct {
                const char *kind, *message, *code;
                unsigned status;
        } cases[] = {
                {"limit", "Failed to place sandbox: no room", "sandbox_capacity_unavailable", 503},
                {"unavailable", "Failed to place sandbox: no room", "sandbox_capacity_unavailable", 503},
                {"no_space", "Failed to place sandbox: the disk of the server is full: no room",
                 "sandbox_no_disk_space", 507},
                {"timeout", "Failed to place sandbox: no room", "sandbox_placement_timeout", 504},
                {"internal", "Failed to create sandbox: no room", "sandbox_create_failed", 500},
                {"not_found", "Failed to create sandbox: no room", "sandbox_create_failed", 500},
                {"surprise", "Failed to create sandbox: no room", "sandbox_create_failed", 500},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                engine.fails_create = true;
                engine.fail_kind = cases[i].kind;
                engine.fail_message = "no room";
                CHECK_INT(ask("POST", "/v2/sandboxes", "{\"templateID\":\"base\"}"), ==, cases[i].status);
                CHECK(is_error(cases[i].status, cases[i].message));
                CHECK_STR(text_at("error_code"), cases[i].code);
        }
        CHECK_INT(ask("GET", "/v2/sandboxes", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 0);
}

/* ---- one sandbox ---- */

static void get_shows_the_details(void)
{
        char id[SANDBOX_ID_MAX], path[64];

        CHECK(create(
                "{\"templateID\":\"base\",\"metadata\":{\"k\":\"v\"},\"timeout\":60,\"allow_internet_access\":false,"
                "\"network\":{\"allowOut\":[\"1.1.1.1\"]}}",
                id));
        (void)snprintf(path, sizeof(path), "/sandboxes/%s-6532622b", id);
        CHECK_INT(ask("GET", path, NULL), ==, 200);
        CHECK_STR(text_at("sandboxID"), id);
        CHECK_STR(text_at("state"), "running");
        CHECK_STR(text_at("startedAt"), "2026-09-21T14:13:20.000000Z");
        CHECK_STR(text_at("endAt"), "2026-09-21T14:14:20.000000Z");
        CHECK_INT(json_integer_value(json_object_get(last.json, "cpuCount")), ==, 2);
        CHECK_INT(json_integer_value(json_object_get(last.json, "memoryMB")), ==, 512);
        CHECK_INT(json_integer_value(json_object_get(last.json, "diskSizeMB")), ==, 1024);
        CHECK_STR(json_string_value(json_object_get(json_object_get(last.json, "metadata"), "k")), "v");
        CHECK(json_is_false(json_object_get(last.json, "allowInternetAccess")));
        CHECK_INT(json_array_size(json_object_get(json_object_get(last.json, "network"), "allowOut")), ==, 1);
        CHECK_STR(json_string_value(json_object_get(json_object_get(last.json, "lifecycle"), "onTimeout")), "kill");
        CHECK(json_is_false(json_object_get(json_object_get(last.json, "lifecycle"), "autoResume")));
        CHECK(text_at("envdAccessToken") && text_at("domain"));
        CHECK(create("{\"templateID\":\"base\"}", id));
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        CHECK_INT(ask("GET", path, NULL), ==, 200);
        CHECK(!json_object_get(last.json, "network") && !json_object_get(last.json, "metadata"));
        CHECK(json_is_null(json_object_get(last.json, "allowInternetAccess")));
}

static void kill_ends_it_once(void)
{
        char id[SANDBOX_ID_MAX], path[64], message[128];

        CHECK(create("{\"templateID\":\"base\"}", id));
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        CHECK_INT(ask("DELETE", path, NULL), ==, 204);
        CHECK(!engine_lives(id));
        (void)snprintf(message, sizeof(message), "Sandbox \"%s\" doesn't exist or you don't have access to it", id);
        CHECK_INT(ask("DELETE", path, NULL), ==, 404);
        CHECK(is_error(404, message));
        CHECK_INT(ask("GET", path, NULL), ==, 404);
        (void)snprintf(path, sizeof(path), "/v2/sandboxes/%s/connect", id);
        CHECK_INT(ask("POST", path, "{}"), ==, 404);
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/timeout", id);
        CHECK_INT(ask("POST", path, "{\"timeout\":5}"), ==, 404);
}

static void another_teams_sandbox_is_not_there(void)
{
        static const char *const paths[] = {"", "/timeout", "/refreshes", "/connect"};
        const struct store_team other = {.id = "t-2", .slug = "other", .name = "Other"};
        char id[SANDBOX_ID_MAX], path[64];
        struct store_key key = {.id = "k-2", .name = "x", .mask = "x"};

        CHECK(create("{\"templateID\":\"base\"}", id));
        control_stop();
        CHECK(control_start());
        CHECK_INT(store_team_add(rig.control.store, &other, &key.team, NULL), ==, 0);
        (void)snprintf(rig.key, sizeof(rig.key), "e2b_%040d", 7);
        sha256(rig.key, KEY_LEN, key.hash);
        CHECK_INT(store_key_add(rig.control.store, &key, NULL), ==, 0);
        control_stop();
        CHECK(control_start() && run_until(engine_is_up, NULL));
        for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
                (void)snprintf(path, sizeof(path), "/sandboxes/%s%s", id, paths[i]);
                CHECK_INT(ask(i ? "POST" : "GET", path, i ? "{\"timeout\":1,\"duration\":1}" : NULL), ==, 404);
        }
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        CHECK_INT(ask("DELETE", path, NULL), ==, 404);
        CHECK(engine_lives(id));
        CHECK_INT(ask("GET", "/v2/sandboxes", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 0);
}

static const char *end_of(const char *id)
{
        char path[64];

        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        return ask("GET", path, NULL) == 200 ? text_at("endAt") : "gone";
}

static void timeout_moves_the_end_both_ways(void)
{
        char id[SANDBOX_ID_MAX], path[64];

        CHECK(create("{\"templateID\":\"base\",\"timeout\":60}", id));
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/timeout", id);
        CHECK_INT(ask("POST", path, "{\"timeout\":30}"), ==, 204);
        CHECK_STR(end_of(id), "2026-09-21T14:13:50.000000Z");
        CHECK_INT(ask("POST", path, "{\"timeout\":120}"), ==, 204);
        CHECK_STR(end_of(id), "2026-09-21T14:15:20.000000Z");
        CHECK_INT(ask("POST", path, "{\"timeout\":2000000000}"), ==, 204); /* cut to the longest life */
        rig.now_ns += 10 * S_NS;
        CHECK_INT(ask("POST", path, "{\"timeout\":2000000000}"), ==, 204);
        CHECK_STR(end_of(id), "2026-09-22T14:13:20.000000Z");
        CHECK_INT(ask("POST", path, "{}"), ==, 400);
        CHECK(is_error(400, "validation error: field 'timeout' is required"));
        CHECK_INT(ask("POST", path, "{\"timeout\":-1}"), ==, 400);
        CHECK_INT(ask("POST", path, "{\"timeout\":\"1\"}"), ==, 400);
        rig.now_ns += 86400 * S_NS;
        CHECK_INT(ask("POST", path, "{\"timeout\":1}"), ==, 400);
        CHECK(is_error(400, "Max instance length exceeded"));
}

static void timeout_zero_ends_it_at_once(void)
{
        char id[SANDBOX_ID_MAX], path[64];

        CHECK(create("{\"templateID\":\"base\",\"timeout\":60}", id));
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/timeout", id);
        CHECK_INT(ask("POST", path, "{\"timeout\":0}"), ==, 204);
        CHECK(run_until(engine_has_logged, "kill:"));
        CHECK_STR(end_of(id), "gone");
}

static void refreshes_only_extend(void)
{
        char id[SANDBOX_ID_MAX], path[64];

        CHECK(create("{\"templateID\":\"base\",\"timeout\":10}", id));
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/refreshes", id);
        CHECK_INT(ask("POST", path, NULL), ==, 204);
        CHECK_STR(end_of(id), "2026-09-21T14:13:35.000000Z");
        CHECK_INT(ask("POST", path, "{\"duration\":100}"), ==, 204);
        CHECK_STR(end_of(id), "2026-09-21T14:15:00.000000Z");
        CHECK_INT(ask("POST", path, "{\"duration\":1}"), ==, 204);
        CHECK_STR(end_of(id), "2026-09-21T14:15:00.000000Z");
        CHECK_INT(ask("POST", path, "{\"duration\":3601}"), ==, 400);
        CHECK_INT(ask("POST", path, "{\"duration\":-1}"), ==, 400);
}

static void connect_never_shortens(void)
{
        char id[SANDBOX_ID_MAX], v1[64], v2[64], token[65];

        CHECK(create("{\"templateID\":\"base\",\"timeout\":600}", id));
        (void)snprintf(token, sizeof(token), "%s", text_at("envdAccessToken"));
        (void)snprintf(v1, sizeof(v1), "/sandboxes/%s/connect", id);
        (void)snprintf(v2, sizeof(v2), "/v2/sandboxes/%s/connect", id);
        CHECK_INT(ask("POST", v1, "{\"timeout\":5}"), ==, 200);
        CHECK_STR(text_at("sandboxID"), id);
        CHECK_STR(text_at("envdAccessToken"), token);
        CHECK_STR(text_at("clientID"), "6532622b");
        CHECK(text_at("domain") && text_at("envdVersion"));
        CHECK_STR(end_of(id), "2026-09-21T14:23:20.000000Z");
        CHECK_INT(ask("POST", v2, NULL), ==, 200);
        CHECK_INT(ask("POST", v2, "{}"), ==, 200);
        CHECK_STR(end_of(id), "2026-09-21T14:23:20.000000Z");
        rig.now_ns += 400 * S_NS;
        CHECK_INT(ask("POST", v2, "{\"memory\":false}"), ==, 200);
        CHECK_STR(end_of(id), "2026-09-21T14:25:00.000000Z");
        CHECK_INT(ask("POST", v1, "{\"timeout\":1000}"), ==, 200);
        CHECK_STR(end_of(id), "2026-09-21T14:36:40.000000Z");
        CHECK_INT(ask("POST", v1, "{}"), ==, 400);
        CHECK(is_error(400, "validation error: field 'timeout' is required"));
        CHECK_INT(ask("POST", v2, "{\"timeout\":86401}"), ==, 400);
        CHECK(is_error(400, "Timeout cannot be greater than 24 hours"));
        CHECK_INT(ask("POST", v2, "{\"memory\":1}"), ==, 400);
        CHECK_INT(ask("POST", "/v2/sandboxes/inone/connect", "{}"), ==, 404);
        CHECK(is_error(404, NO_SANDBOX("inone")));
}

static void metrics_are_what_is_used_now(void)
{
        char id[SANDBOX_ID_MAX], path[96];
        const json_t *m;

        CHECK(create("{\"templateID\":\"base\"}", id));
        rig.now_ns += 10 * S_NS;
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/metrics", id);
        CHECK_INT(ask("GET", path, NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 1);
        m = json_array_get(last.json, 0);
        CHECK_INT(json_integer_value(json_object_get(m, "memUsed")), ==, 1000);
        CHECK_INT(json_integer_value(json_object_get(m, "memTotal")), ==, 2000);
        CHECK_INT(json_integer_value(json_object_get(m, "diskTotal")), ==, 1024 << 20);
        CHECK_INT(json_integer_value(json_object_get(m, "timestampUnix")), ==, 1790000010);
        CHECK(json_number_value(json_object_get(m, "cpuUsedPct")) > 4.9 &&
              json_number_value(json_object_get(m, "cpuUsedPct")) < 5.1);
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/metrics?start=0&end=100", id);
        CHECK_INT(ask("GET", path, NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 0);
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/metrics?start=x", id);
        CHECK_INT(ask("GET", path, NULL), ==, 400);
        CHECK_INT(ask("GET", "/sandboxes/inone/metrics", NULL), ==, 200);
        CHECK(json_is_array(last.json) && json_array_size(last.json) == 0);
}

/* ---- lists ---- */

static void lists_are_filtered(void)
{
        char a[SANDBOX_ID_MAX], b[SANDBOX_ID_MAX];

        CHECK(create("{\"templateID\":\"base\",\"metadata\":{\"a b\":\"c/d&e\",\"k\":\"v \xc3\xa9\"}}", a));
        rig.now_ns += 2 * S_NS;
        CHECK(create("{\"templateID\":\"base\",\"metadata\":{\"k\":\"1\"}}", b));
        CHECK_INT(ask("GET", "/v2/sandboxes?metadata=a%252520b%3Dc%25252Fd%252526e%26k%3Dv%252520%2525C3%2525A9", NULL),
                  ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 1);
        CHECK_STR(json_string_value(json_object_get(json_array_get(last.json, 0), "sandboxID")), a);
        CHECK(str_is(header("X-Total-Running"), "1"));
        CHECK_INT(ask("GET", "/sandboxes?metadata=k%3D1", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 1);
        CHECK_STR(json_string_value(json_object_get(json_array_get(last.json, 0), "sandboxID")), b);
        CHECK_INT(ask("GET", "/sandboxes", NULL), ==, 200);
        CHECK_STR(json_string_value(json_object_get(json_array_get(last.json, 0), "sandboxID")), b);
        CHECK_INT(ask("GET", "/v2/sandboxes?state=paused", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 0);
        CHECK(!http1_find(&last.head, "X-Total-Running"));
        CHECK_INT(ask("GET", "/v2/sandboxes?state=running%2Cpaused&template=base", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 2);
        CHECK_INT(ask("GET", "/v2/sandboxes?template=default%2Fbase", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 2);
        CHECK_INT(ask("GET", "/v2/sandboxes?template=" TEMPLATE_ID, NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 2);
        CHECK_INT(ask("GET", "/v2/sandboxes?template=other%2Fbase", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 0);
        CHECK_INT(ask("GET", "/v2/sandboxes?startedAfter=2026-09-21T14%3A13%3A22.000Z", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 1);
        CHECK_INT(ask("GET", "/v2/sandboxes?startedAfter=2026-09-21T16%3A13%3A23.000000%2B02%3A00", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 0);
}

static void pages_follow_the_token(void)
{
        char ids[3][SANDBOX_ID_MAX], path[200];

        for (int i = 0; i < 3; i++, rig.now_ns += S_NS)
                CHECK(create("{\"templateID\":\"base\"}", ids[i]));
        for (int asc = 0; asc < 2; asc++) {
                (void)snprintf(path, sizeof(path), "/v2/sandboxes?limit=1&order=%s", asc ? "asc" : "desc");
                for (int i = 0; i < 3; i++) {
                        struct str token;

                        CHECK_INT(ask("GET", path, NULL), ==, 200);
                        CHECK_INT(json_array_size(last.json), ==, 1);
                        CHECK_STR(json_string_value(json_object_get(json_array_get(last.json, 0), "sandboxID")),
                                  ids[asc ? i : 2 - i]);
                        CHECK(str_is(header("X-Total-Running"), "3"));
                        token = header("X-Next-Token");
                        CHECK_INT(token.n > 0, ==, i < 2);
                        (void)snprintf(path, sizeof(path), "/v2/sandboxes?limit=1&order=%s&nextToken=%.*s",
                                       asc ? "asc" : "desc", STR_ARG(token));
                }
        }
}

static void note_end(struct team *team, const char *id, const char *reason, json_t *metadata)
{
        struct sandbox s = {.state = SANDBOX_GONE, .started_ns = S_NS, .metadata = metadata};

        (void)snprintf(s.id, sizeof(s.id), "%s", id);
        journal_note(&rig.control.lives.journal, &s, team, SANDBOX_RUNNING, reason, rig.now_ns);
}

/* Those of which a page is are a thousand and more behind: a request reads a part of them, and says where the next one goes on. */
static void ended_sandboxes_are_listed_in_pages(void)
{
        struct team *team = keys_team(&rig.control.keys, 1), stranger = {0};
        json_t *metadata = json_pack("{s:s}", "k", "v");
        size_t found = 0, pages = 0;
        char path[200];

        CHECK(team);
        note_end(team, "iwanted1", "timeout", metadata);
        note_end(team, "iwanted2", "exited", metadata);
        note_end(team, "ideleted", "deleted", metadata);
        note_end(&stranger, "iforeign", "timeout", metadata);
        for (int i = 0; i < 1200; i++)
                note_end(team, "iother", "timeout", NULL);
        json_decref(metadata);
        CHECK_INT(ask("GET", "/sandglass/sandboxes/ended?limit=3", NULL), ==, 200);
        CHECK_INT(json_array_size(last.json), ==, 3);
        CHECK(header("X-Next-Token").n > 0);
        (void)snprintf(path, sizeof(path), "/sandglass/sandboxes/ended?limit=1&metadata=k%%3Dv");
        for (bool more = true; more; pages++) {
                struct str token;

                CHECK_INT(ask("GET", path, NULL), ==, 200);
                for (size_t i = 0; i < json_array_size(last.json); i++)
                        CHECK_STR(json_string_value(json_object_get(json_array_get(last.json, i), "sandboxID")),
                                  found++ ? "iwanted1" : "iwanted2");
                token = header("X-Next-Token");
                more = token.n > 0 && pages < 10;
                (void)snprintf(path, sizeof(path), "/sandglass/sandboxes/ended?limit=1&metadata=k%%3Dv&nextToken=%.*s",
                               STR_ARG(token));
        }
        CHECK_INT(found, ==, 2);
        CHECK(pages > 2 && pages < 10);
        CHECK_INT(ask("GET", "/sandglass/sandboxes/ended?nextToken=AAAA", NULL), ==, 400);
        CHECK_INT(ask("GET", "/sandglass/sandboxes/ended?limit=0", NULL), ==, 400);
}

static void bad_list_queries_are_400(void)
{
        static const struct {
                const char *query, *says;
        } bad[] = {
                {"limit=0", "validation error: parameter 'limit' must be a number from 1 to 100"},
                {"limit=101", "validation error: parameter 'limit' must be a number from 1 to 100"},
                {"limit=x", "validation error: parameter 'limit' must be a number from 1 to 100"},
                {"order=up", "validation error: parameter 'order' must be 'asc' or 'desc'"},
                {"state=gone", "validation error: parameter 'state' must be a list of 'running' and 'paused'"},
                {"startedAfter=yesterday", "validation error: parameter 'startedAfter' must be an RFC 3339 time"},
                {"template=base%3Av1", "Invalid template reference: a tag cannot be used as a filter"},
                {"template=a%20b", "Invalid template reference: invalid template ID: a b"},
                {"nextToken=AAAA", "Invalid next token"},
                {"nextToken=%25", "Invalid next token"},
                {"metadata=a", "invalid key value pair"},
                {"metadata=a%3Db%3Dc", "invalid key value pair"},
                {"metadata=a%3Db%26", "invalid key value pair"},
                {"metadata=a%3D%25FF", "invalid key value pair"},
                {"metadata=%zz", "validation error: parameter 'metadata' is not well-formed"},
        };
        char path[200];

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                (void)snprintf(path, sizeof(path), "/v2/sandboxes?%s", bad[i].query);
                CHECK_INT(ask("GET", path, NULL), ==, 400);
                CHECK(is_error(400, bad[i].says));
        }
}

int main(void)
{
        RUN_IN_RIG(health_needs_no_key);
        RUN_IN_RIG(unknown_routes_are_404_and_wrong_methods_405);
        RUN_IN_RIG(a_key_is_needed_and_checked);
        RUN_IN_RIG(browsers_are_told_what_they_may_see);
        RUN_IN_RIG(bad_bodies_are_400_and_say_where);
        RUN_IN_RIG(large_bodies_are_413);
        RUN_IN_RIG(chunked_bodies_are_taken);
        RUN_IN_RIG(strange_ids_are_refused);
        RUN_IN_RIG(create_v2_is_secured);
        RUN_IN_RIG(create_v1_is_open_unless_secure);
        RUN_IN_RIG(templates_have_several_names);
        RUN_IN_RIG(a_new_template_is_found_without_a_restart);
        RUN_IN_RIG(the_network_reaches_the_plan);
        RUN_IN_RIG(too_many_sandboxes_are_429);
        RUN_IN_RIG(what_the_engine_refuses_has_a_status);
        RUN_IN_RIG(get_shows_the_details);
        RUN_IN_RIG(kill_ends_it_once);
        RUN_IN_RIG(another_teams_sandbox_is_not_there);
        RUN_IN_RIG(timeout_moves_the_end_both_ways);
        RUN_IN_RIG(timeout_zero_ends_it_at_once);
        RUN_IN_RIG(refreshes_only_extend);
        RUN_IN_RIG(connect_never_shortens);
        RUN_IN_RIG(metrics_are_what_is_used_now);
        RUN_IN_RIG(lists_are_filtered);
        RUN_IN_RIG(pages_follow_the_token);
        RUN_IN_RIG(ended_sandboxes_are_listed_in_pages);
        RUN_IN_RIG(bad_list_queries_are_400);
        return tap_done();
}
