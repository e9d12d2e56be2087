/* libsandglass: what is checked, repeated, bounded, cancelled, and what wrong answers become. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include "client/client.h"
#include "library_rig.h"

/* ---- before anything is sent ---- */

static void wrong_arguments_are_refused_and_nothing_is_sent(void)
{
        const struct sg_pair bad_env[] = {{"A", "\xff"}, {NULL, NULL}};
        const struct sg_identity bad = {.id = "../../x"};
        struct sg_snapshot *snapshot;
        struct sg_sandbox *s;
        struct sg_command *c;
        struct sg_info *info;
        struct sg_watch *w;
        const struct sg_command_options no_input = {.input_len = 3};
        struct sg_error err[32];
        char *text;
        unsigned n = 0;

        SAY(ok_json("{}"));
        CHECK(sg_sandbox_get(client, "a/b", NULL, &info, &err[n++]) < 0);
        CHECK(sg_sandbox_kill(client, NULL, NULL, &err[n++]) < 0);
        CHECK(sg_sandbox_create(client, &(struct sg_create_options){.env = bad_env}, NULL, &s, &err[n++]) < 0);
        CHECK(sg_sandbox_create(client, &(struct sg_create_options){.extra_json = "[1"}, NULL, &s, &err[n++]) < 0);
        CHECK(sg_sandbox_create(client, &(struct sg_create_options){.reserved = {1}}, NULL, &s, &err[n++]) < 0);
        CHECK(sg_sandbox_assume(client, &bad, &s, &err[n++]) < 0);
        CHECK(sg_run(box, "", NULL, NULL, NULL, &err[n++]) < 0);
        CHECK(sg_run(box, "x", &(struct sg_command_options){.input = "a", .has_input = true}, NULL, NULL, &err[n++]) <
              0);
        CHECK(sg_run(box, "x", &(struct sg_command_options){.user = "a:b"}, NULL, NULL, &err[n++]) < 0);
        CHECK(sg_command_start_argv(box, (const char *const[]){"\xc3", NULL}, NULL, NULL, &c, &err[n++]) < 0);
        CHECK(sg_process_signal(box, 1, SIGHUP, NULL, &err[n++]) < 0);
        CHECK(sg_file_read(box, "", NULL, NULL, &text, NULL, &err[n++]) < 0);
        CHECK(sg_watch_open(box, "/", NULL, NULL, &w, &err[n++]) < 0);
        CHECK(sg_snapshot_create(client, "No", NULL, NULL, &snapshot, &err[n++]) < 0);
        CHECK(sg_request(client, "get", "/x", NULL, NULL, NULL, NULL, &err[n++]) < 0);
        CHECK(sg_run_code(box, "\xff", 1, NULL, NULL, NULL, &err[n++]) < 0);
        CHECK(sg_sandbox_assume(client, NULL, &s, &err[n++]) < 0);
        CHECK(sg_run_code(box, NULL, 1, NULL, NULL, NULL, &err[n++]) < 0);
        CHECK(sg_file_write(box, "f", NULL, 10, NULL, NULL, &err[n++]) < 0);
        CHECK(sg_process_send(box, 1, false, NULL, 40000, NULL, &err[n++]) < 0);
        CHECK(sg_run(box, "x", &no_input, NULL, NULL, &err[n++]) < 0);
        CHECK(sg_command_start(box, "x", &no_input, NULL, &c, &err[n++]) < 0);
        for (unsigned i = 0; i < n; i++) {
                CHECK_INT(err[i].kind, ==, SG_INVALID);
                CHECK(err[i].message[0] && err[i].http_status == 0);
        }
        CHECK_INT(atomic_load(&server.requests), ==, 0);
}

static void clients_are_checked_too(void)
{
        const struct sg_client_options wrong[] = {
                {.api_url = "ftp://x"},   {.api_url = "http://x/path"},  {.domain = "a b"},
                {.api_key = "new\nline"}, {.sandbox_url = "http://:80"}, {.reserved = {0, 1}},
                {.domain = "x:99999"}};
        struct sg_client *c;
        struct sg_error err;

        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                CHECK_INT(sg_client_open(&wrong[i], &c, &err), <, 0);
                CHECK_INT(err.kind, ==, SG_INVALID);
        }
        CHECK_INT(sg_client_open(NULL, &c, &err), ==, 0);
        CHECK_STR(sg_client_api_url(c), "https://api.e2b.app");
        sg_client_free(c);
}

/* ---- repeating ---- */

static void what_can_be_repeated_is_repeated(void)
{
        FREE_BLOCK struct sg_info *info = NULL;
        struct sg_error err = {0};

        SAY({0}, with_status("503 Service Unavailable", "", "{\"message\":\"busy\"}"),
            with_status("502 Bad Gateway", "", "oops"), ok_json(BOX_JSON));
        CHECK_INT(sg_sandbox_get(client, ID, NULL, &info, &err), ==, 0);
        CHECK_INT(atomic_load(&server.requests), ==, 4);
        CHECK_INT(info->state, ==, SG_STATE_RUNNING);
}

static void repeating_has_an_end(void)
{
        struct sg_client *eager = rig_client(&(struct sg_client_options){.retries = 2});
        struct sg_info *info;
        struct sg_error err = {0};

        SAY(with_status("503 Service Unavailable", "", "{\"message\":\"busy\"}"));
        CHECK_INT(sg_sandbox_get(eager, ID, NULL, &info, &err), <, 0);
        CHECK_INT(atomic_load(&server.requests), ==, 3);
        CHECK_INT(err.kind, ==, SG_UNAVAILABLE);
        CHECK_INT(err.http_status, ==, 503);
        CHECK_STR(err.message, "busy");
        sg_client_free(eager);
}

static void what_begins_something_is_not_sent_twice(void)
{
        struct sg_sandbox *s;
        struct sg_error err = {0};

        SAY({0});
        CHECK_INT(sg_sandbox_create(client, NULL, NULL, &s, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_UNAVAILABLE);
        CHECK_INT(atomic_load(&server.requests), ==, 1);
        SAY(with_status("503 Service Unavailable", "", "{}"));
        CHECK_INT(sg_sandbox_create(client, NULL, NULL, &s, &err), <, 0);
        CHECK_INT(atomic_load(&server.requests), ==, 1);
        SAY(with_status("429 Too Many Requests", "", "{\"message\":\"limit\"}"));
        CHECK_INT(sg_sandbox_create(client, NULL, NULL, &s, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_LIMIT);
        CHECK_INT(atomic_load(&server.requests), ==, 1);
}

static void a_wait_past_the_time_limit_is_not_begun(void)
{
        const struct sg_call call = {.timeout_ms = 5000};
        struct sg_sandbox *s;
        struct sg_error err = {0};

        SAY(with_status("429 Too Many Requests", "Retry-After: 60\r\n", "{\"message\":\"later\"}"));
        CHECK_INT(sg_sandbox_create(client, NULL, &call, &s, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_LIMIT);
        CHECK_INT(err.retry_after_s, ==, 60);
        CHECK_STR(err.message, "later");
        CHECK_INT(atomic_load(&server.requests), ==, 1);
}

static void a_repetition_without_an_answer_tells_what_the_server_said_before(void)
{
        const struct sg_call call = {.timeout_ms = 5000};
        struct sg_sandbox *s;
        struct sg_error err = {0};

        SAY(with_status("503 Service Unavailable", "Retry-After: 1\r\n", "{\"message\":\"it is being built\"}"),
            (struct fake_answer){.holds = true});
        CHECK_INT(sg_sandbox_create(client, NULL, &call, &s, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_TIMEOUT);
        CHECK_STR(err.message, "no answer in time; the one before: it is being built");
        CHECK_INT(atomic_load(&server.requests), ==, 2);
}

static void a_server_that_is_not_there_is_unavailable(void)
{
        struct fake_server gone = {0};
        struct sg_client *c;
        struct sg_info *info;
        struct sg_error err = {0};

        CHECK(fake_listen(&gone)); /* the port is nobody's afterwards */
        (void)close(gone.fd);
        CHECK_INT(sg_client_open(&(struct sg_client_options){.api_url = gone.url, .retries = 1}, &c, &err), ==, 0);
        CHECK_INT(sg_sandbox_get(c, ID, NULL, &info, &err), ==, -ECONNREFUSED);
        CHECK_INT(err.kind, ==, SG_UNAVAILABLE);
        CHECK_INT(err.system_error, ==, ECONNREFUSED);
        sg_client_free(c);
}

/* ---- time, cancelling ---- */

static void time_limits_hold(void)
{
        const struct sg_call call = {.timeout_ms = 500};
        struct sg_info *info;
        struct sg_error err = {0};

        SAY({.holds = true});
        CHECK_INT(sg_sandbox_get(client, ID, &call, &info, &err), ==, -ETIMEDOUT);
        CHECK_INT(err.kind, ==, SG_TIMEOUT);
        SAY({.holds = true}, ok_json("{}"));
        CHECK_INT(sg_run(box, "true", NULL, &call, NULL, &err), ==, -ETIMEDOUT);
        SAY({.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", .holds = true});
        CHECK_INT(sg_sandbox_get(client, ID, &call, &info, &err), ==, -ETIMEDOUT);
}

static struct sg_cancel *cancel;
static unsigned ticks;

static void tick(void *arg)
{
        (void)arg;
        if (++ticks >= 3 && atomic_load(&server.held))
                sg_cancel_now(cancel);
}

static void a_call_ticks_and_can_be_cancelled(void)
{
        struct sg_call call = {.on_tick = tick, .tick_ms = 10};
        struct sg_info *info;
        struct sg_error err = {0};

        CHECK_INT(sg_cancel_create(&cancel, &err), ==, 0);
        call.cancel = cancel;
        SAY({.holds = true});
        CHECK_INT(sg_sandbox_get(client, ID, &call, &info, &err), ==, -ECANCELED);
        CHECK_INT(err.kind, ==, SG_CANCELLED);
        CHECK_INT(ticks, >=, 3);
        CHECK_INT(sg_sandbox_get(client, ID, &call, &info, &err), ==, -ECANCELED);
        CHECK_INT(atomic_load(&server.requests), ==, 1);
        sg_cancel_reset(cancel);
        SAY(ok_json(BOX_JSON));
        CHECK_INT(sg_sandbox_get(client, ID, &call, &info, &err), ==, 0);
        sg_free(info);
        sg_cancel_free(cancel);
}

static void a_pipe_cancels_too(void)
{
        struct sg_call call = {0};
        struct sg_info *info;
        struct sg_error err = {0};
        int p[2];

        CHECK(pipe(p) == 0 && write(p[1], "x", 1) == 1);
        CHECK_INT(sg_cancel_create_fd(p[0], &call.cancel, &err), ==, 0);
        CHECK_INT(sg_sandbox_get(client, ID, &call, &info, &err), ==, -ECANCELED);
        sg_cancel_free(call.cancel);
        (void)close(p[0]);
        (void)close(p[1]);
        CHECK_INT(sg_cancel_create_fd(-1, &call.cancel, &err), <, 0);
}

/* ---- wrong answers ---- */

static void answers_that_make_no_sense_are_errors(void)
{
        static const struct {
                const char *bytes;
                enum sg_error_kind kind;
        } all[] = {
                {"SMTP ready\r\n\r\n", SG_INTERNAL},
                {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{\"x", SG_INTERNAL},
                {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", SG_INTERNAL},
                {"HTTP/1.1 200 OK\r\nContent-Length: 23\r\n\r\n{\"sandboxID\":\"../../x\"}\n", SG_INTERNAL},
                {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", SG_INTERNAL},
                {"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\na\x01"
                 "b\nc",
                 SG_NOT_FOUND},
                {"HTTP/1.1 418 I'm a teapot\r\nContent-Length: 0\r\n\r\n", SG_INVALID},
                {"HTTP/1.1 101 Switching Protocols\r\n\r\n", SG_INTERNAL},
        };
        struct sg_error err;
        struct sg_info *info;

        for (size_t i = 0; i < ARRAY_LEN(all); i++) {
                err = (struct sg_error){0};
                SAY({.bytes = all[i].bytes, .closes = true});
                CHECK_INT(sg_sandbox_get(client, ID, NULL, &info, &err), <, 0);
                CHECK_INT(err.kind, ==, all[i].kind);
                CHECK(err.message[0]);
                for (const char *at = err.message; *at; at++)
                        CHECK((unsigned char)*at >= 0x20);
        }
}

static void long_messages_are_cut_between_characters(void)
{
        AUTO_FREE char *body = malloc(2000);
        struct sg_error err = {0};
        size_t n;

        memcpy(body, "{\"message\":\"a", 13);
        for (n = 13; n < 900; n += 2)
                memcpy(body + n, "\xc3\xa4", 2);
        memcpy(body + n, "\"}", 3);
        SAY(with_status("400 Bad Request", "", body));
        CHECK_INT(sg_request(client, "GET", "/", NULL, NULL, NULL, NULL, &err), <, 0);
        n = strlen(err.message);
        CHECK(n > 200 && strcmp(err.message + n - 3, "...") == 0);
        CHECK_INT(((unsigned char)err.message[n - 4] & 0xc0), ==, 0x80); /* the end of a whole one */
}

static void answers_have_a_maximum(void)
{
        const struct sg_request_options small = {.answer_max = 10};
        struct sg_answer *answer;
        struct sg_error err = {0};

        SAY(ok_json("\"0123456789\""));
        CHECK_INT(sg_request(client, "GET", "/", NULL, &small, NULL, &answer, &err), ==, -EFBIG);
        CHECK_INT(err.kind, ==, SG_TOO_LARGE);
}

static void lists_come_in_pages(void)
{
        FREE_BLOCK struct sg_info_list *list = NULL;
        struct sg_error err = {0};

        SAY(with_status("200 OK", "X-Next-Token: a/b\r\n", "[" BOX_JSON "]"), ok_json("[" BOX_JSON "," BOX_JSON "]"));
        CHECK_INT(sg_sandbox_list(client, &(struct sg_list_options){.only_running = true}, NULL, &list, &err), ==, 0);
        CHECK_INT(list->count, ==, 3);
        CHECK(strstr(seen_requests[0], "GET /v2/sandboxes?state=running&limit=100 HTTP"));
        CHECK(strstr(seen_requests[1], "&nextToken=a%2Fb HTTP"));
        CHECK(strstr(seen_requests[1], "X-API-Key: e2b_00"));
        SAY(ok_json("{}"));
        CHECK_INT(sg_sandbox_list(client, NULL, NULL, &list, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INTERNAL);
}

static void what_a_server_lacks_is_said_clearly(void)
{
        struct sg_fork fork;
        struct sg_error err = {0};

        SAY(with_status("404 Not Found", "", "404 page not found"), ok_json(BOX_JSON));
        CHECK_INT(sg_sandbox_fork(client, ID, 1, 0, NULL, &fork, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_UNSUPPORTED);
        CHECK(strstr(err.message, "no call to fork"));
        SAY(with_status("404 Not Found", "", "{}"), ok_json(BOX_JSON),
            ok_json("[{\"snapshotID\":\"s\",\"names\":[]}]"));
        CHECK_INT(sg_sandbox_rollback(client, ID, "s", NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_UNSUPPORTED);
        SAY(with_status("404 Not Found", "", "{\"message\":\"no snapshot s\"}"), ok_json(BOX_JSON), ok_json("[]"));
        CHECK_INT(sg_sandbox_rollback(client, ID, "s", NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
        SAY(with_status("404 Not Found", "", "{\"message\":\"no sandbox\"}"));
        CHECK_INT(sg_sandbox_fork(client, ID, 1, 0, NULL, &fork, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
}

/* ---- connections, threads, signals ---- */

static void connections_are_kept(void)
{
        SAY(ok_json(BOX_JSON));
        for (int i = 0; i < 20; i++) {
                FREE_BLOCK struct sg_info *info = NULL;

                CHECK_INT(sg_sandbox_get(client, ID, NULL, &info, NULL), ==, 0);
                CHECK_INT(sg_sandbox_set_timeout(client, ID, 5, NULL, NULL), ==, 0);
        }
        CHECK_INT(atomic_load(&server.requests), ==, 40);
        CHECK_INT(atomic_load(&server.connections), <=, 1);
}

static void *get_often(void *arg)
{
        int *failures = arg;

        for (int i = 0; i < 200; i++) {
                FREE_BLOCK struct sg_info *info = NULL;

                if (sg_sandbox_get(client, ID, NULL, &info, NULL) < 0 || strcmp(info->id, ID) != 0)
                        ++*failures;
        }
        return NULL;
}

static void many_threads_share_a_client(void)
{
        pthread_t threads[8];
        int failures[8] = {0};

        SAY(ok_json(BOX_JSON));
        for (int i = 0; i < 8; i++)
                CHECK_INT(pthread_create(&threads[i], NULL, get_often, &failures[i]), ==, 0);
        for (int i = 0; i < 8; i++) {
                (void)pthread_join(threads[i], NULL);
                CHECK_INT(failures[i], ==, 0);
        }
        CHECK_INT(atomic_load(&server.requests), ==, 1600);
        CHECK_INT(atomic_load(&server.connections), <=, 8);
}

static void signals_stay_as_they_are(void)
{
        struct sigaction pipe_action;
        sigset_t set;

        CHECK(sigaction(SIGPIPE, NULL, &pipe_action) == 0 && pipe_action.sa_handler == SIG_DFL);
        CHECK(pthread_sigmask(SIG_SETMASK, NULL, &set) == 0 && sigismember(&set, SIGPIPE) == 0);
}

/* ---- where the server is ---- */

static void the_environment_names_the_server(void)
{
        FREE_BLOCK char *url = NULL;
        const struct sg_identity who = {.id = ID};
        struct sg_client *c;
        struct sg_sandbox *s;
        struct sg_error err = {0};

        (void)setenv("E2B_DOMAIN", "box.example:8443", 1);
        (void)unsetenv("E2B_API_KEY");
        CHECK_INT(sg_client_open_from_env(NULL, &c, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INVALID);
        (void)setenv("E2B_API_KEY", "e2b_11", 1);
        CHECK_INT(sg_client_open_from_env(NULL, &c, &err), ==, 0);
        CHECK_STR(sg_client_api_url(c), "https://api.box.example:8443");
        CHECK_INT(sg_sandbox_assume(c, &who, &s, &err), ==, 0);
        CHECK_INT(sg_sandbox_url(s, 80, &url, &err), ==, 0);
        CHECK_STR(url, "https://80-" ID ".box.example:8443");
        sg_sandbox_free(s);
        sg_client_free(c);
        (void)setenv("E2B_API_URL", "http://127.0.0.1:1", 1);
        CHECK_INT(sg_client_open_from_env(NULL, &c, &err), ==, 0);
        CHECK_STR(sg_client_api_url(c), "http://127.0.0.1:1");
        CHECK_STR(sg_client_domain(c), "box.example:8443");
        sg_client_free(c);
        CHECK_INT(sg_client_open_from_file("/nonexistent/env", NULL, &c, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
        CHECK_INT(sg_client_open_from_file("/dev/null", NULL, &c, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INVALID);
}

static void urls_are_signed(void)
{
        const struct sg_identity who = {.id = ID, .access_token = "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0", .domain = "x.y"};
        FREE_BLOCK char *url = NULL;
        struct sg_sandbox *s;
        struct sg_error err = {0};

        CHECK_INT(sg_sandbox_assume(client, &who, &s, &err), ==, 0);
        CHECK_INT(sg_file_url(s, "hello.txt", false, "user", 0, &url, &err), ==, 0);
        CHECK_STR(url, "https://49983-" ID ".x.y/files?path=hello.txt&username=user&signature="
                       "v1_gUtH%2Fs9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
        sg_sandbox_free(s);
}

/* What is left of a secret in memory that was freed: its end, which the allocator does not write over. */
static bool is_left(uintptr_t at, const char *secret)
{
        AUTO_CLOSE int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
        char now[64] = "";
        size_t n = strlen(secret);

        if (fd < 0 || pread(fd, now, n, (off_t)at) != (ssize_t)n)
                abort();
        return memcmp(now + n - 8, secret + n - 8, 8) == 0;
}

static void secrets_do_not_stay_in_memory(void)
{
        static const char token[] = "a-token-that-is-longer-than-any-link-0123456789";
        const struct sg_pair headers[] = {{"X-Key", token}, {NULL, NULL}};
        struct sg_client *c =
                rig_client(&(struct sg_client_options){.api_key = token, .access_token = token, .headers = headers});
        struct sg_sandbox *s;
        uintptr_t at[5];

        CHECK_INT(sg_sandbox_assume(c, &(struct sg_identity){.id = ID, .access_token = token, .traffic_token = token},
                                    &s, NULL),
                  ==, 0);
        at[0] = (uintptr_t)c->api_key;
        at[1] = (uintptr_t)c->authorization + strlen("Bearer ");
        at[2] = (uintptr_t)c->header_texts[1];
        at[3] = (uintptr_t)sg_sandbox_access_token(s);
        at[4] = (uintptr_t)sg_sandbox_traffic_token(s);
        for (size_t i = 0; i < ARRAY_LEN(at); i++)
                CHECK(is_left(at[i], token));
        sg_sandbox_free(s);
        sg_client_free(c);
        for (size_t i = 0; i < ARRAY_LEN(at); i++)
                CHECK(!is_left(at[i], token));
}

int main(void)
{
        rig_start();
        RUN(wrong_arguments_are_refused_and_nothing_is_sent);
        RUN(clients_are_checked_too);
        RUN(what_can_be_repeated_is_repeated);
        RUN(repeating_has_an_end);
        RUN(what_begins_something_is_not_sent_twice);
        RUN(a_wait_past_the_time_limit_is_not_begun);
        RUN(a_repetition_without_an_answer_tells_what_the_server_said_before);
        RUN(a_server_that_is_not_there_is_unavailable);
        RUN(time_limits_hold);
        RUN(a_call_ticks_and_can_be_cancelled);
        RUN(a_pipe_cancels_too);
        RUN(answers_that_make_no_sense_are_errors);
        RUN(long_messages_are_cut_between_characters);
        RUN(answers_have_a_maximum);
        RUN(lists_come_in_pages);
        RUN(what_a_server_lacks_is_said_clearly);
        RUN(connections_are_kept);
        RUN(many_threads_share_a_client);
        RUN(signals_stay_as_they_are);
        RUN(the_environment_names_the_server);
        RUN(urls_are_signed);
        RUN(secrets_do_not_stay_in_memory);
        return rig_end();
}
