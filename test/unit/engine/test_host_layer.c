#include "engine/storage/host_layer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "engine/storage/host_layer_look.h"
#include "sys/fs.h"

#include "tap.h"

#define CERT(text) "-----BEGIN CERTIFICATE-----\n" text "\n-----END CERTIFICATE-----\n"
#define BUNDLE "etc/ssl/certs/ca-certificates.crt"

static char dir[] = "/tmp/sandglass-test-XXXXXX";
static int scratch, layers, host; /* fds */
static struct host_layer state;

/* ------------------------------------------------------------- merging */

static const struct host_entry a_dir = {.kind = HOST_DIR, .mode = 0755};

static struct host_view merge(const struct host_found *low, const struct host_found *high)
{
        const struct host_found *both[] = {low, high};
        struct host_view v;

        host_view_merge(&v, both, 2);
        return v;
}

static void the_topmost_directory_counts(void)
{
        struct host_found low = {0}, high = {0};
        struct host_view v;

        low.dirs[HOST_USR] = low.dirs[HOST_LOCAL] = a_dir;
        high.dirs[HOST_USR] = a_dir;
        high.dirs[HOST_USR].mode = 0777;
        v = merge(&low, &high);
        CHECK_INT(v.dirs[HOST_USR].mode, ==, 0777);
        CHECK_INT(v.dirs[HOST_LOCAL].kind, ==, HOST_DIR);
        CHECK_INT(v.dirs[HOST_SHARE].kind, ==, HOST_NONE);
}

static void what_is_hidden_is_not_found(void)
{
        struct host_found low = {0}, high = {0};
        struct host_view v;

        low.dirs[HOST_ETC] = low.dirs[HOST_SSL] = low.dirs[HOST_CERTS] = a_dir;
        low.bundle.kind = HOST_FILE;
        v = merge(&low, &high);
        CHECK_INT(v.bundle.kind, ==, HOST_FILE);
        CHECK_INT(v.bundle_layer, ==, 0);
        high.dirs[HOST_ETC] = high.dirs[HOST_SSL] = high.dirs[HOST_CERTS] = a_dir;
        high.bundle.kind = HOST_GONE; /* the package was removed */
        CHECK_INT(merge(&low, &high).bundle.kind, ==, HOST_NONE);
        high.bundle.kind = HOST_NONE;
        high.dirs[HOST_SSL].is_opaque = 1;
        v = merge(&low, &high);
        CHECK_INT(v.dirs[HOST_CERTS].kind, ==, HOST_DIR);
        CHECK_INT(v.bundle.kind, ==, HOST_NONE);
        high.dirs[HOST_SSL] = (struct host_entry){.kind = HOST_GONE};
        high.dirs[HOST_CERTS] = (struct host_entry){0};
        v = merge(&low, &high);
        CHECK_INT(v.dirs[HOST_SSL].kind, ==, HOST_NONE);
        CHECK_INT(v.dirs[HOST_CERTS].kind, ==, HOST_NONE);
}

static void links_are_left_alone_with_all_below(void)
{
        struct host_found low = {0}, high = {0};
        struct host_view v;

        low.dirs[HOST_ETC] = low.dirs[HOST_SSL] = low.dirs[HOST_CERTS] = a_dir;
        high.dirs[HOST_ETC] = a_dir;
        high.dirs[HOST_SSL].kind = HOST_OTHER;
        v = merge(&low, &high);
        CHECK_INT(v.dirs[HOST_ETC].kind, ==, HOST_DIR);
        CHECK_INT(v.dirs[HOST_SSL].kind, ==, HOST_OTHER);
        CHECK_INT(v.dirs[HOST_CERTS].kind, ==, HOST_OTHER);
}

/* ------------------------------------------------------------- layers on disk */

static bool put(const char *path, const char *text)
{
        char at[256];

        (void)snprintf(at, sizeof(at), "%s", path);
        for (char *slash = strchr(at, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                if (sys_make_dir(scratch, at, 0755) < 0)
                        return false;
                *slash = '/';
        }
        return sys_replace_at(scratch, path, text, strlen(text), 0644) == 0;
}

/* What the supervisor would write. */
static bool give(const char *name, bool has_certs)
{
        char path[128];
        bool ok = true;

        for (size_t i = 0; i < HOST_LAYER_DIRS; i++) {
                (void)snprintf(path, sizeof(path), "host/%s/files/%s/x", name, host_layer_dirs[i]);
                ok = ok && put(path, "") && unlinkat(scratch, path, 0) == 0;
        }
        (void)snprintf(path, sizeof(path), "host/%s/files/etc/resolv.conf", name);
        ok = ok && put(path, "nameserver 198.18.0.1\n");
        if (has_certs) {
                (void)snprintf(path, sizeof(path), "host/%s/extra.pem", name);
                ok = ok && put(path, CERT("one") CERT("two"));
                (void)snprintf(path, sizeof(path), "host/%s/bundle.pem", name);
                ok = ok && put(path, CERT("system") CERT("one") CERT("two"));
                (void)snprintf(path, sizeof(path), "host/%s/files/etc/sandglass/ca.pem", name);
                ok = ok && put(path, CERT("one") CERT("two"));
                (void)snprintf(path, sizeof(path), "host/%s/files/etc/sudoers.d/sandglass", name);
                ok = ok && put(path, "Defaults\n");
        }
        (void)unlinkat(host, "given", 0);
        return ok && symlinkat(name, host, "given") == 0;
}

static int open_for(const char *first, const char *second)
{
        char *names[] = {(char *)(size_t)first, (char *)(size_t)second};
        const struct host_layer_stack s = {.layers = layers, .sealed = layers, .names = names, .count = second ? 2 : 1};

        return host_layer_open(&state, &s);
}

static const char *text_in(int tree, const char *path)
{
        static char text[1024];

        return sys_read_at(tree, path, text, sizeof(text)) < 0 ? NULL : text;
}

static void the_bundle_is_the_templates_and_the_operators(void)
{
        AUTO_CLOSE int tree = -1;
        struct stat st;

        CHECK(put("layers/base/" BUNDLE, CERT("image") CERT("two")));
        CHECK(give("given-1", true));
        tree = open_for("base", NULL);
        CHECK_INT(tree, >=, 0);
        CHECK_STR(text_in(tree, BUNDLE), CERT("image") CERT("two") CERT("one"));
        CHECK_STR(text_in(tree, "etc/resolv.conf"), "nameserver 198.18.0.1\n");
        CHECK_STR(text_in(tree, "etc/sandglass/ca.pem"), CERT("one") CERT("two"));
        CHECK(fstatat(tree, "etc/sudoers.d", &st, 0) < 0); /* the template has no sudo */
        CHECK_STR(text_in(layers, "base/" BUNDLE), CERT("image") CERT("two"));
}

static void an_image_without_certificates_gets_the_hosts(void)
{
        AUTO_CLOSE int tree = -1;

        CHECK(put("layers/bare/bin/sh", ""));
        tree = open_for("bare", NULL);
        CHECK_STR(text_in(tree, BUNDLE), CERT("system") CERT("one") CERT("two"));
}

static void directories_look_like_the_templates(void)
{
        AUTO_CLOSE int tree = -1;
        struct stat st;

        CHECK(put("layers/open/usr/local/x", "") && put("layers/open/etc/sudoers.d/x", ""));
        CHECK_INT(fchmodat(layers, "open/usr/local", 0777, 0), ==, 0);
        tree = open_for("base", "open");
        CHECK_INT(fstatat(tree, "usr/local", &st, 0), ==, 0);
        CHECK_INT(st.st_mode & 07777, ==, 0777);
        CHECK_INT(fstatat(tree, "etc/sudoers.d/sandglass", &st, 0), ==, 0);
        CHECK_STR(text_in(tree, BUNDLE), CERT("image") CERT("two") CERT("one"));
}

static void a_link_is_not_covered(void)
{
        AUTO_CLOSE int tree = -1;
        struct stat st;

        CHECK(put("layers/fedora/etc/pki/x", ""));
        CHECK_INT(symlinkat("/", layers, "fedora/etc/ssl"), ==, 0);
        tree = open_for("fedora", NULL);
        CHECK_INT(tree, >=, 0);
        CHECK(fstatat(tree, "etc/ssl", &st, AT_SYMLINK_NOFOLLOW) < 0);
        CHECK_STR(text_in(tree, "etc/sandglass/ca.pem"), CERT("one") CERT("two"));
}

static void the_same_is_made_once_and_follows_what_is_given(void)
{
        AUTO_CLOSE int a = open_for("base", NULL), b = open_for("base", NULL), c = -1;
        struct stat one, two, three;

        CHECK_INT(fstat(a, &one) | fstat(b, &two), ==, 0);
        CHECK_INT(one.st_ino, ==, two.st_ino);
        CHECK(give("given-2", false));
        c = open_for("base", NULL);
        CHECK_INT(fstat(c, &three), ==, 0);
        CHECK(three.st_ino != one.st_ino);
        CHECK(fstatat(c, "etc/ssl", &two, 0) < 0);
        CHECK_STR(text_in(c, "etc/resolv.conf"), "nameserver 198.18.0.1\n");
}

static void without_what_is_given_there_is_none(void)
{
        CHECK_INT(unlinkat(host, "given", 0), ==, 0);
        CHECK_INT(open_for("base", NULL), ==, -1);
}

static void another_boot_removes_them(void)
{
        struct host_layer later;
        struct stat st;

        CHECK_INT(fstatat(host, "trees-boot", &st, 0), ==, 0);
        host_layer_init(&later, host, "boot");
        host_layer_tidy(&later);
        CHECK_INT(fstatat(host, "trees-boot", &st, 0), ==, 0);
        host_layer_init(&later, host, "other");
        host_layer_tidy(&later);
        CHECK(fstatat(host, "trees-boot", &st, 0) < 0);
}

int main(void)
{
        int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        (void)umask(077);
        if (!mkdtemp(dir))
                return 1;
        scratch = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)sys_make_dir(scratch, "layers", 0755);
        (void)sys_make_dir(scratch, "host", 0755);
        layers = sys_open_dir(scratch, "layers");
        host = sys_open_dir(scratch, "host");
        host_layer_init(&state, host, "boot");
        RUN(the_topmost_directory_counts);
        RUN(what_is_hidden_is_not_found);
        RUN(links_are_left_alone_with_all_below);
        RUN(the_bundle_is_the_templates_and_the_operators);
        RUN(an_image_without_certificates_gets_the_hosts);
        RUN(directories_look_like_the_templates);
        RUN(a_link_is_not_covered);
        RUN(the_same_is_made_once_and_follows_what_is_given);
        RUN(without_what_is_given_there_is_none);
        RUN(another_boot_removes_them);
        host_layer_done(&state);
        (void)sys_remove_tree(tmp, dir + strlen("/tmp/"));
        (void)close(tmp);
        return tap_done();
}
