/* A disk that stalls: a file system that is frozen for a while.  Whoever needs no disk goes on, the others wait and are
 * answered when it is back. */
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/destroy.h"
#include "one.h"

#define C "icccccccccccccccccccc"
#define THAW_S 60u /* whatever happens to us */

static char disk[96]; /* where it is mounted */
static int disk_fd = -1;
static pid_t watchman;

/* ------------------------------------------------------------- the disk */

static int run(const char *const argv[])
{
        int st = -1;
        pid_t pid = fork();

        if (pid == 0) {
                (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
                _exit(127);
        }
        return pid > 0 && waitpid(pid, &st, 0) == pid && WIFEXITED(st) ? WEXITSTATUS(st) : -1;
}

static const char *mount_disk(void)
{
        char image[96];
        int fd;

        (void)snprintf(disk, sizeof(disk), "%s/data", g.dir);
        (void)snprintf(image, sizeof(image), "%s/image", g.dir);
        fd = open(image, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0 || ftruncate(fd, 96 << 20) < 0)
                return "there is no room for an image of a disk";
        (void)close(fd);
        if (run((const char *const[]){"mkfs.ext4", "-q", "-F", image, NULL}) != 0 ||
            run((const char *const[]){"mount", "-o", "loop", image, disk, NULL}) != 0)
                return "this host cannot mount an image of a disk";
        disk_fd = open(disk, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return disk_fd < 0 ? "the disk cannot be opened" : NULL;
}

static bool thaw(void)
{
        if (watchman > 0) {
                (void)kill(watchman, SIGKILL);
                (void)waitpid(watchman, NULL, 0);
                watchman = 0;
        }
        return ioctl(disk_fd, FITHAW, 0) == 0;
}

/* With somebody who thaws it when we do not. */
static bool freeze(void)
{
        watchman = fork();
        if (watchman == 0) {
                (void)signal(SIGTERM, SIG_IGN);
                (void)sleep(THAW_S);
                (void)ioctl(disk_fd, FITHAW, 0);
                _exit(0);
        }
        return watchman > 0 && ioctl(disk_fd, FIFREEZE, 0) == 0;
}

/* ------------------------------------------------------------- what goes on */

static bool is_ok(json_t *answer)
{
        bool ok = json_is_true(json_object_get(answer, "ok"));

        if (!ok)
                printf("# %s\n", answer ? json_dumps(answer, 0) : "no answer");
        json_decref(answer);
        return ok;
}

static json_t *one_of(const char *op, const char *id)
{
        return json_pack("{s:s,s:s}", "op", op, "id", id);
}

static json_t *create(const char *id)
{
        return json_pack("{s:s,s:o}", "op", "create", "plan", rig_plan(id));
}

static json_t *rules(const char *id)
{
        return json_pack("{s:s,s:s,s:{s:b,s:[],s:[s]}}", "op", "net", "id", id, "net", "internet", 1, "allow", "deny",
                         "10.0.0.0/8");
}

static bool next_is_ok(void) /* facts aside */
{
        json_t *answer = rig_receive(&g);

        while (answer && json_object_get(answer, "event")) {
                json_decref(answer);
                answer = rig_receive(&g);
        }
        return is_ok(answer);
}

static bool others_go_on(const char *id)
{
        return strcmp(rig_run(&g, id, "read /proc/1/comm"), ".envd\n") == 0 && /* a dial, and what is behind it */
               is_ok(rig_call(&g, one_of("stats", id))) && is_ok(rig_info(&g)) && rig_state(&g, id) &&
               strcmp(rig_state(&g, id), "running") == 0;
}

static void those_who_need_no_disk_do_not_wait_for_a_create(void)
{
        CHECK(!rig_create(&g, rig_plan(A)));
        CHECK(freeze());
        rig_send(&g, create(B));
        rig_send(&g, create(C));
        CHECK(others_go_on(A));
        CHECK(thaw());
        CHECK(next_is_ok() && next_is_ok());
        CHECK(others_go_on(B) && others_go_on(C));
        CHECK(!rig_kill(&g, B) && !rig_kill(&g, C) && !rig_kill(&g, A));
}

static void a_kill_ends_processes_and_waits_for_nothing_else(void)
{
        CHECK(!rig_create(&g, rig_plan(A)) && !rig_create(&g, rig_plan(B)));
        CHECK(freeze());
        rig_send(&g, create(C));
        CHECK(!rig_kill(&g, A));
        CHECK(!rig_state(&g, A));
        CHECK_STARTS(rig_kill(&g, A), "gone");
        CHECK(others_go_on(B));
        CHECK(thaw());
        CHECK(is_ok(rig_receive(&g)));
        CHECK(!rig_create(&g, rig_plan(A))); /* its files are gone: the id can be used again */
        CHECK(!rig_kill(&g, A) && !rig_kill(&g, B) && !rig_kill(&g, C));
}

static void who_begins_under_the_id_of_one_that_ends_waits_for_its_files(void)
{
        CHECK(!rig_create(&g, rig_plan(A)) && !rig_create(&g, rig_plan(B)));
        CHECK(freeze());
        CHECK(!rig_kill(&g, A));
        rig_send(&g, create(A));
        CHECK(others_go_on(B));
        CHECK(thaw());
        CHECK(next_is_ok());
        CHECK(!rig_kill(&g, A) && !rig_kill(&g, B));
}

static void rules_hold_at_once_and_are_answered_when_they_are_kept(void)
{
        CHECK(!rig_create(&g, rig_plan(A)) && !rig_create(&g, rig_plan(B)));
        CHECK(freeze());
        rig_send(&g, rules(A));
        CHECK(others_go_on(A) && others_go_on(B));
        CHECK(thaw());
        CHECK(next_is_ok());
        CHECK(!rig_kill(&g, A) && !rig_kill(&g, B));
}

static void dropping_and_merging_wait_alone(void)
{
        CHECK(!rig_create(&g, rig_plan(A)));
        CHECK_INT(mkdirat(disk_fd, "sealed/" LAYER, 0700), ==, 0);
        CHECK(freeze());
        rig_send(&g, json_pack("{s:s,s:[],s:[s]}", "op", "drop", "checkpoints", "layers", LAYER));
        CHECK(others_go_on(A));
        CHECK(thaw());
        CHECK(next_is_ok());
        CHECK(faccessat(disk_fd, "sealed/" LAYER, F_OK, 0) < 0);
        CHECK(!rig_kill(&g, A));
}

/* Moving aside, looking at it, bringing it back, removing it, a changed origin. */
static void what_is_lost_waits_alone(void)
{
        CHECK(!rig_create(&g, rig_plan(A)));
        CHECK_INT(mkdirat(disk_fd, "sealed/" LAYER, 0700), ==, 0);
        CHECK(freeze());
        rig_send(&g, json_pack("{s:s,s:[s],s:s}", "op", "lose", "layers", LAYER, "why", "a test"));
        rig_send(&g, json_pack("{s:s}", "op", "lost"));
        rig_send(&g, json_pack("{s:s,s:s,s:{s:s}}", "op", "origin", "id", A, "changes", "a", "b"));
        CHECK(others_go_on(A));
        CHECK(thaw());
        CHECK(next_is_ok() && next_is_ok() && next_is_ok());
        CHECK(faccessat(disk_fd, "lost/" LAYER, F_OK, 0) == 0);
        CHECK(freeze());
        rig_send(&g, json_pack("{s:s,s:[s]}", "op", "restore", "layers", LAYER));
        CHECK(others_go_on(A));
        CHECK(thaw());
        CHECK(next_is_ok());
        CHECK(faccessat(disk_fd, "sealed/" LAYER, F_OK, 0) == 0);
        rig_send(&g, json_pack("{s:s,s:[s],s:s}", "op", "lose", "layers", LAYER, "why", "a test"));
        CHECK(next_is_ok());
        CHECK(freeze());
        rig_send(&g, one_of("remove", LAYER));
        CHECK(others_go_on(A));
        CHECK(thaw());
        CHECK(next_is_ok());
        CHECK(faccessat(disk_fd, "lost/" LAYER, F_OK, 0) < 0);
        CHECK(!rig_kill(&g, A));
}

static void a_pause_and_a_wake_wait_alone(void)
{
        CHECK(begin() && !rig_create(&g, rig_plan(B)));
        CHECK(freeze());
        send_pause();
        CHECK(others_go_on(B));
        CHECK(thaw());
        CHECK(next_is_ok());
        CHECK(freeze());
        send_wake();
        CHECK(others_go_on(B));
        CHECK(thaw());
        CHECK(next_is_ok());
        CHECK(is_itself());
        CHECK(!rig_kill(&g, A) && !rig_kill(&g, B) && !rig_drop(&g, IMAGE, NULL));
}

static void a_cold_start_on_kept_files_waits_alone(void)
{
        json_t *plan = used_checkpoints(A);

        CHECK(begin() && !rig_create(&g, rig_plan(B)));
        CHECK(!rig_pause(&g, A, NULL));
        (void)json_object_del(plan, "checkpoint");
        CHECK(freeze());
        rig_send(&g, json_pack("{s:s,s:o}", "op", "create", "plan", plan));
        CHECK(others_go_on(B));
        CHECK(thaw());
        CHECK(next_is_ok());
        CHECK_STR(rig_run(&g, A, "read /tmp/kept"), "one ");
        CHECK(!rig_kill(&g, A) && !rig_kill(&g, B));
}

static void a_thaw_of_a_warm_one_waits_alone(void)
{
        CHECK(rig_stop(&g));
        g.warm_mb = 64;
        CHECK(rig_start(&g));
        CHECK(begin() && !rig_create(&g, rig_plan(B)));
        CHECK(!rig_pause(&g, A, IMAGE));
        CHECK(freeze());
        send_wake();
        CHECK(others_go_on(B));
        CHECK(thaw());
        CHECK(next_is_ok());
        CHECK(is_itself());
        CHECK(!rig_kill(&g, A) && !rig_kill(&g, B) && !rig_drop(&g, IMAGE, NULL));
}

/* Whoever is at it dies: the one it was at hears so, the others are made by the next. */
static void a_dead_disk_helper_is_replaced_and_makes_the_rest(void)
{
        int made = 0, failed = 0;
        pid_t pid;

        CHECK(!rig_create(&g, rig_plan(B)));
        rig_wait_pool(&g);
        pid = rig_helper(&g, "sg-disk");
        CHECK(rig_hold(pid));
        rig_send(&g, create(A));
        rig_send(&g, one_of("kill", B));
        rig_send(&g, create(C));
        CHECK(rig_dial_refusal(&g, A, 80)); /* the engine goes on */
        CHECK(is_ok(rig_receive(&g)));      /* of B, nothing but its files is left */
        CHECK(end_one(pid));
        for (int i = 0; i < 2; i++) { /* in any order */
                json_t *answer = rig_receive(&g);
                const char *message = json_string_value(json_object_get(json_object_get(answer, "error"), "message"));

                made += json_is_true(json_object_get(answer, "ok"));
                failed += message && strcmp(message, "the disk process died: try again") == 0;
                json_decref(answer);
        }
        CHECK(made == 1 && failed == 1);
        CHECK(others_go_on(C));
        CHECK(!rig_kill(&g, C));
        CHECK(!rig_create(&g, rig_plan(A)) && !rig_kill(&g, A));
}

static void nothing_is_left_on_it(void)
{
        const struct leak_count none = {.mounts = 1}; /* the disk itself */
        struct leak_count after;

        rig_wait_files(&g, 0);
        CHECK(rig_stop(&g));
        after = rig_count(&g, &none);
        CHECK(leak_none(&after, &none));
}

static void run_clean(const char *name, void (*fn)(void))
{
        static const char *const ids[] = {A, B, C};

        tap_run(name, fn);
        if (!tap_case_failed)
                return;
        (void)thaw();
        rig_reconnect(&g);
        for (size_t i = 0; i < ARRAY_LEN(ids); i++)
                (void)rig_kill(&g, ids[i]);
        (void)rig_drop(&g, IMAGE, NULL);
}

#define RUN_THAWED(fn) run_clean(#fn, fn)

int main(void)
{
        struct err err = {0};
        const char *why;

        if (!can_run())
                return 0;
        if (!rig_open(&g, 4))
                return 1;
        why = mount_disk();
        if (why) {
                printf("1..0 # SKIP %s\n", why);
                rig_close(&g);
                return 0;
        }
        if (!rig_start(&g))
                return 1;
        RUN_THAWED(those_who_need_no_disk_do_not_wait_for_a_create);
        RUN_THAWED(a_kill_ends_processes_and_waits_for_nothing_else);
        RUN_THAWED(who_begins_under_the_id_of_one_that_ends_waits_for_its_files);
        RUN_THAWED(rules_hold_at_once_and_are_answered_when_they_are_kept);
        RUN_THAWED(dropping_and_merging_wait_alone);
        RUN_THAWED(what_is_lost_waits_alone);
        RUN_THAWED(a_cold_start_on_kept_files_waits_alone);
        RUN_THAWED(a_pause_and_a_wake_wait_alone);
        RUN_THAWED(a_thaw_of_a_warm_one_waits_alone);
        RUN_THAWED(a_dead_disk_helper_is_replaced_and_makes_the_rest);
        RUN(nothing_is_left_on_it);
        if (g.engine > 0)
                (void)rig_stop(&g);
        if (engine_destroy_all(disk, &err) < 0) /* while it is there */
                printf("# destroy: %s\n", err.msg);
        close_fd(&disk_fd);
        (void)umount2(disk, MNT_DETACH);
        rig_close(&g);
        return tap_done();
}
