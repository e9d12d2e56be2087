/* Builds of templates as clients ask for them: requests, limits, status and logs, and uploads of files. */
#include "control_template.h"

#include "control/catalogue/build_log.h"
#include "model/build/build_request.h"

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
        RUN_IN_RIG(files_are_uploaded_by_a_link);
        RUN_IN_RIG(bad_uploads_are_refused);
        RUN_IN_RIG(a_large_upload_arrives_whole);
        RUN_IN_RIG(an_upload_that_breaks_leaves_nothing);
        return tap_done();
}
