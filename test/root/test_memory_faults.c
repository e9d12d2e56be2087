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
#include "rig.h"

#define A "iaaaaaaaaaaaaaaaaaaaa"
#define B "ibbbbbbbbbbbbbbbbbbbb"
#define LAYER "u-aaaaaaaaaaaaaaaaaaaa"
#define IMAGE "caaaaaaaaaaaaaaaaaaaa"
#define LATER "cbbbbbbbbbbbbbbbbbbbb"

static struct rig g;

static json_t *woken(const char *id)
{
        json_t *plan = rig_plan(id);

        (void)json_object_set_new(plan, "upper", json_string("kept"));
        (void)json_object_set_new(plan, "checkpoint", json_string(IMAGE));
        return plan;
}

/* ------------------------------------------------------------- holding a worker at a point */

static void stall(const char *point)
{
        char path[160];

        (void)snprintf(path, sizeof(path), "%s/data/stall", g.dir);
        (void)mkdir(path, 0700);
        (void)snprintf(path, sizeof(path), "%s/data/stall/%s", g.dir, point);
        (void)mkfifo(path, 0600);
}

static int reach(const char *point) /* wait until a worker is there; it goes on when the fd is closed */
{
        char path[160];
        int fd;

        (void)snprintf(path, sizeof(path), "%s/data/stall/%s", g.dir, point);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        (void)unlink(path);
        return fd;
}

static bool end_one(pid_t pid) /* never everybody */
{
        return pid > 1 && kill(pid, SIGKILL) == 0;
}

static void send_pause(void)
{
        rig_send(&g, json_pack("{s:s,s:s,s:s}", "op", "pause", "id", A, "checkpoint", IMAGE));
}

static void send_wake(void)
{
        rig_send(&g, json_pack("{s:s,s:o}", "op", "create", "plan", woken(A)));
}

static const char *fact(void) /* the state in the next fact */
{
        json_t *msg = rig_receive(&g);
        const char *event = json_string_value(json_object_get(msg, "event"));
        static char text[64];

        (void)snprintf(text, sizeof(text), "%s %s", event ? event : "no fact",
                       json_is_string(json_object_get(msg, "state")) ? json_string_value(json_object_get(msg, "state"))
                                                                     : "");
        json_decref(msg);
        return text;
}

static bool begin(void) /* a sandbox with something to lose */
{
        const char *why = rig_create(&g, rig_plan(A));

        if (why)
                printf("# %s\n", why);
        return !why && strcmp(rig_run(&g, A, "append one "), "ok") == 0;
}

static bool is_itself(void)
{
        return strcmp(rig_run(&g, A, "append two"), "ok") == 0 &&
               strcmp(rig_run(&g, A, "read /tmp/kept"), "one two") == 0;
}

static const char *end(void)
{
        const char *why = rig_kill(&g, A);

        return why ? why : rig_drop(&g, IMAGE, NULL);
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
                CHECK_STARTS(rig_create(&g, woken(A)), "conflict");
                (void)close(fd);
                CHECK_STR(fact(), "settled paused");
                CHECK_STR(rig_state(&g, A), "paused");
                CHECK_NONE(rig_create(&g, woken(A)));
                CHECK(is_itself());
                CHECK_NONE(end());
        }
}

static void waking_goes_on_without_the_engine(void)
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
                CHECK_STR(fact(), "settled running");
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

/* ------------------------------------------------------------- the worker dies */

static void a_pause_whose_worker_dies_never_was(void)
{
        static const char *const points[] = {"frozen", "dumped"};

        for (size_t i = 0; i < ARRAY_LEN(points); i++) {
                json_t *answer;
                int fd;

                CHECK(begin());
                stall(points[i]);
                send_pause();
                fd = reach(points[i]);
                CHECK(end_one(rig_worker(&g)));
                (void)close(fd);
                answer = rig_receive(&g);
                CHECK(json_object_get(answer, "error"));
                json_decref(answer);
                CHECK_STR(fact(), "settled running"); /* the last word */
                CHECK_STR(rig_state(&g, A), "running");
                CHECK(is_itself());
                CHECK_NONE(rig_pause(&g, A, IMAGE)); /* and it can be paused */
                CHECK_NONE(end());
        }
}

static void a_pause_whose_worker_dies_late_is_done(void)
{
        int fd;

        CHECK(begin());
        stall("kept");
        send_pause();
        fd = reach("kept");
        CHECK(end_one(rig_worker(&g)));
        (void)close(fd);
        json_decref(rig_receive(&g));
        CHECK_STR(fact(), "settled paused");
        CHECK_NONE(rig_create(&g, woken(A)));
        CHECK(is_itself());
        CHECK_NONE(end());
}

static void waking_whose_worker_dies_can_be_tried_again(void)
{
        static const char *const points[] = {"placed", "restored"};

        for (size_t i = 0; i < ARRAY_LEN(points); i++) {
                int fd;

                CHECK(begin());
                CHECK_NONE(rig_pause(&g, A, IMAGE));
                stall(points[i]);
                send_wake();
                fd = reach(points[i]);
                CHECK(end_one(rig_worker(&g)));
                (void)close(fd);
                json_decref(rig_receive(&g));
                CHECK_STR(fact(), "settled paused");
                CHECK_STR(rig_state(&g, A), "paused");
                CHECK_NONE(rig_create(&g, woken(A)));
                CHECK(is_itself());
                CHECK_NONE(end());
        }
}

static void waking_whose_worker_dies_late_is_done(void)
{
        int fd;

        CHECK(begin());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        stall("resumed");
        send_wake();
        fd = reach("resumed");
        CHECK(end_one(rig_worker(&g)));
        (void)close(fd);
        json_decref(rig_receive(&g));
        CHECK_STR(fact(), "settled running");
        CHECK(is_itself());
        CHECK_NONE(end());
}

static json_int_t memory_limit(void)
{
        json_t *answer = rig_call(&g, json_pack("{s:s,s:s}", "op", "stats", "id", A));
        json_int_t n = json_integer_value(json_object_get(answer, "memory_limit"));

        json_decref(answer);
        return n;
}

/* However many ask, no more look at a time than there may be workers, and others have their turn meanwhile. */
static void those_who_look_are_few_at_a_time(void)
{
        long cores = sysconf(_SC_NPROCESSORS_ONLN), asked = 2 * cores + 20, before, meanwhile;
        json_t *answer;
        int fd;

        CHECK_NONE(rig_create(&g, rig_plan(A)));
        rig_wait_pool(&g);
        before = rig_count(&g, NULL).fds; /* one more for each worker that is at it */
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

/* CRIU was given more: nobody may keep that. */
static void limits_are_put_right_whoever_died(void)
{
        for (int with_engine = 0; with_engine < 2; with_engine++) {
                json_int_t before;
                pid_t worker;
                int fd;

                CHECK(begin());
                before = memory_limit();
                CHECK_INT(before, ==, 256 << 20);
                CHECK_NONE(rig_pause(&g, A, IMAGE));
                stall("running");
                send_wake();
                fd = reach("running");
                worker = rig_worker(&g);
                if (with_engine)
                        rig_crash(&g);
                CHECK(end_one(worker));
                (void)close(fd);
                if (with_engine) {
                        CHECK(rig_start(&g));
                        while (strcmp(rig_state(&g, A), "busy") == 0)
                                continue; /* the fact may have come before we listened */
                } else {
                        json_decref(rig_receive(&g));
                        CHECK_STR(fact(), "settled running");
                }
                CHECK_INT(memory_limit(), ==, before);
                CHECK_INT(strtol(rig_run(&g, A, "forks 1000"), NULL, 10), <, 256);
                CHECK(is_itself());
                CHECK_NONE(end());
        }
}

/* It would answer to the other's token. */
static void a_copy_that_does_not_know_itself_is_ended(void)
{
        for (int with_engine = 0; with_engine < 2; with_engine++) {
                json_t *plan = rig_plan(B);
                pid_t worker;
                int fd;

                CHECK(begin());
                CHECK_NONE(rig_pause(&g, A, IMAGE));
                CHECK_NONE(rig_seal(&g, A, LAYER));
                (void)json_array_append_new(json_object_get(plan, "layers"), json_string(LAYER));
                (void)json_object_set_new(plan, "checkpoint", json_string(IMAGE));
                stall("resumed");
                rig_send(&g, json_pack("{s:s,s:o}", "op", "create", "plan", plan));
                fd = reach("resumed");
                worker = rig_worker(&g);
                if (with_engine)
                        rig_crash(&g);
                CHECK(end_one(worker));
                (void)close(fd);
                if (with_engine) {
                        CHECK(rig_start(&g));
                        while (rig_state(&g, B))
                                continue; /* the fact may have come before we listened */
                } else {
                        json_decref(rig_receive(&g));
                        CHECK_STR(fact(), "exited ");
                        CHECK(!rig_state(&g, B));
                }
                CHECK_NONE(rig_kill(&g, A));
                CHECK_NONE(rig_drop(&g, IMAGE, LAYER));
        }
}

static void everything_dies(void)
{
        pid_t worker;
        int fd;

        CHECK(begin());
        stall("dumped");
        send_pause();
        fd = reach("dumped");
        worker = rig_worker(&g);
        rig_crash(&g);
        CHECK(end_one(worker));
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
        CHECK(end_one(rig_helper(&g, "sg-vault")));
        (void)close(fd);
        answer = rig_receive(&g);
        CHECK(json_is_true(json_object_get(answer, "ok")));
        json_decref(answer);
        CHECK_NONE(rig_create(&g, woken(A))); /* by another vault */
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
        CHECK_NONE(rig_create(&g, woken(A)));
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
        CHECK(rig_stop(&g));
        after = rig_count(&g, &nobody);
        g.warm_mb = 0;
        CHECK(rig_start(&g));
        CHECK(leak_none(&after, &nobody));
        CHECK_NONE(rig_create(&g, woken(A)));
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

static void one_being_woken_can_be_killed(void)
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
        CHECK_STR(fact(), "settled paused");
        CHECK_NONE(rig_create(&g, woken(A)));
        CHECK(is_itself());
        CHECK_NONE(end());
}

/* ------------------------------------------------------------- bad images, no room */

/* One byte of the first image with such a name that has at least so many bytes. */
static bool damage(const char *name_start, off_t least)
{
        char dir[160], path[420];
        struct dirent *e;
        bool is_done = false;
        DIR *d;

        (void)snprintf(dir, sizeof(dir), "%s/data/checkpoints/" IMAGE "/images", g.dir);
        d = opendir(dir);
        while (d && !is_done && (e = readdir(d))) {
                struct stat st;
                char byte = 0;
                int fd;

                (void)snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
                if (strncmp(e->d_name, name_start, strlen(name_start)) != 0 || stat(path, &st) < 0 ||
                    st.st_size < least)
                        continue;
                fd = open(path, O_RDWR | O_CLOEXEC);
                is_done = fd >= 0 && pread(fd, &byte, 1, 40) == 1 && (byte ^= 1, pwrite(fd, &byte, 1, 40) == 1);
                (void)close(fd);
        }
        if (d)
                (void)closedir(d);
        return is_done;
}

static void a_damaged_image_is_told_and_the_files_are_there(void)
{
        static const char *const names[] = {"pages-", "core-", "inventory"};
        json_t *plan;

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                CHECK(begin());
                CHECK_STR(rig_run(&g, A, "hog 4"), "fits");
                CHECK_NONE(rig_pause(&g, A, IMAGE));
                CHECK(damage(names[i], 0));
                CHECK_STARTS(rig_create(&g, woken(A)), "invalid: checkpoint damaged: ");
                CHECK_STR(rig_state(&g, A), "paused");
                plan = woken(A);
                (void)json_object_del(plan, "checkpoint");
                CHECK_NONE(rig_create(&g, plan));
                CHECK_STR(rig_run(&g, A, "read /tmp/kept"), "one ");
                CHECK_NONE(end());
        }
        CHECK(begin());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
        CHECK_STARTS(rig_create(&g, woken(A)), "not_found");
        CHECK_STR(rig_state(&g, A), "paused");
        CHECK_NONE(end());
}

static off_t size_of(const char *file) /* of its upper directory */
{
        char path[160];
        struct stat st;

        (void)snprintf(path, sizeof(path), "%s/data/sandboxes/" A "/u%s", g.dir, file);
        return stat(path, &st) < 0 ? -1 : st.st_size;
}

static void nothing_runs_from_a_damaged_image(void)
{
        off_t before;

        CHECK(begin());
        CHECK_STR(rig_run(&g, A, "hold 16"), "ok"); /* so much is checked beside CRIU's reading it */
        CHECK_STR(rig_run(&g, A, "ticker /tmp/ticks"), "ok");
        while (size_of("/tmp/ticks") < 3)
                continue;
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        before = size_of("/tmp/ticks");
        CHECK(damage("pages-", 8 << 20));
        for (int i = 0; i < 5; i++)
                CHECK_STARTS(rig_create(&g, woken(A)), "invalid: checkpoint damaged: ");
        CHECK_INT(size_of("/tmp/ticks"), ==, before);
        CHECK_NONE(end());
}

static pid_t init_of(const char *id)
{
        char path[160];
        json_t *cell;
        pid_t pid;

        (void)snprintf(path, sizeof(path), "%s/data/sandboxes/%s/cell.json", g.dir, id);
        cell = json_load_file(path, 0, NULL);
        pid = (pid_t)json_integer_value(json_object_get(cell, "pid"));
        json_decref(cell);
        return pid;
}

static json_t *refused(void) /* by its envd, when it is told that it was woken */
{
        json_t *plan = woken(A);

        (void)json_object_set_new(json_object_get(plan, "init"), "hostname", json_string("test-refuse"));
        return plan;
}

/* What ran may have changed its files: the image of before would not fit them. */
static void one_whose_envd_does_not_answer_rests_as_it_is_then(void)
{
        json_t *plan, *answer;

        CHECK(begin());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        answer = rig_call(&g, json_pack("{s:s,s:o}", "op", "create", "plan", refused()));
        CHECK(json_is_true(json_object_get(answer, "ok")));
        CHECK_STARTS(json_string_value(json_object_get(json_object_get(answer, "deaf"), "message")), "envd refused");
        json_decref(answer);
        CHECK_STR(rig_state(&g, A), "running");
        CHECK_STR(rig_run(&g, A, "append two "), "ok"); /* what its processes did meanwhile */
        CHECK_NONE(rig_pause(&g, A, LATER));
        CHECK_STARTS(rig_create(&g, woken(A)), "invalid: checkpoint damaged: it is not of the files");
        CHECK_STR(rig_state(&g, A), "paused");
        plan = woken(A);
        (void)json_object_set_new(plan, "checkpoint", json_string(LATER));
        CHECK_NONE(rig_create(&g, plan));
        CHECK_STR(rig_run(&g, A, "append three"), "ok");
        CHECK_STR(rig_run(&g, A, "read /tmp/kept"), "one two three");
        CHECK_NONE(end());
        CHECK_NONE(rig_drop(&g, LATER, NULL));
}

/* There is nothing left that could be kept but files. */
static void one_that_dies_when_it_wakes_keeps_its_files(void)
{
        json_t *plan, *answer;
        int fd;

        CHECK(begin());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        stall("resumed");
        send_wake();
        fd = reach("resumed");
        CHECK(end_one(init_of(A)));
        (void)close(fd);
        answer = rig_receive(&g);
        const char *why = json_string_value(json_object_get(json_object_get(answer, "error"), "message"));
        CHECK(why && strstr(why, "only its files are kept"));
        json_decref(answer);
        CHECK_STR(fact(), "settled paused");
        CHECK_STARTS(rig_create(&g, woken(A)), "invalid: checkpoint damaged: it is not of the files");
        plan = woken(A);
        (void)json_object_del(plan, "checkpoint");
        CHECK_NONE(rig_create(&g, plan));
        CHECK_STR(rig_run(&g, A, "read /tmp/kept"), "one ");
        CHECK_NONE(end());
}

static bool copy_file(const char *from, const char *to)
{
        char command[400];

        (void)snprintf(command, sizeof(command), "cp %s %s", from, to);
        return system(command) == 0;
}

static bool boot_again(void) /* for those who compare what was written before */
{
        char command[400];

        (void)snprintf(
                command, sizeof(command),
                "sed -i s/$(cat /proc/sys/kernel/random/boot_id)/00000000-0000-0000-0000-000000000000/g %s/data/woken",
                g.dir);
        return system(command) == 0;
}

/* As if the power had been cut right after it was woken: what it wrote over others in its files is on disk, and that it is
 * no longer at rest is not. */
static void memory_that_was_woken_before_a_power_cut_is_not_woken_again(void)
{
        char still[160], kept[160];
        json_t *plan;

        (void)snprintf(still, sizeof(still), "%s/data/sandboxes/" A "/still.json", g.dir);
        (void)snprintf(kept, sizeof(kept), "%s/still.json", g.dir);
        for (unsigned warm = 0; warm < 2; warm++) {
                CHECK(rig_stop(&g));
                g.warm_mb = warm * 64;
                CHECK(rig_start(&g));
                CHECK(begin());
                CHECK_NONE(rig_pause(&g, A, IMAGE));
                CHECK(copy_file(still, kept));
                CHECK_NONE(rig_create(&g, woken(A)));
                CHECK_STR(rig_run(&g, A, "append two"), "ok");
                rig_crash(&g);
                CHECK(end_one(init_of(A)));
                CHECK(copy_file(kept, still) && boot_again());
                g.warm_mb = 0;
                CHECK(rig_start(&g));
                CHECK_STR(rig_state(&g, A), "paused");
                CHECK_STARTS(rig_create(&g, woken(A)), "invalid: checkpoint damaged: it is not of the files");
                plan = woken(A);
                (void)json_object_del(plan, "checkpoint");
                CHECK_NONE(rig_create(&g, plan));
                CHECK_STR(rig_run(&g, A, "read /tmp/kept"), "one two");
                CHECK_NONE(end());
                (void)unlink(kept);
        }
        CHECK(rig_stop(&g)); /* other cases use the same names */
        (void)snprintf(kept, sizeof(kept), "%s/data/woken", g.dir);
        (void)unlink(kept);
        CHECK(rig_start(&g));
}

/* Between the word that it moves and its moving. */
static void a_warm_one_runs_whoever_dies_on_its_way(void)
{
        json_t *answer;
        int fd;

        CHECK(rig_stop(&g));
        g.warm_mb = 64;
        CHECK(rig_start(&g));
        CHECK(begin());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        stall("roused");
        send_wake();
        fd = reach("roused");
        CHECK(fd >= 0);
        rig_crash(&g);
        (void)close(fd);
        CHECK(rig_start(&g));
        CHECK_STR(rig_state(&g, A), "running");
        CHECK_STR(rig_run(&g, A, "append two "), "ok");
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        stall("roused");
        send_wake();
        fd = reach("roused");
        CHECK(end_one(rig_helper(&g, "sg-marker")));
        (void)close(fd);
        for (int i = 0; i < 2; i++) { /* that one, and another without it */
                answer = rig_receive(&g);
                CHECK_STR(json_string_value(json_object_get(answer, "from")), "warm");
                json_decref(answer);
                CHECK_NONE(rig_drop(&g, IMAGE, NULL));
                CHECK_NONE(rig_pause(&g, A, IMAGE));
                send_wake();
        }
        json_decref(rig_receive(&g));
        CHECK_STR(rig_run(&g, A, "append three"), "ok");
        CHECK_STR(rig_run(&g, A, "read /tmp/kept"), "one two three");
        CHECK_NONE(end());
        CHECK(rig_stop(&g));
        g.warm_mb = 0;
        CHECK(rig_start(&g));
}

static void a_warm_one_can_be_killed_on_its_way(void)
{
        json_t *first, *second;
        int fd;

        CHECK(rig_stop(&g));
        g.warm_mb = 64;
        CHECK(rig_start(&g));
        CHECK(begin());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        stall("roused");
        send_wake();
        fd = reach("roused");
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
        CHECK(rig_stop(&g));
        g.warm_mb = 0;
        CHECK(rig_start(&g));
}

static void what_cannot_be_dumped_runs_on(void)
{
        const char *why;

        CHECK(begin());
        CHECK_STR(rig_run(&g, A, "queue"), "ok");
        why = rig_pause(&g, A, IMAGE);
        CHECK_STARTS(why, "conflict: ");
        printf("# %s\n", why);
        CHECK(strstr(why, "; pause with memory:false keeps the files"));
        CHECK_STR(rig_state(&g, A), "running");
        CHECK_STR(rig_run(&g, A, "unqueue"), "ok");
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_NONE(rig_create(&g, woken(A)));
        CHECK(is_itself());
        CHECK_NONE(end());
}

static void a_full_disk_lets_it_run_on(void)
{
        char path[160];
        int fd;

        CHECK(rig_stop(&g));
        (void)snprintf(path, sizeof(path), "%s/data", g.dir);
        CHECK_INT(mount("tiny", path, "tmpfs", 0, "size=4m"), ==, 0);
        CHECK(rig_start(&g));
        CHECK(begin());
        (void)snprintf(path, sizeof(path), "%s/data/filler", g.dir);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        while (write(fd, path, sizeof(path)) > 0)
                ;
        (void)close(fd);
        CHECK_STARTS(rig_pause(&g, A, IMAGE), "limit: ");
        CHECK_STR(rig_state(&g, A), "running");
        CHECK_INT(unlink(path), ==, 0);
        CHECK(is_itself());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_NONE(rig_create(&g, woken(A)));
        CHECK_NONE(end());
}

static void put_the_disk_back(void)
{
        char path[160];

        (void)rig_kill(&g, A);
        (void)rig_stop(&g);
        (void)snprintf(path, sizeof(path), "%s/data", g.dir);
        (void)umount2(path, MNT_DETACH);
        (void)rig_start(&g);
}

/* ------------------------------------------------------------- */

/* An engine that stops takes its own along: what is there then was left. */
static void nothing_is_left(void)
{
        const struct leak_count none = {0}, no_files = {1000, 1000, 1000, 1000, 1000, 0};
        struct leak_count after;
        bool is_stopped;

        (void)rig_count(&g, &no_files); /* once the trash is empty */
        is_stopped = rig_stop(&g);
        after = rig_count(&g, &none);
        CHECK(rig_start(&g));
        CHECK(is_stopped);
        CHECK(leak_none(&after, &none));
}

#define RUN_CLEAN(fn)                                                                                                  \
        do {                                                                                                           \
                RUN(fn);                                                                                               \
                RUN(nothing_is_left);                                                                                  \
        } while (0)

int main(void)
{
        if (rig_reason_to_skip() || !rig_criu_dir()) {
                printf("1..0 # SKIP %s\n",
                       rig_reason_to_skip() ? rig_reason_to_skip() : "SANDGLASS_CRIU_DIR is not set");
                return 0;
        }
        if (!rig_open(&g, 2) || !rig_start(&g))
                return 1;
        RUN_CLEAN(pause_goes_on_without_the_engine);
        RUN_CLEAN(waking_goes_on_without_the_engine);
        RUN_CLEAN(a_busy_one_can_be_killed);
        RUN_CLEAN(a_pause_whose_worker_dies_never_was);
        RUN_CLEAN(a_pause_whose_worker_dies_late_is_done);
        RUN_CLEAN(waking_whose_worker_dies_can_be_tried_again);
        RUN_CLEAN(waking_whose_worker_dies_late_is_done);
        RUN_CLEAN(those_who_look_are_few_at_a_time);
        RUN_CLEAN(limits_are_put_right_whoever_died);
        RUN_CLEAN(a_copy_that_does_not_know_itself_is_ended);
        RUN_CLEAN(everything_dies);
        RUN_CLEAN(a_vault_that_dies_takes_nothing_along);
        RUN_CLEAN(a_job_that_nobody_took_is_given_to_another);
        RUN_CLEAN(an_engine_that_stops_keeps_nothing_warm);
        RUN_CLEAN(kill_waits_for_a_pause);
        RUN_CLEAN(one_being_woken_can_be_killed);
        RUN_CLEAN(what_nobody_hears_becomes_a_fact);
        RUN_CLEAN(a_damaged_image_is_told_and_the_files_are_there);
        RUN_CLEAN(nothing_runs_from_a_damaged_image);
        RUN_CLEAN(one_whose_envd_does_not_answer_rests_as_it_is_then);
        RUN_CLEAN(one_that_dies_when_it_wakes_keeps_its_files);
        RUN_CLEAN(memory_that_was_woken_before_a_power_cut_is_not_woken_again);
        RUN_CLEAN(a_warm_one_runs_whoever_dies_on_its_way);
        RUN_CLEAN(a_warm_one_can_be_killed_on_its_way);
        RUN_CLEAN(what_cannot_be_dumped_runs_on);
        RUN(a_full_disk_lets_it_run_on);
        put_the_disk_back();
        RUN(nothing_is_left);
        rig_close(&g);
        return tap_done();
}
