/* A real builder and a real envd: COPY, and archives of files for another stage. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "builder_rig.h"
#include "tap.h"
#include "tar_maker.h"

static struct builder_rig rig;
static struct tar_maker tar;

static void sh(const char *cmd)
{
        (void)builder_rig_step(
                &rig, json_pack("{s:s, s:s, s:s, s:s}", "kind", "run", "cmd", cmd, "user", "root", "workdir", "/"), -1);
}

/* What a command prints, without the last line end. */
static const char *tells(const char *cmd)
{
        static char text[4096];
        const char *at;
        size_t n = 0;

        sh(cmd);
        if (builder_rig_error(&rig)[0])
                return builder_rig_error(&rig);
        for (at = buf_cstr(&rig.log); at && *at && n < sizeof(text) - 300; at += strcspn(at, "\n") + 1)
                if (strncmp(at, "[stdout]: ", 10) == 0)
                        n += (size_t)snprintf(text + n, 300, "%s%.*s", n ? "|" : "", (int)strcspn(at + 10, "\n"),
                                              at + 10);
        text[n] = '\0';
        return text;
}

/* COPY of the archive in `tar`; the error, or "". */
static const char *copy(const char *src, const char *dest, const char *owner, const char *mode)
{
        AUTO_CLOSE int fd = tar_file(&tar);

        (void)builder_rig_step(&rig,
                               json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "kind", "copy", "src", src, "dest",
                                         dest, "owner", owner, "mode", mode, "user", "joe", "workdir", "/w"),
                               fd);
        return builder_rig_error(&rig);
}

static void one_file(const char *name, const char *text)
{
        tar_begin(&tar);
        tar_add_file(&tar, name, text, 0640);
}

static void a_file_becomes_the_destination(void)
{
        one_file("a.txt", "hello");
        CHECK_STR(copy("a.txt", "/d1/new/b.txt", "", ""), "");
        CHECK_STR(tells("cat /d1/new/b.txt; echo; stat -c '%U:%G %a' /d1/new/b.txt /d1/new"),
                  "hello|joe:joe 640|joe:joe 755");
        CHECK_STR(copy("a.txt", "rel.txt", "", ""), ""); /* from the working directory on */
        CHECK_STR(tells("cat /w/rel.txt; echo"), "hello");
        CHECK_STR(copy("./a.txt", "/w/../d1/./up.txt", "", ""), "");
        CHECK_STR(tells("cat /d1/up.txt; echo"), "hello");
}

static void a_file_goes_into_a_directory(void)
{
        one_file("sub/a.txt", "hello");
        CHECK_STR(copy("sub/a.txt", "/d2/", "", ""), "");
        CHECK_STR(tells("cat /d2/a.txt; echo"), "hello");
        CHECK_STR(copy("sub/a.txt", "/d2", "", ""), "");
        sh("mkdir /d2/b && ln -s /d2/b /d2/link");
        CHECK_STR(copy("sub/a.txt", "/d2/link", "", ""), ""); /* a link to a directory is one */
        CHECK_STR(tells("cd /d2; find . | sort"), ".|./a.txt|./b|./b/a.txt|./link");
}

static void owner_and_mode_are_set(void)
{
        tar_begin(&tar);
        tar_add_dir(&tar, "t", 0700);
        tar_add_file(&tar, "t/f", "x", 0600);
        tar_add_link(&tar, TAR_SYMLINK, "t/l", "f");
        CHECK_STR(copy("t", "/d3", "root", "0755"), "");
        CHECK_STR(tells("stat -c '%n %U:%G %a' /d3 /d3/f; stat -c '%U' /d3/l"),
                  "/d3 root:root 755|/d3/f root:root 755|root");
        CHECK_STR(copy("t", "/d3b", "joe:root", ""), "");
        CHECK_STR(tells("stat -c '%n %U:%G %a' /d3b /d3b/f; stat -c '%U:%G' /d3b/l"),
                  "/d3b joe:root 700|/d3b/f joe:root 600|joe:root");
        CHECK_STR(copy("t", "/d3c", "1234", "4711"), "");
        CHECK_STR(tells("stat -c '%u:%g %a' /d3c/f"), "1234:1234 4711");
        CHECK_STR(copy("t", "/d3c", "nobody123", ""), "failed to copy files: invalid user: 'nobody123'");
        CHECK_STR(copy("t", "/d3c", "joe:nogroup123", ""), "failed to copy files: invalid group: 'nogroup123'");
        CHECK_STR(copy("t", "/d3c", "", "rwx"), "failed to copy files: invalid mode: 'rwx'");
        CHECK_STR(copy("t", "/d3c", "", "77777"), "failed to copy files: invalid mode: '77777'");
}

static void directories_are_merged(void)
{
        sh("mkdir -p /d4/keep /d4/real && chmod 711 /d4 && echo old >/d4/old && echo old >/d4/both && ln -s real "
           "/d4/link &&"
           " ln -s /etc/hostname /d4/was_link");
        tar_begin(&tar);
        tar_add_dir(&tar, "s", 0700);
        tar_add_file(&tar, "s/both", "new", 0644);
        tar_add_dir(&tar, "s/keep", 0700);
        tar_add_file(&tar, "s/keep/in", "x", 0644);
        tar_add_dir(&tar, "s/link", 0755);
        tar_add_file(&tar, "s/link/through", "y", 0644);
        tar_add_file(&tar, "s/was_link", "z", 0644);
        CHECK_STR(copy("s/", "/d4", "", ""), "");
        CHECK_STR(
                tells("cd /d4; stat -c '%U %a' . keep; cat both; echo; cat old; test -L link && cat real/through; echo;"
                      " test -L was_link || cat was_link; echo"),
                "root 711|root 755|new|old|y|z");
}

static void a_directory_does_not_become_a_file(void)
{
        sh("mkdir -p /d5/x");
        tar_begin(&tar);
        tar_add_file(&tar, "s/x", "new", 0644);
        CHECK_STR(copy("s", "/d5", "", ""),
                  "failed to copy files: '/d5/x' is a directory, and would be replaced by a file");
        CHECK_STR(builder_rig_kind(&rig), "invalid");
        one_file("f", "x");
        CHECK_STR(copy("f", "/etc/hostname/f", "", ""), "failed to copy files: '/etc/hostname' is not a directory");
}

static void patterns_are_cut_to_their_directory(void)
{
        tar_begin(&tar);
        tar_add_file(&tar, "folder/test.txt", "1", 0644);
        tar_add_file(&tar, "folder/deep/er.txt", "2", 0644);
        CHECK_STR(copy("folder/*", "folder", "", ""), "");
        CHECK_STR(tells("cd /w/folder; find . -type f | sort; stat -c %U deep"), "./deep/er.txt|./test.txt|joe");
        tar_begin(&tar);
        tar_add_file(&tar, "a.json", "1", 0644);
        tar_add_file(&tar, "b.json", "2", 0644);
        CHECK_STR(copy("*.json", "/d6", "", ""), "");
        CHECK_STR(tells("ls /d6"), "a.json|b.json");
        tar_begin(&tar);
        tar_add_dir(&tar, "", 0700);
        tar_add_file(&tar, "x", "1", 0644);
        CHECK_STR(copy(".", "/d6b", "", ""), "");
        CHECK_STR(tells("ls /d6b"), "x");
}

static void links_stay_links(void)
{
        tar_begin(&tar);
        tar_add_file(&tar, "l/file", "1", 0644);
        tar_add_link(&tar, TAR_SYMLINK, "l/rel", "file");
        tar_add_link(&tar, TAR_SYMLINK, "l/abs", "/home/somebody/file");
        tar_add_link(&tar, TAR_SYMLINK, "l/none", "not there");
        tar_add_link(&tar, TAR_HARD_LINK, "l/hard", "l/file");
        CHECK_STR(copy("l", "/d7", "", ""), "");
        CHECK_STR(tells("cd /d7; readlink rel abs none; cat rel; echo; stat -c '%h %U' hard; stat -c %U none"),
                  "file|/home/somebody/file|not there|1|2 joe|joe");
        tar_begin(&tar);
        tar_add_link(&tar, TAR_SYMLINK, "l", "target");
        CHECK_STR(copy("l", "/d7/one", "", ""), "");
        CHECK_STR(tells("readlink /d7/one"), "target");
}

static void nothing_leaves_the_destination(void)
{
        tar_begin(&tar);
        tar_add_link(&tar, TAR_SYMLINK, "s/out", "/etc");
        tar_add_file(&tar, "s/out/owned", "x", 0644);
        CHECK_STR(copy("s", "/d8", "", ""),
                  "failed to copy files: an entry goes through the symbolic link 'd8/out' of the same archive");
        tar_begin(&tar);
        tar_add_file(&tar, "s/a", "x", 0644);
        tar_add_link(&tar, TAR_HARD_LINK, "s/pw", "etc/passwd");
        CHECK(strstr(copy("s", "/d8", "", ""), "'s/pw' is a hard link to 'etc/passwd', which is not copied"));
        one_file("s/../../etc/x", "y");
        CHECK(strstr(copy("s", "/d8", "", ""), "a name is not allowed"));
        one_file("/etc/x", "y");
        CHECK(strstr(copy(".", "/d8", "", ""), "the archive has an absolute name: '/etc/x'"));
        one_file("a", "y");
        CHECK(strstr(copy("../a", "/d8", "", ""), "the source '../a' is not a name below the context"));
        CHECK_STR(tells("test ! -e /etc/owned && test ! -e /etc/x && stat -c %h /etc/passwd"), "1");
}

static void what_is_not_there_is_an_error(void)
{
        one_file("abc", "y");
        CHECK_STR(copy("ab", "/d9", "", ""), "failed to copy files: 'ab' is not in the uploaded files");
        CHECK_STR(builder_rig_kind(&rig), "not_found");
}

static void damaged_archives_are_errors(void)
{
        AUTO_CLOSE int fd = -1;

        one_file("a", "y");
        fd = tar_file(&tar);
        CHECK_INT(ftruncate(fd, 700), ==, 0);
        (void)builder_rig_step(
                &rig, json_pack("{s:s, s:s, s:s, s:s}", "kind", "copy", "src", "a", "dest", "/x", "user", "root"), fd);
        CHECK_STR(builder_rig_error(&rig), "failed to copy files: the archive was cut off");
        CHECK_INT(pwrite(fd, "z", 1, 3), ==, 1);
        (void)builder_rig_step(
                &rig, json_pack("{s:s, s:s, s:s, s:s}", "kind", "copy", "src", "a", "dest", "/x", "user", "root"), fd);
        CHECK(strstr(builder_rig_error(&rig), "wrong checksum"));
        CHECK_INT(ftruncate(fd, 0), ==, 0);
        (void)builder_rig_step(
                &rig, json_pack("{s:s, s:s, s:s, s:s}", "kind", "copy", "src", "a", "dest", "/x", "user", "root"), fd);
        CHECK(strstr(builder_rig_error(&rig), "'a' is not in the uploaded files"));
}

/* The archive through a program of this machine. */
static int packed(const char *program)
{
        int in = tar_file(&tar), out = memfd_create("packed", 0), status;
        pid_t pid = fork();

        if (pid == 0) {
                (void)lseek(in, 0, SEEK_SET);
                (void)dup2(in, 0);
                (void)dup2(out, 1);
                (void)execlp(program, program, "-c", (char *)NULL);
                _exit(127);
        }
        (void)close(in);
        if (waitpid(pid, &status, 0) < 0 || status != 0) {
                (void)close(out);
                return -1;
        }
        return out;
}

static void takes_compressed_archives(const char *program)
{
        AUTO_CLOSE int fd = -1;

        one_file("a", program);
        fd = packed(program);
        if (fd < 0)
                SKIP("no such program here");
        sh("rm -f /packed");
        (void)builder_rig_step(
                &rig, json_pack("{s:s, s:s, s:s, s:s}", "kind", "copy", "src", "a", "dest", "/packed", "user", "root"),
                fd);
        CHECK_STR(builder_rig_error(&rig), "");
        CHECK_STR(tells("cat /packed; echo"), program);
        CHECK_INT(ftruncate(fd, 60), ==, 0);
        (void)builder_rig_step(
                &rig, json_pack("{s:s, s:s, s:s, s:s}", "kind", "copy", "src", "a", "dest", "/packed", "user", "root"),
                fd);
        CHECK_STR(builder_rig_error(&rig), "failed to copy files: the compressed archive was cut off");
        CHECK_INT(pwrite(fd, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16, 12), ==, 16);
        (void)builder_rig_step(
                &rig, json_pack("{s:s, s:s, s:s, s:s}", "kind", "copy", "src", "a", "dest", "/packed", "user", "root"),
                fd);
        CHECK(strstr(builder_rig_error(&rig), "the compressed archive"));
}

static void takes_gzip(void)
{
        takes_compressed_archives("gzip");
}

static void takes_zstd(void)
{
        takes_compressed_archives("zstd");
}

/* ---- archives for another stage ---- */

static void files_of_a_stage_go_to_another(void)
{
        AUTO_CLOSE int fd = memfd_create("stage", 0);
        static const char *const paths[][3] = {
                {"/stage/dist", "/e1", ".|./a b|./deep|./deep/f|./hard|./link"},
                {"/stage/dist/", "/e2", ".|./a b|./deep|./deep/f|./hard|./link"},
                {"/stage/to", "/e3", ".|./a b|./deep|./deep/f|./hard|./link"},
                {"/stage/dist/d*p", "/e4", ".|./deep|./deep/f"},
                {"/stage/*/deep/f", "/e5", ".|./dist|./dist/deep|./dist/deep/f|./to|./to/deep|./to/deep/f"},
        };

        sh("mkdir -p /stage/dist/deep && cd /stage/dist && echo 1 >'a b' && echo 2 >deep/f && ln 'a b' hard && ln -s "
           "deep link &&"
           " ln -s dist /stage/to && chown joe deep/f");
        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
                CHECK_INT(ftruncate(fd, 0), ==, 0);
                CHECK_INT(lseek(fd, 0, SEEK_SET), ==, 0);
                (void)builder_rig_step(&rig, json_pack("{s:s, s:s}", "kind", "archive", "path", paths[i][0]), fd);
                CHECK_STR(builder_rig_error(&rig), "");
                CHECK_INT(json_integer_value(json_object_get(rig.answer, "bytes")), ==, lseek(fd, 0, SEEK_END));
                (void)builder_rig_step(&rig,
                                       json_pack("{s:s, s:s, s:s, s:s}", "kind", "copy", "src", paths[i][0], "dest",
                                                 paths[i][1], "user", "root"),
                                       fd);
                CHECK_STR(builder_rig_error(&rig), "");
                char cmd[64];
                (void)snprintf(cmd, sizeof(cmd), "cd %s; find . | sort", paths[i][1]);
                CHECK_STR(tells(cmd), paths[i][2]);
        }
        CHECK_STR(tells("cd /e1; stat -c %h 'a b'; cat hard deep/f; readlink link"), "2|1|2|deep");
}

static void one_file_of_a_stage(void)
{
        AUTO_CLOSE int fd = memfd_create("stage", 0);

        sh("mkdir -p /stage2 && cp /bin/true /stage2/prog && ln -s prog /stage2/other");
        (void)builder_rig_step(&rig, json_pack("{s:s, s:s}", "kind", "archive", "path", "/stage2/other"), fd);
        CHECK_STR(builder_rig_error(&rig), "");
        (void)builder_rig_step(&rig,
                               json_pack("{s:s, s:s, s:s, s:s}", "kind", "copy", "src", "/stage2/other", "dest",
                                         "/usr/bin/", "user", "root"),
                               fd);
        CHECK_STR(builder_rig_error(&rig), "");
        CHECK_STR(tells("test ! -L /usr/bin/other && /usr/bin/other && echo runs"), "runs");
        (void)builder_rig_step(&rig, json_pack("{s:s, s:s}", "kind", "archive", "path", "/stage2/none"), fd);
        CHECK_STR(builder_rig_error(&rig), "'/stage2/none' does not exist");
        CHECK_STR(builder_rig_kind(&rig), "not_found");
        (void)builder_rig_step(&rig, json_pack("{s:s, s:s}", "kind", "archive", "path", "/stage2/x*"), fd);
        CHECK_STR(builder_rig_error(&rig), "nothing matches '/stage2/x*'");
        (void)builder_rig_step(&rig, json_pack("{s:s, s:s}", "kind", "archive", "path", "rel"), fd);
        CHECK_STR(builder_rig_kind(&rig), "invalid");
}

int main(int argc, char **argv)
{
        const char *why = argc == 2 ? builder_rig_start(&rig, argv[1]) : "usage: test PATH-OF-sandglass-envd";

        if (why) {
                printf("1..0 # SKIP %s\n", why);
                builder_rig_stop(&rig);
                return getenv("TESTS_MUST_RUN") ? 1 : 0;
        }
        sh("useradd --create-home joe; mkdir /w; echo name >/etc/hostname");
        RUN(a_file_becomes_the_destination);
        RUN(a_file_goes_into_a_directory);
        RUN(owner_and_mode_are_set);
        RUN(directories_are_merged);
        RUN(a_directory_does_not_become_a_file);
        RUN(patterns_are_cut_to_their_directory);
        RUN(links_stay_links);
        RUN(nothing_leaves_the_destination);
        RUN(what_is_not_there_is_an_error);
        RUN(damaged_archives_are_errors);
        RUN(takes_gzip);
        RUN(takes_zstd);
        RUN(files_of_a_stage_go_to_another);
        RUN(one_file_of_a_stage);
        builder_rig_stop(&rig);
        buf_done(&tar.out);
        return tap_done();
}
