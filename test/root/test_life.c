/* Sandboxes come, go, and outlive the engine; nothing stays behind. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/destroy.h"
#include "model/plan.h"
#include "rig.h"

#define A "iaaaaaaaaaaaaaaaaaaaa"
#define B "ibbbbbbbbbbbbbbbbbbbb"

static struct rig g;

#define CHECK_NONE(why)                                                                                                \
        do {                                                                                                           \
                const char *why_ = (why);                                                                              \
                if (why_)                                                                                              \
                        printf("# %s\n", why_);                                                                        \
                CHECK(!why_);                                                                                          \
        } while (0)

static void number_id(char out[22], unsigned n)
{
        (void)snprintf(out, 22, "i%020u", n);
}

static void makes_and_ends_a_sandbox(void)
{
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_STR(rig_run(&g, A, "read /proc/1/comm"), ".envd\n");
        CHECK_STR(rig_run(&g, A, "write /tmp/x hello"), "ok");
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "hello");
        CHECK_NONE(rig_kill(&g, A));
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "not reachable");
        CHECK(strncmp(rig_kill(&g, A), "gone", 4) == 0);
}

static void leaves_nothing_behind(void)
{
        struct leak_count before, after;

        rig_wait_pool(&g);
        before = rig_count(&g, NULL);
        before.links += 10;   /* networks of used slots are kept for the next sandboxes, */
        before.fds += 10;     /* one fd each, */
        before.cgroups += 10; /* and one memory group each */
        for (int round = 0; round < 3; round++) {
                for (unsigned i = 0; i < 10; i++) {
                        char id[22];

                        number_id(id, i);
                        CHECK_NONE(rig_create(&g, rig_plan(id)));
                        CHECK_STR(rig_run(&g, id, "write /tmp/file 1"), "ok");
                }
                for (unsigned i = 0; i < 10; i++) {
                        char id[22];

                        number_id(id, i);
                        CHECK_NONE(rig_kill(&g, id));
                }
                after = rig_count(&g, &before); /* so the next round finds these slots clean, and takes no others */
                CHECK(leak_none(&after, &before));
        }
}

static void two_are_apart(void)
{
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_NONE(rig_create(&g, rig_plan(B)));
        CHECK_STR(rig_run(&g, A, "write /tmp/mine a"), "ok");
        CHECK_STR(rig_run(&g, B, "read /tmp/mine"), "ENOENT");
        CHECK_STR(rig_run(&g, A, "write /dev/shm/mine a"), "ok");
        CHECK_STR(rig_run(&g, B, "read /dev/shm/mine"), "ENOENT");
        CHECK_NONE(rig_kill(&g, A));
        CHECK_STR(rig_run(&g, B, "read /proc/1/comm"), ".envd\n");
        CHECK_NONE(rig_kill(&g, B));
}

static void refuses_an_id_twice(void)
{
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK(strncmp(rig_create(&g, rig_plan(A)), "conflict", 8) == 0);
        CHECK_STR(rig_run(&g, A, "read /proc/1/comm"), ".envd\n");
        CHECK_NONE(rig_kill(&g, A));
}

static void tells_when_one_ends_by_itself(void)
{
        json_t *fact;

        CHECK_NONE(rig_create(&g, rig_plan(A)));
        (void)rig_run(&g, A, "exit");
        fact = rig_receive(&g);
        CHECK_STR(json_string_value(json_object_get(fact, "event")), "exited");
        CHECK_STR(json_string_value(json_object_get(fact, "id")), A);
        json_decref(fact);
        CHECK_STR(rig_state(&g, A), "ended"); /* until it is known that no row of it can come back */
        CHECK(strncmp(rig_pause(&g, A, NULL), "gone", 4) == 0);
        CHECK_NONE(rig_forget(&g, A));
        CHECK_NONE(rig_forget(&g, A));
        CHECK(!rig_state(&g, A));
        CHECK(strncmp(rig_kill(&g, A), "gone", 4) == 0);
}

static void what_nobody_was_asked_to_forget_stays(void)
{
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_NONE(rig_forget(&g, A)); /* it runs */
        CHECK_STR(rig_state(&g, A), "running");
        (void)rig_run(&g, A, "exit");
        json_decref(rig_receive(&g));
        rig_crash(&g);
        CHECK(rig_start(&g));
        CHECK_STR(rig_state(&g, A), "ended");
        CHECK_NONE(rig_kill(&g, A)); /* that does, too */
}

static void counts_what_it_uses(void)
{
        json_t *s, *i;

        CHECK_NONE(rig_create(&g, rig_plan(A)));
        s = rig_call(&g, json_pack("{s:s,s:s}", "op", "stats", "id", A));
        CHECK(json_is_true(json_object_get(s, "ok")));
        CHECK_INT(json_integer_value(json_object_get(s, "memory_limit")), ==, 256 << 20);
        CHECK_INT(json_integer_value(json_object_get(s, "memory_bytes")), >, 0);
        CHECK_INT(json_integer_value(json_object_get(s, "pids")), ==, 1);
        CHECK_INT(json_integer_value(json_object_get(s, "cpu_us")), >, 0);
        i = rig_info(&g);
        CHECK_STR(json_string_value(json_object_get(i, "isolation")), "namespace");
        CHECK_INT(json_integer_value(json_object_get(i, "alive")), ==, 1);
        CHECK_INT(json_integer_value(json_object_get(i, "pool_hits")), >, 0);
        json_decref(s);
        json_decref(i);
        CHECK_NONE(rig_kill(&g, A));
}

static bool is_listed(const char *id)
{
        json_t *answer = rig_call(&g, json_pack("{s:s}", "op", "list")), *item;
        bool found = false;
        size_t i;

        json_array_foreach (json_object_get(answer, "sandboxes"), i, item)
                found |= strcmp(json_string_value(json_object_get(item, "id")), id) == 0;
        json_decref(answer);
        return found;
}

static void survives_a_crash_of_the_engine(void)
{
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_STR(rig_run(&g, A, "write /tmp/x before"), "ok");
        rig_crash(&g);
        CHECK(rig_start(&g));
        CHECK(is_listed(A));
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "before");
        CHECK_NONE(rig_create(&g, rig_plan(B)));
        CHECK_STR(rig_run(&g, B, "read /tmp/x"), "ENOENT");
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_kill(&g, B));
}

static void survives_an_orderly_end_of_the_engine(void)
{
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK(rig_stop(&g));
        CHECK(rig_start(&g));
        CHECK_STR(rig_run(&g, A, "read /proc/1/comm"), ".envd\n");
        CHECK_NONE(rig_kill(&g, A));
}

static void crashing_often_leaves_nothing(void)
{
        struct leak_count before, after;

        rig_wait_pool(&g);
        CHECK(rig_stop(&g));
        before = rig_count(&g, NULL);
        for (int i = 0; i < 5; i++) {
                CHECK(rig_start(&g));
                rig_send(&g, json_pack("{s:s,s:o}", "op", "create", "plan", rig_plan(A))); /* caught anywhere */
                if (i % 2)
                        json_decref(rig_receive(&g));
                rig_crash(&g);
        }
        CHECK(rig_start(&g));
        if (is_listed(A))
                CHECK_NONE(rig_kill(&g, A));
        rig_wait_pool(&g);
        rig_wait_files(&g, before.files); /* neither the answer nor the engine's end waits for files to be removed */
        CHECK(rig_stop(&g));
        after = rig_count(&g, &before);
        CHECK(leak_none(&after, &before));
        CHECK(rig_start(&g));
}

static void does_not_adopt_a_stranger(void)
{
        char path[160], sed[400];

        CHECK_NONE(rig_create(&g, rig_plan(A)));
        rig_crash(&g);
        (void)snprintf(path, sizeof(path), "%s/data/sandboxes/" A "/running.json", g.dir);
        (void)snprintf(sed, sizeof(sed), "sed -i 's/\"start_time\":/\"start_time\":1/' %s", path);
        CHECK_INT(system(sed), ==, 0);
        CHECK(rig_start(&g));
        CHECK_STR(rig_state(&g, A), "ended"); /* and what really ran there was ended, see the count at the end */
        CHECK_NONE(rig_forget(&g, A));
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_NONE(rig_kill(&g, A));
}

static void replaces_dead_helpers(void)
{
        static const char *const names[] = {"sg-cell-maker", "sg-slot-clean"};

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                pid_t pid = rig_helper(&g, names[i]);

                CHECK(pid > 0);
                CHECK_INT(kill(pid, SIGKILL), ==, 0);
                for (unsigned k = 0; k < 8; k++) { /* more than the pool holds */
                        char id[22];

                        number_id(id, k);
                        CHECK_NONE(rig_create(&g, rig_plan(id)));
                        CHECK_NONE(rig_kill(&g, id));
                }
        }
}

/* Each has a file of its own, and all have one file: that of the topmost is seen. */
static void has_as_many_layers_as_a_plan_may_name(void)
{
        json_t *plan = rig_plan(A), *layers = json_object_get(plan, "layers");
        char path[128], name[16], command[64];

        for (unsigned i = 1; i < PLAN_LAYERS_MAX; i++) {
                FILE *f;

                (void)snprintf(name, sizeof(name), "many-%u", i);
                (void)json_array_append_new(layers, json_string(name));
                (void)snprintf(path, sizeof(path), "%s/images/layers/%s", g.dir, name);
                CHECK_INT(mkdir(path, 0755), ==, 0);
                for (int k = 0; k < 2; k++) {
                        (void)snprintf(path, sizeof(path), "%s/images/layers/%s/%s", g.dir, name, k ? "all" : name);
                        f = fopen(path, "we");
                        CHECK(f && fputs(name, f) >= 0 && fclose(f) == 0);
                }
        }
        CHECK_NONE(rig_create(&g, plan));
        for (unsigned i = 1; i < PLAN_LAYERS_MAX; i++) {
                (void)snprintf(name, sizeof(name), "many-%u", i);
                (void)snprintf(command, sizeof(command), "read /%s", name);
                CHECK_STR(rig_run(&g, A, command), name);
        }
        CHECK_STR(rig_run(&g, A, "read /all"), name);
        CHECK_STR(rig_run(&g, A, "write /all changed-now"), "ok");
        CHECK_STR(rig_run(&g, A, "read /all"), "changed-now");
        CHECK_NONE(rig_kill(&g, A));
}

static void a_ready_cell_that_dies_is_replaced(void)
{
        pid_t pid;

        rig_wait_pool(&g);
        pid = rig_newest_process(&g);
        CHECK(pid > 1);
        CHECK_INT(kill(pid, SIGKILL), ==, 0);
        for (unsigned k = 0; k < 6; k++) {
                char id[22];

                number_id(id, k);
                CHECK_NONE(rig_create(&g, rig_plan(id)));
                CHECK_NONE(rig_kill(&g, id));
        }
}

static void two_hundred_at_once(void)
{
        unsigned ok = 0;

        for (unsigned i = 0; i < 200; i++) {
                char id[22];

                number_id(id, i);
                rig_send(&g, json_pack("{s:s,s:o}", "op", "create", "plan", rig_plan(id)));
        }
        for (unsigned i = 0; i < 200; i++) {
                json_t *a = rig_receive(&g);

                ok += json_is_true(json_object_get(a, "ok"));
                json_decref(a);
        }
        CHECK_INT(ok, ==, 200);
        CHECK_STR(rig_run(&g, "i00000000000000000199", "read /proc/1/comm"), ".envd\n");
        for (unsigned i = 0; i < 200; i++) {
                char id[22];

                number_id(id, i);
                rig_send(&g, json_pack("{s:s,s:s}", "op", "kill", "id", id));
        }
        for (unsigned i = 0; i < 200; i++)
                json_decref(rig_receive(&g));
}

static void two_instances_share_the_machine(void)
{
        struct rig other;
        bool is_open = rig_open(&other, 1) && rig_start(&other);
        const char *why = is_open ? rig_create(&other, rig_plan(A)) : "no rig";
        bool here = !rig_create(&g, rig_plan(A));
        bool apart = strcmp(rig_run(&g, A, "write /tmp/x 1"), "ok") == 0 &&
                     strcmp(rig_run(&other, A, "read /tmp/x"), "ENOENT") == 0;

        (void)rig_kill(&g, A);
        rig_close(&other);
        CHECK_NONE(why);
        CHECK(here);
        CHECK(apart);
}

static void destroys_everything_without_an_engine(void)
{
        struct leak_count none = {0}, after;
        struct err err = {0};
        char data[80];

        rig_wait_pool(&g);
        (void)snprintf(data, sizeof(data), "%s/data", g.dir);
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        rig_crash(&g);
        CHECK_INT(engine_destroy_all(data, &err), ==, 0);
        after = rig_count(&g, &none); /* links of namespaces go a little later */
        CHECK(leak_none(&after, &none));
        CHECK(rig_start(&g));
        CHECK(!is_listed(A));
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_NONE(rig_kill(&g, A));
}

int main(void)
{
        if (rig_reason_to_skip()) {
                printf("1..0 # SKIP %s\n", rig_reason_to_skip());
                return 0;
        }
        if (!rig_open(&g, 4) || !rig_start(&g))
                return 1;
        RUN(makes_and_ends_a_sandbox);
        RUN(leaves_nothing_behind);
        RUN(two_are_apart);
        RUN(refuses_an_id_twice);
        RUN(tells_when_one_ends_by_itself);
        RUN(counts_what_it_uses);
        RUN(survives_a_crash_of_the_engine);
        RUN(survives_an_orderly_end_of_the_engine);
        RUN(what_nobody_was_asked_to_forget_stays);
        RUN(crashing_often_leaves_nothing);
        RUN(does_not_adopt_a_stranger);
        RUN(replaces_dead_helpers);
        RUN(has_as_many_layers_as_a_plan_may_name);
        RUN(a_ready_cell_that_dies_is_replaced);
        RUN(two_hundred_at_once);
        RUN(two_instances_share_the_machine);
        RUN(destroys_everything_without_an_engine);
        rig_close(&g);
        return tap_done();
}
