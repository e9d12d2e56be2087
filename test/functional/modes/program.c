/* The modes e2b and hybrid, as programs of others use them: with the shared library, against the server that the environment
 * names (E2B_API_URL and others).  TAP. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sandglass-modes.h>

#include "tap.h"

struct told {
        char log[2000];
        struct sg_cancel *cancel;
        int answer;
};

static int tell(const struct sg_message *m, void *arg)
{
        struct told *t = arg;
        size_t n = strlen(t->log);

        (void)snprintf(t->log + n, sizeof(t->log) - n, "%s%s%s|", m->is_stderr ? "!" : "", m->is_json ? "#" : "",
                       m->text);
        if (t->cancel)
                sg_cancel_now(t->cancel);
        return t->answer;
}

#define SHELL(script, told)                                                                                            \
        {                                                                                                              \
                .argv = (const char *[]){"sh", "-c", script, NULL}, .on_message = tell, .arg = told                    \
        }

static void explain(const struct sg_error *err)
{
        printf("# %s: %s\n", sg_error_name(err->kind), err->message);
}

static struct sg_runner *open_mode(enum sg_mode mode, const char *sandbox_id)
{
        const struct sg_runner_options options = {
                .mode = mode, .sandbox_id = sandbox_id, .timeout_s = 300, .workers_max = 3};
        struct sg_runner *runner = NULL;
        struct sg_error err;

        if (sg_runner_open(&options, NULL, &runner, &err) < 0)
                explain(&err);
        return runner;
}

/* How many sandboxes of this template run. */
static long count_sandboxes(void)
{
        struct sg_client *client;
        struct sg_info_list *list;
        long n = -1;

        if (sg_client_open_from_env(NULL, &client, NULL) < 0)
                return -1;
        if (sg_sandbox_list(client, NULL, NULL, &list, NULL) == 0) {
                n = (long)list->count;
                sg_free(list);
        }
        sg_client_free(client);
        return n;
}

static void a_program_runs_in_the_sandbox(void)
{
        struct sg_runner *r = open_mode(SG_MODE_E2B, NULL);
        struct told t = {.answer = 0};
        struct sg_program program =
                SHELL("pwd; echo '{\"type\":\"a\"}'; echo problem >&2; cat; printf end; exit 3", &t);
        struct sg_program_end end = {0};
        struct sg_error err = {0};

        CHECK(r);
        program.input = "in\n";
        program.input_len = 3;
        if (sg_runner_run(r, &program, NULL, &end, &err) < 0)
                explain(&err);
        CHECK_INT(end.exit_code, ==, 3);
        CHECK_INT(end.messages, ==, 1);
        CHECK(strstr(t.log, "/home/user/workspace|#{\"type\":\"a\"}|"));
        CHECK(strstr(t.log, "!problem|"));
        CHECK(strstr(t.log, "|in|") && strstr(t.log, "end|"));
        CHECK_STR(sg_runner_workspace(r, NULL), "/home/user/workspace");
        CHECK(sg_runner_sandbox(r, NULL) && sg_runner_sandbox(r, "any") == sg_runner_sandbox(r, NULL));
        CHECK_INT(sg_runner_close(r, SG_CLOSE_KILL, NULL, NULL), ==, 0);
        CHECK_INT(count_sandboxes(), ==, 0);
}

static void variables_go_by_name(void)
{
        struct sg_runner *r = open_mode(SG_MODE_E2B, NULL);
        struct told t = {.answer = 0};
        const struct sg_program program =
                SHELL("echo \"${ANTHROPIC_API_KEY-no} ${TEST_SECRET-no} ${E2B_API_KEY-no}\"", &t);

        CHECK(r);
        CHECK_INT(sg_runner_run(r, &program, NULL, NULL, NULL), ==, 0);
        CHECK_STR(t.log, "the-key no no|");
        CHECK_INT(sg_runner_close(r, SG_CLOSE_KILL, NULL, NULL), ==, 0);
}

static void files_are_written_and_read(void)
{
        struct sg_runner *r = open_mode(SG_MODE_E2B, NULL);
        struct told t = {.answer = 0};
        struct sg_program program = SHELL("cat b.txt", &t);
        struct sg_error err;
        char *text;
        size_t len;

        CHECK(r);
        CHECK_INT(sg_runner_write(r, NULL, "a/b.txt", "hello\n", 6, NULL, NULL), ==, 0);
        program.cwd = "a";
        CHECK_INT(sg_runner_run(r, &program, NULL, NULL, NULL), ==, 0);
        CHECK_STR(t.log, "hello|");
        CHECK_INT(sg_runner_read(r, NULL, "a/b.txt", 0, NULL, &text, &len, NULL), ==, 0);
        CHECK_STR(text, "hello\n");
        sg_free(text);
        CHECK_INT(sg_runner_read(r, NULL, "a/b.txt", 2, NULL, &text, &len, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_TOO_LARGE);
        CHECK_INT(sg_runner_read(r, NULL, "none", 0, NULL, &text, &len, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
        CHECK_INT(sg_runner_read(r, NULL, "../.bashrc", 0, NULL, &text, &len, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INVALID);
        CHECK_INT(sg_runner_close(r, SG_CLOSE_KILL, NULL, NULL), ==, 0);
}

/* After a time limit, cancelling, a callback or too much output, nothing of the program is left in the sandbox. */
static void all_of_a_program_is_ended(void)
{
        static const enum sg_error_kind kinds[] = {SG_TIMEOUT, SG_CANCELLED, SG_CANCELLED, SG_TOO_LARGE};
        struct sg_runner *r = open_mode(SG_MODE_E2B, NULL);

        CHECK(r);
        for (int way = 0; way < 4; way++) {
                static const char *const floods[] = {"sh", "-c", "sleep 4321 & cat /dev/zero", NULL};
                struct told t = {.answer = way == 2 ? -1 : 0}, left = {.answer = 0};
                struct sg_program program = SHELL("sleep 4321 & echo begun; wait", &t);
                const struct sg_program look = SHELL("pgrep -fx 'sleep 4321' || echo none", &left);
                struct sg_call call = {.timeout_ms = way == 0 ? 2000 : 0};
                struct sg_error err = {0};

                if (way == 1)
                        CHECK_INT(sg_cancel_create(&t.cancel, NULL), ==, 0);
                if (way == 3) {
                        program.argv = floods;
                        program.output_max = 1 << 20;
                        program.line_max = 100;
                }
                call.cancel = t.cancel;
                CHECK_INT(sg_runner_run(r, &program, &call, NULL, &err), <, 0);
                if (err.kind != kinds[way])
                        explain(&err);
                CHECK_STR(sg_error_name(err.kind), sg_error_name(kinds[way]));
                sg_cancel_free(t.cancel);
                CHECK_INT(sg_runner_run(r, &look, NULL, NULL, NULL), ==, 0);
                CHECK_STR(left.log, "none|");
        }
        CHECK_INT(sg_runner_close(r, SG_CLOSE_KILL, NULL, NULL), ==, 0);
}

static void a_program_that_is_not_there_is_told(void)
{
        struct sg_runner *r = open_mode(SG_MODE_E2B, NULL);
        const struct sg_program program = {.argv = (const char *[]){"no-such-program", NULL}};
        struct sg_program_end end = {0};

        CHECK(r);
        CHECK_INT(sg_runner_run(r, &program, NULL, &end, NULL), ==, 0);
        CHECK_INT(end.exit_code, ==, 127);
        CHECK_INT(sg_runner_close(r, SG_CLOSE_KILL, NULL, NULL), ==, 0);
}

static void a_paused_runner_goes_on_where_it_was(void)
{
        struct sg_runner *r = open_mode(SG_MODE_E2B, NULL);
        struct told t = {.answer = 0};
        const struct sg_program begin = SHELL("echo kept > file; setsid sleep 4322 >/dev/null 2>&1 &", &t),
                                look = SHELL("cat file; pgrep -fxc 'sleep 4322'", &t);
        struct sg_error err = {0};
        char id[80];

        CHECK(r);
        CHECK_INT(sg_runner_run(r, &begin, NULL, NULL, NULL), ==, 0);
        CHECK_INT(sg_runner_pause(r, NULL, NULL), ==, 0);
        CHECK_INT(sg_runner_pause(r, NULL, NULL), ==, 0);
        CHECK_INT(sg_runner_run(r, &look, NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_CONFLICT);
        if (sg_runner_resume(r, NULL, &err) < 0)
                explain(&err);
        CHECK_INT(sg_runner_run(r, &look, NULL, NULL, NULL), ==, 0);
        CHECK_STR(t.log, "kept|1|");
        (void)snprintf(id, sizeof(id), "%s", sg_sandbox_id(sg_runner_sandbox(r, NULL)));
        CHECK_INT(sg_runner_close(r, SG_CLOSE_PAUSE, NULL, NULL), ==, 0);

        r = open_mode(SG_MODE_E2B, id);
        CHECK(r);
        t.log[0] = 0;
        CHECK_INT(sg_runner_run(r, &look, NULL, NULL, NULL), ==, 0);
        CHECK_STR(t.log, "kept|1|");
        CHECK_INT(sg_runner_close(r, SG_CLOSE_KEEP, NULL, NULL), ==, 0);
        r = open_mode(SG_MODE_E2B, id);
        CHECK(r);
        CHECK_INT(sg_runner_close(r, SG_CLOSE_KILL, NULL, NULL), ==, 0);
        CHECK_INT(count_sandboxes(), ==, 0);
}

static void workers_have_sandboxes_of_their_own_and_none_of_them_stays(void)
{
        struct sg_runner *r = open_mode(SG_MODE_HYBRID, NULL);
        struct told t = {.answer = 0};
        struct sg_program where = SHELL("cat name 2>/dev/null; pwd -P", &t);
        struct sg_error err = {0};
        char here[4096];

        CHECK(r && getcwd(here, sizeof(here)));
        CHECK_INT(count_sandboxes(), ==, 0);
        CHECK(!sg_runner_sandbox(r, "one"));
        CHECK_INT(sg_runner_run(r, &where, NULL, NULL, NULL), ==, 0);
        CHECK(strncmp(t.log, here, strlen(here)) == 0);
        CHECK_INT(sg_runner_write(r, "one", "name", "1-", 2, NULL, NULL), ==, 0);
        CHECK_INT(sg_runner_write(r, "two", "name", "2-", 2, NULL, NULL), ==, 0);
        t.log[0] = 0;
        where.worker = "one";
        CHECK_INT(sg_runner_run(r, &where, NULL, NULL, NULL), ==, 0);
        where.worker = "two";
        CHECK_INT(sg_runner_run(r, &where, NULL, NULL, NULL), ==, 0);
        CHECK_STR(t.log, "1-/home/user/workspace|2-/home/user/workspace|");
        CHECK(sg_runner_sandbox(r, "one") != sg_runner_sandbox(r, "two"));
        CHECK_INT(count_sandboxes(), ==, 2);
        CHECK_INT(sg_runner_pause(r, NULL, NULL), ==, 0);
        CHECK_INT(sg_runner_resume(r, NULL, NULL), ==, 0);
        CHECK_INT(sg_runner_run(r, &where, NULL, NULL, NULL), ==, 0);
        CHECK_INT(sg_runner_write(r, "three", "x", "", 0, NULL, NULL), ==, 0);
        CHECK_INT(sg_runner_write(r, "four", "x", "", 0, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_LIMIT);
        CHECK_INT(sg_runner_close(r, SG_CLOSE_KILL, NULL, NULL), ==, 0);
        CHECK_INT(count_sandboxes(), ==, 0);
}

#define THREADS 4

static void *run_as_one(void *arg)
{
        const struct sg_program program = {.argv = (const char *[]){"true", NULL}, .worker = "shared"};
        struct sg_error err;

        if (sg_runner_run(arg, &program, NULL, NULL, &err) == 0)
                return NULL;
        explain(&err);
        return arg;
}

static void threads_that_need_the_same_worker_get_the_same(void)
{
        struct sg_runner *r = open_mode(SG_MODE_HYBRID, NULL);
        pthread_t threads[THREADS];
        bool failed = false;

        CHECK(r);
        for (int i = 0; i < THREADS; i++)
                CHECK_INT(pthread_create(&threads[i], NULL, run_as_one, r), ==, 0);
        for (int i = 0; i < THREADS; i++) {
                void *its;

                CHECK_INT(pthread_join(threads[i], &its), ==, 0);
                failed = failed || its;
        }
        CHECK(!failed);
        CHECK_INT(count_sandboxes(), ==, 1);
        CHECK_INT(sg_runner_close(r, SG_CLOSE_KILL, NULL, NULL), ==, 0);
        CHECK_INT(count_sandboxes(), ==, 0);
}

static void a_template_that_is_not_there_is_told(void)
{
        const struct sg_runner_options options = {.mode = SG_MODE_E2B, .template_name = "no-such-template"};
        struct sg_runner *r;
        struct sg_error err;

        CHECK_INT(sg_runner_open(&options, NULL, &r, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
        CHECK(strstr(err.message, "no-such-template"));
}

int main(void)
{
        RUN(a_program_runs_in_the_sandbox);
        RUN(variables_go_by_name);
        RUN(files_are_written_and_read);
        RUN(all_of_a_program_is_ended);
        RUN(a_program_that_is_not_there_is_told);
        RUN(a_paused_runner_goes_on_where_it_was);
        RUN(workers_have_sandboxes_of_their_own_and_none_of_them_stays);
        RUN(threads_that_need_the_same_worker_get_the_same);
        RUN(a_template_that_is_not_there_is_told);
        return tap_done();
}
