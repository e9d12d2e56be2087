#include "engine/records/paused.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <tap.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/host/instance.h"
#include "engine/checkpoint/used_checkpoints.h"
#include "engine/records/job_note.h"
#include "sys/fs.h"

#define ID "i0123456789abcdefghij"
#define CHECKPOINT "c0123456789abcdefghij"
#define LAYER "u-0123456789abcdefghij"

static int scratch;

static void reads_what_it_wrote(void)
{
        struct paused s = {.checkpoint = CHECKPOINT}, back = {.sealed = LAYER};
        struct err err = {0};

        CHECK_INT(paused_write(scratch, ID, &s, true, &err), ==, 0);
        CHECK_INT(paused_read(scratch, ID, &back, &err), ==, 0);
        CHECK_STR(back.checkpoint, CHECKPOINT);
        CHECK_STR(back.sealed, "");
        s = (struct paused){.sealed = LAYER};
        CHECK_INT(paused_write(scratch, ID, &s, false, &err), ==, 0);
        CHECK_INT(paused_read(scratch, ID, &back, &err), ==, 0);
        CHECK_STR(back.checkpoint, "");
        CHECK_STR(back.sealed, LAYER);
        CHECK(paused_read(scratch, "i0123456789abcdefghik", &back, &err) < 0); /* another's */
        CHECK_INT(err.kind, ==, ERR_INVALID);
}

static enum err_kind refusal(const char *text)
{
        struct err err = {0};
        struct paused s;

        if (sys_replace_at(scratch, "paused.json", text, strlen(text), 0600) < 0)
                return ERR_INTERNAL;
        return paused_read(scratch, ID, &s, &err) == 0 ? ERR_NONE : err.kind;
}

static void refuses_what_it_would_not_write(void)
{
        CHECK_INT(refusal("{\"id\":\"" ID "\",\"kind\":\"namespace\",\"checkpoint\":null,\"sealed\":null}"), ==,
                  ERR_NONE);
        CHECK_INT(refusal("{\"id\":\"" ID "\",\"kind\":\"other\",\"checkpoint\":null,\"sealed\":null}"), ==,
                  ERR_INVALID);
        CHECK_INT(refusal(""), ==, ERR_INVALID);
        CHECK_INT(refusal("[]"), ==, ERR_INVALID);
        CHECK_INT(refusal("{\"id\":\"" ID "\"}"), ==, ERR_INVALID);
        CHECK_INT(refusal("{\"id\":\"" ID
                          "\",\"kind\":\"namespace\",\"checkpoint\":\"../../../../etc/passw\",\"sealed\":null}"),
                  ==, ERR_INVALID);
        CHECK_INT(
                refusal("{\"id\":\"" ID "\",\"kind\":\"namespace\",\"checkpoint\":null,\"sealed\":\"" CHECKPOINT "\"}"),
                ==, ERR_INVALID);
}

static void says_when_there_is_none(void)
{
        struct err err = {0};
        struct paused s;

        CHECK_INT(paused_remove(scratch), ==, 0);
        CHECK_INT(paused_remove(scratch), ==, 0); /* again is fine */
        CHECK(paused_read(scratch, ID, &s, &err) < 0);
        CHECK_INT(err.kind, ==, ERR_NOT_FOUND);
}

static void notes_name_what_a_job_process_uses(void)
{
        struct plan_cidr deny = {0x0a000000u, 8};
        struct job_note n = {.facts = {.namespace = {.slot = 77, .uid_base = 1 << 30}},
                             .checkpoint = CHECKPOINT,
                             .net = {.deny = &deny, .deny_count = 1}},
                        back;
        struct err err = {0};
        const char *bad = "{\"kind\":\"namespace\",\"namespace\":{\"slot\":4096,\"uid_base\":9,\"restored\":false},"
                          "\"checkpoint\":\"\",\"layer\":\"\",\"boot_id\":\"\","
                          "\"net\":{\"internet\":true,\"allow\":[],\"deny\":[]}}";

        CHECK_INT(job_note_write(scratch, &n, &err), ==, 0);
        CHECK_INT(job_note_read(scratch, &back, &err), ==, 0);
        CHECK_INT(back.facts.namespace.slot, ==, 77);
        CHECK_STR(back.checkpoint, CHECKPOINT);
        CHECK_INT(back.net.deny_count, ==, 1);
        plan_net_done(&back.net);
        CHECK_INT(sys_replace_at(scratch, "job.json", bad, strlen(bad), 0600), ==, 0);
        CHECK(job_note_read(scratch, &back, &err) < 0); /* no such slot */
        CHECK_INT(job_note_remove(scratch), ==, 0);
        CHECK_INT(job_note_remove(scratch), ==, 0);
}

static void a_lock_is_of_one_job_process_alone(void)
{
        AUTO_CLOSE int first = -1, again = -1;

        CHECK_INT(mkdirat(scratch, ID, 0700), ==, 0);
        first = job_lock(scratch, ID);
        CHECK_INT(first, >=, 0);
        CHECK_INT(job_lock(scratch, ID), ==, -EWOULDBLOCK);
        close_fd(&first);
        again = job_lock(scratch, ID);
        CHECK_INT(again, >=, 0);
        CHECK_INT(job_lock(scratch, "i0123456789abcdefghik"), ==, -ENOENT);
        CHECK_INT(unlinkat(scratch, ID, AT_REMOVEDIR), ==, 0);
}

#define THIS_BOOT "11111111-1111-1111-1111-111111111111"
#define NEXT_BOOT "22222222-2222-2222-2222-222222222222"
#define OTHER "cbbbbbbbbbbbbbbbbbbbb"

static void a_used_checkpoint_is_known_in_the_next_boot(void)
{
        AUTO_CLOSE int fd = -1, again = -1;
        struct err err = {0};
        uint64_t turn = 0, next = 0;

        CHECK_INT(used_checkpoints_open(scratch, &fd, &turn, &err), ==, 0);
        CHECK_INT(used_checkpoints_find(fd, CHECKPOINT, NEXT_BOOT), ==, CHECKPOINT_UNUSED);
        CHECK_INT(used_checkpoints_find(fd, "", NEXT_BOOT), ==, CHECKPOINT_UNUSED);
        CHECK_INT(used_checkpoints_mark(fd, turn, CHECKPOINT, THIS_BOOT, &err), ==, 0);
        CHECK_INT(used_checkpoints_mark(fd, turn + 4095, OTHER, THIS_BOOT, &err), ==,
                  0); /* the last before blocks are used again */
        CHECK_INT(used_checkpoints_find(fd, CHECKPOINT, THIS_BOOT), ==, CHECKPOINT_USED_NOW);
        CHECK_INT(used_checkpoints_open(scratch, &again, &next, &err), ==, 0);
        CHECK(next > turn + 4095); /* and job processes may still have some */
        CHECK_INT(used_checkpoints_find(again, CHECKPOINT, NEXT_BOOT), ==, CHECKPOINT_USED_BEFORE);
        CHECK_INT(used_checkpoints_find(again, OTHER, NEXT_BOOT), ==, CHECKPOINT_USED_BEFORE);
        CHECK_INT(used_checkpoints_unmark(again, CHECKPOINT, &err), ==, 0); /* it was not, after all */
        CHECK_INT(used_checkpoints_unmark(again, CHECKPOINT, &err), ==, 0);
        CHECK_INT(used_checkpoints_find(again, CHECKPOINT, NEXT_BOOT), ==, CHECKPOINT_UNUSED);
        CHECK_INT(used_checkpoints_find(again, OTHER, NEXT_BOOT), ==, CHECKPOINT_USED_BEFORE);
        CHECK_INT(used_checkpoints_mark(again, turn + 4096 + 4095, CHECKPOINT, THIS_BOOT, &err), ==, 0);
        CHECK_INT(used_checkpoints_find(again, CHECKPOINT, NEXT_BOOT), ==, CHECKPOINT_USED_BEFORE);
        CHECK_INT(used_checkpoints_find(again, OTHER, NEXT_BOOT), ==, CHECKPOINT_UNUSED);
        CHECK_INT(ftruncate(again, 700), ==, 0); /* half made */
        close_fd(&again);
        CHECK_INT(used_checkpoints_open(scratch, &again, &next, &err), ==, 0);
        CHECK_INT(used_checkpoints_find(again, CHECKPOINT, NEXT_BOOT), ==, CHECKPOINT_UNUSED);
        CHECK_INT(used_checkpoints_mark(again, next, CHECKPOINT, THIS_BOOT, &err), ==, 0);
        CHECK_INT(used_checkpoints_find(again, CHECKPOINT, NEXT_BOOT), ==, CHECKPOINT_USED_BEFORE);
        CHECK_INT(unlinkat(scratch, "used-checkpoints", 0), ==, 0);
        CHECK(used_checkpoints_mark(-1, 1, CHECKPOINT, THIS_BOOT, &err) < 0 && err.kind != ERR_NONE);
}

int main(void)
{
        char path[] = "/tmp/sandglass-test-XXXXXX";

        if (!mkdtemp(path))
                return 1;
        scratch = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        RUN(reads_what_it_wrote);
        RUN(refuses_what_it_would_not_write);
        RUN(says_when_there_is_none);
        RUN(notes_name_what_a_job_process_uses);
        RUN(a_lock_is_of_one_job_process_alone);
        RUN(a_used_checkpoint_is_known_in_the_next_boot);
        (void)unlinkat(scratch, "paused.old", 0);
        (void)rmdir(path);
        return tap_done();
}
