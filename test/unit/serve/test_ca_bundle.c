#include "serve/setup/ca_bundle.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "sys/fs.h"

#include "tap.h"

#define CERT(text) "-----BEGIN CERTIFICATE-----\n" text "\n-----END CERTIFICATE-----\n"

static char dir[] = "/tmp/sandglass-test-XXXXXX";
static int scratch; /* dir's fd */

static int put(const char *name, const char *text)
{
        return sys_replace_at(scratch, name, text, strlen(text), 0600);
}

static const char *bundle(void)
{
        static char text[1024];

        return sys_read_at(scratch, "bundle.pem", text, sizeof(text)) < 0 ? NULL : text;
}

/* The number of the file, which changes when it is written anew; 0: there is none. */
static ino_t bundle_number(void)
{
        struct stat st;

        return fstatat(scratch, "bundle.pem", &st, 0) < 0 ? 0 : st.st_ino;
}

static int renew(struct err *err)
{
        char first[64], second[64];
        const char *const systems[] = {first, second, NULL};

        (void)snprintf(first, sizeof(first), "%s/first.crt", dir);
        (void)snprintf(second, sizeof(second), "%s/second.crt", dir);
        *err = (struct err){0};
        return ca_bundle_renew(dir, systems, err);
}

static void holds_the_systems_authorities_and_ours(void)
{
        struct err err;
        struct stat st;
        mode_t mask = umask(077);

        CHECK_INT(put("ca.pem", CERT("ours")), ==, 0);
        CHECK_INT(put("second.crt", "# no newline at the end\n" CERT("a") "-----"), ==, 0);
        CHECK_INT(renew(&err), ==, 0);
        (void)umask(mask);
        CHECK_STR(bundle(), "# no newline at the end\n" CERT("a") "-----\n" CERT("ours"));
        CHECK_INT(fstatat(scratch, "bundle.pem", &st, 0), ==, 0);
        CHECK_INT(st.st_mode & 07777, ==, 0644);
}

static void the_first_file_with_a_certificate_counts(void)
{
        struct err err;

        CHECK_INT(put("second.crt", CERT("b")), ==, 0);
        CHECK_INT(put("first.crt", "# emptied\n"), ==, 0);
        CHECK_INT(renew(&err), ==, 0);
        CHECK_STR(bundle(), CERT("b") CERT("ours"));
        CHECK_INT(put("real.crt", CERT("a")), ==, 0);
        CHECK_INT(unlinkat(scratch, "first.crt", 0), ==, 0);
        CHECK_INT(symlinkat("real.crt", scratch, "first.crt"), ==, 0); /* as distributions have it */
        CHECK_INT(renew(&err), ==, 0);
        CHECK_STR(bundle(), CERT("a") CERT("ours"));
}

static void written_only_when_something_changed(void)
{
        struct err err;
        ino_t before = bundle_number();

        CHECK_INT(renew(&err), ==, 0);
        CHECK_INT(bundle_number(), ==, before);
        CHECK_INT(put("real.crt", CERT("a") CERT("new")), ==, 0);
        CHECK_INT(renew(&err), ==, 0);
        CHECK_STR(bundle(), CERT("a") CERT("new") CERT("ours"));
        CHECK_INT(put("ca.pem", CERT("ours, made anew")), ==, 0);
        CHECK_INT(renew(&err), ==, 0);
        CHECK_STR(bundle(), CERT("a") CERT("new") CERT("ours, made anew"));
}

static void ours_is_not_there_twice(void)
{
        struct err err;

        CHECK_INT(put("real.crt", CERT("a") CERT("ours, made anew") CERT("b")), ==, 0);
        CHECK_INT(renew(&err), ==, 0);
        CHECK_STR(bundle(), CERT("a") CERT("ours, made anew") CERT("b"));
}

static void without_a_certificate_of_ours_it_stays_as_it_was(void)
{
        struct err err;
        ino_t before = bundle_number();

        CHECK_INT(put("ca.pem", ""), ==, 0);
        CHECK_INT(renew(&err), <, 0);
        CHECK(strstr(err.msg, "ca.pem"));
        CHECK_INT(bundle_number(), ==, before);
        CHECK_INT(put("ca.pem", CERT("ours")), ==, 0);
}

static void none_where_the_system_has_none(void)
{
        struct err err;

        CHECK_INT(unlinkat(scratch, "first.crt", 0), ==, 0);
        CHECK_INT(unlinkat(scratch, "second.crt", 0), ==, 0);
        CHECK_INT(renew(&err), <, 0);
        CHECK_INT(err.kind, ==, ERR_NOT_FOUND);
        CHECK_INT(bundle_number(), ==, 0); /* with ours alone it would cut programs off from all others */
        CHECK_INT(renew(&err), <, 0);
}

int main(void)
{
        AUTO_CLOSE int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (!mkdtemp(dir))
                return 1;
        scratch = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        RUN(holds_the_systems_authorities_and_ours);
        RUN(the_first_file_with_a_certificate_counts);
        RUN(written_only_when_something_changed);
        RUN(ours_is_not_there_twice);
        RUN(without_a_certificate_of_ours_it_stays_as_it_was);
        RUN(none_where_the_system_has_none);
        (void)sys_remove_tree(tmp, dir + strlen("/tmp/"));
        return tap_done();
}
