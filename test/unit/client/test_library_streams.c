/* libsandglass: commands, watches and runs of code, when what comes is whole, broken, or ends too early. */
#include <poll.h>

#include "client/code/interpreter.h"
#include "client/command/command.h"
#include "stream_rig.h"

static void a_command_comes_to_its_end(void)
{
        const struct sg_pair env[] = {{"A", "b c"}, {NULL, NULL}};
        const struct sg_command_options options = {.env = env, .user = "root", .cwd = "/x", .timeout_ms = 1234};
        FREE_BLOCK struct sg_result *result = NULL;
        struct sg_error err = {0};

        SAY(STREAM(START, "0{\"event\":{\"keepalive\":{}}}", HELLO, HELLO,
                   "0{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"signal: terminated\"}}}", LAST));
        CHECK_INT(sg_run(box, "say \"hello\"", &options, NULL, &result, &err), ==, 0);
        CHECK_STR(result->out, "hellohello");
        CHECK_INT(result->exit_code, ==, 128 + 15);
        CHECK_INT(result->signal, ==, 15);
        CHECK(strstr(seen_requests[0], "POST /process.Process/Start HTTP/1.1\r\n"));
        CHECK(strstr(seen_requests[0], "E2b-Sandbox-Id: " ID "\r\nE2b-Sandbox-Port: 49983\r\nX-Access-Token: tok\r\n"));
        CHECK(strstr(seen_requests[0], "Authorization: Basic cm9vdDo=\r\n"));
        CHECK(strstr(seen_requests[0], "Connect-Timeout-Ms: 1234\r\n"));
}

static void streams_that_make_no_sense_are_errors(void)
{
        const struct {
                struct fake_answer answer;
                enum sg_error_kind kind;
        } all[] = {
                {STREAM("0{\"event\""), SG_INTERNAL},
                {STREAM("1{}"), SG_INTERNAL},
                {STREAM("9{}"), SG_INTERNAL},
                {STREAM(HELLO), SG_INTERNAL},
                {STREAM("0{\"event\":{\"start\":{\"pid\":0}}}"), SG_INTERNAL},
                {STREAM(LAST), SG_INTERNAL},
                {STREAM(START, LAST), SG_INTERNAL},
                {STREAM(START, "0{\"event\":{\"data\":{\"stdout\":\"!!\"}}}"), SG_INTERNAL},
                {STREAM("2{\"error\":{\"code\":\"invalid_argument\",\"message\":\"cwd '/x' does not exist\"}}"),
                 SG_INVALID},
                {STREAM(START, "2{\"error\":{\"code\":\"deadline_exceeded\",\"message\":\"late\"}}"), SG_TIMEOUT},
                {STREAM("2{\"error\":{\"code\":\"new_code\"}}"), SG_INTERNAL},
                {envelopes(STREAM_HEAD "\x00\x7f\xff\xff\xff", NULL, NULL), SG_UNAVAILABLE},
                {with_status("401 Unauthorized", "", "{\"code\":401,\"message\":\"no\"}"), SG_DENIED},
                {with_status("415 Unsupported Media Type", "", ""), SG_INVALID},
        };

        for (size_t i = 0; i < ARRAY_LEN(all); i++) {
                struct sg_error err = {0};

                SAY(all[i].answer, ok_json(BOX_JSON), with_status("200 OK", "", "{}"));
                CHECK_INT(sg_run(box, "x", NULL, NULL, NULL, &err), <, 0);
                CHECK(err.message[0]);
                if (err.kind != all[i].kind)
                        printf("# number %zu: %s\n", i, err.message);
                CHECK_INT(err.kind, ==, all[i].kind);
        }
}

static void a_message_past_the_maximum_ends_the_stream(void)
{
        struct sg_error err = {0};

        SAY({.bytes = STREAM_HEAD "\0\x7f\xff\xff\xff{", .n = sizeof(STREAM_HEAD) - 1 + 6, .holds = true});
        CHECK_INT(sg_run(box, "x", NULL, NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INTERNAL);
}

static void a_stream_that_is_cut_is_taken_up_again(void)
{
        FREE_BLOCK struct sg_result *result = NULL;
        struct sg_error err = {0};

        SAY(STREAM(START, HELLO), ok_json(BOX_JSON),
            STREAM("0{\"event\":{\"start\":{\"pid\":7,\"offset\":5}}}", HELLO, END, LAST));
        CHECK_INT(sg_run(box, "x", NULL, NULL, &result, &err), ==, 0);
        CHECK_STR(result->out, "hellohello");
        CHECK(strstr(seen_requests[2], "POST /process.Process/Connect HTTP"));
        CHECK(strstr(seen_requests[2], "Sandglass-Replay-From: 5\r\n"));
}

static void a_server_that_keeps_no_output_cannot_go_on(void)
{
        struct sg_error err = {0};

        SAY(STREAM(START, HELLO), ok_json(BOX_JSON), STREAM(START, HELLO, END, LAST));
        CHECK_INT(sg_run(box, "x", NULL, NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_UNAVAILABLE);
        CHECK(strstr(err.message, "keeps no output"));
}

static void a_sandbox_that_went_away_is_named(void)
{
        struct sg_error err = {0};

        SAY(STREAM(START, HELLO), with_status("404 Not Found", "", "{\"message\":\"none\"}"));
        CHECK_INT(sg_run(box, "x", NULL, NULL, NULL, &err), ==, -ENOENT);
        CHECK_STR(err.message, "sandbox " ID " is gone");
        SAY(with_status("502 Bad Gateway", "", "{\"message\":\"The sandbox was not found\"}"),
            ok_json("{\"sandboxID\":\"" ID "\",\"state\":\"paused\"}"));
        CHECK_INT(sg_run(box, "x", NULL, NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_CONFLICT);
        CHECK_STR(err.message, "sandbox " ID " is paused");
}

static uint64_t lost_bytes;

static void on_lost(uint64_t bytes, void *arg)
{
        (void)arg;
        lost_bytes += bytes;
}

static void lost_output_is_told(void)
{
        const struct sg_command_options options = {.on_lost = on_lost};
        struct sg_error err = {0};

        SAY(STREAM(START, "0{\"event\":{\"data\":{\"stdout\":\"aGVsbG8=\",\"offset\":105,\"dropped\":100}}}", END,
                   LAST));
        CHECK_INT(sg_run(box, "x", &options, NULL, NULL, &err), ==, 0);
        CHECK_INT(lost_bytes, ==, 100);
}

static void the_fd_tells_of_an_end_that_came_with_the_start(void)
{
        struct sg_command *command;
        struct sg_error err = {0};
        struct pollfd p = {.events = POLLIN};
        int r;

        SAY(STREAM(START, HELLO, END, LAST));
        CHECK_INT(sg_command_start(box, "x", NULL, NULL, &command, &err), ==, 0);
        p.fd = sg_command_fd(command);
        do {
                CHECK_INT(poll(&p, 1, 20000), ==, 1);
                r = sg_command_poll(command, &err);
        } while (r == 0);
        CHECK_INT(r, ==, 1);
        sg_command_free(command);
}

static void a_command_that_is_left_is_not_listened_to(void)
{
        struct sg_command *command;
        struct sg_error err = {0};

        SAY({.bytes = STREAM(START).bytes, .n = STREAM(START).n, .holds = true});
        CHECK_INT(sg_command_start(box, "x", NULL, NULL, &command, &err), ==, 0);
        CHECK_INT(sg_command_pid(command), ==, 7);
        CHECK_INT(sg_command_poll(command, &err), ==, 0);
        sg_command_free(command);
        while (atomic_load(&server.left) == 0) /* the server sees it at once */
                (void)sched_yield();
}

static void bytes_that_are_missing_are_not_the_end_of_input(void)
{
        const struct sg_command_options options = {.has_input = true};
        struct sg_command *command;
        struct sg_error err = {0};

        SAY({.bytes = STREAM(START).bytes, .n = STREAM(START).n, .holds = true});
        CHECK_INT(sg_command_start(box, "x", &options, NULL, &command, &err), ==, 0);
        CHECK_INT(sg_command_send(command, NULL, 3, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INVALID);
        CHECK_INT(sg_command_send(command, NULL, 0, NULL, &err), ==, 0);
        CHECK_INT(atomic_load(&server.requests), ==, 1);
        sg_command_free(command);
}

static void exit_codes_are_as_shells_say_them(void)
{
        static const struct {
                const char *json;
                int code;
        } cases[] = {
                {"{\"exited\":true,\"status\":\"exit status 0\"}", 0},
                {"{\"exitCode\":3,\"exited\":true}", 3},
                {"{\"exitCode\":-1,\"status\":\"signal: killed\"}", 137},
                {"{\"exitCode\":-1,\"status\":\"signal: segmentation fault (core dumped)\"}", 139},
                {"{\"exitCode\":-1,\"status\":\"signal: signal 31\"}", 159},
                {"{\"exitCode\":-1,\"status\":\"signal: signal 99\"}", 1},
                {"{\"exitCode\":-1}", 1},
                {"{\"exitCode\":4000000000}", 1},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                json_t *end = json_loads(cases[i].json, 0, NULL);
                int signal, code = exit_code_of(end, &signal);

                json_decref(end);
                CHECK_INT(code, ==, cases[i].code);
        }
}

/* ---- watches ---- */

static char watched[200];

static int on_event(const struct sg_event *event, void *arg)
{
        size_t n = strlen(watched);

        (void)arg;
        (void)snprintf(watched + n, sizeof(watched) - n, "%d:%s ", event->type, event->name);
        return 0;
}

static void watches_tell_events_until_they_end(void)
{
        const struct sg_watch_options options = {.on_event = on_event, .is_recursive = true};
        struct sg_watch *watch;
        struct sg_error err = {0};

        SAY(STREAM("0{\"start\":{}}", "0{\"keepalive\":{}}",
                   "0{\"filesystem\":{\"name\":\"a\",\"type\":\"EVENT_TYPE_CREATE\"}}",
                   "0{\"filesystem\":{\"name\":\"b/c\",\"type\":\"EVENT_TYPE_NEW_KIND\"}}",
                   "2{\"error\":{\"code\":\"internal\",\"message\":\"watcher error: overflow\"}}"));
        CHECK_INT(sg_watch_open(box, "/dir", &options, NULL, &watch, &err), ==, 0);
        CHECK_INT(sg_watch_wait(watch, NULL, &err), <, 0);
        CHECK_STR(err.message, "watcher error: overflow");
        CHECK_STR(watched, "1:a 0:b/c ");
        sg_watch_free(watch);
        SAY(STREAM("0{\"filesystem\":{\"name\":\"a\"}}"));
        CHECK_INT(sg_watch_open(box, "/dir", &options, NULL, &watch, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INTERNAL);
}

/* ---- code ---- */

static void arm_linger(struct timer *t)
{
        (void)t;
}

static int linger_long(struct str piece, struct loop *loop, void *arg, struct sg_error *err)
{
        (void)piece, (void)err;
        timer_set(loop, arg, 60000);
        return 0;
}

/* Another thread may have the lane by then. */
static void a_lane_is_given_back_without_timers(void)
{
        struct interpreter_stream s = {.on_body = linger_long, .linger = {.on = arm_linger}};
        struct sg_error err = {0};
        struct limit l;

        s.arg = &s.linger;
        SAY(ok_json("{}"));
        CHECK_INT(limit_begin(&l, NULL, 20000, &err), ==, 0);
        CHECK_INT(interpreter_stream(box, &s, STR("{}"), &l, &err), ==, 0);
        CHECK(!timer_is_armed(&s.linger));
}

static int stop_at_stdout(const struct sg_code_event *event, void *arg)
{
        (void)arg;
        return event->type == SG_CODE_STDOUT ? -1 : 0;
}

static void code_runs_and_its_results_are_kept(void)
{
        const struct sg_pair env[] = {{"K", "v\"w"}, {NULL, NULL}};
        FREE_BLOCK struct sg_code_result *result = NULL, *failed = NULL;
        struct sg_error err = {0};

        SAY(ok_json("{\"type\":\"number_of_executions\",\"execution_count\":1}\n"
                    "{\"type\":\"stdout\",\"text\":\"a\\n\"}\n{\"type\":\"stderr\",\"text\":\"b\"}\n"
                    "{\"type\":\"result\",\"png\":\"iVBO\"}\n"
                    "{\"type\":\"result\",\"text\":\"4\\u00e4\",\"is_main_result\":true}\n{\"type\":\"end_of_"
                    "execution\"}\n"));
        CHECK_INT(sg_run_code(box, "2+2", 3, &(struct sg_code_options){.language = "python", .env = env}, NULL, &result,
                              &err),
                  ==, 0);
        CHECK_STR(result->out, "a\n");
        CHECK_STR(result->err, "b");
        CHECK_STR(result->text, "4\xc3\xa4");
        CHECK_STR(result->results_json, "[{\"type\":\"result\",\"png\":\"iVBO\"},{\"type\":\"result\",\"text\":"
                                        "\"4\\u00e4\",\"is_main_result\":true}]");
        CHECK(!result->has_failed);
        CHECK(strstr(seen_requests[0], "E2b-Sandbox-Port: 49999\r\n"));
        CHECK(strstr(seen_requests[0], "{\"code\":\"2+2\",\"language\":\"python\",\"env_vars\":{\"K\":\"v\\\"w\"}}"));
        SAY(ok_json("{\"type\":\"error\",\"name\":\"NameError\",\"value\":\"x\",\"traceback\":\"tb\"}\n"
                    "{\"type\":\"end_of_execution\"}\n"));
        CHECK_INT(sg_run_code(box, "x", 1, NULL, NULL, &failed, &err), ==, 0);
        CHECK(failed->has_failed);
        CHECK_STR(failed->error_name, "NameError");
}

static void runs_of_code_that_go_wrong_are_errors(void)
{
        struct sg_error err = {0};

        SAY(ok_json("{\"type\":\"stdout\",\"text\":\"a\"}\n"));
        CHECK_INT(sg_run_code(box, "x", 1, NULL, NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_UNAVAILABLE);
        SAY(ok_json("nonsense\n"));
        CHECK_INT(sg_run_code(box, "x", 1, NULL, NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INTERNAL);
        SAY(with_status("404 Not Found", "", "Context c not found"));
        CHECK_INT(sg_run_code(box, "x", 1, &(struct sg_code_options){.context = "c"}, NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
        CHECK_STR(err.message, "Context c not found");
        SAY(with_status("502 Bad Gateway", "", "{}"), ok_json(BOX_JSON));
        CHECK_INT(sg_run_code(box, "x", 1, NULL, NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_UNAVAILABLE);
        CHECK(strstr(err.message, "no code interpreter"));
        SAY(ok_json("{\"type\":\"stdout\",\"text\":\"a\"}\n{\"type\":\"end_of_execution\"}\n"));
        CHECK_INT(sg_run_code(box, "x", 1, &(struct sg_code_options){.on_event = stop_at_stdout}, NULL, NULL, &err), ==,
                  -ECANCELED);
        SAY({.bytes = "HTTP/1.1 200 OK\r\n\r\n{\"type\":\"keepalive\"}\n", .holds = true});
        CHECK_INT(sg_run_code(box, "x", 1, NULL, &(struct sg_call){.timeout_ms = 30}, NULL, &err), ==, -ETIMEDOUT);
        while (atomic_load(&server.left) == 0) /* the request was closed, which interrupts the run */
                (void)sched_yield();
}

static void contexts_are_decoded(void)
{
        FREE_BLOCK struct sg_context *made = NULL;
        FREE_BLOCK struct sg_context_list *list = NULL;
        struct sg_error err = {0};

        SAY(ok_json("{\"id\":\"c1\",\"language\":\"python\",\"cwd\":\"/home/user\"}"));
        CHECK_INT(sg_context_create(box, "python", NULL, NULL, &made, &err), ==, 0);
        CHECK_STR(made->cwd, "/home/user");
        SAY(ok_json("[{\"id\":\"c1\",\"language\":\"python\",\"cwd\":\"/\"},{\"id\":\"c2\"}]"));
        CHECK_INT(sg_context_list(box, NULL, &list, &err), ==, 0);
        CHECK_INT(list->count, ==, 2);
        CHECK_STR(list->items[1].language, "");
        SAY(ok_json("null"));
        CHECK_INT(sg_context_restart(box, "c/1", NULL, &err), ==, 0);
        CHECK(strstr(seen_requests[0], "POST /contexts/c%2F1/restart HTTP"));
        SAY(ok_json("{}"));
        CHECK_INT(sg_context_create(box, NULL, NULL, NULL, &made, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INTERNAL);
}

int main(void)
{
        rig_start();
        RUN(a_command_comes_to_its_end);
        RUN(streams_that_make_no_sense_are_errors);
        RUN(a_message_past_the_maximum_ends_the_stream);
        RUN(a_stream_that_is_cut_is_taken_up_again);
        RUN(a_server_that_keeps_no_output_cannot_go_on);
        RUN(a_sandbox_that_went_away_is_named);
        RUN(lost_output_is_told);
        RUN(the_fd_tells_of_an_end_that_came_with_the_start);
        RUN(a_command_that_is_left_is_not_listened_to);
        RUN(bytes_that_are_missing_are_not_the_end_of_input);
        RUN(exit_codes_are_as_shells_say_them);
        RUN(watches_tell_events_until_they_end);
        RUN(a_lane_is_given_back_without_timers);
        RUN(code_runs_and_its_results_are_kept);
        RUN(runs_of_code_that_go_wrong_are_errors);
        RUN(contexts_are_decoded);
        return rig_end();
}
