/* Sandboxes that are restored ahead, as the engine is asked for them: made, handed over, dropped, and never adopted. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "rig.h"

#define A "iaaaaaaaaaaaaaaaaaaaa"
#define B "ibbbbbbbbbbbbbbbbbbbb"
#define C "icccccccccccccccccccc"
#define STANDBY "s00000000000000000000"
#define IMAGE "caaaaaaaaaaaaaaaaaaaa"
#define LAYER "u-aaaaaaaaaaaaaaaaaaaa"
#define ROUNDS 1800 /* of 50 ms; when memory runs short, none is made for half a minute */

static struct rig g;

static json_t *plan_of(const char *id)
{
        json_t *plan = rig_plan(id);

        (void)json_array_append_new(json_object_get(plan, "layers"), json_string(LAYER));
        (void)json_object_set_new(plan, "checkpoint", json_string(IMAGE));
        return plan;
}

static const char *why_not(json_t *answer) /* used up */
{
        const json_t *e = json_object_get(answer, "error");
        static char text[300];

        text[0] = '\0';
        if (!json_is_true(json_object_get(answer, "ok")))
                (void)snprintf(text, sizeof(text), "%s: %s",
                               e ? json_string_value(json_object_get(e, "kind")) : "no answer",
                               e ? json_string_value(json_object_get(e, "message")) : "");
        json_decref(answer);
        return text[0] ? text : NULL;
}

static const char *want(json_t *plan /* used up */, int count)
{
        return why_not(rig_call(
                &g, json_pack("{s:s,s:[{s:o,s:i}]}", "op", "standbys", "wants", "plan", plan, "count", count)));
}

static const char *want_none(void)
{
        return why_not(rig_call(&g, json_pack("{s:s,s:[]}", "op", "standbys", "wants")));
}

static json_int_t number(const char *name)
{
        json_t *info = rig_info(&g);
        json_int_t n = json_integer_value(json_object_get(info, name));

        json_decref(info);
        return n;
}

/* Directories whose names are those of standbys. */
static int directories(void)
{
        char path[200];
        struct dirent *e;
        int n = 0;
        DIR *d;

        (void)snprintf(path, sizeof(path), "%s/data/sandboxes", g.dir);
        d = opendir(path);
        while (d && (e = readdir(d)))
                n += e->d_name[0] == 's';
        if (d)
                (void)closedir(d);
        return n;
}

static bool become(int count) /* as many as this are there, and on disk */
{
        for (int i = 0; i < ROUNDS; i++) {
                if (number("standbys") == count && directories() == count)
                        return true;
                (void)usleep(50000);
        }
        printf("# %d standbys, %d directories\n", (int)number("standbys"), directories());
        return false;
}

static json_int_t listed(void)
{
        json_t *answer = rig_call(&g, json_pack("{s:s}", "op", "list"));
        json_int_t n = (json_int_t)json_array_size(json_object_get(answer, "sandboxes"));

        json_decref(answer);
        return n;
}

static const char *made_from(json_t *plan) /* used up; "standby", "checkpoint", or why not */
{
        static char text[300];
        json_t *answer = rig_call(&g, json_pack("{s:s,s:o}", "op", "create", "plan", plan));
        const char *from = json_string_value(json_object_get(answer, "from"));

        if (from) {
                (void)snprintf(text, sizeof(text), "%s", from);
                json_decref(answer);
                return text;
        }
        return why_not(answer);
}

/* A checkpoint and a layer, of a sandbox that had written "one " to an open file. */
static bool begin(void)
{
        return !rig_create(&g, rig_plan(A)) && strcmp(rig_run(&g, A, "append one "), "ok") == 0 &&
               !why_not(rig_call(&g, json_pack("{s:s,s:s,s:s,s:s}", "op", "copy", "id", A, "checkpoint", IMAGE, "layer",
                                               LAYER))) &&
               !rig_kill(&g, A);
}

static bool drop_files(void) /* in the end: what is in use is left at first */
{
        for (int i = 0; i < ROUNDS; i++) {
                json_t *answer = rig_call(
                        &g, json_pack("{s:s,s:[s],s:[s]}", "op", "drop", "checkpoints", IMAGE, "layers", LAYER));
                bool is_done = json_is_true(json_object_get(answer, "ok")) &&
                               json_array_size(json_object_get(answer, "left")) == 0;

                json_decref(answer);
                if (is_done)
                        return true;
                (void)usleep(50000);
        }
        return false;
}

/* What a new engine without sandboxes has, or what is left beside that.  want: NULL: at once. */
static struct leak_count rested(const struct leak_count *want)
{
        if (!rig_stop(&g) || !rig_start(&g))
                printf("# the engine did not start again\n");
        rig_wait_pool(&g);
        return rig_count(&g, want);
}

/* ------------------------------------------------------------- cases */

static void one_is_handed_over(void)
{
        struct leak_count before = rested(NULL), after;

        CHECK(begin());
        CHECK_STR(made_from(plan_of(A)), "checkpoint");
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(want(plan_of(STANDBY), 2));
        CHECK(become(2));
        CHECK_INT(listed(), ==, 0);
        CHECK_INT(number("alive"), ==, 0);
        CHECK(number("standby_bytes") > 0);
        CHECK_STR(made_from(plan_of(B)), "standby");
        CHECK_STR(made_from(plan_of(C)), "standby");
        CHECK_STR(made_from(plan_of(A)), "checkpoint"); /* there was no third */
        CHECK_INT(number("standby_hits"), ==, 2);
        CHECK_INT(number("standby_misses"), ==, 1);
        CHECK_STR(rig_run(&g, B, "hostname"), B "\n");
        CHECK_STR(rig_run(&g, C, "hostname"), C "\n");
        CHECK_STR(rig_run(&g, B, "append B"), "ok");
        CHECK_STR(rig_run(&g, B, "read /tmp/kept"), "one B");
        CHECK_STR(rig_run(&g, C, "read /tmp/kept"), "one ");
        CHECK_INT(listed(), ==, 3);
        CHECK(become(2)); /* in their place */
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_kill(&g, B));
        CHECK_NONE(rig_kill(&g, C));
        CHECK_NONE(want_none());
        CHECK(become(0));
        CHECK(drop_files());
        after = rested(&before);
        CHECK(leak_none(&after, &before));
}

static void a_plan_that_begins_otherwise_gets_none(void)
{
        json_t *plan;

        CHECK(begin());
        CHECK_NONE(want(plan_of(STANDBY), 1));
        CHECK(become(1));
        plan = plan_of(B);
        (void)json_object_set_new(json_object_get(plan, "limits"), "memory_bytes", json_integer(128 << 20));
        CHECK_STR(made_from(plan), "checkpoint");
        CHECK_NONE(rig_kill(&g, B));
        CHECK(become(1));
        CHECK(drop_files()); /* it goes first, without being asked to */
        CHECK(become(0));
        CHECK_STARTS(made_from(plan_of(B)), "internal: checkpoint"); /* there is none any more */
}

static void what_is_no_list_of_standbys_is_refused(void)
{
        json_t *plan = plan_of(STANDBY);

        CHECK_STARTS(want(plan_of(A), 1), "invalid"); /* the name of a sandbox */
        CHECK_STARTS(want(rig_plan(STANDBY), 1), "invalid");
        CHECK_STARTS(want(plan_of(STANDBY), -1), "invalid");
        (void)json_object_set_new(plan, "upper", json_string("kept"));
        CHECK_STARTS(want(plan, 1), "invalid");
        CHECK_STARTS(why_not(rig_call(&g, json_pack("{s:s}", "op", "standbys"))), "invalid");
        CHECK_STARTS(made_from(plan_of(STANDBY)), "invalid"); /* nobody creates one by that name */
        CHECK_STARTS(rig_kill(&g, STANDBY), "gone");
}

/* Holds the next job at this point; the path of a pipe, which is opened for writing when it is there, and closed to let go. */
static const char *hold_at(const char *point)
{
        static char path[200];

        (void)snprintf(path, sizeof(path), "%s/data/stall", g.dir);
        (void)mkdir(path, 0700);
        (void)snprintf(path, sizeof(path), "%s/data/stall/%s", g.dir, point);
        return mkfifo(path, 0600) == 0 ? path : "";
}

static void one_that_is_killed_meanwhile_leaves_nothing(void)
{
        static const char *const points[] = {"handing_over", "recorded", "named", "thawed_standby"};
        struct leak_count before = rested(NULL), after;

        CHECK(begin());
        for (size_t i = 0; i < ARRAY_LEN(points); i++) {
                unsigned oks = 0, conflicts = 0;
                const char *pipe;

                CHECK_NONE(want(plan_of(STANDBY), 1));
                CHECK(become(1));
                pipe = hold_at(points[i]);
                rig_send(&g, json_pack("{s:s,s:o}", "op", "create", "plan", plan_of(B)));
                {
                        AUTO_CLOSE int held = open(pipe, O_WRONLY | O_CLOEXEC); /* when it is there */

                        CHECK(held >= 0);
                        CHECK_INT(unlink(pipe), ==, 0);
                        rig_send(&g, json_pack("{s:s,s:s}", "op", "kill", "id", B));
                        rig_send(&g, json_pack("{s:s,s:s,s:i}", "op", "dial", "id", B, "port",
                                               4000)); /* nobody reaches it */
                }
                for (int answers = 0; answers < 3; answers++) {
                        json_t *answer = rig_receive(&g);
                        const char *kind = json_string_value(json_object_get(json_object_get(answer, "error"), "kind"));

                        oks += json_is_true(json_object_get(answer, "ok"));
                        conflicts += kind && (strcmp(kind, "conflict") == 0 || strcmp(kind, "gone") == 0);
                        json_decref(answer);
                }
                CHECK_INT(oks, ==, 1); /* the kill */
                CHECK_INT(conflicts, ==, 2);
                CHECK(!rig_state(&g, B));
        }
        CHECK_NONE(want_none());
        CHECK(become(0));
        CHECK(drop_files());
        after = rested(&before);
        CHECK(leak_none(&after, &before));
}

/* Whatever CRIU does at that moment: it does not wait for processes that are gone. */
static void one_that_is_not_wanted_any_more_is_not_finished(void)
{
        static const char *const points[] = {"standby_placed", "standby_restored", "standby_alone", "standby_frozen"};
        struct leak_count before = rested(NULL), after;

        CHECK(begin());
        for (size_t i = 0; i < ARRAY_LEN(points); i++) {
                const char *pipe = hold_at(points[i]);

                CHECK_NONE(want(plan_of(STANDBY), 1));
                {
                        AUTO_CLOSE int held = open(pipe, O_WRONLY | O_CLOEXEC);

                        CHECK(held >= 0);
                        CHECK_INT(unlink(pipe), ==, 0);
                        CHECK_NONE(want_none()); /* its processes are killed, as far as there are any */
                }
                CHECK(become(0));
        }
        CHECK(drop_files());
        after = rested(&before);
        CHECK(leak_none(&after, &before));
}

static void those_of_a_dead_engine_are_ended(void)
{
        struct leak_count before = rested(NULL), after;

        CHECK(begin());
        CHECK_NONE(want(plan_of(STANDBY), 2));
        CHECK(become(2));
        CHECK_STR(made_from(plan_of(B)), "standby");
        rig_crash(&g);
        CHECK(rig_start(&g));
        CHECK_STR(rig_state(&g, B), "running"); /* this one is a sandbox */
        CHECK_STR(rig_run(&g, B, "hostname"), B "\n");
        CHECK(become(0));
        CHECK_INT(listed(), ==, 1);
        CHECK_NONE(rig_kill(&g, B));
        CHECK(drop_files());
        after = rested(&before);
        CHECK(leak_none(&after, &before));
}

static void they_end_with_the_engine(void)
{
        CHECK(begin());
        CHECK_NONE(want(plan_of(STANDBY), 2));
        CHECK(become(2));
        CHECK(rig_stop(&g));
        CHECK_INT(directories(), ==, 0);
        CHECK(rig_start(&g));
        CHECK_INT(listed(), ==, 0);
        CHECK(drop_files());
}

int main(void)
{
        if (rig_reason_to_skip() || !rig_criu_dir()) {
                printf("1..0 # SKIP %s\n",
                       rig_reason_to_skip() ? rig_reason_to_skip() : "SANDGLASS_CRIU_DIR is not set");
                return 0;
        }
        g.warm_stall_ms = 2000; /* other tests keep the machine busy */
        if (!rig_open(&g, 2) || !rig_start(&g))
                return 1;
        RUN(one_is_handed_over);
        RUN(a_plan_that_begins_otherwise_gets_none);
        RUN(what_is_no_list_of_standbys_is_refused);
        RUN(one_that_is_killed_meanwhile_leaves_nothing);
        RUN(one_that_is_not_wanted_any_more_is_not_finished);
        RUN(those_of_a_dead_engine_are_ended);
        RUN(they_end_with_the_engine);
        rig_close(&g);
        return tap_done();
}
