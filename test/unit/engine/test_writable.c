/* The writable storage of one sandbox, through its module alone.  How it is laid out on disk is the module's own: the tests look at
 * sealed/ and at what the module gives out. */
#include "engine/storage/writable.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/storage/upper_copy.h"
#include "engine/storage/writable_ahead.h"
#include "sys/fs.h"

#define LAYER "u-0123456789abcdefghij"
#define OTHER "u-1123456789abcdefghij"

static int root = -1, sandboxes = -1, sealed = -1, trash = -1, ahead = -1;

static unsigned count_entries(int dir)
{
        AUTO_DIR DIR *d = sys_list(dir);
        unsigned n = 0;

        while (d && sys_list_next(d))
                n++;
        return n;
}

static void empty(int dir)
{
        AUTO_DIR DIR *d = sys_list(dir);
        const struct dirent *e;

        while (d && (e = sys_list_next(d)))
                (void)sys_remove_tree(dir, e->d_name);
}

/* A directory of a sandbox, new, in a data directory without anything else. */
static struct writable new_sandbox(void)
{
        static int dir = -1;

        close_fd(&dir);
        empty(sandboxes);
        empty(sealed);
        empty(trash);
        empty(ahead);
        if (mkdirat(sandboxes, "s", 0700) == 0)
                dir = sys_open_dir(sandboxes, "s");
        return (struct writable){.dir = dir, .sealed = sealed, .trash = trash};
}

static bool write_file(int dir, const char *name, size_t bytes)
{
        AUTO_CLOSE int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
        static char text[64 << 10];

        memset(text, 'x', sizeof(text));
        for (size_t n; fd >= 0 && bytes > 0; bytes -= n) {
                n = bytes < sizeof(text) ? bytes : sizeof(text);
                if (write(fd, text, n) != (ssize_t)n)
                        return false;
        }
        return fd >= 0;
}

static bool put_file(const struct writable *w, const char *name, size_t bytes)
{
        AUTO_CLOSE int files = writable_open_files(w);

        return files >= 0 && write_file(files, name, bytes);
}

static bool has(int dir, const char *path)
{
        return faccessat(dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool has_file(const struct writable *w, const char *name)
{
        AUTO_CLOSE int files = writable_open_files(w);

        return files >= 0 && has(files, name);
}

/* ------------------------------------------------------------- preparing */

static void a_new_one_is_empty_whatever_was_there(void)
{
        struct writable w = new_sandbox();
        struct err err = {0};

        CHECK_INT(writable_open_files(&w), ==, -ENOENT);
        CHECK_INT(writable_prepare(&w, WRITABLE_NEW, &err), ==, 0);
        CHECK(put_file(&w, "of-a-try-that-failed", 1));
        CHECK_INT(writable_prepare(&w, WRITABLE_NEW, &err), ==, 0);
        CHECK(!has_file(&w, "of-a-try-that-failed"));
        CHECK_INT(writable_measure(&w).entries, ==, 0);
        CHECK_INT(count_entries(trash), ==, 2); /* what overlayfs had for its own, too */
}

static void one_that_is_kept_keeps_files_and_mode(void)
{
        struct writable w = new_sandbox();
        struct err err = {0};
        struct stat st;

        CHECK_INT(writable_prepare(&w, WRITABLE_NEW, &err), ==, 0);
        CHECK(put_file(&w, "file", 1));
        {
                AUTO_CLOSE int files = writable_open_files(&w);

                CHECK_INT(fchmod(files, 0701), ==, 0); /* the sandbox changed the mode of its "/" */
        }
        CHECK_INT(writable_prepare(&w, WRITABLE_KEPT, &err), ==, 0);
        CHECK(has_file(&w, "file"));
        {
                AUTO_CLOSE int files = writable_open_files(&w);

                CHECK(fstat(files, &st) == 0);
                CHECK_INT(st.st_mode & 07777, ==, 0701);
        }
        CHECK_INT(count_entries(trash), ==, 1); /* overlayfs's own cannot be used again */
}

static void none_is_made_where_one_is_to_be_kept(void)
{
        struct writable w = new_sandbox();
        struct err err = {0};

        CHECK_INT(writable_prepare(&w, WRITABLE_KEPT, &err), ==, -ENOENT);
        CHECK_INT(count_entries(w.dir), ==, 0);
}

static void a_try_for_room_leaves_nothing(void)
{
        struct writable w = new_sandbox();

        CHECK_INT(writable_try_room(&w), ==, 0);
        CHECK_INT(count_entries(w.dir), ==, 0);
}

/* ------------------------------------------------------------- measuring, discarding */

static void only_files_of_its_own_are_measured(void)
{
        struct writable w = new_sandbox();
        struct err err = {0};
        struct tree_size size;

        CHECK_INT(writable_measure(&w).entries, ==, 0); /* there is none */
        CHECK_INT(writable_prepare(&w, WRITABLE_NEW, &err), ==, 0);
        CHECK(write_file(w.dir, "a-note-of-the-engine", 1 << 20));
        CHECK(put_file(&w, "a", 1 << 20));
        {
                AUTO_CLOSE int files = writable_open_files(&w);

                CHECK(mkdirat(files, "d", 0755) == 0 && write_file(files, "d/b", 1 << 20));
                CHECK_INT(symlinkat("/", files, "d/everything"), ==, 0);
                CHECK_INT(writable_flush(&w, &err), ==, 0); /* file systems may allocate as late as that */
        }
        size = writable_measure(&w);
        CHECK_INT(size.entries, ==, 4);
        CHECK_INT(size.bytes, >=, 2 << 20);
        CHECK_INT(size.bytes, <, 3 << 20);
}

static void a_discarded_one_is_gone_and_can_be_made_anew(void)
{
        struct writable w = new_sandbox();
        struct err err = {0};

        writable_discard(&w); /* there is none */
        CHECK_INT(count_entries(trash), ==, 0);
        CHECK_INT(writable_prepare(&w, WRITABLE_NEW, &err), ==, 0);
        CHECK(put_file(&w, "file", 1));
        writable_discard(&w);
        CHECK_INT(count_entries(w.dir), ==, 0);
        CHECK_INT(writable_prepare(&w, WRITABLE_NEW, &err), ==, 0);
        CHECK(!has_file(&w, "file"));
}

/* ------------------------------------------------------------- becoming a layer */

static void it_becomes_a_layer_once_and_asking_again_is_fine(void)
{
        struct writable w = new_sandbox();
        struct err err = {0};

        CHECK_INT(writable_prepare(&w, WRITABLE_NEW, &err), ==, 0);
        CHECK(put_file(&w, "file", 1));
        CHECK(writable_is_seal_undone(&w, LAYER) && !writable_is_sealed(&w, LAYER));
        CHECK_INT(writable_seal(&w, NULL, LAYER, &err), ==, 0);
        CHECK(!writable_is_seal_undone(&w, LAYER) && writable_is_sealed(&w, LAYER));
        CHECK(has(sealed, LAYER "/file"));
        CHECK_INT(count_entries(w.dir), ==, 0); /* it has no files of its own any more */
        CHECK_INT(writable_seal(&w, NULL, LAYER, &err), ==, 0);
        CHECK_INT(writable_seal(&w, NULL, OTHER, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_INTERNAL);
        CHECK(!writable_is_seal_undone(&w, OTHER)); /* there is nothing left that could become it */
}

static void one_directory_becomes_a_layer(void)
{
        struct writable w = new_sandbox();
        AUTO_CLOSE int upper = -1;
        struct err err = {0};

        CHECK_INT(writable_prepare(&w, WRITABLE_NEW, &err), ==, 0);
        CHECK(put_file(&w, "file", 1));
        upper = writable_open_files(&w);
        CHECK(upper >= 0 && mkdirat(upper, "tree", 0755) == 0 && symlinkat("/etc", upper, "link") == 0);
        CHECK_INT(mkdirat(upper, "tree/etc", 0755), ==, 0);
        CHECK_INT(writable_seal(&w, "other", LAYER, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_NOT_FOUND);
        CHECK_INT(writable_seal(&w, "file", LAYER, &err), <, 0);
        CHECK_INT(writable_seal(&w, "link", LAYER, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_NOT_FOUND);
        CHECK_INT(writable_seal(&w, "tree", LAYER, &err), ==, 0);
        CHECK(has(sealed, LAYER "/etc") && !has(sealed, LAYER "/file"));
        CHECK_INT(count_entries(w.dir), ==, 0);
        CHECK_INT(writable_seal(&w, "tree", LAYER, &err), ==, 0);
}

static void a_layer_is_never_replaced(void)
{
        struct writable w = new_sandbox();
        struct tree_size size;
        struct err err = {0};

        CHECK_INT(mkdirat(sealed, LAYER, 0755), ==, 0); /* empty: a rename over it would succeed */
        CHECK_INT(writable_prepare(&w, WRITABLE_NEW, &err), ==, 0);
        CHECK(put_file(&w, "file", 1));
        CHECK_INT(writable_seal(&w, NULL, LAYER, &err), <, 0);
        CHECK_INT(writable_copy(&w, &size, &err), ==, 0);
        CHECK_INT(writable_copy_seal(&w, LAYER, &err), <, 0);
        CHECK(has_file(&w, "file") && !has(sealed, LAYER "/file"));
}

/* ------------------------------------------------------------- copying */

static void a_copy_becomes_a_layer_and_the_files_stay(void)
{
        struct writable w = new_sandbox();
        struct tree_size measured = {0}, size = {0};
        struct err err = {0};
        struct stat a, b;

        CHECK_INT(writable_prepare(&w, WRITABLE_NEW, &err), ==, 0);
        CHECK(put_file(&w, "a", 100));
        {
                AUTO_CLOSE int files = writable_open_files(&w);

                CHECK_INT(linkat(files, "a", files, "b", 0), ==, 0);
        }
        CHECK_INT(writable_copy_measure(&w, &measured, &err), ==, 0);
        CHECK_INT(measured.entries, ==, 2);
        CHECK_INT(writable_copy(&w, &size, &err), ==, 0);
        CHECK_INT(size.entries, ==, 2);
        CHECK(!has(sealed, LAYER)); /* nobody finds it before it is whole */
        CHECK_INT(writable_copy_seal(&w, LAYER, &err), ==, 0);
        CHECK(has_file(&w, "a") && has_file(&w, "b"));
        CHECK(fstatat(sealed, LAYER "/a", &a, 0) == 0 && fstatat(sealed, LAYER "/b", &b, 0) == 0);
        CHECK(a.st_size == 100 && a.st_ino == b.st_ino && (a.st_mode & 07777) == 0640);
        CHECK_INT(writable_copy_discard(&w), ==, 0); /* nothing of it is left */
}

static void a_half_done_copy_is_discarded_or_made_anew(void)
{
        struct writable w = new_sandbox();
        struct tree_size size;
        struct err err = {0};

        CHECK_INT(writable_prepare(&w, WRITABLE_NEW, &err), ==, 0);
        CHECK(put_file(&w, "before", 1));
        CHECK_INT(writable_copy(&w, &size, &err), ==, 0); /* and a crash came */
        CHECK_INT(writable_copy_discard(&w), ==, 1);
        CHECK_INT(writable_copy_seal(&w, LAYER, &err), <, 0);
        CHECK(!has(sealed, LAYER));
        CHECK_INT(writable_copy(&w, &size, &err), ==, 0);
        {
                AUTO_CLOSE int files = writable_open_files(&w);

                CHECK(unlinkat(files, "before", 0) == 0 && write_file(files, "after", 1));
        }
        CHECK_INT(writable_copy(&w, &size, &err), ==, 0);
        CHECK_INT(writable_copy_seal(&w, LAYER, &err), ==, 0);
        CHECK(has(sealed, LAYER "/after") && !has(sealed, LAYER "/before"));
}

static void what_is_too_large_is_not_copied(void)
{
        struct writable w = new_sandbox();
        struct tree_size size = {.entries = 4711};
        struct err err = {0};

        CHECK_INT(writable_prepare(&w, WRITABLE_NEW, &err), ==, 0);
        for (unsigned i = 0; i <= UPPER_COPY_ENTRIES_MAX; i++) {
                char name[16];

                (void)snprintf(name, sizeof(name), "%u", i);
                CHECK(put_file(&w, name, 0));
        }
        CHECK_INT(writable_copy_measure(&w, &size, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_TOO_LARGE);
        CHECK_INT(size.entries, ==, 4711); /* untouched */
        CHECK_INT(writable_measure(&w).entries, ==, UPPER_COPY_ENTRIES_MAX + 1);
}

/* ------------------------------------------------------------- names */

static void a_file_gets_another_name_beside_the_files(void)
{
        struct writable w = new_sandbox();
        AUTO_CLOSE int files = -1, names = -1;
        struct err err = {0};
        struct stat a, b;

        CHECK_INT(writable_prepare(&w, WRITABLE_NEW, &err), ==, 0);
        CHECK(put_file(&w, "file", 1));
        CHECK_INT(writable_open_names(&w), ==, -ENOENT);
        CHECK_INT(writable_names_discard(&w), ==, 0);
        names = writable_make_names(&w);
        files = writable_open_files(&w);
        CHECK(names >= 0 && files >= 0);
        CHECK_INT(linkat(files, "file", names, "0", 0), ==, 0);
        CHECK_INT(writable_make_names(&w), ==, -EEXIST);
        CHECK(fstatat(files, "file", &a, 0) == 0 && fstatat(names, "0", &b, 0) == 0 && a.st_ino == b.st_ino);
        CHECK_INT(writable_measure(&w).entries, ==, 1); /* names are none of its files */
        CHECK_INT(writable_names_discard(&w), ==, 1);
        CHECK_INT(writable_open_names(&w), ==, -ENOENT);
        CHECK(has_file(&w, "file"));
}

/* ------------------------------------------------------------- made ahead */

static void one_made_ahead_becomes_a_sandboxs(void)
{
        struct writable w = new_sandbox();
        struct writable_ahead a;
        struct err err = {0};

        CHECK(write_file(ahead, "left-by-another-process", 1));
        writable_ahead_init(&a, ahead);
        CHECK_INT(count_entries(ahead), ==, 0);
        CHECK(!writable_ahead_take(&a, sandboxes, "t")); /* there is none */
        CHECK(writable_ahead_wants_more(&a));
        writable_ahead_make(&a);
        if (a.is_refused)
                SKIP("the disk of /tmp is nearly full");
        writable_ahead_make(&a);
        CHECK_INT(a.count, ==, 2);
        CHECK(!writable_ahead_take(&a, sandboxes, "s")); /* that name is taken */
        CHECK_INT(a.count, ==, 2);
        CHECK(writable_ahead_take(&a, sandboxes, "t"));
        CHECK_INT(count_entries(ahead), ==, 1);
        w.dir = sys_open_dir(sandboxes, "t");
        CHECK(w.dir >= 0);
        CHECK_INT(writable_prepare(&w, WRITABLE_AHEAD, &err), ==, 0);
        CHECK(put_file(&w, "file", 1));
        CHECK_INT(writable_seal(&w, NULL, LAYER, &err), ==, 0);
        CHECK(has(sealed, LAYER "/file"));
        close_fd(&w.dir);
        writable_ahead_give_up(&a);
        CHECK_INT(count_entries(ahead), ==, 0);
        CHECK(!writable_ahead_take(&a, sandboxes, "v"));
}

static void no_more_are_made_ahead_than_are_needed(void)
{
        struct writable_ahead a;
        unsigned n = 0;

        (void)new_sandbox();
        writable_ahead_init(&a, ahead);
        for (; n < 1000 && writable_ahead_wants_more(&a); n++)
                writable_ahead_make(&a);
        if (a.is_refused)
                SKIP("the disk of /tmp is nearly full");
        CHECK_INT(n, <, 100);
        CHECK_INT(count_entries(ahead), ==, n);
        writable_ahead_give_up(&a);
}

static int make_below(const char *name)
{
        return mkdirat(root, name, 0700) < 0 ? -errno : sys_open_dir(root, name);
}

int main(void)
{
        char path[] = "/tmp/sandglass-test-XXXXXX";
        int r;

        if (!mkdtemp(path))
                return 1;
        root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        sandboxes = make_below("sandboxes");
        sealed = make_below("sealed");
        trash = make_below("trash");
        ahead = make_below("ahead");
        RUN(a_new_one_is_empty_whatever_was_there);
        RUN(one_that_is_kept_keeps_files_and_mode);
        RUN(none_is_made_where_one_is_to_be_kept);
        RUN(a_try_for_room_leaves_nothing);
        RUN(only_files_of_its_own_are_measured);
        RUN(a_discarded_one_is_gone_and_can_be_made_anew);
        RUN(it_becomes_a_layer_once_and_asking_again_is_fine);
        RUN(one_directory_becomes_a_layer);
        RUN(a_layer_is_never_replaced);
        RUN(a_copy_becomes_a_layer_and_the_files_stay);
        RUN(a_half_done_copy_is_discarded_or_made_anew);
        RUN(what_is_too_large_is_not_copied);
        RUN(a_file_gets_another_name_beside_the_files);
        RUN(one_made_ahead_becomes_a_sandboxs);
        RUN(no_more_are_made_ahead_than_are_needed);
        r = tap_done();
        empty(root);
        (void)rmdir(path);
        return r;
}
