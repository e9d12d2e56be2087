/* Small files that have to be written on a full disk: notes of the supervisor and of the engine. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/host/instance.h"
#include "engine/records/paused.h"
#include "model/conf.h"
#include "serve/setup/datadir.h"
#include "serve/setup/secret_key.h"
#include "sys/fs.h"

#include "full_disk.h"
#include "tap.h"

#define ID "i0123456789abcdefghij"
#define CHECKPOINT "c0123456789abcdefghij"

static bool has_disk;
static int disk; /* fd of its directory */
#define BEGIN                                                                                                          \
        do {                                                                                                           \
                if (!has_disk)                                                                                         \
                        SKIP("no mount namespace of our own");                                                         \
                full_disk_make_room();                                                                                 \
        } while (0)

static const char *text_of(const char *name)
{
        static char text[512];

        return sys_read_at(disk, name, text, sizeof(text)) < 0 ? "" : text;
}

static void the_lock_names_its_new_holder(void)
{
        AUTO(conf_done) struct conf c = {0};
        struct err err = {0};
        char want[32];
        int fd = -1;

        BEGIN;
        CHECK_INT(conf_defaults(&c, full_disk_dir, &err), ==, 0);
        CHECK_INT(sys_replace_at(disk, "lock", "1234567890\n", 11, 0600), ==, 0);
        full_disk_fill();
        CHECK_INT(datadir_lock(&c, &fd, &err), ==, 0);
        (void)snprintf(want, sizeof(want), "%d\n", (int)getpid());
        CHECK_STR(text_of("lock"), want);
        close_fd(&fd);
}

static void lines_are_written_over_those_of_before(void)
{
        AUTO_FREE char *path = NULL;

        BEGIN;
        CHECK(asprintf(&path, "%s/env", full_disk_dir) > 0);
        CHECK_INT(file_replace_lines(path, 0600, "export A=1\nexport B=2\n", 22), ==, 0);
        full_disk_fill();
        CHECK_INT(file_replace_lines(path, 0600, "export A=3\n", 11), ==, 0);
        CHECK_STR(text_of("env"), "export A=3\n\n\n\n\n\n\n\n\n\n\n\n");
        CHECK_INT(file_replace_lines(path, 0600, "export A=1\nexport B=2\n", 22), ==, 0);
        CHECK_STR(text_of("env"), "export A=1\nexport B=2\n");
        CHECK_INT(unlinkat(disk, "env", 0), ==, 0);
        full_disk_fill();
        CHECK_INT(file_replace_lines(path, 0600, "x", 1), ==, -ENOSPC); /* there is nothing to write over */
}

static void an_engine_keeps_the_number_it_takes(void)
{
        const char *old = "{\"identity\":\"damaged\",\"instance\":4711}                                    ";
        struct instance in = {.lock = -1};
        struct err err = {0};
        char want[32];

        BEGIN;
        if (geteuid() != 0)
                SKIP("needs root");
        CHECK_INT(sys_replace_at(disk, "engine.json", old, strlen(old), 0600), ==, 0);
        full_disk_fill();
        CHECK_INT(instance_take(disk, &in, &err), ==, 0);
        (void)snprintf(want, sizeof(want), "\"instance\":%u", in.number);
        CHECK(strstr(text_of("engine.json"), want));
        instance_give_up(&in);
        CHECK_INT(instance_take(disk, &in, &err), ==, 0); /* read again */
        CHECK(strstr(text_of("engine.json"), want));
        instance_give_up(&in);
}

/* It was at rest, began to wake, and is to be at rest again. */
static void what_does_not_wake_is_at_rest_again(void)
{
        struct paused s = {.checkpoint = CHECKPOINT}, back = {0};
        struct err err = {0};

        BEGIN;
        CHECK_INT(paused_write(disk, ID, &s, true, &err), ==, 0);
        full_disk_fill();
        s.checkpoint[0] = 0;
        CHECK_INT(paused_write(disk, ID, &s, true, &err), <, 0); /* what is there is not risked */
        CHECK_INT(err.kind, ==, ERR_NO_SPACE);
        CHECK_INT(paused_read(disk, ID, &back, &err), ==, 0);
        CHECK_STR(back.checkpoint, CHECKPOINT);
        CHECK_INT(paused_remove(disk), ==, 0);
        full_disk_fill();
        CHECK(paused_read(disk, ID, &back, &err) < 0);
        CHECK_INT(paused_write(disk, ID, &s, true, &err), ==, 0);
        CHECK_INT(paused_read(disk, ID, &back, &err), ==, 0);
        CHECK_STR(back.checkpoint, "");
        CHECK_INT(paused_remove(disk), ==, 0);
        (void)unlinkat(disk, "paused.old", 0);
        full_disk_fill();
        CHECK_INT(paused_write(disk, ID, &s, false, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_NO_SPACE);
}

/* The server starts without a key, and makes one when there is room. */
static void a_key_is_made_as_soon_as_there_is_room(void)
{
        AUTO(conf_done) struct conf c = {0};
        AUTO_CLOSE int fd = -1;
        struct err err = {0};

        BEGIN;
        CHECK_INT(conf_defaults(&c, full_disk_dir, &err), ==, 0);
        full_disk_fill();
        CHECK_INT(secret_key_ensure(&c, &err), ==, 0);
        CHECK_INT(secret_key_open(&c, &fd, &err), ==, 0);
        CHECK_INT(fd, ==, -1);
        full_disk_make_room();
        CHECK_INT(secret_key_ensure(&c, &err), ==, 0);
        CHECK_INT(secret_key_open(&c, &fd, &err), ==, 0);
        CHECK_INT(fd, >=, 0);
        full_disk_fill();
        CHECK_INT(secret_key_ensure(&c, &err), ==, 0); /* the one that is there stays */
        CHECK_INT(strlen(text_of("secret-key")), ==, 65);
        CHECK_INT(unlinkat(disk, "secret-key", 0), ==, 0);
}

int main(void)
{
        has_disk = full_disk_mount("size=1m,mode=0755");
        disk = open(full_disk_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        RUN(the_lock_names_its_new_holder);
        RUN(lines_are_written_over_those_of_before);
        RUN(an_engine_keeps_the_number_it_takes);
        RUN(what_does_not_wake_is_at_rest_again);
        RUN(a_key_is_made_as_soon_as_there_is_room);
        (void)close(disk);
        full_disk_remove();
        return tap_done();
}
