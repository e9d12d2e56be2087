/* Whoever dies while a sandbox is paused or woken: it runs on, or rests, and nothing stays behind. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "one.h"

static const char *end(void)
{
        const char *why = rig_kill(&g, A);

        return why ? why : rig_drop(&g, IMAGE, NULL);
}

static bool is_ok(json_t *answer) /* stolen */
{
        bool is_it = json_is_true(json_object_get(answer, "ok"));

        json_decref(answer);
        return is_it;
}

/* ------------------------------------------------------------- the engine dies */

static void pause_goes_on_without_the_engine(void)
{
        static const char *const points[] = {"frozen", "dumped", "kept"};

        for (size_t i = 0; i < ARRAY_LEN(points); i++) {
                int fd;

                CHECK(begin());
                stall(points[i]);
                send_pause();
                fd = reach(points[i]);
                CHECK(fd >= 0);
                rig_crash(&g);
                CHECK(rig_start(&g));
                CHECK_STR(rig_state(&g, A), "busy");
                CHECK_STARTS(rig_pause(&g, A, IMAGE), "conflict");
                CHECK_STARTS(rig_create(&g, used_checkpoints(A)), "conflict");
                (void)close(fd);
                CHECK_STR(fact(), "rechecked paused");
                CHECK_STR(rig_state(&g, A), "paused");
                CHECK_NONE(rig_create(&g, used_checkpoints(A)));
                CHECK(is_itself());
                CHECK_NONE(end());
        }
}

static void a_resume_goes_on_without_the_engine(void)
{
        static const char *const points[] = {"placed", "restored", "resumed"};

        for (size_t i = 0; i < ARRAY_LEN(points); i++) {
                int fd;

                CHECK(begin());
                CHECK_NONE(rig_pause(&g, A, IMAGE));
                stall(points[i]);
                send_wake();
                fd = reach(points[i]);
                CHECK(fd >= 0);
                rig_crash(&g);
                CHECK(rig_start(&g));
                CHECK_STR(rig_state(&g, A), "busy");
                (void)close(fd);
                CHECK_STR(fact(), "rechecked running");
                CHECK_STR(rig_state(&g, A), "running");
                CHECK(is_itself());
                CHECK_NONE(end());
        }
}

static void a_busy_one_can_be_killed(void)
{
        int fd;

        CHECK(begin());
        stall("dumped");
        send_pause();
        fd = reach("dumped");
        rig_crash(&g);
        CHECK(rig_start(&g));
        CHECK_STR(rig_state(&g, A), "busy");
        rig_send(&g, json_pack("{s:s,s:s}", "op", "kill", "id", A));
        (void)close(fd);
        json_t *answer = rig_receive(&g);
        CHECK(json_is_true(json_object_get(answer, "ok")));
        json_decref(answer);
        CHECK(!rig_state(&g, A));
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
}

/* ------------------------------------------------------------- the job process dies */

static void a_pause_whose_job_process_dies_never_was(void)
{
        static const char *const points[] = {"frozen", "dumped"};

        for (size_t i = 0; i < ARRAY_LEN(points); i++) {
                json_t *answer;
                int fd;

                CHECK(begin());
                stall(points[i]);
                send_pause();
                fd = reach(points[i]);
                CHECK(end_one(rig_job_process(&g)));
                (void)close(fd);
                answer = rig_receive(&g);
                CHECK(json_object_get(answer, "error"));
                json_decref(answer);
                CHECK_STR(fact(), "rechecked running"); /* the last word */
                CHECK_STR(rig_state(&g, A), "running");
                CHECK(is_itself());
                CHECK_NONE(rig_pause(&g, A, IMAGE)); /* and it can be paused */
                CHECK_NONE(end());
        }
}

static void a_pause_whose_job_process_dies_late_is_done(void)
{
        int fd;

        CHECK(begin());
        stall("kept");
        send_pause();
        fd = reach("kept");
        CHECK(end_one(rig_job_process(&g)));
        (void)close(fd);
        CHECK(is_ok(rig_receive(&g)));
        CHECK_STR(rig_state(&g, A), "paused");
        CHECK_NONE(rig_create(&g, used_checkpoints(A)));
        CHECK(is_itself());
        CHECK_NONE(end());
}

static void a_resume_whose_job_process_dies_can_be_tried_again(void)
{
        static const char *const points[] = {"placed", "restored"};

        for (size_t i = 0; i < ARRAY_LEN(points); i++) {
                int fd;

                CHECK(begin());
                CHECK_NONE(rig_pause(&g, A, IMAGE));
                stall(points[i]);
                send_wake();
                fd = reach(points[i]);
                CHECK(end_one(rig_job_process(&g)));
                (void)close(fd);
                json_decref(rig_receive(&g));
                CHECK_STR(fact(), "rechecked paused");
                CHECK_STR(rig_state(&g, A), "paused");
                CHECK_NONE(rig_create(&g, used_checkpoints(A)));
                CHECK(is_itself());
                CHECK_NONE(end());
        }
}

static void a_resume_whose_job_process_dies_late_is_done(void)
{
        int fd;

        CHECK(begin());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        stall("resumed");
        send_wake();
        fd = reach("resumed");
        CHECK(end_one(rig_job_process(&g)));
        (void)close(fd);
        CHECK(is_ok(rig_receive(&g)));
        CHECK_STR(rig_state(&g, A), "running");
        CHECK(is_itself());
        CHECK_NONE(end());
}

static pid_t pid_of(const char *id)
{
        json_t *answer = rig_call(&g, json_pack("{s:s}", "op", "list")), *v;
        pid_t pid = 0;
        size_t i;

        json_array_foreach (json_object_get(answer, "sandboxes"), i, v)
                if (strcmp(json_string_value(json_object_get(v, "id")), id) == 0)
                        pid = (pid_t)json_integer_value(json_object_get(v, "pid"));
        json_decref(answer);
        return pid;
}

static pid_t tracer_of(pid_t pid)
{
        char path[48], text[4096];
        const char *at;
        ssize_t n;
        int fd;

        (void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        text[n > 0 ? n : 0] = 0;
        (void)close(fd);
        at = strstr(text, "\nTracerPid:\t");
        return at ? (pid_t)strtol(at + 12, NULL, 10) : 0;
}

/* The sandbox waits for CRIU, CRIU for the sandbox, and who watched over them is dead. */
static void one_killed_while_criu_is_alone_with_it_ends(void)
{
        pid_t pid, criu = 0;

        CHECK(begin());
        CHECK_STR(rig_run(&g, A, "ticker /tmp/ticks"), "ok"); /* another process, for which the first one waits */
        pid = pid_of(A);
        CHECK_INT(pid, >, 1);
        send_pause();
        for (long i = 0; i < 10000000 && criu == 0; i++)
                criu = tracer_of(pid);
        CHECK_INT(criu, >, 1);
        CHECK_INT(kill(criu, SIGSTOP), ==, 0); /* it never ends by itself */
        CHECK(end_one(rig_job_process(&g)));
        CHECK_INT(kill(pid, SIGKILL), ==, 0);
        json_decref(rig_receive(&g));
        CHECK_STR(fact(), "exited ");
        CHECK_INT(kill(criu, 0), <, 0);
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
}

/* It had no files of its own yet, and control knows all it takes to begin again: after a roll back, say. */
static void what_ended_before_it_began_can_be_begun_again(void)
{
        json_t *again = used_checkpoints(B);
        int fd;

        CHECK(begin());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_NONE(rig_seal(&g, A, LAYER));
        (void)json_object_del(again, "upper");
        (void)json_array_append_new(json_object_get(again, "layers"), json_string(LAYER));
        stall("placed");
        rig_send(&g, json_pack("{s:s,s:O}", "op", "create", "plan", again));
        fd = reach("placed");
        CHECK(end_one(rig_job_process(&g)));
        (void)close(fd);
        json_decref(rig_receive(&g));
        CHECK_STR(fact(), "exited ");
        CHECK_STR(rig_state(&g, B), "ended");
        CHECK_NONE(rig_create(&g, again));
        CHECK_STR(rig_run(&g, B, "read /tmp/kept"), "one ");
        CHECK_NONE(rig_kill(&g, B));
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_drop(&g, IMAGE, LAYER));
}

/* What nobody waits for any more is dropped when its job process is through, not from under its hands. */
static void what_a_job_process_is_at_is_not_dropped(void)
{
        json_t *answer;
        int fd;

        CHECK(begin());
        stall("dumped");
        rig_send(&g, json_pack("{s:s,s:s,s:s,s:s}", "op", "copy", "id", A, "checkpoint", IMAGE, "layer", LAYER));
        fd = reach("dumped");
        rig_send(&g, json_pack("{s:s,s:[s],s:[s]}", "op", "drop", "checkpoints", IMAGE, "layers", LAYER));
        answer = rig_receive(&g);
        CHECK_INT(json_array_size(json_object_get(answer, "left")), ==, 2);
        json_decref(answer);
        (void)close(fd);
        CHECK(is_ok(rig_receive(&g)));
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_drop(&g, IMAGE, LAYER));
}

static void reboot(void)
{
        char path[160];
        int fd;

        rig_stop(&g);
        (void)snprintf(path, sizeof(path), "%s/data/stall", g.dir);
        (void)mkdir(path, 0700);
        (void)snprintf(path, sizeof(path), "%s/data/stall/boot_id", g.dir);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        CHECK_INT(write(fd, "00000000-0000-0000-0000-000000000000", 36), ==, 36);
        (void)close(fd);
        CHECK(rig_start(&g));
        CHECK(rig_state(&g, A)); /* so that it has begun */
        CHECK_INT(unlink(path), ==, 0);
}

#define ONCE "ckkkkkkkkkkkkkkkkkkkk" /* IMAGE was woken before, and to another boot that is a reason not to wake it */

/* Paused for a moment only, and then it stayed so: that has to be said. */
static void what_was_not_meant_to_stay_at_rest_can_be_kept(void)
{
        for (int is_kept = 0; is_kept < 2; is_kept++) {
                CHECK(begin());
                rig_send(&g, json_pack("{s:s,s:s,s:s,s:b}", "op", "pause", "id", A, "checkpoint", ONCE, "durable", 0));
                CHECK(is_ok(rig_receive(&g)));
                if (is_kept) {
                        rig_send(&g, json_pack("{s:s,s:s}", "op", "keep", "id", A));
                        CHECK(is_ok(rig_receive(&g)));
                }
                reboot();
                CHECK_STR(rig_state(&g, A), is_kept ? "paused" : "ended");
                if (is_kept) {
                        json_t *plan = used_checkpoints(A);

                        (void)json_object_set_new(plan, "checkpoint", json_string(ONCE));
                        CHECK_NONE(rig_create(&g, plan));
                        CHECK(is_itself());
                }
                CHECK_NONE(rig_kill(&g, A));
                CHECK_NONE(rig_drop(&g, ONCE, NULL));
        }
}

static json_int_t memory_limit(void)
{
        json_t *answer = rig_call(&g, json_pack("{s:s,s:s}", "op", "stats", "id", A));
        json_int_t n = json_integer_value(json_object_get(answer, "memory_limit"));

        json_decref(answer);
        return n;
}

/* However many ask, no more look at a time than there may be job processes, and others have their turn meanwhile. */
static void those_who_look_are_few_at_a_time(void)
{
        long cores = sysconf(_SC_NPROCESSORS_ONLN), asked = 2 * cores + 20, before, meanwhile;
        json_t *answer;
        int fd;

        CHECK_NONE(rig_create(&g, rig_plan(A)));
        rig_wait_pool(&g);
        before = rig_count(&g, NULL).fds; /* one more for each job process that is at it */
        stall("measuring");
        for (long i = 0; i < asked; i++)
                rig_send(&g, json_pack("{s:s,s:s}", "op", "stats", "id", A));
        answer = rig_call(&g, json_pack("{s:s}", "op", "flush")); /* after all of them */
        CHECK(json_is_true(json_object_get(answer, "ok")));
        json_decref(answer);
        meanwhile = rig_count(&g, NULL).fds;
        CHECK_INT(meanwhile - before, <=, 2 * cores + 4); /* and what may be open besides */
        fd = reach("measuring");
        (void)close(fd);
        for (long i = 0; i < asked; i++) {
                answer = rig_receive(&g);
                CHECK(json_object_get(answer, "disk_bytes"));
                json_decref(answer);
        }
        CHECK_NONE(rig_kill(&g, A));
}

/* It was killed between the question and the look. */
static void what_is_not_there_any_more_has_no_size(void)
{
        char path[160], away[160];
        json_t *answer;

        CHECK_NONE(rig_create(&g, rig_plan(A)));
        (void)snprintf(path, sizeof(path), "%s/data/sandboxes/" A, g.dir);
        (void)snprintf(away, sizeof(away), "%s/data/away", g.dir);
        CHECK_INT(rename(path, away), ==, 0);
        answer = rig_call(&g, json_pack("{s:s,s:s}", "op", "stats", "id", A));
        CHECK_STR(json_string_value(json_object_get(json_object_get(answer, "error"), "kind")), "conflict");
        json_decref(answer);
        CHECK_INT(rename(away, path), ==, 0);
        CHECK_NONE(rig_kill(&g, A));
}

/* CRIU was given more: nobody may keep that. */
static void limits_are_put_right_whoever_died(void)
{
        for (int with_engine = 0; with_engine < 2; with_engine++) {
                json_int_t before;
                pid_t job_process;
                int fd;

                CHECK(begin());
                before = memory_limit();
                CHECK_INT(before, ==, 256 << 20);
                CHECK_NONE(rig_pause(&g, A, IMAGE));
                stall("running");
                send_wake();
                fd = reach("running");
                job_process = rig_job_process(&g);
                if (with_engine)
                        rig_crash(&g);
                CHECK(end_one(job_process));
                (void)close(fd);
                if (with_engine) {
                        CHECK(rig_start(&g));
                        while (strcmp(rig_state(&g, A), "busy") == 0)
                                continue; /* the fact may have come before we listened */
                } else {
                        CHECK(is_ok(rig_receive(&g)));
                        CHECK_STR(rig_state(&g, A), "running");
                }
                CHECK_INT(memory_limit(), ==, before);
                CHECK_INT(strtol(rig_run(&g, A, "forks 1000"), NULL, 10), <, 256);
                CHECK(is_itself());
                CHECK_NONE(end());
        }
}

static bool is_over(const char *id)
{
        const char *state = rig_state(&g, id);

        return !state || strcmp(state, "ended") == 0;
}

/* It would answer to the other's token. */
static void a_copy_that_does_not_know_itself_is_ended(void)
{
        for (int with_engine = 0; with_engine < 2; with_engine++) {
                json_t *plan = rig_plan(B);
                pid_t job_process;
                int fd;

                CHECK(begin());
                CHECK_NONE(rig_pause(&g, A, IMAGE));
                CHECK_NONE(rig_seal(&g, A, LAYER));
                (void)json_array_append_new(json_object_get(plan, "layers"), json_string(LAYER));
                (void)json_object_set_new(plan, "checkpoint", json_string(IMAGE));
                stall("resumed");
                rig_send(&g, json_pack("{s:s,s:o}", "op", "create", "plan", plan));
                fd = reach("resumed");
                job_process = rig_job_process(&g);
                if (with_engine)
                        rig_crash(&g);
                CHECK(end_one(job_process));
                (void)close(fd);
                if (with_engine) {
                        CHECK(rig_start(&g));
                        while (!is_over(B))
                                continue; /* the fact may have come before we listened */
                } else {
                        json_decref(rig_receive(&g));
                        CHECK_STR(fact(), "exited ");
                        CHECK(is_over(B));
                }
                CHECK_NONE(rig_forget(&g, B));
                CHECK(!rig_state(&g, B));
                CHECK_NONE(rig_kill(&g, A));
                CHECK_NONE(rig_drop(&g, IMAGE, LAYER));
        }
}

static void everything_dies(void)
{
        pid_t job_process;
        int fd;

        CHECK(begin());
        stall("dumped");
        send_pause();
        fd = reach("dumped");
        job_process = rig_job_process(&g);
        rig_crash(&g);
        CHECK(end_one(job_process));
        (void)close(fd);
        CHECK(rig_start(&g));
        while (strcmp(rig_state(&g, A), "busy") == 0)
                continue; /* the fact may have come before we listened */
        CHECK_STR(rig_state(&g, A), "running");
        CHECK(is_itself());
        CHECK_NONE(end());
}

static void a_vault_that_dies_takes_nothing_along(void)
{
        json_t *answer;
        int fd;

        CHECK(begin());
        stall("dumped");
        send_pause();
        fd = reach("dumped");
        CHECK(end_one(rig_helper(&g, "sg-job-queue")));
        (void)close(fd);
        answer = rig_receive(&g);
        CHECK(json_is_true(json_object_get(answer, "ok")));
        json_decref(answer);
        CHECK_NONE(rig_create(&g, used_checkpoints(A))); /* by another vault */
        CHECK(is_itself());
        CHECK_NONE(end());
}

static void a_job_that_nobody_took_is_given_to_another(void)
{
        json_t *answer;
        pid_t spare;

        CHECK(begin());
        spare = rig_spare(&g);
        CHECK(spare > 1 && kill(spare, SIGSTOP) == 0);
        send_pause();
        CHECK_STR(rig_state(&g, A), "busy"); /* so the job is on its way */
        CHECK(end_one(spare));               /* and its vault has nothing to live for */
        answer = rig_receive(&g);
        CHECK(json_is_true(json_object_get(answer, "ok")));
        json_decref(answer);
        CHECK_NONE(rig_create(&g, used_checkpoints(A)));
        CHECK(is_itself());
        CHECK_NONE(end());
}

static void an_engine_that_stops_keeps_nothing_warm(void)
{
        const struct leak_count nobody = {.cgroups = 0, .files = 2};
        struct leak_count after;

        CHECK(rig_stop(&g));
        g.warm_mb = 64;
        CHECK(rig_start(&g));
        CHECK(begin());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        rig_wait_files(&g, nobody.files);
        CHECK(rig_stop(&g));
        after = rig_count(&g, &nobody);
        g.warm_mb = 0;
        CHECK(rig_start(&g));
        CHECK(leak_none(&after, &nobody));
        CHECK_NONE(rig_create(&g, used_checkpoints(A)));
        CHECK(is_itself());
        CHECK_NONE(end());
}

/* ------------------------------------------------------------- at the same time */

static void kill_waits_for_a_pause(void)
{
        json_t *first, *second;
        int fd;

        CHECK(begin());
        stall("dumped");
        send_pause();
        fd = reach("dumped");
        CHECK_STARTS(rig_pause(&g, A, IMAGE), "conflict");
        rig_send(&g, json_pack("{s:s,s:s}", "op", "kill", "id", A));
        (void)close(fd);
        first = rig_receive(&g);
        second = rig_receive(&g);
        CHECK(json_is_true(json_object_get(first, "ok")));
        CHECK(json_is_true(json_object_get(second, "ok")));
        json_decref(first);
        json_decref(second);
        CHECK(!rig_state(&g, A));
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
}

static void one_being_resumed_can_be_killed(void)
{
        json_t *first, *second;
        int fd;

        CHECK(begin());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        stall("resumed");
        send_wake();
        fd = reach("resumed");
        rig_send(&g, json_pack("{s:s,s:s}", "op", "kill", "id", A));
        (void)close(fd);
        first = rig_receive(&g);
        second = rig_receive(&g);
        CHECK(json_object_get(first, "error") || json_object_get(second, "error"));
        CHECK(json_is_true(json_object_get(first, "ok")) || json_is_true(json_object_get(second, "ok")));
        json_decref(first);
        json_decref(second);
        CHECK(!rig_state(&g, A));
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
}

static void what_nobody_hears_becomes_a_fact(void)
{
        int fd;

        CHECK(begin());
        stall("dumped");
        send_pause();
        fd = reach("dumped");
        rig_reconnect(&g); /* another control */
        CHECK_STR(rig_state(&g, A), "busy");
        (void)close(fd);
        CHECK_STR(fact(), "rechecked paused");
        CHECK_NONE(rig_create(&g, used_checkpoints(A)));
        CHECK(is_itself());
        CHECK_NONE(end());
}

int main(void)
{
        if (!can_run())
                return 0;
        if (!rig_open(&g, 2) || !rig_start(&g))
                return 1;
        RUN_CLEAN(pause_goes_on_without_the_engine);
        RUN_CLEAN(a_resume_goes_on_without_the_engine);
        RUN_CLEAN(a_busy_one_can_be_killed);
        RUN_CLEAN(a_pause_whose_job_process_dies_never_was);
        RUN_CLEAN(a_pause_whose_job_process_dies_late_is_done);
        RUN_CLEAN(a_resume_whose_job_process_dies_can_be_tried_again);
        RUN_CLEAN(a_resume_whose_job_process_dies_late_is_done);
        RUN_CLEAN(one_killed_while_criu_is_alone_with_it_ends);
        RUN_CLEAN(what_ended_before_it_began_can_be_begun_again);
        RUN_CLEAN(what_a_job_process_is_at_is_not_dropped);
        RUN_CLEAN(what_was_not_meant_to_stay_at_rest_can_be_kept);
        RUN_CLEAN(those_who_look_are_few_at_a_time);
        RUN_CLEAN(what_is_not_there_any_more_has_no_size);
        RUN_CLEAN(limits_are_put_right_whoever_died);
        RUN_CLEAN(a_copy_that_does_not_know_itself_is_ended);
        RUN_CLEAN(everything_dies);
        RUN_CLEAN(a_vault_that_dies_takes_nothing_along);
        RUN_CLEAN(a_job_that_nobody_took_is_given_to_another);
        RUN_CLEAN(an_engine_that_stops_keeps_nothing_warm);
        RUN_CLEAN(kill_waits_for_a_pause);
        RUN_CLEAN(one_being_resumed_can_be_killed);
        RUN_CLEAN(what_nobody_hears_becomes_a_fact);
        rig_close(&g);
        return tap_done();
}
