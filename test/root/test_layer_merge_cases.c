/* Merged layers, case by case: what overlayfs notes in an upper directory, trees that mean harm, and the engine's request. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/layers/layer_merge.h"
#include "layer_merge_rig.h"
#include "rig.h"
#include "sys/fs.h"

static struct lab lab;
static const char *const three[] = {"base", "low", "top"};
static const char *const two[] = {"low", "top"};

/* ------------------------------------------------------------- making layers by hand */

static bool dir(const char *path)
{
        return mkdirat(lab.sealed, path, 0755) == 0;
}

static bool file(const char *path, const char *text)
{
        AUTO_CLOSE int fd = openat(lab.sealed, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

        return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool whiteout(const char *path)
{
        return mknodat(lab.sealed, path, S_IFCHR, makedev(0, 0)) == 0;
}

static bool note(const char *path, const char *name, const char *value)
{
        AUTO_CLOSE int fd = openat(lab.sealed, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

        return fsetxattr(fd, name, value, strlen(value), 0) == 0;
}

static bool noted(const char *path, const char *name, const char *value)
{
        AUTO_CLOSE int fd = openat(lab.sealed, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        char got[5000];
        ssize_t n = fgetxattr(fd, name, got, sizeof(got));

        return value ? n == (ssize_t)strlen(value) && memcmp(got, value, (size_t)n) == 0 : n < 0 && errno == ENODATA;
}

static bool is_there(const char *path)
{
        struct stat st;

        return fstatat(lab.sealed, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool start(void)
{
        return lab_clear(&lab) && dir("base") && dir("low") && dir("top");
}

static bool same(void)
{
        return lab_same_when_flat(&lab, three, 3, 1, 2, "flat");
}

static int merge(struct layer_merge_count *count, struct err *err)
{
        *err = (struct err){0};
        return mkdirat(lab.sealed, "flat", 0700) < 0 ? -errno : layer_merge(lab.sealed, two, 2, "flat", count, err);
}

/* ------------------------------------------------------------- what overlayfs notes */

static void whiteouts_stay_for_the_layers_below(void)
{
        CHECK(start() && file("base/a", "base") && file("low/b", "low") && whiteout("top/a") && whiteout("top/b"));
        CHECK(same());
        CHECK(is_there("flat/a"));
}

static void a_whiteout_of_a_directory_makes_a_new_one_opaque(void)
{
        CHECK(start() && dir("base/d") && file("base/d/old", "x") && whiteout("low/d") && dir("top/d"));
        CHECK(file("top/d/new", "y"));
        CHECK(same());
        CHECK(noted("flat/d", "trusted.overlay.opaque", "y"));
}

static void a_file_between_hides_the_directory_below(void)
{
        CHECK(start() && dir("base/d") && file("base/d/old", "x") && file("low/d", "file") && dir("top/d"));
        CHECK(same());
}

static void whiteouts_in_the_form_of_an_attribute_are_understood(void)
{
        CHECK(start() && dir("base/d") && file("base/d/gone", "x") && file("base/d/stays", "y") && dir("top/d"));
        CHECK(file("top/d/gone", "") && note("top/d/gone", "trusted.overlay.whiteout", "y"));
        CHECK(note("top/d", "trusted.overlay.opaque", "x"));
        CHECK(same());
        CHECK(!noted("flat/d", "trusted.overlay.opaque", "x"));
}

static void whiteouts_of_what_only_a_merged_layer_had_are_not_seen(void)
{
        CHECK(start() && dir("low/d") && file("low/d/a", "1") && file("low/d/b", "2") && dir("top/d"));
        CHECK(note("top/d", "trusted.overlay.origin", "") && whiteout("top/d/a"));
        CHECK(same());
}

static void an_opaque_directory_needs_no_whiteouts(void)
{
        CHECK(start() && dir("low/d") && note("low/d", "trusted.overlay.opaque", "y") && file("low/d/a", "1"));
        CHECK(dir("top/d") && whiteout("top/d/a") && file("top/d/b", "2") && dir("base/d") && file("base/d/c", "3"));
        CHECK(same());
        CHECK(!is_there("flat/d/a"));
}

static void redirects_beside_are_followed(void)
{
        CHECK(start() && dir("base/old") && file("base/old/f", "base") && whiteout("low/old") && dir("low/mid"));
        CHECK(note("low/mid", "trusted.overlay.redirect", "old") && file("low/mid/g", "low"));
        CHECK(whiteout("top/mid") && dir("top/new") && note("top/new", "trusted.overlay.redirect", "mid"));
        CHECK(same());
        CHECK(noted("flat/new", "trusted.overlay.redirect", "old"));
}

static void redirects_from_the_root_are_followed_through_renamed_parents(void)
{
        CHECK(start() && dir("base/p") && dir("base/p/q") && file("base/p/q/f", "base"));
        CHECK(whiteout("low/p") && dir("low/r") && note("low/r", "trusted.overlay.redirect", "p"));
        CHECK(dir("top/r") && whiteout("top/r/q") && dir("top/s") && note("top/s", "trusted.overlay.opaque", "y"));
        CHECK(dir("top/s/t") && note("top/s/t", "trusted.overlay.redirect", "/r/q"));
        CHECK(same());
        CHECK(noted("flat/s/t", "trusted.overlay.redirect", "/p/q"));
}

static void a_rename_there_and_back_leaves_no_redirect(void)
{
        CHECK(start() && dir("base/a") && file("base/a/f", "x") && whiteout("low/a") && dir("low/b"));
        CHECK(note("low/b", "trusted.overlay.redirect", "a") && whiteout("top/b") && dir("top/a"));
        CHECK(note("top/a", "trusted.overlay.redirect", "b"));
        CHECK(same());
        CHECK(noted("flat/a", "trusted.overlay.redirect", NULL));
}

static void marks_of_an_overlay_inside_are_ordinary_attributes(void)
{
        CHECK(start() && dir("base/d") && file("base/d/f", "x") && dir("top/d"));
        CHECK(note("top/d", "trusted.overlay.overlay.opaque", "y") && note("top/d", "user.mine", "1"));
        CHECK(note("top/d", "trusted.overlay.impure", "y") && same());
        CHECK(noted("flat/d", "trusted.overlay.overlay.opaque", "y"));
        CHECK(noted("flat/d", "trusted.overlay.impure", NULL));
}

static void names_of_one_file_stay_names_of_one_file(void)
{
        struct stat a, b, c;

        CHECK(start() && dir("low/d") && file("low/d/one", "x"));
        CHECK(linkat(lab.sealed, "low/d/one", lab.sealed, "low/two", 0) == 0 && same());
        CHECK(fstatat(lab.sealed, "flat/d/one", &a, 0) == 0 && fstatat(lab.sealed, "flat/two", &b, 0) == 0);
        CHECK(fstatat(lab.sealed, "low/two", &c, 0) == 0 && a.st_ino == b.st_ino && b.st_ino == c.st_ino);
}

static void special_files_are_linked_too(void)
{
        CHECK(start() && mknodat(lab.sealed, "low/fifo", S_IFIFO | 0640, 0) == 0);
        CHECK(mknodat(lab.sealed, "low/socket", S_IFSOCK | 0600, 0) == 0 &&
              symlinkat("/etc/passwd", lab.sealed, "top/link") == 0);
        CHECK(mknodat(lab.sealed, "top/null", S_IFCHR | 0666, makedev(1, 3)) == 0 && same());
}

/* ------------------------------------------------------------- trees that mean harm */

static bool chain_of_directories(const char *top, const char *name, unsigned depth)
{
        AUTO_CLOSE int at = sys_open_dir(lab.sealed, top);

        for (unsigned i = 0; i < depth; i++) {
                int next;

                if (mkdirat(at, name, 0755) < 0)
                        return false;
                next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                (void)close(at);
                at = next;
        }
        return mknodat(at, "end", S_IFREG | 0600, 0) == 0;
}

static unsigned depth_of(const char *top, const char *name)
{
        AUTO_CLOSE int at = sys_open_dir(lab.sealed, top);
        unsigned depth = 0;
        int next;

        while ((next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0) {
                (void)close(at);
                at = next;
                depth++;
        }
        return faccessat(at, "end", F_OK, 0) == 0 ? depth : 0;
}

static void a_tree_of_great_depth(void)
{
        const unsigned depth = 5000;
        static const char name[] = "a-name-which-makes-the-whole-path-longer-than-any-limit-for-paths";
        struct rlimit few = {40, 40}, before;
        struct layer_merge_count count;
        struct err err;
        int r;

        CHECK(start() && chain_of_directories("low", name, depth) && chain_of_directories("top", name, depth / 2));
        CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
        few.rlim_max = before.rlim_max;
        CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0); /* fds do not depend on the depth */
        r = merge(&count, &err);
        (void)setrlimit(RLIMIT_NOFILE, &before);
        CHECK_INT(r, ==, 0);
        CHECK_INT(count.directories, ==, depth);
        CHECK_INT(depth_of("flat", name), ==, depth);
}

static bool many(const char *top, unsigned from, unsigned to, bool is_dirs)
{
        AUTO_CLOSE int at = sys_open_dir(lab.sealed, top);
        char name[16];

        for (unsigned i = from; i < to; i++) {
                (void)snprintf(name, sizeof(name), "%u", i);
                if ((is_dirs ? mkdirat(at, name, 0755) : mknodat(at, name, S_IFREG | 0600, 0)) < 0)
                        return false;
        }
        return true;
}

static void a_directory_with_very_many_entries(void)
{
        struct layer_merge_count count;
        struct err err;

        CHECK(start() && dir("low/d") && dir("low/f") && dir("top/d") && dir("top/f"));
        CHECK(many("low/d", 0, 7000, true) && many("top/d", 5000, 12000, true));
        CHECK(many("low/f", 0, 7000, false) && many("top/f", 5000, 12000, false));
        CHECK_INT(merge(&count, &err), ==, 0);
        CHECK_INT(count.directories, ==, 12002);
        CHECK_INT(count.files, ==, 12000);
}

static void a_file_with_as_many_names_as_it_can_have(void)
{
        AUTO_CLOSE int at = -1;
        struct layer_merge_count count;
        struct stat one, copy;
        struct err err;
        char name[16];

        CHECK(start() && file("low/0", "content") && note("low/0", "user.a", "b"));
        at = sys_open_dir(lab.sealed, "low");
        for (unsigned i = 1; i < 40000; i++) {
                (void)snprintf(name, sizeof(name), "%u", i);
                if (linkat(at, "0", at, name, 0) < 0)
                        SKIP("this file system has a lower limit");
        }
        CHECK_INT(merge(&count, &err), ==, 0);
        if (count.copied == 0)
                SKIP("this file system has no such limit");
        CHECK_INT(count.copied, ==, 1); /* the rest of the names are the copy's */
        CHECK_INT(count.files, ==, 40000);
        CHECK(fstatat(lab.sealed, "flat/0", &one, 0) == 0);
        for (unsigned i = 0; i < 40000; i++) {
                (void)snprintf(name, sizeof(name), "flat/%u", i);
                CHECK(fstatat(lab.sealed, name, &copy, 0) == 0);
                if (copy.st_ino != one.st_ino)
                        break;
        }
        CHECK(copy.st_ino != one.st_ino && copy.st_size == one.st_size && copy.st_mode == one.st_mode);
        CHECK(copy.st_mtim.tv_nsec == one.st_mtim.tv_nsec && noted(name, "user.a", "b"));
}

static void names_of_any_bytes(void)
{
        char longest[NAME_MAX + 1], path[NAME_MAX + 16];

        memset(longest, 0xfe, NAME_MAX);
        longest[NAME_MAX] = '\0';
        CHECK(start() && file("low/\xff\xfe\n\\", "x") && dir("low/\x01\x80") && file("low/\x01\x80/ ", "y"));
        (void)snprintf(path, sizeof(path), "top/%s", longest);
        CHECK(dir(path) && note(path, "trusted.overlay.redirect", "\x01\x80") && whiteout("top/\x01\x80"));
        CHECK(file("top/.merge-x", "not ours"));
        CHECK(same());
}

static void links_are_not_followed(void)
{
        struct layer_merge_count count;
        struct err err;

        CHECK(start() && symlinkat("/etc", lab.sealed, "low/d") == 0 && dir("top/d") && file("top/d/passwd", "mine"));
        CHECK(dir("top/e") && note("top/e", "trusted.overlay.redirect", "/d/ssl"));
        CHECK_INT(merge(&count, &err), ==, 0);
        CHECK_INT(count.files, ==, 1);
        CHECK(noted("flat/d", "trusted.overlay.opaque", "y") && noted("flat/e", "trusted.overlay.opaque", "y"));
}

static void an_acl_for_new_entries_is_not_given_to_what_is_merged(void)
{
        static const unsigned char acl[] = {2, 0, 0,   0,   1,   0,   7,  0, 255, 255, 255, 255, 4,   0,
                                            5, 0, 255, 255, 255, 255, 32, 0, 1,   0,   255, 255, 255, 255};
        AUTO_CLOSE int fd = -1;

        CHECK(start() && dir("low/d") && dir("low/d/inner") && file("low/d/f", "x") && dir("top/d"));
        fd = sys_open_dir(lab.sealed, "top/d");
        CHECK(fsetxattr(fd, "system.posix_acl_default", acl, sizeof(acl), 0) == 0);
        CHECK(same());
        CHECK(noted("flat/d/inner", "system.posix_acl_default", NULL));
}

static void damaged_redirects_are_refused(void)
{
        static const char *const bad[] = {"..", "a/b", "/", "/../x", "/a//b", "/a/./b", ""};
        struct layer_merge_count count;
        struct err err;

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                CHECK(start() && dir("top/d") && note("top/d", "trusted.overlay.redirect", bad[i]));
                CHECK(merge(&count, &err) < 0);
                CHECK_INT(err.kind, ==, ERR_INVALID);
        }
}

static void a_way_too_long_to_be_noted_is_said_to_be(void)
{
        char name[NAME_MAX + 1], path[256] = "low", to[256] = "";
        struct layer_merge_count count;
        struct err err;
        size_t n;

        CHECK(start());
        memset(name, 'n', NAME_MAX);
        name[NAME_MAX] = '\0';
        for (unsigned i = 0; i < 40; i++) { /* /a/a/a..., each renamed from a long name below */
                n = strlen(path);
                (void)snprintf(path + n, sizeof(path) - n, "/a");
                CHECK(dir(path) && note(path, "trusted.overlay.redirect", name));
                n = strlen(to);
                (void)snprintf(to + n, sizeof(to) - n, "/a");
        }
        CHECK(dir("top/d") && note("top/d", "trusted.overlay.redirect", to));
        if (merge(&count, &err) == 0)
                SKIP("this file system notes even that");
        CHECK_INT(err.kind, ==, ERR_LIMIT);
}

/* ------------------------------------------------------------- the engine's request */

static struct rig g;

static json_t *ask(const char *const *layers, size_t n, const char *into)
{
        json_t *list = json_array();

        for (size_t i = 0; i < n; i++)
                (void)json_array_append_new(list, json_string(layers[i]));
        return rig_call(&g, json_pack("{s:s,s:o,s:s}", "op", "merge", "layers", list, "into", into));
}

static bool answers(json_t *answer, const char *kind)
{
        const char *got = json_string_value(json_object_get(json_object_get(answer, "error"), "kind"));
        bool ok = kind ? got && strcmp(got, kind) == 0 : json_is_true(json_object_get(answer, "ok"));

        if (!ok)
                printf("# %s\n", answer ? json_dumps(answer, 0) : "no answer");
        json_decref(answer);
        return ok;
}

static bool data_file(const char *below, bool is_dir)
{
        char path[256];

        (void)snprintf(path, sizeof(path), "%s/data/%s", g.dir, below);
        return (is_dir ? mkdir(path, 0700) : mknod(path, S_IFREG | 0600, 0)) == 0;
}

static bool data_has(const char *below)
{
        char path[256];

        (void)snprintf(path, sizeof(path), "%s/data/%s", g.dir, below);
        return access(path, F_OK) == 0;
}

#define U(c) "u-" c c c c c c c c c c c c c c c c c c c c

static void the_engine_merges_sealed_layers(void)
{
        CHECK(data_file("sealed/" U("a"), true) && data_file("sealed/" U("a") "/x", false));
        CHECK(data_file("sealed/" U("b"), true) && data_file("sealed/" U("b") "/y", false));
        CHECK(answers(ask((const char *const[]){U("a"), U("b")}, 2, U("c")), NULL));
        CHECK(data_has("sealed/" U("c") "/x") && data_has("sealed/" U("c") "/y"));
        CHECK(answers(ask((const char *const[]){U("a"), U("b")}, 2, U("c")), NULL)); /* again: it is there */
        CHECK(data_has("sealed/" U("a") "/x"));
}

static void the_engine_refuses_what_is_no_layer(void)
{
        CHECK(answers(ask((const char *const[]){U("a"), U("z")}, 2, U("d")), "internal"));
        CHECK(!data_has("sealed/" U("d")) && !data_has("sealed/.merge-" U("d")));
        CHECK(answers(ask((const char *const[]){"base"}, 1, U("d")), "invalid"));
        CHECK(answers(ask((const char *const[]){"u-../../x"}, 1, U("d")), "invalid"));
        CHECK(answers(ask((const char *const[]){U("a")}, 1, "base"), "invalid"));
        CHECK(answers(ask(NULL, 0, U("d")), "invalid"));
}

static void what_a_killed_merge_left_is_removed(void)
{
        CHECK(data_file("sealed/.merge-" U("e"), true) && data_file("sealed/.merge-" U("e") "/x", false));
        rig_crash(&g);
        CHECK(rig_start(&g));
        CHECK(answers(ask((const char *const[]){U("a")}, 1, U("f")), NULL)); /* the helper is past its beginning */
        CHECK(!data_has("sealed/.merge-" U("e")));
}

int main(void)
{
        if (rig_reason_to_skip()) {
                printf("1..0 # SKIP %s\n", rig_reason_to_skip());
                return 0;
        }
        if (rig_open(&g, 0) && rig_start(&g)) {
                json_decref(rig_info(&g)); /* it is up */
                RUN(the_engine_merges_sealed_layers);
                RUN(the_engine_refuses_what_is_no_layer);
                RUN(what_a_killed_merge_left_is_removed);
        }
        rig_close(&g);
        if (!lab_open(&lab)) {
                perror("# lab");
                return 1;
        }
        RUN(whiteouts_stay_for_the_layers_below);
        RUN(a_whiteout_of_a_directory_makes_a_new_one_opaque);
        RUN(a_file_between_hides_the_directory_below);
        RUN(whiteouts_in_the_form_of_an_attribute_are_understood);
        RUN(whiteouts_of_what_only_a_merged_layer_had_are_not_seen);
        RUN(an_opaque_directory_needs_no_whiteouts);
        RUN(redirects_beside_are_followed);
        RUN(redirects_from_the_root_are_followed_through_renamed_parents);
        RUN(a_rename_there_and_back_leaves_no_redirect);
        RUN(marks_of_an_overlay_inside_are_ordinary_attributes);
        RUN(names_of_one_file_stay_names_of_one_file);
        RUN(special_files_are_linked_too);
        RUN(a_tree_of_great_depth);
        RUN(a_directory_with_very_many_entries);
        RUN(a_file_with_as_many_names_as_it_can_have);
        RUN(names_of_any_bytes);
        RUN(links_are_not_followed);
        RUN(an_acl_for_new_entries_is_not_given_to_what_is_merged);
        RUN(damaged_redirects_are_refused);
        RUN(a_way_too_long_to_be_noted_is_said_to_be);
        lab_close(&lab);
        return tap_done();
}
