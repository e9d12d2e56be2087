/* Programs that are started again when they end.  The files of the programs are in a directory of the test. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "envd/process/process.h"
#include "envd/process/restart.h"
#include "envd/rpc/settings.h"
#include "tap.h"

#define TURN_MS 20
#define TURNS_MAX 500

struct rig {
        char dir[32], log[64]; /* log: a line for each start */
        struct loop *loop;
        struct settings settings;
        struct process_table table;
        struct restarts restarts;
        struct timer turn;
        unsigned turns, lines, wanted;
};

static void rig_on_signal(int signo, void *arg)
{
        struct rig *rig = arg;

        (void)signo;
        process_reap(&rig->table);
}

static unsigned lines_of(const char *path)
{
        FILE *f = fopen(path, "re");
        unsigned n = 0;
        int c;

        while (f && (c = fgetc(f)) != EOF)
                n += c == '\n';
        if (f)
                (void)fclose(f);
        return n;
}

static void rig_look(struct timer *t)
{
        struct rig *rig = CONTAINER_OF(t, struct rig, turn);

        rig->lines = lines_of(rig->log);
        if (rig->lines >= rig->wanted || ++rig->turns == TURNS_MAX)
                loop_stop(rig->loop);
        else
                timer_set(rig->loop, &rig->turn, TURN_MS);
}

static bool rig_init(struct rig *rig)
{
        static const int signals[] = {SIGCHLD, 0};

        *rig = (struct rig){.dir = "/tmp/test_restart-XXXXXX", .turn.on = rig_look};
        if (!mkdtemp(rig->dir) || loop_create(&rig->loop) < 0 || settings_init(&rig->settings) < 0 ||
            loop_signals(rig->loop, signals, rig_on_signal, rig) < 0)
                return false;
        (void)snprintf(rig->log, sizeof(rig->log), "%s/log", rig->dir);
        process_table_init(&rig->table, rig->loop);
        restarts_init(&rig->restarts, &rig->table, &rig->settings);
        rig->table.restarts = &rig->restarts;
        rig->restarts.dir = rig->dir;
        rig->restarts.pause_ms = 10;
        return true;
}

static void rig_done(struct rig *rig)
{
        timer_clear(&rig->turn);
        restarts_forget_files(&rig->restarts);
        restarts_done(&rig->restarts);
        process_table_done(&rig->table);
        settings_done(&rig->settings);
        rig->loop = loop_free(rig->loop);
        (void)rmdir(rig->dir);
}

/* Until the log has so many lines, or for a while. */
static void rig_wait(struct rig *rig, unsigned lines, unsigned turns)
{
        rig->wanted = lines;
        rig->turns = TURNS_MAX - turns;
        timer_set(rig->loop, &rig->turn, TURN_MS);
        (void)loop_run(rig->loop);
}

static void ask(struct rig *rig, const char *name, const char *text)
{
        char path[64];
        FILE *f;

        (void)snprintf(path, sizeof(path), "%s/%s", rig->dir, name);
        f = fopen(path, "we");
        if (f) {
                (void)fputs(text, f);
                (void)fclose(f);
        }
}

static void ask_for(struct rig *rig, pid_t pid, const char *text)
{
        char name[16];

        (void)snprintf(name, sizeof(name), "%d", (int)pid);
        ask(rig, name, text);
}

/* A child that asks for `script` to be run when it ends; then it ends with this status, or by a signal. */
static void live(struct rig *rig, const char *script, int status, int signo)
{
        char text[512];
        int go[2];
        pid_t pid;

        if (pipe(go) < 0)
                return;
        pid = fork();
        if (pid == 0) {
                (void)close(go[1]);
                (void)!read(go[0], text, 1); /* until the file is there */
                if (signo)
                        (void)kill(getpid(), signo);
                _exit(status);
        }
        (void)snprintf(text, sizeof(text),
                       "{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"echo $NAME >>%s; "
                       "%s\"],\"envs\":{\"NAME\":\"x\"},\"cwd\":\"/\"}",
                       rig->log, script);
        ask_for(rig, pid, text);
        (void)close(go[0]);
        (void)close(go[1]);
}

static void a_program_that_is_killed_is_started_again(void)
{
        struct rig rig;

        CHECK(rig_init(&rig));
        live(&rig, "exit 0", 0, SIGKILL);
        rig_wait(&rig, 1, 500);
        CHECK_INT(rig.lines, ==, 1);
        rig_wait(&rig, 2, 5); /* it ended with 0 */
        CHECK_INT(rig.lines, ==, 1);
        CHECK(list_is_empty(&rig.restarts.all));
        rig_done(&rig);
}

static void one_that_exits_with_0_is_not(void)
{
        struct rig rig;

        CHECK(rig_init(&rig));
        live(&rig, "exit 0", 0, 0);
        rig_wait(&rig, 1, 10);
        CHECK_INT(rig.lines, ==, 0);
        CHECK(list_is_empty(&rig.restarts.all));
        rig_done(&rig);
}

static void one_that_always_fails_is_given_up(void)
{
        struct rig rig;

        CHECK(rig_init(&rig));
        live(&rig, "exit 3", 1, 0);
        rig_wait(&rig, RESTARTS_MAX, 500);
        CHECK_INT(rig.lines, ==, RESTARTS_MAX);
        rig_wait(&rig, RESTARTS_MAX + 1, 10);
        CHECK_INT(rig.lines, ==, RESTARTS_MAX);
        CHECK(list_is_empty(&rig.restarts.all));
        rig_done(&rig);
}

static void one_that_asks_again_is_not_given_up(void)
{
        struct rig rig;
        char script[200], text[512];

        CHECK(rig_init(&rig));
        (void)snprintf(script, sizeof(script), "cp %s/again %s/$$; kill -9 $$", rig.dir, rig.dir);
        live(&rig, script, 1, 0);
        (void)snprintf(text, sizeof(text), "{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"echo y >>%s; %s\"]}", rig.log,
                       script);
        ask(&rig, "again", text);
        rig_wait(&rig, RESTARTS_MAX + 5, 500);
        CHECK_INT(rig.lines, >=, RESTARTS_MAX + 5);
        rig_done(&rig);
}

static void what_is_no_request_is_ignored(void)
{
        static const char *const bad[] = {"", "{", "5", "{\"cmd\":5}", "{\"cmd\":\"/bin/true\",\"args\":5}"};
        struct rig rig;

        CHECK(rig_init(&rig));
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                pid_t pid = fork();

                if (pid == 0)
                        _exit(1);
                ask_for(&rig, pid, bad[i]);
                rig_wait(&rig, 1, 5);
                CHECK_INT(rig.lines, ==, 0);
        }
        rig_done(&rig);
}

int main(void)
{
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        RUN(a_program_that_is_killed_is_started_again);
        RUN(one_that_exits_with_0_is_not);
        RUN(one_that_always_fails_is_given_up);
        RUN(one_that_asks_again_is_not_given_up);
        RUN(what_is_no_request_is_ignored);
        return tap_done();
}
