/* The mode local, as programs use it: real processes below a temporary directory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandglass-modes.h"

#include "base/auto.h"
#include "sys/fs.h"
#include "sys/proc.h"
#include "tap.h"

struct told {
        char log[4096];
        struct sg_cancel *cancel; /* NULL: not cancelled at the first line */
        int answer;
        long pid; /* of the last line that is a number */
};

static int tell(const struct sg_message *m, void *arg)
{
        struct told *t = arg;
        size_t n = strlen(t->log);

        (void)snprintf(t->log + n, sizeof(t->log) - n, "%s%s%s|", m->is_stderr ? "!" : "", m->is_json ? "#" : "",
                       m->text);
        if (!m->is_json && strtol(m->text, NULL, 10) > 0)
                t->pid = strtol(m->text, NULL, 10);
        if (t->cancel)
                sg_cancel_now(t->cancel);
        return t->answer;
}

#define PROGRAM(script, told)                                                                                          \
        {                                                                                                              \
                .argv = (const char *[]){"sh", "-c", script, NULL}, .on_message = tell, .arg = told                    \
        }

static struct sg_runner *open_local(void)
{
        const struct sg_runner_options options = {.mode = SG_MODE_LOCAL};
        struct sg_runner *runner = NULL;
        struct sg_error err = {0};

        if (sg_runner_open(&options, NULL, &runner, &err) < 0)
                printf("# %s\n", err.message);
        return runner;
}

static void close_p(struct sg_runner **runner)
{
        (void)sg_runner_close(*runner, SG_CLOSE_KILL, NULL, NULL);
}
#define AUTO_RUNNER AUTO(close_p) struct sg_runner

/* The kernel ends a process some time after the signal. */
static bool is_over(long pid)
{
        AUTO_CLOSE int fd = sys_pidfd_open((pid_t)pid);

        return fd < 0 ? fd == -ESRCH : sys_pidfd_wait(fd, 10000) == 0;
}

static int open_fds(void)
{
        AUTO_DIR DIR *d = opendir("/proc/self/fd");
        int n = 0;

        while (readdir(d))
                n++;
        return n;
}

static void runs_in_the_workspace_which_it_makes(void)
{
        AUTO_RUNNER *r = open_local();
        struct told t = {.answer = 0};
        const struct sg_program program = PROGRAM("pwd -P; echo '{\"type\":\"a\"}' >&2; printf end", &t);
        struct sg_program_end end;
        char expected[PATH_MAX + 60], cwd[PATH_MAX];

        CHECK(r && getcwd(cwd, sizeof(cwd)));
        CHECK_INT(sg_runner_run(r, &program, NULL, &end, NULL), ==, 0);
        CHECK_INT(end.exit_code, ==, 0);
        CHECK_INT(end.messages, ==, 1);
        CHECK_INT(end.texts, ==, 2);
        (void)snprintf(expected, sizeof(expected), "%s/workspace|", cwd);
        CHECK(strncmp(t.log, expected, strlen(expected)) == 0 || strncmp(t.log, "!#", 2) == 0);
        CHECK(strstr(t.log, "!#{\"type\":\"a\"}|") && strstr(t.log, "end|"));
        CHECK(strstr(expected, sg_runner_workspace(r, NULL)));
        CHECK(!sg_runner_sandbox(r, NULL));
        CHECK_INT(sg_runner_mode(r), ==, SG_MODE_LOCAL);
}

static void tells_how_the_program_ended(void)
{
        AUTO_RUNNER *r = open_local();
        struct told t = {.answer = 0};
        const struct sg_program seven = PROGRAM("exit 7", &t), killed = PROGRAM("kill -9 $$", &t);
        struct sg_program_end end;

        CHECK_INT(sg_runner_run(r, &seven, NULL, &end, NULL), ==, 0);
        CHECK_INT(end.exit_code, ==, 7);
        CHECK_INT(end.signal, ==, 0);
        CHECK_INT(sg_runner_run(r, &killed, NULL, &end, NULL), ==, 0);
        CHECK_INT(end.exit_code, ==, 137);
        CHECK_INT(end.signal, ==, SIGKILL);
}

static void a_worker_is_this_machine_too(void)
{
        AUTO_RUNNER *r = open_local();
        struct told t = {.answer = 0};
        struct sg_program program = PROGRAM("echo here", &t);
        struct sg_error err;

        program.worker = "one";
        CHECK_INT(sg_runner_run(r, &program, NULL, NULL, NULL), ==, 0);
        CHECK_STR(t.log, "here|");
        program.worker = "no/name";
        CHECK(sg_runner_run(r, &program, NULL, NULL, &err) < 0);
        CHECK_INT(err.kind, ==, SG_INVALID);
}

static void programs_get_the_variables_that_are_named(void)
{
        static const char *const names[] = {"TEST_PASSED", "TEST_MISSING", NULL};
        const struct sg_pair mine[] = {{"TEST_MINE", "1"}, {"TEST_PASSED", "over"}, {NULL, NULL}};
        const struct sg_pair its[] = {{"TEST_MINE", "2"}, {NULL, NULL}};
        struct sg_runner_options options = {.mode = SG_MODE_LOCAL, .pass_env = names};
        struct told t = {.answer = 0};
        struct sg_program program = PROGRAM("echo \"${TEST_PASSED-no} ${TEST_MISSING-no} ${TEST_SECRET-no} "
                                            "${TEST_MINE-no} ${ANTHROPIC_API_KEY-no} ${HOME:+home}\"",
                                            &t);
        struct sg_runner *r;

        CHECK_INT(setenv("TEST_PASSED", "p", 1) | setenv("TEST_SECRET", "s", 1) | setenv("ANTHROPIC_API_KEY", "k", 1) |
                          setenv("HOME", "/", 1),
                  ==, 0);
        CHECK_INT(sg_runner_open(&options, NULL, &r, NULL), ==, 0);
        CHECK_INT(sg_runner_run(r, &program, NULL, NULL, NULL), ==, 0);
        CHECK_STR(t.log, "p no no no no home|");
        (void)sg_runner_close(r, SG_CLOSE_KILL, NULL, NULL);

        options = (struct sg_runner_options){.mode = SG_MODE_LOCAL, .env = mine};
        program.env = its;
        t.log[0] = 0;
        CHECK_INT(sg_runner_open(&options, NULL, &r, NULL), ==, 0);
        CHECK_INT(sg_runner_run(r, &program, NULL, NULL, NULL), ==, 0);
        CHECK_STR(t.log, "over no no 2 k home|");
        (void)sg_runner_close(r, SG_CLOSE_KILL, NULL, NULL);
}

static void programs_read_bytes_or_a_descriptor_or_nothing(void)
{
        AUTO_RUNNER *r = open_local();
        struct told t = {.answer = 0};
        struct sg_program program = PROGRAM("cat; echo .", &t);
        int fds[2];

        CHECK_INT(sg_runner_run(r, &program, NULL, NULL, NULL), ==, 0);
        program.input = "in\n";
        program.input_len = 3;
        CHECK_INT(sg_runner_run(r, &program, NULL, NULL, NULL), ==, 0);
        CHECK_INT(pipe2(fds, O_CLOEXEC), ==, 0);
        CHECK_INT(write(fds[1], "fd\n", 3), ==, 3);
        (void)close(fds[1]);
        program.input = NULL;
        program.input_len = 0;
        program.reads_fd = true;
        program.input_fd = fds[0];
        CHECK_INT(sg_runner_run(r, &program, NULL, NULL, NULL), ==, 0);
        (void)close(fds[0]);
        CHECK_STR(t.log, ".|in|.|fd|.|");
}

/* All ways out leave nothing of the group, and no descriptor. */
static void ends_with(struct sg_program *program, struct told *t, const struct sg_call *call, enum sg_error_kind kind)
{
        AUTO_RUNNER *r = open_local();
        struct sg_error err = {0};
        int fds = open_fds();

        CHECK(sg_runner_run(r, program, call, NULL, &err) < 0);
        CHECK_STR(sg_error_name(err.kind), sg_error_name(kind));
        CHECK(t->pid > 0);
        CHECK(is_over(t->pid));
        CHECK_INT(open_fds(), ==, fds);
}

static void a_program_that_takes_too_long_is_ended_with_its_group(void)
{
        struct told t = {.answer = 0};
        struct sg_program program = PROGRAM("sleep 1000 & echo $!; wait", &t);
        const struct sg_call call = {.timeout_ms = 5000};

        ends_with(&program, &t, &call, SG_TIMEOUT);
}

static void a_cancelled_program_is_ended_with_its_group(void)
{
        struct told t = {.answer = 0};
        struct sg_program program = PROGRAM("sleep 1000 & echo $!; wait", &t);
        struct sg_call call = {0};

        CHECK_INT(sg_cancel_create(&t.cancel, NULL), ==, 0);
        call.cancel = t.cancel;
        ends_with(&program, &t, &call, SG_CANCELLED);
        sg_cancel_free(t.cancel);
}

static void a_callback_ends_the_program(void)
{
        struct told t = {.answer = -1};
        struct sg_program program = PROGRAM("sleep 1000 & echo $!; wait", &t);

        ends_with(&program, &t, NULL, SG_CANCELLED);
}

static void a_program_that_ignores_signals_is_ended(void)
{
        struct told t = {.answer = -1};
        struct sg_program program = PROGRAM("trap '' TERM INT HUP; echo $$; while :; do sleep 1000; done", &t);

        ends_with(&program, &t, NULL, SG_CANCELLED);
}

static void a_program_that_prints_too_much_is_ended(void)
{
        struct told t = {.answer = 0};
        struct sg_program program = PROGRAM("echo $$; exec cat /dev/zero", &t);

        program.output_max = 1 << 20;
        program.line_max = 100;
        ends_with(&program, &t, NULL, SG_TOO_LARGE);
}

static void what_a_program_leaves_behind_is_ended_with_it(void)
{
        AUTO_RUNNER *r = open_local();
        struct told t = {.answer = 0};
        const struct sg_program program = PROGRAM("sleep 1000 & echo $!", &t);
        struct sg_program_end end;

        CHECK_INT(sg_runner_run(r, &program, NULL, &end, NULL), ==, 0);
        CHECK_INT(end.exit_code, ==, 0);
        CHECK(t.pid > 0 && is_over(t.pid));
}

static void who_left_the_group_and_holds_the_output_holds_nobody_up(void)
{
        AUTO_RUNNER *r = open_local();
        struct told t = {.answer = 0};
        const struct sg_program program = PROGRAM("setsid sh -c 'echo $$; exec sleep 1000' & read x", &t);
        struct sg_program reads = program;

        CHECK_INT(sg_runner_run(r, &reads, NULL, NULL, NULL), ==, 0);
        if (t.pid > 0)
                (void)kill((pid_t)t.pid, SIGKILL);
}

static void what_cannot_be_run_is_an_error(void)
{
        AUTO_RUNNER *r = open_local();
        struct sg_program program = {.argv = (const char *[]){"no-such-program-here", NULL}};
        struct sg_error err;

        CHECK_INT(sg_runner_run(r, &program, NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
        program.argv = (const char *[]){"/", NULL};
        CHECK_INT(sg_runner_run(r, &program, NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_DENIED);
        program.argv = (const char *[]){NULL};
        CHECK_INT(sg_runner_run(r, &program, NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INVALID);
        program = (struct sg_program){.argv = (const char *[]){"true", NULL}, .cwd = "nowhere"};
        CHECK_INT(sg_runner_run(r, &program, NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
        program.cwd = "../workspace";
        CHECK_INT(sg_runner_run(r, &program, NULL, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INVALID);
}

static void files_are_written_and_read(void)
{
        AUTO_RUNNER *r = open_local();
        struct told t = {.answer = 0};
        struct sg_program program = PROGRAM("cat c.txt", &t);
        struct sg_error err = {0};
        char *text = NULL;
        size_t len = 0;

        CHECK_INT(sg_runner_write(r, NULL, "a/b/c.txt", "one\n", 4, NULL, NULL), ==, 0);
        CHECK_INT(sg_runner_write(r, NULL, "a/b/c.txt", "two\n", 4, NULL, NULL), ==, 0);
        CHECK_INT(sg_runner_read(r, NULL, "a/b/c.txt", 4, NULL, &text, &len, NULL), ==, 0);
        CHECK_STR(text, "two\n");
        CHECK_INT(len, ==, 4);
        sg_free(text);
        program.cwd = "a/b";
        CHECK_INT(sg_runner_run(r, &program, NULL, NULL, NULL), ==, 0);
        CHECK_STR(t.log, "two|");
        CHECK_INT(sg_runner_read(r, NULL, "a/b/c.txt", 3, NULL, &text, &len, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_TOO_LARGE);
        CHECK_INT(sg_runner_read(r, NULL, "a/none", 0, NULL, &text, &len, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_NOT_FOUND);
        CHECK_INT(sg_runner_read(r, NULL, "a/b", 0, NULL, &text, &len, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INVALID);
        CHECK_INT(sg_runner_write(r, NULL, "a/b/c.txt", NULL, 10, NULL, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INVALID);
        CHECK_INT(sg_runner_write(r, NULL, "a/empty", NULL, 0, NULL, &err), ==, 0);
}

static void paths_stay_in_the_workspace(void)
{
        static const char *const wrong[] = {"",     "/etc/passwd", "..", "../x",       "a/../../x",
                                            "a//b", "./a",         "a/", "link/passwd"};
        AUTO_RUNNER *r = open_local();
        struct sg_error err;
        char *text;

        CHECK(symlink("/etc", "workspace/link") == 0 || errno == EEXIST);
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                CHECK_INT(sg_runner_read(r, NULL, wrong[i], 0, NULL, &text, NULL, &err), <, 0);
                CHECK_INT(err.kind, ==, SG_INVALID);
                CHECK_INT(sg_runner_write(r, NULL, wrong[i], "", 0, NULL, &err), <, 0);
                CHECK_INT(err.kind, ==, SG_INVALID);
        }
}

static void pausing_has_nothing_to_do_here(void)
{
        AUTO_RUNNER *r = open_local();

        CHECK_INT(sg_runner_pause(r, NULL, NULL), ==, 0);
        CHECK_INT(sg_runner_resume(r, NULL, NULL), ==, 0);
}

static void options_are_checked(void)
{
        struct sg_runner_options options = {.mode = SG_MODE_LOCAL, .sandbox_id = "iabc"};
        struct sg_runner *r;
        struct sg_error err;

        CHECK_INT(sg_runner_open(&options, NULL, &r, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INVALID);
        options = (struct sg_runner_options){.mode = SG_MODE_LOCAL, .reserved = {1}};
        CHECK_INT(sg_runner_open(&options, NULL, &r, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INVALID);
        options = (struct sg_runner_options){.mode = (enum sg_mode)9};
        CHECK_INT(sg_runner_open(&options, NULL, &r, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INVALID);
        options = (struct sg_runner_options){.mode = SG_MODE_LOCAL, .workspace = "/proc/none/workspace"};
        CHECK_INT(sg_runner_open(&options, NULL, &r, &err), <, 0);
        CHECK(err.message[0]);
        options = (struct sg_runner_options){.mode = SG_MODE_HYBRID, .sandbox_workspace = "relative"};
        CHECK_INT(sg_runner_open(&options, NULL, &r, &err), <, 0);
        CHECK_INT(err.kind, ==, SG_INVALID);
}

static void the_environment_chooses_the_mode(void)
{
        static const struct {
                const char *name;
                enum sg_mode mode;
        } cases[] = {{"local", SG_MODE_LOCAL}, {"LOCAL", SG_MODE_LOCAL},   {"", SG_MODE_LOCAL},
                     {"cloud", SG_MODE_LOCAL}, {"hybrid", SG_MODE_HYBRID}, {"Hybrid", SG_MODE_HYBRID},
                     {"e2b", SG_MODE_E2B},     {"E2B", SG_MODE_E2B}};
        enum sg_mode mode;
        struct sg_runner *r;
        struct sg_error err;

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                CHECK_INT(sg_mode_from_name(cases[i].name), ==, cases[i].mode);
                if (cases[i].mode == SG_MODE_E2B)
                        continue; /* needs a server */
                CHECK_INT(setenv("SANDBOX_MODE", cases[i].name, 1), ==, 0);
                CHECK_INT(sg_runner_open(NULL, NULL, &r, NULL), ==, 0);
                CHECK_INT(sg_runner_mode(r), ==, cases[i].mode);
                CHECK_INT(sg_runner_close(r, SG_CLOSE_KILL, NULL, NULL), ==, 0);
        }
        CHECK_INT(unsetenv("SANDBOX_MODE"), ==, 0);
        CHECK_INT(sg_runner_open(NULL, NULL, &r, NULL), ==, 0);
        CHECK_INT(sg_runner_mode(r), ==, SG_MODE_LOCAL);
        CHECK_INT(sg_runner_close(r, SG_CLOSE_KILL, NULL, NULL), ==, 0);
        CHECK_INT(sg_mode_from_name(NULL), ==, SG_MODE_LOCAL);
        CHECK_INT(sg_mode_parse("E2b", &mode, NULL), ==, 0);
        CHECK_INT(mode, ==, SG_MODE_E2B);
        CHECK_INT(sg_mode_parse("cloud", &mode, &err), <, 0);
        CHECK_STR(err.message, "mode 'cloud': must be local, e2b or hybrid");
        CHECK_STR(sg_mode_name(SG_MODE_HYBRID), "hybrid");
}

#define THREADS 4
#define RUNS 10

static void *run_some(void *arg)
{
        for (long i = 0; i < RUNS; i++) {
                struct told t = {.answer = 0};
                const struct sg_program program = PROGRAM("echo one; echo two", &t);
                struct sg_program_end end;

                if (sg_runner_run(arg, &program, NULL, &end, NULL) < 0 || strcmp(t.log, "one|two|") != 0)
                        return arg;
        }
        return NULL;
}

static void threads_share_a_runner(void)
{
        AUTO_RUNNER *r = open_local();
        pthread_t threads[THREADS];
        void *failed = NULL;
        int fds = open_fds();

        for (int i = 0; i < THREADS; i++)
                CHECK_INT(pthread_create(&threads[i], NULL, run_some, r), ==, 0);
        for (int i = 0; i < THREADS; i++) {
                void *its;

                CHECK_INT(pthread_join(threads[i], &its), ==, 0);
                failed = its ? its : failed;
        }
        CHECK(!failed);
        CHECK_INT(open_fds(), ==, fds);
}

int main(void)
{
        char dir[] = "/tmp/sandglass-modes-XXXXXX";
        AUTO_CLOSE int above = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (!mkdtemp(dir) || chdir(dir) < 0)
                return 1;
        (void)unsetenv("SANDBOX_MODE");
        RUN(runs_in_the_workspace_which_it_makes);
        RUN(tells_how_the_program_ended);
        RUN(a_worker_is_this_machine_too);
        RUN(programs_get_the_variables_that_are_named);
        RUN(programs_read_bytes_or_a_descriptor_or_nothing);
        RUN(a_program_that_takes_too_long_is_ended_with_its_group);
        RUN(a_cancelled_program_is_ended_with_its_group);
        RUN(a_callback_ends_the_program);
        RUN(a_program_that_ignores_signals_is_ended);
        RUN(a_program_that_prints_too_much_is_ended);
        RUN(what_a_program_leaves_behind_is_ended_with_it);
        RUN(who_left_the_group_and_holds_the_output_holds_nobody_up);
        RUN(what_cannot_be_run_is_an_error);
        RUN(files_are_written_and_read);
        RUN(paths_stay_in_the_workspace);
        RUN(pausing_has_nothing_to_do_here);
        RUN(options_are_checked);
        RUN(the_environment_chooses_the_mode);
        RUN(threads_share_a_runner);
        if (chdir("/") < 0 || sys_remove_tree(above, strrchr(dir, '/') + 1) < 0)
                return 1;
        return tap_done();
}
