/* Checkpoints on disk: whole ones, and every kind of damage. */
#include "engine/checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/checkpoint/checkpoint_manifest.h"
#include "engine/criu/criu_rpc.h"
#include "engine/checkpoint/recent_checkpoints.h"
#include "engine/checkpoint/image_sums.h"
#include "sys/fs.h"
#include "tap.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
static const struct checkpoint_facts facts = {.sandbox = "iaaaaaaaaaaaaaaaaaaaa",
                                              .envd = HASH,
                                              .uid_base = 1879113728u,
                                              .address = 0x0a000002,
                                              .frozen_us = 1234};
static const uint8_t userns[] = {0x54, 0x43, 0x56, 0x54, 0x06, 0x10, 0x47, 0x55, 28,   0,    0,    0,    0x0a, 12,
                                 0x08, 0,    0x10, 0x80, 0x80, 0x84, 0x80, 0x07, 0x18, 0x80, 0x80, 0x04, 0x12, 12,
                                 0x08, 0,    0x10, 0x80, 0x80, 0x84, 0x80, 0x07, 0x18, 0x80, 0x80, 0x04};
#define LARGE (3u << 20)

struct place {
        char path[64];
        int top, dir, images;
};

static void place_done(struct place *p)
{
        (void)sys_remove_tree(p->top, "c");
        (void)sys_remove_tree(p->top, "work");
        (void)rmdir(p->path);
        close_fd(&p->top);
        close_fd(&p->dir);
        close_fd(&p->images);
}

static bool put(int dir, const char *name, const void *bytes, size_t n)
{
        return sys_replace_at(dir, name, bytes, n, 0600) == 0;
}

static bool place_make(struct place *p)
{
        AUTO_FREE char *pages = calloc(1, LARGE);

        *p = (struct place){.path = "/tmp/sandglass-checkpoint-XXXXXX", .top = -1, .dir = -1, .images = -1};
        if (!pages || !mkdtemp(p->path) || (p->top = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
            mkdirat(p->top, "c", 0711) < 0 || (p->dir = sys_open_dir(p->top, "c")) < 0 ||
            mkdirat(p->dir, CHECKPOINT_IMAGES, 0711) < 0 || (p->images = sys_open_dir(p->dir, CHECKPOINT_IMAGES)) < 0)
                return false;
        memset(pages, 'p', LARGE);
        return put(p->images, "pages-1.img", pages, LARGE) && put(p->images, "core-1.img", "core", 4) &&
               put(p->images, "userns-9.img", userns, sizeof(userns)) && put(p->images, "empty.img", "", 0);
}

#define PLACE AUTO(place_done) struct place

static int finish(struct place *p, bool is_durable)
{
        uint64_t bytes = 0;
        int r = checkpoint_finish(p->dir, &facts, NULL, is_durable, &bytes, NULL);

        return r < 0 ? r : bytes == LARGE + 4 + sizeof(userns) ? 0 : -1;
}

static void free_p(struct checkpoint **c)
{
        *c = checkpoint_free(*c);
}

/* Open and check everything: NULL when it is whole, else what is said. */
static const char *fault(struct place *p, struct err *err)
{
        AUTO(free_p) struct checkpoint *c = NULL;

        *err = (struct err){0};
        if (checkpoint_open(p->dir, &c, err) < 0 || checkpoint_verify_small(c, err) < 0 ||
            checkpoint_verify_large(c, err) < 0)
                return err->msg;
        return NULL;
}

static void a_whole_one_is_found_whole(void)
{
        PLACE p = {0};
        AUTO(free_p) struct checkpoint *c = NULL;
        struct err err = {0};

        CHECK(place_make(&p));
        CHECK_INT(finish(&p, true), ==, 0);
        CHECK_INT(checkpoint_open(p.dir, &c, &err), ==, 0);
        CHECK_INT(checkpoint_verify_small(c, &err), ==, 0);
        CHECK_INT(checkpoint_verify_large(c, &err), ==, 0);
        CHECK_STR(checkpoint_facts(c)->sandbox, facts.sandbox);
        CHECK_STR(checkpoint_facts(c)->envd, facts.envd);
        CHECK_INT(checkpoint_facts(c)->uid_base, ==, facts.uid_base);
        CHECK_INT(checkpoint_facts(c)->address, ==, facts.address);
        CHECK_INT(checkpoint_facts(c)->frozen_us, ==, facts.frozen_us);
        CHECK_INT(checkpoint_flush(p.dir, &err), ==, 0);
}

static void without_a_manifest_there_is_none(void)
{
        PLACE p = {0};
        struct err err = {0};

        CHECK(place_make(&p));
        CHECK(fault(&p, &err) != NULL);
        CHECK_INT(err.kind, ==, ERR_NOT_FOUND);
        CHECK(checkpoint_flush(p.dir, &err) < 0);
        CHECK_INT(finish(&p, false), ==, 0);
        CHECK(!fault(&p, &err));
        CHECK(faccessat(p.dir, CHECKPOINT_MANIFEST ".new", F_OK, 0) < 0);
}

static bool is_damage(struct place *p, const char *what)
{
        struct err err;
        const char *said = fault(p, &err);
        bool fits =
                said && err.kind == ERR_INVALID && strncmp(said, "checkpoint damaged: ", 20) == 0 && strstr(said, what);

        if (!fits)
                printf("# %s: %s\n", what, said ? said : "whole");
        return fits;
}

static void damage_to_images_is_found(void)
{
        PLACE p = {0};
        AUTO_CLOSE int pages = -1;
        struct err err;

        CHECK(place_make(&p));
        CHECK_INT(finish(&p, false), ==, 0);
        CHECK(put(p.images, "core-1.img", "c0re", 4)); /* a changed byte */
        CHECK(is_damage(&p, "core-1.img has another checksum"));
        CHECK(put(p.images, "core-1.img", "cor", 3)); /* cut short */
        CHECK(is_damage(&p, "core-1.img has another size"));
        CHECK(unlinkat(p.images, "core-1.img", 0) == 0);
        CHECK(is_damage(&p, "core-1.img is missing"));
        CHECK(symlinkat("/etc/passwd", p.images, "core-1.img") == 0);
        CHECK(is_damage(&p, "core-1.img is no file"));
        CHECK(unlinkat(p.images, "core-1.img", 0) == 0 && put(p.images, "core-1.img", "core", 4));
        CHECK(!fault(&p, &err));
        CHECK(put(p.images, "ghost-file-7.img", "x", 1)); /* one too many */
        CHECK(is_damage(&p, "ghost-file-7.img"));
        CHECK(unlinkat(p.images, "ghost-file-7.img", 0) == 0);
        pages = openat(p.images, "pages-1.img", O_WRONLY | O_CLOEXEC);
        CHECK(pwrite(pages, "q", 1, LARGE - 1) == 1);
        CHECK(is_damage(&p, "pages-1.img has another checksum"));
        CHECK(ftruncate(pages, LARGE - 1) == 0);
        CHECK(is_damage(&p, "pages-1.img has another size"));
}

static void any_changed_byte_of_the_manifest_is_found(void)
{
        PLACE p = {0};
        char text[4096], other[4096];
        struct err err;
        ssize_t n;

        CHECK(place_make(&p));
        CHECK_INT(finish(&p, false), ==, 0);
        n = sys_read_at(p.dir, CHECKPOINT_MANIFEST, text, sizeof(text));
        CHECK_INT(n, >, 0);
        for (ssize_t at = 0; at < n; at++) {
                memcpy(other, text, (size_t)n);
                other[at] = (char)(other[at] ^ 4);
                CHECK(put(p.dir, CHECKPOINT_MANIFEST, other, (size_t)n));
                if (!fault(&p, &err))
                        printf("# byte %zd\n", at);
                CHECK(fault(&p, &err) && err.kind == ERR_INVALID);
        }
        for (ssize_t len = 0; len < n; len++) {
                CHECK(put(p.dir, CHECKPOINT_MANIFEST, text, (size_t)len));
                CHECK(is_damage(&p, CHECKPOINT_MANIFEST));
        }
        CHECK(put(p.dir, CHECKPOINT_MANIFEST, text, (size_t)n) && !fault(&p, &err));
}

static void another_format_is_named(void)
{
        struct manifest m = {0};
        struct err err = {0};

        CHECK_INT(manifest_decode(STR("{\"format\":2,\"whatever\":true}"), &m, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_INVALID);
        CHECK_STR(err.msg, "the checkpoint is of format 2, this server reads format 1");
        CHECK_INT(manifest_decode(STR("[]"), &m, &err), <, 0);
        CHECK_INT(manifest_decode(STR("{\"format\":\"1\"}"), &m, &err), <, 0);
}

static void names_that_lead_elsewhere_are_refused(void)
{
        static const char *const names[] = {"../x",    "a/b", "/etc/passwd", ".",    "..",
                                            ".hidden", "",    "a b",         "a\nb", "\xc3\xa9"};
        char longest[MANIFEST_NAME_MAX + 1];

        memset(longest, 'x', sizeof(longest) - 1);
        longest[sizeof(longest) - 1] = '\0';
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                AUTO(manifest_done) struct manifest m = {0};
                struct err err = {0};

                CHECK_INT(manifest_add(&m, names[i], &err), <, 0);
                CHECK_INT(manifest_add(&m, longest, &err), <, 0);
        }
}

/* A manifest with a right sum but wrong content, as somebody with ill intent would write it. */
static int decode_with_name(const char *name, struct err *err)
{
        AUTO(manifest_done) struct manifest m = {.facts = facts}, back = {0};
        AUTO_FREE char *text = NULL;

        if (manifest_add(&m, "placeholder.img", err) < 0)
                return 1;
        memset(m.files[0].name, 0, sizeof(m.files[0].name));
        memcpy(m.files[0].name, name, strlen(name));
        if (manifest_encode(&m, &text, err) < 0)
                return 1;
        return manifest_decode(str_of(text), &back, err);
}

static void such_names_are_refused_with_a_right_sum_too(void)
{
        struct err err = {0};

        CHECK_INT(decode_with_name("fine.img", &err), ==, 0);
        CHECK_INT(decode_with_name("../../etc/shadow", &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_INVALID);
        CHECK_INT(decode_with_name("/etc/shadow", &err), <, 0);
        CHECK_INT(decode_with_name("..", &err), <, 0);
}

static void a_sandbox_that_is_no_id_is_refused(void)
{
        AUTO(manifest_done) struct manifest m = {.facts = facts}, back = {0};
        AUTO_FREE char *text = NULL;
        struct err err = {0};

        m.facts.sandbox[1] = '/';
        CHECK_INT(manifest_encode(&m, &text, &err), ==, 0);
        CHECK_INT(manifest_decode(str_of(text), &back, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_INVALID);
}

static void rebase_changes_the_range_and_nothing_else(void)
{
        PLACE p = {0};
        AUTO(free_p) struct checkpoint *c = NULL;
        AUTO_CLOSE int work = -1;
        char bytes[CRIU_USERNS_BYTES_MAX];
        struct stat here, there;
        struct err err = {0};
        uint32_t base = 0;
        ssize_t n;

        CHECK(place_make(&p));
        CHECK_INT(finish(&p, false), ==, 0);
        CHECK(mkdirat(p.top, "work", 0711) == 0 && (work = sys_open_dir(p.top, "work")) >= 0);
        CHECK_INT(checkpoint_open(p.dir, &c, &err), ==, 0);
        CHECK_INT(checkpoint_rebase(c, work, 555000, &err), ==, 0);
        n = sys_read_at(work, "userns-9.img", bytes, sizeof(bytes));
        CHECK(n > 0 && criu_rpc_userns_base((struct str){bytes, (size_t)n}, &base) == 0);
        CHECK_INT(base, ==, 555000);
        n = sys_read_at(p.images, "userns-9.img", bytes, sizeof(bytes));
        CHECK(n == (ssize_t)sizeof(userns) && memcmp(bytes, userns, sizeof(userns)) == 0);
        CHECK(fstatat(p.images, "pages-1.img", &here, 0) == 0 && fstatat(work, "pages-1.img", &there, 0) == 0);
        CHECK(here.st_ino == there.st_ino);
        CHECK(!fault(&p, &err));
}

static void rebase_wants_a_user_namespace_it_understands(void)
{
        PLACE p = {0};
        AUTO(free_p) struct checkpoint *c = NULL, *without = NULL;
        AUTO_CLOSE int work = -1;
        struct err err = {0};

        CHECK(place_make(&p));
        CHECK(put(p.images, "userns-9.img", "nonsense", 8));
        CHECK(checkpoint_finish(p.dir, &facts, NULL, false, &(uint64_t){0}, &err) == 0);
        CHECK(mkdirat(p.top, "work", 0711) == 0 && (work = sys_open_dir(p.top, "work")) >= 0);
        CHECK_INT(checkpoint_open(p.dir, &c, &err), ==, 0);
        CHECK_INT(checkpoint_rebase(c, work, 555000, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_INVALID);
        CHECK(unlinkat(p.images, "userns-9.img", 0) == 0 && sys_remove_tree(p.top, "work") == 0);
        close_fd(&work);
        CHECK(checkpoint_finish(p.dir, &facts, NULL, false, &(uint64_t){0}, &err) == 0);
        CHECK(mkdirat(p.top, "work", 0711) == 0 && (work = sys_open_dir(p.top, "work")) >= 0);
        CHECK_INT(checkpoint_open(p.dir, &without, &err), ==, 0);
        CHECK_INT(checkpoint_rebase(without, work, 555000, &err), <, 0);
        CHECK(strstr(err.msg, "userns") != NULL);
}

static void a_directory_among_the_images_is_refused(void)
{
        PLACE p = {0};

        CHECK(place_make(&p));
        CHECK(mkdirat(p.images, "dir", 0700) == 0);
        CHECK(finish(&p, false) < 0);
        CHECK(faccessat(p.dir, CHECKPOINT_MANIFEST, F_OK, 0) < 0);
}

/* ---- summed up while they are written ---- */

/* A pages image in uneven writes, so many of them zeros. */
static bool write_pages(int images, const char *name, size_t zeros, unsigned seed)
{
        AUTO_CLOSE int fd = openat(images, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        static uint8_t bytes[300001];
        size_t left = zeros;

        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t)(i * 7 + seed) | 1;
        for (int i = 0; i < 12; i++)
                if (write(fd, bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes))
                        return false;
        memset(bytes, 0, sizeof(bytes));
        while (left > 0) {
                size_t n = left < sizeof(bytes) ? left : sizeof(bytes);

                if (write(fd, bytes, n) != (ssize_t)n)
                        return false;
                left -= n;
        }
        return write(fd, "end", 3) == 3;
}

static uint64_t disk_bytes(int images, const char *name)
{
        AUTO_CLOSE int fd = openat(images, name, O_RDONLY | O_CLOEXEC);
        struct stat st = {0};

        return fd >= 0 && fsync(fd) == 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : UINT64_MAX;
}

static void what_was_summed_up_while_written_is_whole(void)
{
        for (int is_pushing = 0; is_pushing < 2; is_pushing++) {
                PLACE p = {0};
                struct image_sums s;
                struct err err;
                struct stat st;
                uint32_t crc;

                CHECK(place_make(&p));
                image_sums_start(&s, p.images, is_pushing);
                CHECK(write_pages(p.images, "pages-2.img", 0, 1) && write_pages(p.images, "pages-3.img", 5, 2));
                CHECK(write_pages(p.images, "core-2.img", 0, 2)); /* CRIU may write into the middle of such ones */
                image_sums_stop(&s);
                CHECK(fstatat(p.images, "core-2.img", &st, 0) == 0);
                CHECK_INT(image_sums_of(&s, &st, &crc), ==, 0);
                CHECK(checkpoint_finish(p.dir, &facts, &s, is_pushing, &(uint64_t){0}, &err) == 0);
                image_sums_done(&s);
                CHECK(!fault(&p, &err));
        }
}

static void one_written_anew_or_further_is_summed_up_right(void)
{
        PLACE p = {0};
        struct image_sums s;
        struct err err;

        CHECK(place_make(&p));
        image_sums_start(&s, p.images, false);
        CHECK(write_pages(p.images, "pages-2.img", 0, 1) && write_pages(p.images, "pages-3.img", 0, 1));
        image_sums_stop(&s);
        CHECK(unlinkat(p.images, "pages-2.img", 0) == 0 && write_pages(p.images, "pages-2.img", 0, 9));
        {
                AUTO_CLOSE int fd = openat(p.images, "pages-3.img", O_WRONLY | O_APPEND | O_CLOEXEC);

                CHECK(write(fd, "more", 4) == 4);
        }
        CHECK(checkpoint_finish(p.dir, &facts, &s, false, &(uint64_t){0}, &err) == 0);
        image_sums_done(&s);
        CHECK(!fault(&p, &err));
}

static void zeros_take_no_room_on_disk(void)
{
        PLACE p = {0};
        struct image_sums s;
        struct err err;
        struct stat st;
        uint32_t crc;

        CHECK(place_make(&p));
        image_sums_start(&s, p.images, true);
        CHECK(write_pages(p.images, "pages-2.img", 40u << 20, 1));
        image_sums_stop(&s);
        CHECK(fstatat(p.images, "pages-2.img", &st, 0) == 0);
        if (image_sums_of(&s, &st, &crc) == (uint64_t)st.st_size) /* it was heard of in time */
                CHECK_INT(disk_bytes(p.images, "pages-2.img"), <, 6u << 20);
        CHECK(checkpoint_finish(p.dir, &facts, &s, true, &(uint64_t){0}, &err) == 0);
        image_sums_done(&s);
        CHECK(!fault(&p, &err));
}

static void holes_are_where_zeros_are(void)
{
        AUTO_FREE uint8_t *bytes = calloc(1, 1u << 20);
        AUTO_FREE uint8_t *again = malloc(1u << 20);
        PLACE p = {0};
        AUTO_CLOSE int fd = -1;

        CHECK(place_make(&p) && bytes && again);
        bytes[0] = bytes[300000] = bytes[(1u << 20) - 1] = 1;
        CHECK(put(p.images, "pages-2.img", bytes, 1u << 20));
        fd = openat(p.images, "pages-2.img", O_RDWR | O_CLOEXEC);
        image_sums_punch(fd, 0, bytes, 1u << 20);
        CHECK_INT(disk_bytes(p.images, "pages-2.img"), <=, (3u * 64u + 64u) << 10);
        CHECK(pread(fd, again, 1u << 20, 0) == 1 << 20 && memcmp(bytes, again, 1u << 20) == 0);
        memset(bytes, 0, 1u << 20);
        image_sums_punch(fd, 0, bytes + 1, 1000); /* too short to be worth it */
        CHECK(pread(fd, again, 1, 0) == 1 && again[0] == 1);
}

static void fresh_ones_are_known_for_a_while(void)
{
        struct recent_checkpoints f = {0};
        char id[CHECKPOINT_ID_MAX];

        CHECK(!recent_checkpoints_has(&f, "", 0) && !recent_checkpoints_has(&f, "caaaaaaaaaaaaaaaaaaaa", 1));
        recent_checkpoints_add(&f, "caaaaaaaaaaaaaaaaaaaa", 1000);
        CHECK(recent_checkpoints_has(&f, "caaaaaaaaaaaaaaaaaaaa", 1001) &&
              !recent_checkpoints_has(&f, "cbaaaaaaaaaaaaaaaaaaa", 1001));
        CHECK(!recent_checkpoints_has(&f, "caaaaaaaaaaaaaaaaaaaa", 1000 + RECENT_CHECKPOINTS_S * 1000000u));
        recent_checkpoints_forget(&f, "caaaaaaaaaaaaaaaaaaaa");
        CHECK(!recent_checkpoints_has(&f, "caaaaaaaaaaaaaaaaaaaa", 1001));
        recent_checkpoints_add(&f, "caaaaaaaaaaaaaaaaaaaa", 1000);
        for (int i = 0; i < RECENT_CHECKPOINTS_MAX; i++) {
                checkpoint_id_make(id);
                recent_checkpoints_add(&f, id, 1000);
        }
        CHECK(recent_checkpoints_has(&f, id, 1001) && !recent_checkpoints_has(&f, "caaaaaaaaaaaaaaaaaaaa", 1001));
}

int main(void)
{
        RUN(a_whole_one_is_found_whole);
        RUN(without_a_manifest_there_is_none);
        RUN(damage_to_images_is_found);
        RUN(any_changed_byte_of_the_manifest_is_found);
        RUN(another_format_is_named);
        RUN(names_that_lead_elsewhere_are_refused);
        RUN(such_names_are_refused_with_a_right_sum_too);
        RUN(a_sandbox_that_is_no_id_is_refused);
        RUN(rebase_changes_the_range_and_nothing_else);
        RUN(rebase_wants_a_user_namespace_it_understands);
        RUN(a_directory_among_the_images_is_refused);
        RUN(what_was_summed_up_while_written_is_whole);
        RUN(one_written_anew_or_further_is_summed_up_right);
        RUN(zeros_take_no_room_on_disk);
        RUN(holes_are_where_zeros_are);
        RUN(fresh_ones_are_known_for_a_while);
        return tap_done();
}
