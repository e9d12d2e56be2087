#include "serve/setup/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "sys/fs.h"

#include "tap.h"
#include "version.h"

static char dir[] = "/tmp/layout-XXXXXX";

/* ---- a data directory per case ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        (void)st;
        (void)type;
        (void)ftw;
        return remove(path);
}
static void begin(void)
{
        (void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        (void)mkdir(dir, 0755);
}
static const char *in_dir(const char *name)
{
        static char path[200];

        (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
        return path;
}
static int put_file(const char *name, const char *text)
{
        AUTO_CLOSE int fd = open(in_dir(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        return fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) ? -1 : 0;
}
static int put_dir(const char *name)
{
        return mkdir(in_dir(name), 0755);
}

/* Names, kinds, sizes and times of everything there. */
static struct buf listing;

static int list_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        (void)type;
        (void)ftw;
        return buf_addf(&listing, "%s %o %lld %lld.%09ld %lld.%09ld\n", path, st->st_mode, (long long)st->st_size,
                        (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, (long long)st->st_ctim.tv_sec,
                        st->st_ctim.tv_nsec);
}
static char *list_all(void)
{
        buf_done(&listing);
        buf_init(&listing, 1 << 16);
        (void)nftw(dir, list_one, 8, FTW_PHYS);
        return (char *)(uintptr_t)buf_cstr(&listing);
}

/* ---- cases ---- */

static void what_is_new_has_room_for_ours(void)
{
        struct err e = {0};

        begin();
        CHECK_INT(layout_check("/nonexistent/data", &e), ==, 0);
        CHECK_INT(layout_check(dir, &e), ==, 0);
        CHECK_INT(put_dir("images"), ==, 0);
        CHECK_INT(put_file("images/x", "x"), ==, 0);
        CHECK_INT(put_dir("criu"), ==, 0);
        CHECK_INT(put_dir("lost+found"), ==, 0);
        CHECK_INT(put_dir("store"), ==, 0); /* an empty one, to mount another disk on */
        CHECK_INT(put_file("layout.new", ""), ==, 0);
        CHECK_INT(layout_check(dir, &e), ==, 0);
}

static void the_number_is_written_once(void)
{
        struct err e = {0};
        struct stat first, second;
        char text[16] = "";

        begin();
        CHECK_INT(layout_write(dir, &e), ==, 0);
        CHECK_INT(sys_read_at(AT_FDCWD, in_dir("layout"), text, sizeof(text)), >, 0);
        CHECK_STR(text, "1\n");
        CHECK_INT(put_dir("sandboxes"), ==, 0);
        CHECK_INT(put_file("sandboxes/x", "x"), ==, 0);
        CHECK_INT(layout_check(dir, &e), ==, 0);
        CHECK_INT(stat(in_dir("layout"), &first), ==, 0);
        CHECK_INT(layout_write(dir, &e), ==, 0);
        CHECK_INT(stat(in_dir("layout"), &second), ==, 0);
        CHECK_INT(first.st_ino, ==, second.st_ino);
}

static void what_is_not_ours_is_refused_and_left_alone(void)
{
        static const struct {
                const char *layout; /* NULL: none */
                const char *said;
        } cases[] = {
                {NULL, "no layout version"}, {"2\n", "has layout 2, and sandglass "},
                {"0\n", "not the number"},   {"", "not the number"},
                {"one\n", "not the number"}, {"12345678901234567\n", "not the number"},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_FREE char *before = NULL, *after = NULL;
                struct err e = {0};

                begin();
                CHECK_INT(put_dir("store"), ==, 0);
                CHECK_INT(put_file("store/sandglass.db", "x"), ==, 0);
                if (cases[i].layout)
                        CHECK_INT(put_file("layout", cases[i].layout), ==, 0);
                before = strdup(list_all());
                CHECK_INT(layout_check(dir, &e), <, 0);
                after = strdup(list_all());
                CHECK_INT(e.kind, ==, ERR_CONFLICT);
                if (!strstr(e.msg, cases[i].said))
                        printf("# %s\n", e.msg);
                CHECK(strstr(e.msg, cases[i].said));
                CHECK(strstr(e.msg, "another --data"));
                CHECK(strstr(e.msg, SANDGLASS_VERSION));
                CHECK_STR(after, before);
        }
}

static void a_single_foreign_file_is_contents(void)
{
        struct err e = {0};

        begin();
        CHECK_INT(put_file("notes.txt", "x"), ==, 0);
        CHECK_INT(layout_check(dir, &e), <, 0);
        CHECK(strstr(e.msg, "'notes.txt'"));
}

int main(void)
{
        if (!mkdtemp(dir))
                return 1;
        RUN(what_is_new_has_room_for_ours);
        RUN(the_number_is_written_once);
        RUN(what_is_not_ours_is_refused_and_left_alone);
        RUN(a_single_foreign_file_is_contents);
        (void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        return tap_done();
}
