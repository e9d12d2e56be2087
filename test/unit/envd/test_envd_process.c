/* Events and environments of processes. */
#include <signal.h>
#include <sys/wait.h>

#include "envd/process/process_event.h"
#include "envd/process/process_start.h"
#include "tap.h"
#include "wire/connect.h"

static void data_is_one_envelope_of_base64(void)
{
        struct str e = process_event_data(OUTPUT_STDERR, "hi\n", 3);

        CHECK_INT(e.p[0], ==, 0);
        CHECK_INT((uint8_t)e.p[4], ==, e.n - CONNECT_ENVELOPE_HEAD);
        CHECK(str_is((struct str){e.p + 5, e.n - 5}, "{\"event\":{\"data\":{\"stderr\":\"aGkK\"}}}"));
        e = process_event_data(OUTPUT_PTY, "", 0);
        CHECK(str_is((struct str){e.p + 5, e.n - 5}, "{\"event\":{\"data\":{\"pty\":\"\"}}}"));
}

static void the_largest_read_fits_an_event(void)
{
        struct str e;
        json_t *o;

        memset(process_event_read_buffer(), 0xff, OUTPUT_READ_MAX);
        e = process_event_data(OUTPUT_STDOUT, process_event_read_buffer(), OUTPUT_READ_MAX);
        o = json_loadb(e.p + 5, e.n - 5, 0, NULL);
        CHECK(o);
        json_decref(o);
}

static void check_status(int code, int status, const char *want)
{
        char out[PROCESS_EVENT_STATUS_MAX];

        process_event_status_text(code, status, out);
        CHECK_STR(out, want);
}

static void statuses_have_the_words_of_the_contract(void)
{
        check_status(CLD_EXITED, 0, "exit status 0");
        check_status(CLD_EXITED, 255, "exit status 255");
        check_status(CLD_KILLED, SIGKILL, "signal: killed");
        check_status(CLD_DUMPED, SIGSEGV, "signal: segmentation fault (core dumped)");
        check_status(CLD_KILLED, SIGSTKFLT, "signal: signal 16");
        check_status(CLD_KILLED, 64, "signal: signal 64");
}

static void check_end(int code, int status, const char *want)
{
        json_t *o = process_event_end(code, status);
        char *text = json_dumps(o, JSON_COMPACT);

        CHECK_STR(text, want);
        free(text);
        json_decref(o);
}

static void ends_leave_defaults_out(void)
{
        check_end(CLD_EXITED, 0, "{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}");
        check_end(CLD_EXITED, 3,
                  "{\"event\":{\"end\":{\"exitCode\":3,\"exited\":true,\"status\":\"exit status 3\",\"error\":\"exit "
                  "status 3\"}}}");
        check_end(CLD_KILLED, SIGKILL,
                  "{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"signal: killed\",\"error\":\"signal: killed\"}}}");
}

static const char *find(char **env, const char *name)
{
        size_t n = strlen(name);

        for (; *env; env++)
                if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
                        return *env + n + 1;
        return NULL;
}

static void later_variables_win(void)
{
        struct user u = {.name = (char *)"user", .home = (char *)"/home/user"};
        struct settings s;
        json_t *rq = json_pack("{s:s, s:s}", "B", "request", "USER", "other");
        json_t *init = json_pack("{s:{s:s, s:s, s:s}}", "envVars", "A", "init", "B", "init", "E2B_SANDBOX", "no");
        AUTO_FAULT struct fault f = {0};
        AUTO_FREE char **env = NULL;
        size_t n = 0;

        CHECK_INT(settings_init(&s), ==, 0);
        CHECK_INT(settings_apply(&s, init, &f), ==, 0);
        env = environment_build(&s, &u, rq);
        CHECK(env);
        while (env[n])
                n++;
        CHECK_INT(n, ==, 7);
        CHECK_STR(find(env, "A"), "init");
        CHECK_STR(find(env, "B"), "request");
        CHECK_STR(find(env, "HOME"), "/home/user");
        CHECK_STR(find(env, "USER"), "other");
        CHECK_STR(find(env, "LOGNAME"), "user");
        CHECK_STR(find(env, "E2B_SANDBOX"), "true");
        CHECK(strstr(find(env, "PATH"), "/usr/bin"));
        settings_done(&s);
        json_decref(rq);
        json_decref(init);
}

static void a_start_request_is_checked_field_by_field(void)
{
        json_t *in =
                json_pack("{s:{s:s, s:[s,s], s:{s:s}}, s:b, s:{s:{s:i, s:s}}}", "process", "cmd", "/bin/sh", "args",
                          "-c", "x", "envs", "A", "b", "stdin", 0, "pty", "size", "cols", 80, "rows", "24");
        AUTO_FAULT struct fault f = {0};
        struct start_request rq;
        json_t *bad = json_pack("{s:{s:[i]}}", "process", "args", 1), *none = json_object();

        CHECK_INT(start_request_decode(in, &rq, &f), ==, 0);
        CHECK_STR(rq.cmd, "/bin/sh");
        CHECK(rq.is_pty && !rq.has_stdin && !rq.cwd && !rq.tag);
        CHECK_INT(rq.cols, ==, 80);
        CHECK_INT(rq.rows, ==, 24);
        CHECK_INT(start_request_decode(bad, &rq, &f), ==, -1);
        CHECK_STR(f.text, "unmarshal message: field args: an array of strings expected");
        CHECK_INT(start_request_decode(none, &rq, &f), ==, 0);
        CHECK_STR(rq.cmd, "");
        CHECK(rq.has_stdin && !rq.is_pty); /* stdin is open unless refused */
        json_decref(in);
        json_decref(bad);
        json_decref(none);
}

int main(void)
{
        RUN(data_is_one_envelope_of_base64);
        RUN(the_largest_read_fits_an_event);
        RUN(statuses_have_the_words_of_the_contract);
        RUN(ends_leave_defaults_out);
        RUN(later_variables_win);
        RUN(a_start_request_is_checked_field_by_field);
        return tap_done();
}
