/* What nobody asked for is moved aside, and comes back as it was. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <tap.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/destroy.h"
#include "one.h"

#define DAY_NS (INT64_C(86400) * 1000000000)

static char text[4096]; /* what an answer says, or a file */

static const char *path_of(const char *below)
{
        static char path[256];

        (void)snprintf(path, sizeof(path), "%s/data/%s", g.dir, below);
        return path;
}

static bool is_there(const char *below)
{
        return access(path_of(below), F_OK) == 0;
}

static void write_file(const char *path, const char *content)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        (void)!write(fd, content, strlen(content));
        (void)close(fd);
}

static const char *refusal_of(json_t *answer)
{
        const json_t *e = json_object_get(answer, "error");

        (void)snprintf(text, sizeof(text), "%s: %s", json_string_value(json_object_get(e, "kind")),
                       json_string_value(json_object_get(e, "message")));
        json_decref(answer);
        return e ? text : NULL;
}

static const char *lose(const char *id)
{
        return refusal_of(rig_call(&g, json_pack("{s:s,s:s,s:s}", "op", "lose", "id", id, "why", "a test")));
}

static const char *lose_names(const char *checkpoint, const char *layer)
{
        return refusal_of(rig_call(&g, json_pack("{s:s,s:s,s:o,s:o}", "op", "lose", "why", "a test", "checkpoints",
                                                 checkpoint ? json_pack("[s]", checkpoint) : json_array(), "layers",
                                                 layer ? json_pack("[s]", layer) : json_array())));
}

static const char *restore(const char *id, const char *checkpoint, const char *layer)
{
        return refusal_of(rig_call(&g, json_pack("{s:s,s:s*,s:o,s:o}", "op", "restore", "id", id, "checkpoints",
                                                 checkpoint ? json_pack("[s]", checkpoint) : json_array(), "layers",
                                                 layer ? json_pack("[s]", layer) : json_array())));
}

static const char *remove_lost(const char *id)
{
        return refusal_of(rig_call(&g, json_pack("{s:s,s:s}", "op", "remove", "id", id)));
}

/* "kind was why" of one of those that are listed; "": it is not. */
static const char *listed(const char *id)
{
        json_t *answer = rig_call(&g, json_pack("{s:s}", "op", "lost")), *v;
        size_t i;

        text[0] = 0;
        json_array_foreach (json_object_get(answer, "lost"), i, v)
                if (strcmp(json_string_value(json_object_get(v, "id")), id) == 0)
                        (void)snprintf(text, sizeof(text), "%s %s %s", json_string_value(json_object_get(v, "kind")),
                                       json_string_value(json_object_get(v, "was")),
                                       json_string_value(json_object_get(v, "why")));
        json_decref(answer);
        return text;
}

static json_t *with_origin(json_t *plan)
{
        (void)json_object_set_new(plan, "origin", json_pack("{s:s}", "word", "opaque"));
        return plan;
}

static json_t *kept(const char *id)
{
        json_t *plan = rig_plan(id);

        (void)json_object_set_new(plan, "upper", json_string("kept"));
        return plan;
}

static bool begin_files(void)
{
        return !rig_create(&g, with_origin(rig_plan(A))) && strcmp(rig_run(&g, A, "write /tmp/x hello"), "ok") == 0;
}

/* ------------------------------------------------------------- */

static void one_at_rest_comes_back_with_its_files(void)
{
        json_t *answer;

        CHECK(begin_files());
        CHECK_NONE(rig_pause(&g, A, NULL));
        CHECK_NONE(lose(A));
        CHECK(!rig_state(&g, A));
        CHECK(!is_there("sandboxes/" A));
        CHECK(is_there("lost/" A "/upper"));
        CHECK_STR(listed(A), "sandbox paused a test");
        CHECK_STARTS(lose(A), "not_found");
        CHECK_STARTS(rig_kill(&g, A), "gone");
        rig_crash(&g);
        CHECK(rig_start(&g)); /* whoever starts leaves it there */
        CHECK_STR(listed(A), "sandbox paused a test");
        answer = rig_call(&g, json_pack("{s:s,s:s}", "op", "lost", "id", A));
        CHECK_STR(json_string_value(json_object_get(json_object_get(answer, "origin"), "word")), "opaque");
        CHECK(!json_object_get(answer, "checkpoint"));
        json_decref(answer);
        CHECK_NONE(restore(A, NULL, NULL));
        CHECK_STR(rig_state(&g, A), "paused");
        CHECK_STR(listed(A), "");
        CHECK(!is_there("lost/" A ".json"));
        CHECK_STARTS(restore(A, NULL, NULL), "conflict");
        CHECK_NONE(rig_create(&g, kept(A)));
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "hello");
        CHECK_NONE(rig_kill(&g, A));
}

static void one_that_runs_is_ended_first(void)
{
        CHECK(begin_files());
        CHECK_NONE(lose(A));
        rig_wait_files(&g, 0); /* those of the cases before */
        CHECK_INT(rig_count(&g, NULL).files, ==, 0);
        CHECK_STR(listed(A), "sandbox running a test");
        CHECK_NONE(restore(A, NULL, NULL));
        CHECK_STR(rig_state(&g, A), "paused");
        CHECK_NONE(rig_create(&g, kept(A)));
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "hello");
        CHECK_NONE(rig_kill(&g, A));
}

static void one_that_is_being_paused_comes_to_rest_first(void)
{
        int fd;

        CHECK(begin());
        CHECK_INT(stall("dumped"), ==, 0);
        send_pause();
        fd = reach("dumped");
        rig_send(&g, json_pack("{s:s,s:s,s:s}", "op", "lose", "id", A, "why", "a test"));
        (void)close(fd);
        CHECK_NONE(refusal_of(rig_receive(&g))); /* the pause */
        CHECK_NONE(refusal_of(rig_receive(&g)));
        CHECK(!rig_state(&g, A));
        CHECK_NONE(restore(A, IMAGE, NULL));
        CHECK_NONE(rig_create(&g, used_checkpoints(A)));
        CHECK(is_itself());
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
}

static void memory_comes_back_too(void)
{
        json_t *answer;

        CHECK(begin());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_NONE(lose(A));
        CHECK_NONE(lose_names(IMAGE, NULL));
        CHECK(is_there("lost/" IMAGE "/manifest.json"));
        CHECK_STR(listed(IMAGE), "checkpoint complete a test");
        write_file(path_of("sandboxes/none.json"), "{}"); /* none of ours: left alone */
        rig_crash(&g);
        CHECK(rig_start(&g)); /* copies of envd that lost memory needs stay */
        CHECK(is_there("sandboxes/none.json"));
        CHECK_INT(unlink(path_of("sandboxes/none.json")), ==, 0);
        write_file(path_of("lost/" A "/origin.json"), "{\"word\":\"x\"}");
        answer = rig_call(&g, json_pack("{s:s,s:s}", "op", "lost", "id", A));
        CHECK_STR(json_string_value(json_object_get(answer, "checkpoint")), IMAGE);
        json_decref(answer);
        CHECK_NONE(restore(A, IMAGE, NULL));
        CHECK_NONE(rig_create(&g, used_checkpoints(A)));
        CHECK(is_itself());
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
}

static void restart_in(const char *boot) /* NULL: in the boot of this machine */
{
        CHECK(rig_stop(&g));
        (void)mkdir(path_of("stall"), 0700);
        if (boot)
                write_file(path_of("stall/boot_id"), boot);
        CHECK(rig_start(&g));
        CHECK_STR(listed(B), ""); /* so that it has begun */
        (void)unlink(path_of("stall/boot_id"));
}

#define FLEETING "ckkkkkkkkkkkkkkkkkkkk" /* another one than IMAGE, which was woken in this boot */

/* Lost in the middle of a snapshot: it was to be at rest for a moment only, and the machine was started again since. */
static void one_at_rest_for_a_moment_comes_back_for_good(void)
{
        json_t *plan = used_checkpoints(A);

        (void)json_object_set_new(plan, "checkpoint", json_string(FLEETING));
        CHECK(begin());
        CHECK_NONE(refusal_of(rig_call(
                &g, json_pack("{s:s,s:s,s:s,s:b}", "op", "pause", "id", A, "checkpoint", FLEETING, "durable", 0))));
        CHECK_NONE(lose(A));
        CHECK_NONE(lose_names(FLEETING, NULL));
        restart_in("00000000-0000-0000-0000-000000000000");
        CHECK_NONE(restore(A, FLEETING, NULL));
        CHECK_STR(rig_state(&g, A), "paused");
        restart_in(NULL);
        CHECK_STR(rig_state(&g, A), "paused");
        CHECK_NONE(rig_create(&g, plan));
        CHECK(is_itself());
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_drop(&g, FLEETING, NULL));
}

/* No row will be written for it, so it would be nowhere. */
static void what_comes_back_for_nobody_is_moved_aside_again(void)
{
        int fd;

        CHECK(begin_files());
        CHECK_NONE(rig_pause(&g, A, NULL));
        CHECK_NONE(lose(A));
        CHECK_INT(stall("restoring"), ==, 0);
        rig_send(&g, json_pack("{s:s,s:s}", "op", "restore", "id", A));
        fd = reach("restoring");
        rig_reconnect(&g);
        CHECK(!rig_state(&g, A)); /* what control is told when it asks anew */
        (void)close(fd);
        for (int i = 0; i < 500 && strcmp(listed(A), "sandbox paused it was restored, and the caller was gone") != 0;
             i++)
                (void)usleep(10000);
        CHECK_STR(listed(A), "sandbox paused it was restored, and the caller was gone");
        CHECK(!is_there("sandboxes/" A));
        CHECK_NONE(restore(A, NULL, NULL));
        CHECK_NONE(rig_create(&g, kept(A)));
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "hello");
        CHECK_NONE(rig_kill(&g, A));
}

static void layers_come_back_with_who_needs_them(void)
{
        json_t *plan = rig_plan(A);

        (void)json_array_append_new(json_object_get(plan, "layers"), json_string(LAYER));
        CHECK(begin_files());
        CHECK_NONE(rig_pause(&g, A, NULL));
        CHECK_NONE(rig_seal(&g, A, LAYER));
        CHECK_NONE(lose(A));
        CHECK_NONE(lose_names(NULL, LAYER));
        CHECK_STR(listed(LAYER), "layer complete a test");
        CHECK_STARTS(restore(A, NULL, "u-bbbbbbbbbbbbbbbbbbbb"), "conflict: 'u-bbbbbbbbbbbbbbbbbbbb' belongs to it");
        CHECK(is_there("lost/" A)); /* nothing has moved */
        CHECK_NONE(restore(A, NULL, LAYER));
        CHECK_NONE(rig_create(&g, plan));
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "hello");
        CHECK_NONE(rig_kill(&g, A));
        CHECK_NONE(rig_drop(&g, NULL, LAYER));
}

static void write_note(const char *id, int64_t lost_ns, int64_t kept_ns)
{
        char name[64], note[128];

        (void)snprintf(name, sizeof(name), "lost/%s.json", id);
        (void)snprintf(note, sizeof(note), "{\"lost_ns\":%lld,\"kept_ns\":%lld}", (long long)lost_ns,
                       (long long)kept_ns);
        write_file(path_of(name), note);
}

static void it_is_removed_when_asked_for_and_in_time(void)
{
        CHECK(begin_files());
        CHECK_NONE(lose(A));
        CHECK_STARTS(remove_lost(B), "not_found");
        CHECK_STARTS(remove_lost("../../etc"), "invalid");
        CHECK_NONE(remove_lost(A));
        CHECK(!is_there("lost/" A));
        CHECK(!is_there("lost/" A ".json"));

        CHECK(begin_files());
        CHECK_NONE(lose(A));
        write_note(A, clock_real_ns() - 31 * DAY_NS, 0); /* or the clock was set ahead after that */
        write_note(B, clock_real_ns(), 0);               /* of nothing */
        rig_crash(&g);
        CHECK(rig_start(&g));
        CHECK_STR(listed(A), "sandbox  "); /* it has started */
        CHECK(!is_there("lost/" B ".json"));
        write_note(A, clock_real_ns(), 29 * DAY_NS);
        rig_crash(&g);
        CHECK(rig_start(&g));
        CHECK_STR(listed(A), "sandbox  ");
        write_note(A, clock_real_ns(), 31 * DAY_NS);
        rig_crash(&g);
        CHECK(rig_start(&g));
        CHECK_STR(listed(A), "");
        CHECK(!is_there("lost/" A));
        CHECK(!is_there("lost/" A ".json"));
}

/* A record that cannot be read says nothing about its files. */
static void one_that_cannot_be_adopted_is_moved_aside(void)
{
        CHECK(begin_files());
        rig_crash(&g);
        write_file(path_of("sandboxes/" A "/running.json"), "{");
        CHECK(rig_start(&g));
        CHECK(!rig_state(&g, A));
        CHECK_STARTS(listed(A), "sandbox running running.json:");
        CHECK_NONE(restore(A, NULL, NULL));
        CHECK_NONE(rig_create(&g, kept(A)));
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "hello");
        CHECK_NONE(rig_kill(&g, A));
}

static void down_keeps_what_may_be_at_rest(void)
{
        struct err err = {0};
        char data[96];

        CHECK(begin_files());
        CHECK_NONE(rig_pause(&g, A, NULL));
        CHECK(rig_stop(&g));
        write_file(path_of("sandboxes/" A "/paused.json"), "{");
        (void)snprintf(data, sizeof(data), "%s/data", g.dir);
        CHECK_INT(engine_destroy_all(data, &err), ==, 0);
        CHECK(is_there("sandboxes/" A "/upper"));
        CHECK(rig_start(&g));
        CHECK(!rig_state(&g, A)); /* as "paused" it would be so without memory, and that would be deleted */
        CHECK_STARTS(listed(A), "sandbox paused paused.json:");
        CHECK_NONE(restore(A, NULL, NULL)); /* somebody wants it as it is */
        CHECK_STR(rig_state(&g, A), "paused");
        CHECK_NONE(rig_create(&g, kept(A)));
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "hello");
        CHECK_NONE(rig_kill(&g, A));
}

/* Until the row names the layer it may be dropped: before that it must be noted whose files they are. */
static void a_seal_that_is_cut_off_never_was(void)
{
        pid_t job_process;
        int fd;

        CHECK(begin_files());
        CHECK_NONE(rig_pause(&g, A, NULL));
        CHECK_INT(stall("sealing"), ==, 0);
        rig_send(&g, json_pack("{s:s,s:s,s:s}", "op", "seal", "id", A, "layer", LAYER));
        fd = reach("sealing");
        job_process = rig_job_process(&g);
        rig_crash(&g); /* first: an engine that sees it die has another one do it */
        CHECK(end_one(job_process));
        (void)close(fd);
        CHECK(rig_start(&g));
        if (strcmp(rig_state(&g, A), "busy") == 0)
                CHECK_STR(fact(), "rechecked paused");
        CHECK_NONE(rig_drop(&g, NULL, LAYER));
        CHECK_STR(rig_state(&g, A), "paused");
        CHECK_NONE(rig_create(&g, kept(A)));
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "hello");
        CHECK_NONE(rig_kill(&g, A));
}

static void a_full_disk_does_not_keep_it(void)
{
        char path[160], block[4096] = {0};
        int fd;

        CHECK(rig_stop(&g));
        (void)snprintf(path, sizeof(path), "%s/data", g.dir);
        CHECK_INT(mount("tiny", path, "tmpfs", 0, "size=24m"), ==, 0);
        CHECK(rig_start(&g));
        CHECK(begin_files());
        CHECK_NONE(rig_pause(&g, A, NULL));
        (void)snprintf(path, sizeof(path), "%s/data/filler", g.dir);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        while (write(fd, block, sizeof(block)) > 0)
                ;
        (void)close(fd);
        CHECK_NONE(lose(A));
        CHECK_STR(listed(A), "sandbox  "); /* without a note */
        CHECK_NONE(restore(A, NULL, NULL));
        CHECK_INT(unlink(path), ==, 0);
        CHECK_NONE(rig_create(&g, kept(A)));
        CHECK_STR(rig_run(&g, A, "read /tmp/x"), "hello");
        CHECK_NONE(rig_kill(&g, A));
}

#define OTHER "cllllllllllllllllllll"

static bool shell(const char *command)
{
        char line[512];

        (void)snprintf(line, sizeof(line), "cd '%s' && { %s; } >/dev/null 2>&1", g.dir, command);
        return system(line) == 0;
}

/* No block is free, and there is no room for one more name in the trash, where nothing can be removed. */
static bool crowd_the_trash(void)
{
        return shell("dd if=/dev/zero of=data/filler bs=4k; sync; dd if=/dev/zero of=data/filler2 bs=4k; sync; true") &&
               shell("for n in 200 24 8; do i=0; while touch data/trash/$(printf %0${n}d $i); do i=$((i+1)); done; "
                     "done; "
                     "chattr +i data/trash/*");
}

static size_t left_of_drop(const char *checkpoint)
{
        json_t *answer = rig_call(&g, json_pack("{s:s,s:[s]}", "op", "drop", "checkpoints", checkpoint));
        size_t n = json_array_size(json_object_get(answer, "left"));

        json_decref(answer);
        return n;
}

static bool is_thrown_away(const char *below)
{
        for (int i = 0; i < 1000 && is_there(below); i++)
                (void)usleep(10000);
        return !is_there(below);
}

/* It could not be thrown away at first, and is wanted since. */
static void what_comes_back_is_not_thrown_away_later(void)
{
        CHECK(rig_stop(&g));
        CHECK(shell("truncate -s 64M image && mkfs.ext4 -q -F -m 0 -b 4096 image && mount -o loop image data"));
        CHECK(rig_start(&g));
        CHECK_STR(listed(A), ""); /* so that it has begun */
        CHECK(shell("mkdir data/checkpoints/" OTHER " data/checkpoints/" IMAGE));
        CHECK(crowd_the_trash());
        CHECK_INT(left_of_drop(OTHER), ==, 1);
        CHECK_INT(left_of_drop(IMAGE), ==, 1);
        CHECK_NONE(lose_names(IMAGE, NULL));
        CHECK(is_there("lost/" IMAGE));
        CHECK_NONE(restore(NULL, IMAGE, NULL));
        CHECK(shell("chattr -i data/trash/*"));
        CHECK(is_thrown_away("checkpoints/" OTHER));
        for (int i = 0; i < 3; i++)
                CHECK_NONE(lose_names(NULL, NULL)); /* after what the disk was asked for before */
        CHECK(is_there("checkpoints/" IMAGE));
}

int main(void)
{
        if (!can_run())
                return 0;
        if (!rig_open(&g, 2) || !rig_start(&g))
                return 1;
        RUN_CLEAN(one_at_rest_comes_back_with_its_files);
        RUN_CLEAN(one_that_runs_is_ended_first);
        RUN_CLEAN(one_that_is_being_paused_comes_to_rest_first);
        RUN_CLEAN(memory_comes_back_too);
        RUN_CLEAN(one_at_rest_for_a_moment_comes_back_for_good);
        RUN_CLEAN(what_comes_back_for_nobody_is_moved_aside_again);
        RUN_CLEAN(layers_come_back_with_who_needs_them);
        RUN_CLEAN(it_is_removed_when_asked_for_and_in_time);
        RUN_CLEAN(one_that_cannot_be_adopted_is_moved_aside);
        RUN_CLEAN(down_keeps_what_may_be_at_rest);
        RUN_CLEAN(a_seal_that_is_cut_off_never_was);
        RUN(a_full_disk_does_not_keep_it);
        put_the_disk_back();
        RUN(nothing_is_left);
        RUN(what_comes_back_is_not_thrown_away_later);
        put_the_disk_back();
        RUN(nothing_is_left);
        rig_close(&g);
        return tap_done();
}
