/* Files that tools write: what stays of the file that was there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "mcp/tools/path.h"
#include "test/lib/tap.h"

#define NOBODY 65534

static char dir[] = "/tmp/sandglass-path-XXXXXX";
static char file_name[PATH_MAX];

static const char *in_dir(const char *name)
{
        (void)snprintf(file_name, sizeof(file_name), "%s/%s", dir, name);
        return file_name;
}

static void put(const char *name, const char *content)
{
        FILE *f = fopen(in_dir(name), "w");

        (void)fputs(content, f);
        (void)fclose(f);
}

static const char *content_of(const char *name)
{
        static char text[256];
        FILE *f = fopen(in_dir(name), "r");
        size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

        text[n] = '\0';
        if (f)
                (void)fclose(f);
        return f ? text : NULL;
}

static int replace(const char *name, const char *content, bool *ret_is_new)
{
        struct err err = {0};

        return file_replace(in_dir(name), str_of(content), ret_is_new, &err);
}

static void all_names_of_a_file_have_the_new_content(void)
{
        char other[PATH_MAX];
        bool is_new = true;

        put("one", "a long old content");
        (void)snprintf(other, sizeof(other), "%s/two", dir);
        CHECK(link(in_dir("one"), other) == 0);
        CHECK_INT(replace("one", "new", &is_new), ==, 0);
        CHECK(!is_new);
        CHECK_STR(content_of("two"), "new");
}

static void a_link_to_no_file_makes_that_file(void)
{
        bool is_new = false;
        struct stat st;

        CHECK(mkdir(in_dir("sub"), 0755) == 0);
        CHECK(symlink("second", in_dir("sub/first")) == 0);
        CHECK(symlink("../target", in_dir("sub/second")) == 0);
        CHECK_INT(replace("sub/first", "new", &is_new), ==, 0);
        CHECK(is_new);
        CHECK_STR(content_of("target"), "new");
        CHECK(lstat(in_dir("sub/first"), &st) == 0 && S_ISLNK(st.st_mode));
        CHECK(lstat(in_dir("sub/second"), &st) == 0 && S_ISLNK(st.st_mode));
        CHECK(symlink("round", in_dir("round")) == 0);
        CHECK_INT(replace("round", "new", &is_new), <, 0);
        CHECK(lstat(in_dir("round"), &st) == 0 && S_ISLNK(st.st_mode));
}

static void a_file_that_may_be_written_is_written_though_its_directory_may_not(void)
{
        bool is_new = true, is_root = geteuid() == 0;
        int r;

        CHECK(mkdir(in_dir("fixed"), 0755) == 0);
        put("fixed/file", "a long old content");
        CHECK(chmod(in_dir("fixed/file"), 0666) == 0);
        CHECK(chmod(in_dir("fixed"), 0555) == 0);
        CHECK(!is_root || seteuid(NOBODY) == 0);
        r = replace("fixed/file", "new", &is_new);
        CHECK(!is_root || seteuid(0) == 0);
        CHECK(chmod(in_dir("fixed"), 0755) == 0);
        CHECK_INT(r, ==, 0);
        CHECK(!is_new);
        CHECK_STR(content_of("fixed/file"), "new");
}

int main(void)
{
        char command[64];

        if (!mkdtemp(dir) || chmod(dir, 0755) < 0)
                return 1;
        RUN(all_names_of_a_file_have_the_new_content);
        RUN(a_link_to_no_file_makes_that_file);
        RUN(a_file_that_may_be_written_is_written_though_its_directory_may_not);
        (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
        return system(command) == 0 ? tap_done() : 1;
}
