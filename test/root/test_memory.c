/* Sandboxes come back with their memory: from images on disk, as often as wanted. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "rig.h"
#include "sys/fs.h"

#define A "iaaaaaaaaaaaaaaaaaaaa"
#define B "ibbbbbbbbbbbbbbbbbbbb"
#define C "icccccccccccccccccccc"
#define IMAGE "caaaaaaaaaaaaaaaaaaaa"
#define IMAGE2 "cbbbbbbbbbbbbbbbbbbbb"
#define IMAGE3 "ccccccccccccccccccccc"
#define LAYER "u-aaaaaaaaaaaaaaaaaaaa"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

static struct rig g;

static json_t *used_checkpoints(const char *id, const char *image)
{
        json_t *plan = rig_plan(id);

        (void)json_object_set_new(plan, "upper", json_string("kept"));
        (void)json_object_set_new(plan, "checkpoint", json_string(image));
        return plan;
}

static json_t *copied(const char *id, const char *image)
{
        json_t *plan = rig_plan(id);

        (void)json_array_append_new(json_object_get(plan, "layers"), json_string(LAYER));
        (void)json_object_set_new(plan, "checkpoint", json_string(image));
        return plan;
}

static const char *heard(const char *id, unsigned port) /* what a listener inside says */
{
        static char text[64];
        AUTO_CLOSE int fd = rig_dial(&g, id, port);
        ssize_t n;

        if (fd < 0)
                return "not reachable";
        (void)fcntl(fd, F_SETFL, O_RDWR);
        n = read(fd, text, sizeof(text) - 1);
        text[n > 0 ? n : 0] = '\0';
        return text;
}

static void memory_files_and_listeners_come_back(void)
{
        char pid[32], command[64];

        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_STR(rig_run(&g, A, "append one "), "ok");
        (void)snprintf(pid, sizeof(pid), "%s", rig_run(&g, A, "sleeper"));
        CHECK_STR(heard(A, 4000), "still here");
        CHECK_STR(rig_run(&g, A, "count"), "3");
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_STR(rig_state(&g, A), "paused");
        CHECK_STARTS(rig_dial_refusal(&g, A, 4000), "conflict");
        CHECK_NONE(rig_create(&g, used_checkpoints(A, IMAGE)));
        CHECK_STR(rig_state(&g, A), "running");
        CHECK_STR(rig_run(&g, A, "count"), "5"); /* with the engine's own word to it */
        CHECK_STR(heard(A, 4000), "still here");
        CHECK_STR(rig_run(&g, A, "append two"), "ok"); /* at the offset where it was */
        CHECK_STR(rig_run(&g, A, "read /tmp/kept"), "one two");
        (void)snprintf(command, sizeof(command), "read /proc/%s/comm", pid);
        CHECK_STR(rig_run(&g, A, command), ".envd\n");
        CHECK_STR(rig_run(&g, A, "hostname"), A "\n");
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
}

static void again_and_again(void)
{
        for (int i = 0; i < 5; i++) {
                CHECK_NONE(rig_pause(&g, A, IMAGE));
                CHECK_NONE(rig_create(&g, used_checkpoints(A, IMAGE)));
                CHECK_NONE(rig_drop(&g, IMAGE, NULL));
        }
        CHECK_STR(heard(A, 4000), "still here");
        CHECK_NONE(rig_kill(&g, A));
}

/* Its boot id is a mount of its own, which the dump has to know. */
static void one_that_was_booted_again_comes_back(void)
{
        char host[64] = "", before[64], own[64];
        json_t *plan = rig_plan(A);

        (void)json_object_set_new(plan, "upper", json_string("kept"));
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK(sys_read_at(AT_FDCWD, BOOT_ID, host, sizeof(host)) > 0);
        (void)snprintf(before, sizeof(before), "%s", rig_run(&g, A, "read " BOOT_ID));
        CHECK_STR(before, host);
        CHECK_NONE(rig_pause(&g, A, NULL));
        CHECK_NONE(rig_create(&g, plan));
        (void)snprintf(own, sizeof(own), "%s", rig_run(&g, A, "read " BOOT_ID));
        CHECK_INT(strlen(own), ==, strlen(host));
        CHECK(strcmp(own, host) != 0);
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_NONE(rig_create(&g, used_checkpoints(A, IMAGE)));
        CHECK_STR(rig_run(&g, A, "read " BOOT_ID), own);
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
}

static void locks_on_devices_come_back(void)
{
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_STR(rig_run(&g, A, "lock /dev/null"), "ok");
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_NONE(rig_create(&g, used_checkpoints(A, IMAGE)));
        CHECK_STR(rig_run(&g, A, "lock /dev/null"), "EAGAIN");
        CHECK_STR(rig_run(&g, A, "lock /dev/zero"), "ok");
        CHECK_STR(rig_run(&g, A, "stat /dev/null"), "666 0 0");
        CHECK_NONE(rig_create(&g, rig_plan(B)));
        CHECK_STR(rig_run(&g, B, "lock /dev/null"), "ok");
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_kill(&g, B));
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
}

static void one_image_serves_many(void)
{
        json_t *plan;

        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_STR(rig_run(&g, A, "append one "), "ok");
        (void)rig_run(&g, A, "sleeper");
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_NONE(rig_seal(&g, A, LAYER));
        CHECK_NONE(rig_create(&g, copied(A, IMAGE)));
        CHECK_NONE(rig_create(&g, copied(B, IMAGE)));
        CHECK_NONE(rig_create(&g, copied(C, IMAGE)));
        CHECK_STR(rig_run(&g, A, "append A"), "ok");
        CHECK_STR(rig_run(&g, B, "append B"), "ok");
        CHECK_STR(rig_run(&g, A, "read /tmp/kept"), "one A");
        CHECK_STR(rig_run(&g, B, "read /tmp/kept"), "one B");
        CHECK_STR(rig_run(&g, C, "read /tmp/kept"), "one ");
        CHECK_STR(rig_run(&g, B, "hostname"), B "\n");
        CHECK_STR(heard(B, 4000), "still here");
        CHECK_STR(heard(C, 4000), "still here");
        CHECK_STR(rig_run(&g, B, "try socket-raw"), "EPERM"); /* though its network namespace is its own now */
        CHECK_STR(rig_run(&g, B, "try socket-raw6"), "EPERM");
        CHECK_STR(rig_run(&g, B, "try socket-old-packet"), "EPERM");
        CHECK_STR(rig_run(&g, B, "try socket-packet"), "EAFNOSUPPORT");
        CHECK_STR(rig_run(&g, B, "ping 127.0.0.1"), "reply");
        CHECK_NONE(rig_pause(&g, B, IMAGE2)); /* a copy is a sandbox like any other */
        plan = copied(B, IMAGE2);
        (void)json_object_set_new(plan, "upper", json_string("kept"));
        CHECK_NONE(rig_create(&g, plan));
        CHECK_STR(rig_run(&g, B, "append B"), "ok");
        CHECK_STR(rig_run(&g, B, "read /tmp/kept"), "one BB");
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_kill(&g, B));
        CHECK_NONE(rig_kill(&g, C));
        CHECK_NONE(rig_drop(&g, IMAGE, LAYER));
        CHECK_NONE(rig_drop(&g, IMAGE2, NULL));
}

static json_int_t info_number(const char *key)
{
        json_t *info = rig_info(&g);
        json_int_t n = json_integer_value(json_object_get(info, key));

        json_decref(info);
        return n;
}

static void a_warm_one_is_thawed(void)
{
        json_t *answer;

        CHECK(rig_stop(&g));
        g.warm_mb = 64;
        CHECK(rig_start(&g));
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        (void)rig_run(&g, A, "sleeper");
        answer = rig_call(&g, json_pack("{s:s,s:s,s:s}", "op", "pause", "id", A, "checkpoint", IMAGE));
        CHECK(json_is_true(json_object_get(answer, "warm")));
        CHECK_INT(json_integer_value(json_object_get(answer, "bytes")), >, 4096);
        CHECK_INT(json_integer_value(json_object_get(answer, "frozen_us")), >, 0);
        json_decref(answer);
        CHECK_INT(info_number("warm"), ==, 1);
        CHECK_INT(info_number("warm_bytes"), >, 0);
        CHECK_STR(rig_state(&g, A), "paused");
        answer = rig_call(&g, json_pack("{s:s,s:o}", "op", "create", "plan", used_checkpoints(A, IMAGE)));
        CHECK_STR(json_string_value(json_object_get(answer, "from")), "warm");
        json_decref(answer);
        CHECK_INT(info_number("warm"), ==, 0);
        CHECK_INT(info_number("warm_bytes"), ==, 0);
        CHECK_STR(heard(A, 4000), "still here");
        CHECK_STR(rig_run(&g, A, "count"), "2"); /* and was told nothing */
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
}

static void warmth_ends_with_the_engine(void)
{
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_INT(info_number("warm"), ==, 1);
        rig_crash(&g);
        CHECK(rig_start(&g));
        CHECK_STR(rig_state(&g, A), "paused");
        CHECK_INT(info_number("warm"), ==, 0);
        CHECK_NONE(rig_create(&g, used_checkpoints(A, IMAGE)));
        CHECK_STR(heard(A, 4000), "still here");
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
}

static void a_warm_one_can_be_sealed_killed_and_started_cold(void)
{
        json_t *plan;

        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_NONE(rig_seal(&g, A, LAYER)); /* its processes go first */
        CHECK_INT(info_number("warm"), ==, 0);
        CHECK_NONE(rig_create(&g, copied(A, IMAGE)));
        CHECK_NONE(rig_pause(&g, A, IMAGE2));
        CHECK_INT(info_number("warm"), ==, 1);
        plan = copied(A, IMAGE2);
        (void)json_object_del(plan, "checkpoint");
        (void)json_object_set_new(plan, "upper", json_string("kept"));
        rig_send(&g, json_pack("{s:s,s:o}", "op", "create", "plan", json_deep_copy(plan)));
        rig_reconnect(&g); /* while its processes go: nobody would know what that began, so it is not done */
        CHECK_NONE(rig_create(&g, plan));
        CHECK_STARTS(rig_dial_refusal(&g, A, 4000), "unavailable"); /* its processes are new */
        CHECK_NONE(rig_drop(&g, IMAGE2, NULL));
        CHECK_NONE(rig_pause(&g, A, IMAGE2));
        CHECK_NONE(rig_kill(&g, A));
        CHECK_INT(info_number("warm"), ==, 0);
        CHECK_NONE(rig_drop(&g, IMAGE, LAYER));
        CHECK_NONE(rig_drop(&g, IMAGE2, NULL));
}

static const char *resumed_from(const char *id, const char *image)
{
        json_t *answer = rig_call(&g, json_pack("{s:s,s:o}", "op", "create", "plan", used_checkpoints(id, image)));
        const char *from = json_string_value(json_object_get(answer, "from"));
        static char text[32];

        (void)snprintf(text, sizeof(text), "%s", from ? from : "nowhere");
        json_decref(answer);
        return text;
}

static void the_least_recently_used_goes_first(void)
{
        CHECK(rig_stop(&g));
        g.warm_mb = 20; /* for two of the three */
        CHECK(rig_start(&g));
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_NONE(rig_create(&g, rig_plan(B)));
        CHECK_NONE(rig_create(&g, rig_plan(C)));
        CHECK_STR(rig_run(&g, A, "hold 8"), "ok");
        CHECK_STR(rig_run(&g, B, "hold 8"), "ok");
        CHECK_STR(rig_run(&g, C, "hold 8"), "ok");
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_NONE(rig_pause(&g, B, IMAGE2));
        CHECK_NONE(rig_pause(&g, C, IMAGE3));
        CHECK_INT(info_number("warm"), ==, 2);
        CHECK_INT(info_number("warm_bytes"), <=, 20 << 20);
        CHECK_STR(resumed_from(A, IMAGE), "checkpoint");
        CHECK_STR(resumed_from(B, IMAGE2), "warm");
        CHECK_STR(resumed_from(C, IMAGE3), "warm");
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_kill(&g, B));
        CHECK_NONE(rig_kill(&g, C));
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
        CHECK_NONE(rig_drop(&g, IMAGE2, NULL));
        CHECK_NONE(rig_drop(&g, IMAGE3, NULL));
}

/* Somebody on this machine waits for memory: the warm ones go, one after the other. */
static void memory_that_others_wait_for_is_given_back(void)
{
        json_t *small = rig_plan(B);

        CHECK(rig_stop(&g));
        g.warm_mb = 64;
        g.warm_stall_ms = 1;
        CHECK(rig_start(&g));
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_STR(rig_run(&g, A, "hold 8"), "ok");
        CHECK_STR(rig_run(&g, A, "count"), "2");
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_INT(info_number("warm"), ==, 1);
        (void)json_object_set_new(json_object_get(small, "limits"), "memory_bytes", json_integer(16 << 20));
        CHECK_NONE(rig_create(&g, small));
        CHECK_STR(rig_run(&g, B, "thrash 32"), "ok"); /* more than it may have */
        while (info_number("warm") > 0)
                continue;
        CHECK_INT(info_number("warm_bytes"), ==, 0);
        CHECK_NONE(rig_kill(&g, B));
        CHECK_STR(rig_state(&g, A), "paused");
        CHECK_STR(resumed_from(A, IMAGE), "checkpoint");
        CHECK_STR(rig_run(&g, A, "count"), "4"); /* it was told that it was woken */
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
        g.warm_stall_ms = 0;
}

/* Processes wait for memory, but for less than warm_stall_ms: the warm sandbox stays, also where processes waited longer than
 * that before the engine started. */
static void a_little_waiting_changes_nothing(void)
{
        json_t *small = rig_plan(B);

        CHECK(rig_stop(&g));
        g.warm_mb = 64;
        g.warm_stall_ms = 2000;
        CHECK(rig_start(&g));
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_INT(info_number("warm"), ==, 1);
        (void)json_object_set_new(json_object_get(small, "limits"), "memory_bytes", json_integer(16 << 20));
        CHECK_NONE(rig_create(&g, small));
        CHECK_STR(rig_run(&g, B, "thrash 32"), "ok");
        (void)sleep(5); /* the kernel tells within two seconds of a wait */
        CHECK_INT(info_number("warm"), ==, 1);
        CHECK_NONE(rig_kill(&g, B));
        CHECK_STR(resumed_from(A, IMAGE), "warm");
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
        g.warm_stall_ms = 0;
}

static long on_disk(const char *image) /* bytes its images take there; -1: they are not there */
{
        char path[400];
        struct dirent *e;
        struct stat st;
        long sum = 0;
        DIR *d;

        (void)snprintf(path, sizeof(path), "%s/data/checkpoints/%s/images", g.dir, image);
        d = opendir(path);
        while (d && (e = readdir(d)))
                if (fstatat(dirfd(d), e->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
                        sum += st.st_blocks * 512;
        if (d)
                (void)closedir(d);
        return d ? sum : -1;
}

static void memory_full_of_zeros_takes_no_room_on_disk(void)
{
        long with, without;

        CHECK(rig_stop(&g));
        g.warm_mb = 0;
        CHECK(rig_start(&g));
        CHECK_NONE(rig_create(&g, rig_plan(A)));
        CHECK_STR(rig_run(&g, A, "zeros 200"), "ok");
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        with = on_disk(IMAGE);
        CHECK_NONE(rig_create(&g, used_checkpoints(A, IMAGE)));
        CHECK_STR(rig_run(&g, A, "hold 30"), "ok"); /* beside it, something */
        CHECK_NONE(rig_pause(&g, A, IMAGE2));
        without = on_disk(IMAGE2);
        CHECK_INT(with, >, 0);
        CHECK_INT(with, <, 10 << 20);
        CHECK_INT(without, >, 30 << 20);
        CHECK_INT(without, <, 50 << 20);
        CHECK_NONE(rig_create(&g, used_checkpoints(A, IMAGE2)));
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
        CHECK_NONE(rig_drop(&g, IMAGE2, NULL));
}

int main(void)
{
        if (rig_reason_to_skip() || !rig_criu_dir()) {
                printf("1..0 # SKIP %s\n",
                       rig_reason_to_skip() ? rig_reason_to_skip() : "SANDGLASS_CRIU_DIR is not set");
                return 0;
        }
        if (!rig_open(&g, 2) || !rig_start(&g))
                return 1;
        RUN(memory_files_and_listeners_come_back);
        RUN(again_and_again);
        RUN(one_that_was_booted_again_comes_back);
        RUN(locks_on_devices_come_back);
        RUN(one_image_serves_many);
        RUN(a_warm_one_is_thawed);
        RUN(warmth_ends_with_the_engine);
        RUN(a_warm_one_can_be_sealed_killed_and_started_cold);
        RUN(the_least_recently_used_goes_first);
        RUN(memory_that_others_wait_for_is_given_back);
        RUN(a_little_waiting_changes_nothing);
        RUN(memory_full_of_zeros_takes_no_room_on_disk);
        rig_close(&g);
        return tap_done();
}
