/* Each helper of the engine killed alone, idle and with work before it: another one is started, and does the work. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <tap.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "one.h"

#define ROUNDS 6000 /* of 10 ms */
#define U(c) "u-" c c c c c c c c c c c c c c c c c c c c

static void pause_a_moment(void) /* between two looks at something that has no event */
{
        const struct timespec t = {.tv_nsec = 10000000};

        (void)nanosleep(&t, NULL);
}

static pid_t wait_for_helper(const char *name, pid_t other_than)
{
        pid_t pid = rig_helper(&g, name);

        for (int i = 0; (pid == 0 || pid == other_than) && i < ROUNDS; i++) {
                pause_a_moment();
                pid = rig_helper(&g, name);
        }
        return pid == other_than ? 0 : pid;
}

/* Killed, and another one is there. */
static bool replaced(const char *name)
{
        pid_t old = wait_for_helper(name, 0);

        return end_one(old) && wait_for_helper(name, old) > 0;
}

static bool is_ok(json_t *answer)
{
        bool ok = json_is_true(json_object_get(answer, "ok"));

        if (!ok)
                printf("# %s\n", answer ? json_dumps(answer, 0) : "no answer");
        json_decref(answer);
        return ok;
}

static bool is_up(void)
{
        return is_ok(rig_info(&g)); /* and has read all that was sent before */
}

/* On the other socket: the engine goes on, whatever it was asked on the first one. */
static bool dial_is_answered(void)
{
        return rig_dial_refusal(&g, B, 80) != NULL;
}

static bool make(const char *below, bool is_dir)
{
        char path[160];

        (void)snprintf(path, sizeof(path), "%s/data/%s", g.dir, below);
        return (is_dir ? mkdir(path, 0700) : mknod(path, S_IFREG | 0600, 0)) == 0;
}

static long count_of(const char *below)
{
        char path[160];
        struct stat st;

        (void)snprintf(path, sizeof(path), "%s/data/%s", g.dir, below);
        return stat(path, &st) < 0 ? -1 : (long)st.st_nlink - 2; /* directories in it */
}

static bool trash_is_empty(void)
{
        for (int i = 0; i < ROUNDS && count_of("sandboxes") + count_of("trash") != 0; i++)
                pause_a_moment();
        return count_of("sandboxes") + count_of("trash") == 0;
}

static void a_dead_sweeper_is_replaced(void)
{
        pid_t pid;

        CHECK(is_up() && replaced("sg-trash"));
        CHECK(!rig_create(&g, rig_plan(A)) && !rig_kill(&g, A));
        CHECK(trash_is_empty());
        pid = rig_helper(&g, "sg-trash");
        CHECK(rig_hold(pid));
        CHECK(!rig_create(&g, rig_plan(A)) && !rig_kill(&g, A));
        for (int i = 0; i < ROUNDS && count_of("trash") == 0; i++)
                pause_a_moment(); /* the answer to a kill does not wait for the files of the sandbox */
        CHECK_INT(count_of("trash"), ==, 1);
        CHECK(end_one(pid));
        CHECK(trash_is_empty());
        for (int i = 0; i < 3; i++) /* however often */
                CHECK(replaced("sg-trash"));
        CHECK(!rig_create(&g, rig_plan(A)) && !rig_kill(&g, A));
        CHECK(trash_is_empty());
}

static json_t *layer_merge(const char *into)
{
        return json_pack("{s:s,s:[s,s],s:s}", "op", "merge", "layers", U("a"), U("b"), "into", into);
}

static void a_dead_layer_merger_is_replaced_and_merges(void)
{
        pid_t pid;

        CHECK(make("sealed/" U("a"), true) && make("sealed/" U("a") "/x", false));
        CHECK(make("sealed/" U("b"), true) && make("sealed/" U("b") "/y", false));
        CHECK(replaced("sg-layer-merge"));
        CHECK(is_ok(rig_call(&g, layer_merge(U("c")))));
        pid = rig_helper(&g, "sg-layer-merge");
        CHECK(rig_hold(pid));
        rig_send(&g, layer_merge(U("d")));
        rig_send(&g, layer_merge(U("e")));
        CHECK(make("sealed/.merge-" U("d"), true)); /* as one that was at it leaves it */
        CHECK(end_one(pid));
        CHECK(is_ok(rig_receive(&g)) && is_ok(rig_receive(&g)));
        for (const char *c = "abcde"; *c; c++) {
                char path[64];

                (void)snprintf(path, sizeof(path), "sealed/u-%c%c%c%c%c%c%c%c%c%c%c%c%c%c%c%c%c%c%c%c", *c, *c, *c, *c,
                               *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c);
                CHECK(count_of(path) == 0); /* there, with files only */
                CHECK(!rig_drop(&g, NULL, path + strlen("sealed/")));
        }
        CHECK(trash_is_empty());
}

static void a_dead_nursery_is_replaced_and_makes_cells(void)
{
        pid_t pid;

        rig_wait_pool(&g);
        CHECK(replaced("sg-cell-maker"));
        pid = rig_helper(&g, "sg-cell-maker");
        CHECK(rig_hold(pid));
        for (unsigned k = 0; k < 4; k++) { /* more than the pool holds */
                json_t *plan = rig_plan(A);
                char id[22];

                (void)snprintf(id, sizeof(id), "i%020u", k);
                (void)json_object_set_new(plan, "id", json_string(id));
                rig_send(&g, json_pack("{s:s,s:o}", "op", "create", "plan", plan));
        }
        CHECK(end_one(pid));
        for (unsigned k = 0; k < 4; k++)
                CHECK(is_ok(rig_receive(&g)));
        for (unsigned k = 0; k < 4; k++) {
                char id[22];

                (void)snprintf(id, sizeof(id), "i%020u", k);
                CHECK(!rig_kill(&g, id));
        }
}

static void a_dead_janitor_is_replaced_and_cleans(void)
{
        struct leak_count before, after;
        pid_t pid;

        rig_wait_pool(&g);
        CHECK(replaced("sg-slot-clean"));
        rig_wait_pool(&g);
        before = rig_count(&g, NULL);
        pid = rig_helper(&g, "sg-slot-clean");
        CHECK(rig_hold(pid));
        CHECK(!rig_create(&g, rig_plan(A)) && !rig_kill(&g, A));
        CHECK(end_one(pid));
        rig_wait_pool(&g);
        after = rig_count(&g, &before);
        CHECK(leak_none(&after, &before));
}

static void a_dead_marker_is_replaced_and_marks(void)
{
        json_t *answer;
        pid_t pid;

        CHECK(begin());
        CHECK(replaced("sg-resume-mark"));
        for (int i = 0; i < 2; i++) { /* an idle one was killed; then one that has the order before it */
                CHECK(!rig_pause(&g, A, IMAGE));
                pid = wait_for_helper("sg-resume-mark", 0);
                CHECK(pid > 1);
                if (i > 0)
                        CHECK(rig_hold(pid));
                send_wake();
                CHECK(dial_is_answered());
                if (i > 0)
                        CHECK(end_one(pid));
                answer = rig_receive(&g);
                CHECK_STR(json_string_value(json_object_get(answer, "from")), "warm");
                json_decref(answer);
                CHECK(!rig_drop(&g, IMAGE, NULL));
        }
        CHECK(is_itself());
        CHECK(wait_for_helper("sg-resume-mark", pid) > 0);
        CHECK(!rig_kill(&g, A));
}

static void a_dead_vault_is_replaced_and_pauses(void)
{
        CHECK(begin());
        CHECK(replaced("sg-job-queue"));
        CHECK(!rig_pause(&g, A, IMAGE));
        CHECK(replaced("sg-job-queue"));
        CHECK(!rig_create(&g, used_checkpoints(A)));
        CHECK(is_itself());
        CHECK(!rig_kill(&g, A) && !rig_drop(&g, IMAGE, NULL));
}

int main(void)
{
        if (!can_run())
                return 0;
        if (!rig_open(&g, 2))
                return 1;
        g.warm_mb = 64;
        if (!rig_start(&g))
                return 1;
        RUN(a_dead_sweeper_is_replaced);
        RUN(a_dead_layer_merger_is_replaced_and_merges);
        RUN(a_dead_nursery_is_replaced_and_makes_cells);
        RUN(a_dead_janitor_is_replaced_and_cleans);
        RUN(a_dead_marker_is_replaced_and_marks);
        RUN(a_dead_vault_is_replaced_and_pauses);
        RUN(nothing_is_left);
        rig_close(&g);
        return tap_done();
}
