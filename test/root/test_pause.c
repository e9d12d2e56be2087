/* Sandboxes come to rest and back with their files, whoever dies in between. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tap.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/destroy.h"
#include "rig.h"

#define A "iaaaaaaaaaaaaaaaaaaaa"
#define B "ibbbbbbbbbbbbbbbbbbbb"
#define LAYER "u-aaaaaaaaaaaaaaaaaaaa"

static struct rig g;

static json_t *kept(const char *id)
{
        json_t *plan = rig_plan(id);

        (void)json_object_set_new(plan, "upper", json_string("kept"));
        return plan;
}

static json_t *sealed(const char *id)
{
        json_t *plan = rig_plan(id);

        (void)json_array_append_new(json_object_get(plan, "layers"), json_string(LAYER));
        return plan;
}

static void files_are_there_after_a_cold_resume(void)
{
        char boot[64];

        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_STR(rig_run(&g, A, "write /tmp/x hello"), "ok");
        (void)snprintf(boot, sizeof(boot), "%.60s", rig_run(&g, A, "read /proc/sys/kernel/random/boot_id"));
        CHECK_NONE(rig_pause(&g, A, NULL));
        CHECK_STR(rig_state(&g, A), "paused");
        CHECK_STARTS(rig_dial_refusal(&g, A, 49983), "conflict");
        CHECK_STARTS(rig_create(&g, rig_plan(A)), "conflict");
        CHECK_NONE(rig_create(&g, kept(A)));
        CHECK_STR(rig_state(&g, A), "running");
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "hello");
        CHECK(strcmp(rig_run(&g, A, "read /proc/sys/kernel/random/boot_id"), boot) != 0);
        CHECK_INT(strlen(rig_run(&g, A, "read /proc/sys/kernel/random/boot_id")), ==, 37);
        CHECK_STR(rig_run(&g, A, "write /tmp/y again"), "ok");
        CHECK_NONE(rig_pause(&g, A, NULL)); /* and once more */
        CHECK_NONE(rig_create(&g, kept(A)));
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "hello");
        CHECK_STR(rig_run(&g, A, "read /tmp/y"), "again");
        CHECK_NONE(rig_kill(&g, A));
}

static void says_what_cannot_be(void)
{
        CHECK_STARTS(rig_pause(&g, A, NULL), "gone");
        CHECK_STARTS(rig_create(&g, kept(A)), "gone");
        CHECK_STARTS(rig_seal(&g, A, LAYER), "gone");
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_STARTS(rig_seal(&g, A, LAYER), "conflict");
        CHECK_STARTS(rig_create(&g, kept(A)), "conflict");
        CHECK_STARTS(rig_pause(&g, A, "../../../../etc/passw"), "invalid");
        CHECK_STARTS(rig_seal(&g, A, "base"), "invalid");
        CHECK_NONE(rig_pause(&g, A, NULL));
        CHECK_STARTS(rig_pause(&g, A, NULL), "conflict");
        CHECK_NONE(rig_kill(&g, A));
        CHECK_STARTS(rig_kill(&g, A), "gone");
}

static void a_sealed_upper_serves_many(void)
{
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_STR(rig_run(&g, A, "write /tmp/x hello"), "ok");
        CHECK_NONE(rig_pause(&g, A, NULL));
        CHECK_NONE(rig_seal(&g, A, LAYER));
        CHECK_NONE(rig_seal(&g, A, LAYER)); /* asked twice, done once */
        CHECK_STARTS(rig_seal(&g, A, "u-bbbbbbbbbbbbbbbbbbbb"), "conflict");
        CHECK_STARTS(rig_create(&g, kept(A)), "conflict");
        CHECK_NONE(rig_create(&g, sealed(A)));
        CHECK_NONE(rig_create(&g, sealed(B)));
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "hello");
        CHECK_STR(rig_run(&g, B, "read /tmp/x"), "hello");
        CHECK_STR(rig_run(&g, A, "write /tmp/x other"), "ok");
        CHECK_STR(rig_run(&g, B, "read /tmp/x"), "hello");
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_kill(&g, B));
        CHECK_NONE(rig_drop(&g, NULL, LAYER));
        CHECK_NONE(rig_drop(&g, NULL, LAYER)); /* gone already */
        CHECK_STARTS(rig_create(&g, sealed(A)), "internal");
}

static void rest_outlives_engines(void)
{
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_NONE(rig_create(&g, rig_plan(B)));
        CHECK_STR(rig_run(&g, A, "write /tmp/x hello"), "ok");
        CHECK_NONE(rig_pause(&g, A, NULL));
        rig_crash(&g);
        CHECK(rig_start(&g));
        CHECK_STR(rig_state(&g, A), "paused");
        CHECK_STR(rig_state(&g, B), "running");
        CHECK(rig_stop(&g));
        CHECK(rig_start(&g));
        CHECK_STR(rig_state(&g, A), "paused");
        CHECK_NONE(rig_create(&g, kept(A)));
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "hello");
        rig_crash(&g); /* awake again: it is adopted like any other */
        CHECK(rig_start(&g));
        CHECK_STR(rig_state(&g, A), "running");
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "hello");
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_kill(&g, B));
}

static void a_failed_cold_resume_leaves_it_at_rest(void)
{
        json_t *plan;

        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_STR(rig_run(&g, A, "write /tmp/x hello"), "ok");
        CHECK_NONE(rig_pause(&g, A, NULL));
        plan = kept(A);
        (void)json_object_set_new(json_object_get(plan, "init"), "hostname", json_string("test-die"));
        CHECK_STARTS(rig_create(&g, plan), "internal");
        CHECK_STR(rig_state(&g, A), "paused");
        plan = kept(A);
        (void)json_object_set_new(plan, "layers", json_pack("[s,s]", "base", "not-there"));
        CHECK_STARTS(rig_create(&g, plan), "internal: layer 'not-there'"); /* and not "gone" */
        CHECK_STR(rig_state(&g, A), "paused");
        CHECK_NONE(rig_create(&g, kept(A)));
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "hello");
        CHECK_NONE(rig_kill(&g, A));
}

static void memory_needs_criu(void)
{
        json_t *info = rig_info(&g);
        bool has_criu = json_is_true(json_object_get(info, "checkpoints")); /* of the host's own */

        json_decref(info);
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        if (!has_criu)
                CHECK_STARTS(rig_pause(&g, A, "caaaaaaaaaaaaaaaaaaaa"), "unavailable: ");
        CHECK_STR(rig_run(&g, A, "read /proc/1/comm"), ".envd\n");
        CHECK_NONE(rig_kill(&g, A));
}

static void many_at_rest_hold_nothing(void)
{
        struct leak_count before, after;

        rig_wait_pool(&g);
        before = rig_count(&g, NULL);
        for (unsigned i = 0; i < 20; i++) {
                char id[22];

                (void)snprintf(id, sizeof(id), "i%020u", i);
                CHECK_NONE(rig_create(&g, rig_plan(id)));
                CHECK_NONE(rig_pause(&g, id, NULL));
        }
        rig_wait_pool(&g);
        before.files += 20;
        before.links += 4; /* networks and memory groups kept for the next sandboxes */
        before.fds += 4;
        before.cgroups += 4;
        after = rig_count(&g, &before);
        CHECK(leak_none(&after, &before));
        for (unsigned i = 0; i < 20; i++) {
                char id[22];

                (void)snprintf(id, sizeof(id), "i%020u", i);
                CHECK_NONE(rig_kill(&g, id));
        }
        before.files -= 20;
        after = rig_count(&g, &before);
        CHECK(leak_none(&after, &before));
}

static void down_keeps_what_rests(void)
{
        struct err err = {0};
        char data[96];

        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_NONE(rig_create(&g, rig_plan(B)));
        CHECK_STR(rig_run(&g, A, "write /tmp/x hello"), "ok");
        CHECK_NONE(rig_pause(&g, A, NULL));
        CHECK(rig_stop(&g));
        (void)snprintf(data, sizeof(data), "%s/data", g.dir);
        CHECK_INT(engine_destroy_all(data, &err), ==, 0);
        CHECK(rig_start(&g));
        CHECK_STR(rig_state(&g, A), "paused");
        CHECK(!rig_state(&g, B));
        CHECK_NONE(rig_create(&g, kept(A)));
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "hello");
        CHECK_NONE(rig_kill(&g, A));
}

int main(void)
{
        if (rig_reason_to_skip()) {
                printf("1..0 # SKIP %s\n", rig_reason_to_skip());
                return 0;
        }
        (void)unsetenv("SANDGLASS_CRIU_DIR"); /* everything here works without */
        if (!rig_open(&g, 2) || !rig_start(&g))
                return 1;
        RUN(files_are_there_after_a_cold_resume);
        RUN(says_what_cannot_be);
        RUN(a_sealed_upper_serves_many);
        RUN(rest_outlives_engines);
        RUN(a_failed_cold_resume_leaves_it_at_rest);
        RUN(memory_needs_criu);
        RUN(many_at_rest_hold_nothing);
        RUN(down_keeps_what_rests);
        rig_close(&g);
        return tap_done();
}
