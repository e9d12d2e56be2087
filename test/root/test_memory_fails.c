/* Pauses and wakes that fail, or succeed by half: damaged images, a deaf or dead init, a cut of power, a full disk. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <sys/wait.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "one.h"
#include "sys/fs.h"

#define LATER "cbbbbbbbbbbbbbbbbbbbb"

static const char *end(void)
{
        const char *why = rig_kill(&g, A);

        return why ? why : rig_drop(&g, IMAGE, NULL);
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
                CHECK_STARTS(rig_create(&g, used_checkpoints(A)), "invalid: checkpoint damaged: ");
                CHECK_STR(rig_state(&g, A), "paused");
                plan = used_checkpoints(A);
                (void)json_object_del(plan, "checkpoint");
                CHECK_NONE(rig_create(&g, plan));
                CHECK_STR(rig_run(&g, A, "read /tmp/kept"), "one ");
                CHECK_NONE(end());
        }
        CHECK(begin());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
        CHECK_STARTS(rig_create(&g, used_checkpoints(A)), "internal");
        CHECK_STR(rig_state(&g, A), "paused");
        CHECK_NONE(end());
}

/* Whether it is complete cannot be seen now: that is not to say that it is not. */
static void a_manifest_that_cannot_be_looked_at_costs_nothing(void)
{
        char path[200], away[200];

        CHECK(begin());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        (void)snprintf(path, sizeof(path), "%s/data/checkpoints/" IMAGE "/manifest.json", g.dir);
        (void)snprintf(away, sizeof(away), "%s/data/checkpoints/" IMAGE "/away", g.dir);
        CHECK_INT(rename(path, away), ==, 0);
        CHECK_INT(symlink("manifest.json", path), ==, 0); /* a loop */
        rig_crash(&g);
        CHECK(rig_start(&g));
        CHECK_INT(rename(away, path), ==, 0);
        CHECK_NONE(rig_create(&g, used_checkpoints(A)));
        CHECK_STR(rig_state(&g, A), "running");
        CHECK_NONE(end());
}

static off_t size_of(const char *file) /* of its upper directory */
{
        char path[160];
        struct stat st;

        (void)snprintf(path, sizeof(path), "%s/data/sandboxes/" A "/upper%s", g.dir, file);
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
                CHECK_STARTS(rig_create(&g, used_checkpoints(A)), "invalid: checkpoint damaged: ");
        CHECK_INT(size_of("/tmp/ticks"), ==, before);
        CHECK_NONE(end());
}

static pid_t init_of(const char *id)
{
        char path[160];
        json_t *cell;
        pid_t pid;

        (void)snprintf(path, sizeof(path), "%s/data/sandboxes/%s/running.json", g.dir, id);
        cell = json_load_file(path, 0, NULL);
        pid = (pid_t)json_integer_value(json_object_get(cell, "pid"));
        json_decref(cell);
        return pid;
}

static json_t *refused(void) /* by its envd, when it is told that it was woken */
{
        json_t *plan = used_checkpoints(A);

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
        CHECK_STARTS(json_string_value(json_object_get(json_object_get(answer, "envd_silent"), "message")),
                     "envd refused");
        json_decref(answer);
        CHECK_STR(rig_state(&g, A), "running");
        CHECK_STR(rig_run(&g, A, "append two "), "ok"); /* what its processes did meanwhile */
        CHECK_NONE(rig_pause(&g, A, LATER));
        CHECK_STARTS(rig_create(&g, used_checkpoints(A)), "invalid: checkpoint damaged: it is not of the files");
        CHECK_STR(rig_state(&g, A), "paused");
        plan = used_checkpoints(A);
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
        CHECK_STR(fact(), "rechecked paused");
        CHECK_STARTS(rig_create(&g, used_checkpoints(A)), "invalid: checkpoint damaged: it is not of the files");
        plan = used_checkpoints(A);
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

        (void)snprintf(command, sizeof(command),
                       "sed -i s/$(cat /proc/sys/kernel/random/boot_id)/00000000-0000-0000-0000-000000000000/g "
                       "%s/data/used-checkpoints",
                       g.dir);
        return system(command) == 0;
}

/* As if the power had been cut right after it was woken: what it wrote over others in its files is on disk, and that it is
 * no longer at rest is not. */
static void memory_that_was_restored_before_a_power_cut_is_not_restored_again(void)
{
        char paused[160], kept[160];
        json_t *plan;

        (void)snprintf(paused, sizeof(paused), "%s/data/sandboxes/" A "/paused.json", g.dir);
        (void)snprintf(kept, sizeof(kept), "%s/paused.json", g.dir);
        for (unsigned warm = 0; warm < 2; warm++) {
                CHECK(rig_stop(&g));
                g.warm_mb = warm * 64;
                CHECK(rig_start(&g));
                CHECK(begin());
                CHECK_NONE(rig_pause(&g, A, IMAGE));
                CHECK(copy_file(paused, kept));
                CHECK_NONE(rig_create(&g, used_checkpoints(A)));
                CHECK_STR(rig_run(&g, A, "append two"), "ok");
                rig_crash(&g);
                CHECK(end_one(init_of(A)));
                CHECK(copy_file(kept, paused) && boot_again());
                g.warm_mb = 0;
                CHECK(rig_start(&g));
                CHECK_STR(rig_state(&g, A), "paused");
                CHECK_STARTS(rig_create(&g, used_checkpoints(A)),
                             "invalid: checkpoint damaged: it is not of the files");
                plan = used_checkpoints(A);
                (void)json_object_del(plan, "checkpoint");
                CHECK_NONE(rig_create(&g, plan));
                CHECK_STR(rig_run(&g, A, "read /tmp/kept"), "one two");
                CHECK_NONE(end());
                (void)unlink(kept);
        }
        CHECK(rig_stop(&g)); /* other cases use the same names */
        (void)snprintf(kept, sizeof(kept), "%s/data/used-checkpoints", g.dir);
        (void)unlink(kept);
        CHECK(rig_start(&g));
}

/* Between the word that it moves and its moving. */
static void a_warm_one_rests_or_runs_whoever_dies_on_its_way(void)
{
        json_t *answer;
        int fd;

        CHECK(rig_stop(&g));
        g.warm_mb = 64;
        CHECK(rig_start(&g));
        CHECK(begin());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        stall("thawing");
        send_wake();
        fd = reach("thawing");
        CHECK(fd >= 0);
        rig_crash(&g);
        (void)close(fd);
        CHECK(rig_start(&g));
        CHECK_STR(rig_state(&g, A), "paused"); /* as before: nothing has moved */
        rig_crash(&g);
        CHECK(boot_again());
        CHECK(rig_start(&g));
        CHECK_NONE(rig_create(&g, used_checkpoints(A))); /* and a power cut finds that, too */
        CHECK_STR(rig_run(&g, A, "append two "), "ok");
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        stall("thawing");
        send_wake();
        fd = reach("thawing");
        CHECK(end_one(rig_helper(&g, "sg-resume-mark")));
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
        stall("thawing");
        send_wake();
        fd = reach("thawing");
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
        CHECK_NONE(rig_create(&g, used_checkpoints(A)));
        CHECK(is_itself());
        CHECK_NONE(end());
}

static void fill_disk(const char *path)
{
        const char block[4096] = {0};
        int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

        while (write(fd, block, sizeof(block)) > 0)
                ;
        (void)close(fd);
}

static void a_full_disk_lets_it_run_on(void)
{
        char path[160];

        CHECK(rig_stop(&g));
        (void)snprintf(path, sizeof(path), "%s/data", g.dir);
        CHECK_INT(mount("tiny", path, "tmpfs", 0, "size=4m"), ==, 0);
        CHECK(rig_start(&g));
        CHECK(begin());
        (void)snprintf(path, sizeof(path), "%s/data/filler", g.dir);
        fill_disk(path);
        CHECK_STARTS(rig_pause(&g, A, IMAGE), "no_space: ");
        CHECK_STR(rig_state(&g, A), "running");
        CHECK_INT(unlink(path), ==, 0);
        CHECK(is_itself());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_NONE(rig_create(&g, used_checkpoints(A)));
        CHECK_NONE(end());
}

static bool trash_is_empty(void)
{
        char path[160];
        AUTO_CLOSE int fd = -1;

        (void)snprintf(path, sizeof(path), "%s/data/trash", g.dir);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        AUTO_DIR DIR *d = sys_list(fd);

        return d && !sys_list_next(d);
}

/* All but `blocks` of the disk are in use, and nobody gives any back. */
static void leave(const char *path, off_t blocks)
{
        const struct timespec pause = {.tv_nsec = 10000000};
        struct stat st;

        for (unsigned i = 0; i < 1000 && !trash_is_empty(); i++)
                (void)nanosleep(&pause, NULL); /* no event tells */
        fill_disk(path);
        if (stat(path, &st) == 0)
                (void)!truncate(path, st.st_size - blocks * 4096);
}

static const char *wake_files(void)
{
        json_t *plan = used_checkpoints(A);

        (void)json_object_del(plan, "checkpoint");
        return rig_create(&g, plan);
}

static const char *wake_memory(void)
{
        return rig_create(&g, used_checkpoints(A));
}

static const char *seal(void)
{
        return rig_seal(&g, A, LAYER);
}

/* It is tried with ever more room.  As long as there is not enough it is at rest with all it had, also for an engine that
 * starts on the full disk. */
static bool rests_until_there_is_room(const char *path, const char *(*deed)(void))
{
        for (unsigned i = 0; i < 64; i++) {
                bool is_new = i % 2 == 1; /* what the engine thinks, and then what the disk says */
                off_t blocks = i / 2;
                const char *why;

                leave(path, blocks);
                why = deed();
                if (!why) {
                        printf("# %d blocks are enough\n", (int)blocks);
                        return unlink(path) == 0;
                }
                if (strncmp(why, "no_space: ", 10) != 0 || (is_new && (!rig_stop(&g) || !rig_start(&g))) ||
                    strcmp(rig_state(&g, A), "paused") != 0) {
                        printf("# with %d blocks: %s\n", (int)blocks, why);
                        return false;
                }
                (void)unlink(path);
                why = wake_memory();
                if (!why && strcmp(rig_run(&g, A, "read /tmp/kept"), "one ") != 0)
                        why = "its files are lost";
                if (!why)
                        why = rig_drop(&g, IMAGE, NULL);
                if (!why)
                        why = rig_pause(&g, A, IMAGE);
                if (why) {
                        printf("# after %d blocks: %s\n", (int)blocks, why);
                        return false;
                }
        }
        return false;
}

static void a_full_disk_leaves_it_at_rest(void)
{
        char path[160];

        CHECK(begin());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        (void)snprintf(path, sizeof(path), "%s/data/filler", g.dir);
        CHECK(rests_until_there_is_room(path, wake_memory));
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK(rests_until_there_is_room(path, seal));
        fill_disk(path);
        CHECK_NONE(rig_kill(&g, A));
        CHECK_INT(unlink(path), ==, 0);
        CHECK_NONE(rig_drop(&g, IMAGE, LAYER));

        CHECK(begin());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK(rests_until_there_is_room(path, wake_files));
        fill_disk(path);
        CHECK_NONE(rig_kill(&g, A)); /* one that runs is ended, too */
        CHECK(!rig_state(&g, A));
        CHECK_INT(unlink(path), ==, 0);
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
}

int main(void)
{
        if (!can_run())
                return 0;
        if (!rig_open(&g, 2) || !rig_start(&g))
                return 1;
        RUN_CLEAN(a_manifest_that_cannot_be_looked_at_costs_nothing);
        RUN_CLEAN(a_damaged_image_is_told_and_the_files_are_there);
        RUN_CLEAN(nothing_runs_from_a_damaged_image);
        RUN_CLEAN(one_whose_envd_does_not_answer_rests_as_it_is_then);
        RUN_CLEAN(one_that_dies_when_it_wakes_keeps_its_files);
        RUN_CLEAN(memory_that_was_restored_before_a_power_cut_is_not_restored_again);
        RUN_CLEAN(a_warm_one_rests_or_runs_whoever_dies_on_its_way);
        RUN_CLEAN(a_warm_one_can_be_killed_on_its_way);
        RUN_CLEAN(what_cannot_be_dumped_runs_on);
        RUN(a_full_disk_lets_it_run_on);
        RUN(a_full_disk_leaves_it_at_rest);
        put_the_disk_back();
        RUN(nothing_is_left);
        rig_close(&g);
        return tap_done();
}
