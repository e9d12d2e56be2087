/* Bodies and queries of the agent API: what is taken, and that errors name the field. */
#include "agent/request/accept.h"
#include "agent/request/code_request.h"
#include "agent/request/command_request.h"
#include "agent/request/file_request.h"
#include "agent/request/list_query.h"
#include "agent/request/listening.h"
#include "agent/request/sandbox_request.h"
#include "agent/request/services.h"
#include "agent/request/text_field.h"
#include "base/err.h"
#include "tap.h"

static json_t *parse(const char *text)
{
        return json_loads(text, JSON_ALLOW_NUL, NULL);
}

#define NAMES(err, field) ((err).kind == ERR_INVALID && strstr((err).msg, field))

static void create_becomes_the_apis(void)
{
        json_t *body = parse("{\"template_id\":\"base\",\"timeout_s\":60,\"env\":{\"A\":\"1\"},\"metadata\":{\"k\":"
                             "\"v\"},\"cpu\":2,"
                             "\"memory_mb\":512,\"auto_pause\":true,\"network\":{\"internet\":false,\"allow_out\":[\"1."
                             "1.1.1\"]},"
                             "\"unknown\":1}"),
               *to, *want;
        struct err err = {0};
        bool is_named;

        CHECK_INT(sandbox_request_decode(body, 86400, &to, &is_named, &err), ==, 0);
        CHECK(is_named);
        want = parse(
                "{\"templateID\":\"base\",\"timeout\":60,\"envVars\":{\"A\":\"1\"},\"metadata\":{\"k\":\"v\"},"
                "\"cpuCount\":2,"
                "\"memoryMB\":512,\"autoPause\":true,\"autoResume\":{\"enabled\":true},\"allow_internet_access\":false,"
                "\"network\":{\"allowOut\":[\"1.1.1.1\"]}}");
        CHECK(json_equal(to, want));
        json_decref(to);
        json_decref(want);
        json_decref(body);

        CHECK_INT(sandbox_request_decode(NULL, 600, &to, &is_named, &err), ==, 0); /* no body at all */
        CHECK(!is_named);
        CHECK_INT(json_integer_value(json_object_get(to, "timeout")), ==, 600); /* not more than may be */
        json_decref(to);
}

static void create_names_what_is_wrong(void)
{
        static const struct {
                const char *body, *field;
        } cases[] = {
                {"{\"template_id\":5}", "template_id"},
                {"{\"template_id\":\"\"}", "template_id"},
                {"{\"timeout_s\":0}", "timeout_s"},
                {"{\"timeout_s\":\"60\"}", "timeout_s"},
                {"{\"timeout_s\":999999}", "timeout_s"},
                {"{\"cpu\":0}", "cpu"},
                {"{\"cpu\":1.5}", "cpu"},
                {"{\"memory_mb\":-1}", "memory_mb"},
                {"{\"env\":{\"A\":1}}", "env"},
                {"{\"env\":{\"A=B\":\"\"}}", "env"},
                {"{\"env\":[]}", "env"},
                {"{\"metadata\":\"x\"}", "metadata"},
                {"{\"auto_pause\":\"yes\"}", "auto_pause"},
                {"{\"auto_resume\":1}", "auto_resume"},
                {"{\"network\":\"no\"}", "network"},
                {"{\"network\":{\"allow_out\":\"x\"}}", "allow_out"},
                {"{\"network\":{\"deny_out\":[1]}}", "deny_out"},
                {"{\"template_id\":\"base\\u0000x\"}", "template_id"},
                {"{\"env\":{\"A\":\"x\\u0000y\"}}", "env.A"},
                {"{\"metadata\":{\"k\":\"\\u0000\"}}", "metadata.k"},
                {"{\"network\":{\"allow_out\":[\"1.1.1.1\",\"1.1.1.1\\u0000\"]}}", "allow_out[1]"},
                {"{\"network\":{\"mask_request_host\":\"a\\u0000b\"}}", "mask_request_host"},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                json_t *body = parse(cases[i].body), *to = NULL;
                struct err err = {0};
                bool is_named;

                printf("# %s\n", cases[i].body);
                CHECK(sandbox_request_decode(body, 86400, &to, &is_named, &err) < 0);
                CHECK(NAMES(err, cases[i].field));
                CHECK(!to);
                json_decref(body);
        }
}

static void other_bodies_name_what_is_wrong(void)
{
        json_t *body = parse("{\"name\":\"kept\\u0000not\",\"memory\":\"yes\",\"timeout_s\":-1,\"count\":1.5}"), *to;
        struct err err = {0};

        CHECK(snapshot_request_decode(body, &to, &err) < 0 && NAMES(err, "'name'"));
        CHECK(pause_request_decode(body, &to, &err) < 0 && NAMES(err, "'memory'"));
        CHECK(timeout_request_decode(body, true, &to, &err) < 0 && NAMES(err, "'timeout_s'"));
        CHECK(resume_request_decode(body, 60, &to, &err) < 0 && NAMES(err, "'timeout_s'"));
        (void)json_object_del(body, "timeout_s");
        CHECK(fork_request_decode(body, 60, &to, &err) < 0 && NAMES(err, "'count'"));
        json_decref(body);
}

static void commands_are_checked(void)
{
        static const struct {
                const char *body, *field;
        } cases[] = {
                {"{}", "command"},
                {"{\"command\":\"\"}", "command"},
                {"{\"command\":[\"ls\"]}", "command"},
                {"{\"command\":\"a\\u0000b\"}", "command"},
                {"{\"command\":\"x\",\"background\":\"yes\"}", "background"},
                {"{\"command\":\"x\",\"cwd\":\"relative\"}", "cwd"},
                {"{\"command\":\"x\",\"user\":\"a:b\"}", "user"},
                {"{\"command\":\"x\",\"timeout_s\":-1}", "timeout_s"},
                {"{\"command\":\"x\",\"env\":{\"\":\"\"}}", "env"},
                {"{\"command\":\"x\",\"env\":{\"A\":\"\\u0000\"}}", "env.A"},
                {"{\"command\":\"x\",\"stdin\":true}", "stdin"},
                {"{\"command\":\"x\",\"cwd\":\"/a\\u0000b\"}", "cwd"},
                {"{\"command\":\"x\",\"user\":\"\"}", "user"},
        };
        json_t *body = parse("{\"command\":\"npm run build\",\"background\":false}");
        struct command_request c;
        struct err err = {0};

        CHECK_INT(command_request_decode(body, &c, &err), ==, 0);
        CHECK_STR(c.command, "npm run build");
        CHECK(!c.is_background && !c.cwd && !c.user && c.timeout_s == 0);
        json_decref(body);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                body = parse(cases[i].body);
                err = (struct err){0};
                printf("# %s\n", cases[i].body);
                CHECK(body && command_request_decode(body, &c, &err) < 0);
                CHECK(NAMES(err, cases[i].field));
                json_decref(body);
        }
}

static void files_are_text_or_base64(void)
{
        json_t *body = parse("{\"path\":\"/a\",\"content\":\"AP8=\",\"encoding\":\"base64\"}"), *shown;
        struct file_request f;
        struct err err = {0};

        CHECK_INT(file_request_decode(body, &f, &err), ==, 0);
        CHECK(f.content.n == 2 && memcmp(f.content.p, "\0\xff", 2) == 0);
        shown = file_show("/a", f.content);
        CHECK_STR(json_string_value(json_object_get(shown, "encoding")), "base64");
        CHECK_STR(json_string_value(json_object_get(shown, "content")), "AP8=");
        json_decref(shown);
        file_request_done(&f);
        json_decref(body);

        shown = file_show("/a", STR("a\0b")); /* UTF-8, but no text */
        CHECK_STR(json_string_value(json_object_get(shown, "encoding")), "base64");
        CHECK_STR(json_string_value(json_object_get(shown, "content")), "YQBi");
        json_decref(shown);
        shown = file_show("/a", STR("a\tb\n"));
        CHECK_STR(json_string_value(json_object_get(shown, "content")), "a\tb\n");
        CHECK(!json_object_get(shown, "encoding"));
        json_decref(shown);

        body = parse("{\"path\":\"/a\",\"content\":\"***\",\"encoding\":\"base64\"}");
        CHECK(file_request_decode(body, &f, &err) < 0 && NAMES(err, "content"));
        json_decref(body);
        body = parse("{\"path\":\"/a\",\"content\":\"\",\"encoding\":\"latin1\"}");
        CHECK(file_request_decode(body, &f, &err) < 0 && NAMES(err, "encoding"));
        json_decref(body);
        body = parse("{\"path\":\"/a\",\"content\":\"\",\"encoding\":\"base64\\u0000\"}");
        CHECK(file_request_decode(body, &f, &err) < 0 && NAMES(err, "encoding"));
        json_decref(body);
        body = parse("{\"path\":\"/a\"}");
        CHECK(file_request_decode(body, &f, &err) < 0 && NAMES(err, "content"));
        json_decref(body);
        body = parse("{\"content\":\"\"}");
        CHECK(file_request_decode(body, &f, &err) < 0 && NAMES(err, "path"));
        json_decref(body);
}

static const char *text_of(struct buf *b)
{
        return b->len ? buf_cstr(b) : "";
}

static void users_are_names(void)
{
        static const char *const bad[] = {"{\"user\":\"root\\u0000\"}", "{\"user\":\"\"}", "{\"user\":\"a:b\"}",
                                          "{\"user\":0}"};
        json_t *body = parse("{\"user\":\"root\"}");
        const char *user = NULL;
        struct err err = {0};

        CHECK_INT(text_field_user(body, &user, &err), ==, 0);
        CHECK_STR(user, "root");
        json_decref(body);
        user = NULL;
        body = parse("{\"user\":null}");
        CHECK(text_field_user(body, &user, &err) == 0 && !user);
        json_decref(body);
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                body = parse(bad[i]);
                err = (struct err){0};
                printf("# %s\n", bad[i]);
                CHECK(text_field_user(body, &user, &err) < 0 && NAMES(err, "user"));
                json_decref(body);
        }
}

static void lists_have_a_query(void)
{
        static const char *const wrong[][2] = {
                {"limit=0", "limit"},
                {"limit=101", "limit"},
                {"status=gone", "status"},
                {"status=", "status"},
                {"status=stopped&cursor=abc", "cursor"},
                {"status=running&cursor=stopped:abc", "cursor"},
                {"cursor=stopped:", "cursor"},
                {"metadata.k=%zz", "parameter"},
        };
        AUTO(list_query_done) struct list_query q = {0};
        struct err err = {0};

        CHECK_INT(list_query_decode(STR(""), &q, &err), ==, 0);
        CHECK(q.limit == 100 && q.wants_live && !q.wants_stopped);
        CHECK_STR(text_of(&q.live), "");
        list_query_done(&q);
        CHECK_INT(list_query_decode(STR("status=paused,running&limit=5&cursor=a%3Db&metadata.k=v+1&metadata.x=%26"), &q,
                                    &err),
                  ==, 0);
        CHECK(q.limit == 5 && q.wants_live && !q.wants_stopped);
        CHECK_STR(text_of(&q.live), "&state=paused,running&nextToken=a%3Db&metadata=k%3Dv%25201%26x%3D%2526");
        list_query_done(&q);
        CHECK_INT(list_query_decode(STR("status=stopped,paused&metadata.k=v"), &q, &err), ==, 0);
        CHECK(q.wants_live && q.wants_stopped);
        CHECK_STR(text_of(&q.live), "&state=paused&metadata=k%3Dv");
        CHECK_STR(text_of(&q.stopped), "&metadata=k%3Dv");
        list_query_done(&q);
        CHECK_INT(list_query_decode(STR("status=stopped"), &q, &err), ==, 0);
        CHECK(!q.wants_live && q.wants_stopped);
        list_query_done(&q);
        CHECK_INT(list_query_decode(STR("status=running,stopped&cursor=stopped:ab%3D"), &q, &err), ==, 0);
        CHECK(!q.wants_live && q.wants_stopped); /* the first list has been told */
        CHECK_STR(text_of(&q.stopped), "&nextToken=ab%3D");
        list_query_done(&q);
        CHECK_INT(list_query_decode(STR("status=running,stopped&cursor=stopped:"), &q, &err), ==, 0);
        CHECK_STR(text_of(&q.stopped), "");
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                struct list_query none;

                err = (struct err){0};
                printf("# %s\n", wrong[i][0]);
                CHECK(list_query_decode(str_of(wrong[i][0]), &none, &err) < 0 && NAMES(err, wrong[i][1]));
        }
}

static void accept_is_read(void)
{
        CHECK(accept_is_json(STR("")));
        CHECK(accept_is_json(STR("*/*")));
        CHECK(accept_is_json(STR("application/json, text/plain, */*"))); /* axios */
        CHECK(accept_is_json(STR("text/plain;q=0.5, application/json;q=0.1")));
        CHECK(!accept_is_json(STR("text/plain")));
        CHECK(!accept_is_json(STR("application/octet-stream")));
        CHECK(!accept_is_json(STR("text/plain, application/json;q=0")));
        CHECK(!accept_is_json(STR("text/plain, */*; q=0.0")));
}

static void listening_ports_are_found(void)
{
        static const char tables[] =
                "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
                "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000\n"
                "   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n"
                "   2: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000\n"
                "  sl  local_address                         remote_address                        st\n"
                "   0: 00000000000000000000000001000000:1F91 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0\n"
                "   1: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0\n"
                "nonsense\n   2: zz:12 x 0A\n   3: 0100007F:99999 x 0A\n";
        static struct listening_port ports[LISTENING_MAX];

        CHECK_INT(listening_parse((struct str){tables, sizeof(tables) - 1}, ports), ==, 3);
        CHECK(ports[0].port == 80 && !ports[0].is_local);
        CHECK(ports[1].port == 8080 && !ports[1].is_local); /* on one of two addresses */
        CHECK(ports[2].port == 8081 && ports[2].is_local);
        CHECK_INT(listening_parse(STR(""), ports), ==, 0);
}

static void services_are_shown_with_their_tokens(void)
{
        json_t *file = parse(
                       "{\"services\":[{\"name\":\"mcp_server\",\"port\":6060,\"path\":\"/mcp\",\"token_file\":\"/t/"
                       "mcp\"},"
                       "{\"name\":\"code_server\",\"port\":9000,\"token_file\":\"/t/code\",\"token_goes\":\"tkn\"},"
                       "{\"name\":\"web\",\"port\":3000}]}"),
               *shown;
        static struct services s;
        struct err err = {0};
        char url[300];

        CHECK_INT(services_decode(file, &s, &err), ==, 0);
        services_make_tokens(&s);
        CHECK_INT(strlen(s.all[0].token), ==, SERVICE_TOKEN_LEN);
        CHECK(strcmp(s.all[0].token, s.all[1].token) != 0);
        CHECK(!s.all[2].token[0]);
        shown = services_show(json_object(), &s, "iabc", "box.test");
        CHECK_INT(json_integer_value(json_object_get(json_object_get(shown, "ports"), "mcp_server")), ==, 6060);
        CHECK_STR(json_string_value(json_object_get(shown, "mcp_url")), "https://6060-iabc.box.test/mcp");
        CHECK_STR(json_string_value(json_object_get(shown, "mcp_token")), s.all[0].token);
        (void)snprintf(url, sizeof(url), "https://9000-iabc.box.test/?tkn=%s", s.all[1].token);
        CHECK_STR(json_string_value(json_object_get(shown, "code_url")), url);
        CHECK_INT(json_array_size(json_object_get(shown, "services")), ==, 3);
        json_decref(shown);
        json_decref(file);
}

static void services_of_another_form_are_none(void)
{
        static const char *const bad[] = {
                "[]",
                "{\"services\":{}}",
                "{\"services\":[1]}",
                "{\"services\":[{\"port\":1}]}",
                "{\"services\":[{\"name\":\"A\",\"port\":1}]}",
                "{\"services\":[{\"name\":\"a\"}]}",
                "{\"services\":[{\"name\":\"a\",\"port\":70000}]}",
                "{\"services\":[{\"name\":\"a\",\"port\":1,\"path\":\"mcp\"}]}",
                "{\"services\":[{\"name\":\"a\",\"port\":1,\"path\":\"/a b\"}]}",
                "{\"services\":[{\"name\":\"a\",\"port\":1,\"token_file\":\"relative\"}]}",
                "{\"services\":[{\"name\":\"a\",\"port\":1,\"token_goes\":\"cookie\"}]}",
                "{\"services\":[{\"name\":\"a\",\"port\":1,\"token_file\":\"/a\\u0000b\"}]}",
        };
        static struct services s;

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                json_t *file = parse(bad[i]);
                struct err err = {0};

                printf("# %s\n", bad[i]);
                CHECK(file && services_decode(file, &s, &err) < 0);
                CHECK(err.kind == ERR_INVALID && s.count == 0);
                json_decref(file);
        }
}

static void lines_of_the_interpreter_become_one_answer(void)
{
        static const char lines[] = "{\"type\":\"number_of_executions\",\"execution_count\":3}\n"
                                    "{\"type\":\"stdout\",\"text\":\"a\\n\",\"timestamp\":\"t\"}\n"
                                    "{\"type\":\"keepalive\"}\n"
                                    "{\"type\":\"stdout\",\"text\":\"b\\n\"}\n"
                                    "{\"type\":\"result\",\"text\":\"42\",\"is_main_result\":true}\n"
                                    "{\"type\":\"error\",\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"}\n"
                                    "{\"type\":\"end_of_execution\"}\n";
        struct err err = {0};
        json_t *obj = NULL, *want;

        CHECK_INT(code_answer_decode((struct str){lines, sizeof(lines) - 1}, &obj, &err), ==, 0);
        want = parse("{\"stdout\":\"a\\nb\\n\",\"stderr\":\"\",\"results\":[{\"text\":\"42\",\"is_main_result\":true}],"
                     "\"error\":{\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"},\"execution_count\":3}");
        CHECK(json_equal(obj, want));
        json_decref(obj);
        json_decref(want);
        CHECK(code_answer_decode(STR("{\"type\":\"stdout\",\"text\":\"a\"}\n"), &obj, &err) < 0); /* it died */
        CHECK(code_answer_decode(STR("garbage\n"), &obj, &err) < 0);
        CHECK(code_answer_decode(STR(""), &obj, &err) < 0);
}

static void code_is_checked(void)
{
        json_t *body = parse("{\"code\":\"1\",\"language\":\"r\",\"context_id\":\"c\"}"), *to;
        struct err err = {0};
        uint32_t timeout_s;

        CHECK(code_request_decode(body, &to, &timeout_s, &err) < 0 && NAMES(err, "context_id"));
        json_decref(body);
        body = parse("{\"code\":\"1\",\"language\":\"r\\u0000\"}");
        CHECK(code_request_decode(body, &to, &timeout_s, &err) < 0 && NAMES(err, "language"));
        json_decref(body);
        body = parse("{\"code\":\"1\",\"env\":{\"A\":\"\\u0000\"}}");
        CHECK(code_request_decode(body, &to, &timeout_s, &err) < 0 && NAMES(err, "env.A"));
        json_decref(body);
        body = parse("{\"language\":\"r\"}");
        CHECK(code_request_decode(body, &to, &timeout_s, &err) < 0 && NAMES(err, "code"));
        json_decref(body);
        body = parse("{\"code\":\"\",\"timeout_s\":7,\"env\":{\"A\":\"b\"}}");
        CHECK_INT(code_request_decode(body, &to, &timeout_s, &err), ==, 0);
        CHECK_INT(timeout_s, ==, 7);
        CHECK_STR(json_string_value(json_object_get(json_object_get(to, "env_vars"), "A")), "b");
        json_decref(to);
        json_decref(body);
}

int main(void)
{
        RUN(create_becomes_the_apis);
        RUN(create_names_what_is_wrong);
        RUN(other_bodies_name_what_is_wrong);
        RUN(commands_are_checked);
        RUN(files_are_text_or_base64);
        RUN(users_are_names);
        RUN(lists_have_a_query);
        RUN(accept_is_read);
        RUN(listening_ports_are_found);
        RUN(services_are_shown_with_their_tokens);
        RUN(services_of_another_form_are_none);
        RUN(lines_of_the_interpreter_become_one_answer);
        RUN(code_is_checked);
        return tap_done();
}
