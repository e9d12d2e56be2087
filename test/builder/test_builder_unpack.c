/* A real builder and a real envd: layers of images, good ones and hostile ones. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "builder_rig.h"
#include "tap.h"
#include "tar_maker.h"
#include "wire/sha256.h"

static struct builder_rig rig;
static struct tar_maker tar;

static void sh(const char *cmd)
{
        (void)builder_rig_step(
                &rig, json_pack("{s:s, s:s, s:s, s:s}", "kind", "run", "cmd", cmd, "user", "root", "workdir", "/"), -1);
}

/* Does a command succeed inside? */
static bool is_true(const char *cmd)
{
        sh(cmd);
        if (builder_rig_error(&rig)[0])
                printf("# %s\n# %.500s\n", builder_rig_error(&rig), buf_cstr(&rig.log));
        return !builder_rig_error(&rig)[0];
}

static const char *unpack_fd(int fd, const char *diff_id)
{
        (void)builder_rig_step(&rig, json_pack("{s:s, s:s*}", "kind", "unpack", "diff_id", diff_id), fd);
        return builder_rig_error(&rig);
}

static const char *unpack(void)
{
        AUTO_CLOSE int fd = tar_file(&tar);

        return unpack_fd(fd, NULL);
}

static void a_layer_is_unpacked(void)
{
        const struct tar_xattr attrs[] = {{STR("user.mine"), STR("yes")},
                                          {STR("trusted.overlay.opaque"), STR("y")},
                                          {STR("user.overlay.opaque"), STR("y")},
                                          {STR("security.capability"), STR("x")}};

        tar_begin(&tar);
        tar_add_dir(&tar, "", 0700);
        tar_add_dir(&tar, "u1", 0751);
        tar_add(&tar,
                &(struct tar_entry){.type = TAR_FILE,
                                    .name = "u1/f",
                                    .mode = 04755,
                                    .uid = 7,
                                    .gid = 65535,
                                    .size = 3,
                                    .mtime_s = 1000000000,
                                    .xattrs = attrs,
                                    .xattr_count = 4},
                "abc");
        tar_add_link(&tar, TAR_SYMLINK, "u1/l", "/nowhere");
        tar_add_link(&tar, TAR_HARD_LINK, "u1/h", "u1/f");
        tar_add(&tar, &(struct tar_entry){.type = TAR_FIFO, .name = "u1/p", .mode = 0622}, "");
        tar_add(&tar,
                &(struct tar_entry){.type = TAR_CHAR_DEVICE, .name = "u1/null", .mode = 0666, .major = 1, .minor = 3},
                "");
        tar_add(&tar, &(struct tar_entry){.type = TAR_CHAR_DEVICE, .name = "u1/gone", .mode = 0666}, "");
        tar_add(&tar, &(struct tar_entry){.type = TAR_FILE, .name = "u1/far", .mode = 0644, .uid = 70000, .gid = 1},
                "");
        tar_add_file(&tar, "dev/new", "x", 0644);
        tar_add_file(&tar, "proc/x/y", "x", 0644);
        CHECK_STR(unpack(), "");
        CHECK(is_true("set -x; [ \"$(stat -c '%u:%g %a %Y %h' /u1/f)\" = '7:65535 4755 1000000000 2' ] && "
                      "[ \"$(stat -c '%a %Y' /u1)\" = '751 1000000000' ] && [ \"$(readlink /u1/l)\" = /nowhere ] && "
                      "[ -p /u1/p ] && [ ! -e /u1/null ] && [ ! -e /u1/gone ] && [ ! -e /dev/new ] && [ \"$(cat "
                      "/u1/h)\" = abc ] && "
                      "[ \"$(stat -c '%u %a' /)\" != '0 700' ] && [ \"$(stat -c '%u:%g' /u1/far)\" = 65534:1 ]"));
        CHECK(is_true(
                "python3 -c 'import os; assert os.listxattr(\"/u1/f\") == [\"user.mine\"], os.listxattr(\"/u1/f\")'"));
}

static void notes_say_what_was_left_out(void)
{
        tar_begin(&tar);
        tar_add(&tar, &(struct tar_entry){.type = TAR_BLOCK_DEVICE, .name = "u2", .major = 1, .minor = 3}, "");
        CHECK_STR(unpack(), "");
        CHECK_STR(json_string_value(json_array_get(json_object_get(rig.answer, "notes"), 0)),
                  "'/u2' is a device: left out");
        CHECK(builder_rig_logged(&rig, "'/u2' is a device: left out"));
}

static void the_sum_is_checked(void)
{
        AUTO_CLOSE int fd = -1;
        char sum[SHA256_HEX_LEN + 1], id[100];

        tar_begin(&tar);
        tar_add_file(&tar, "u3", "x", 0644);
        fd = tar_file(&tar);
        sha256_hex((struct str){(const char *)buf_at(&tar.out), tar.out.len}, sum);
        (void)snprintf(id, sizeof(id), "sha256:%s", sum);
        CHECK_STR(unpack_fd(fd, id), "");
        CHECK_STR(json_string_value(json_object_get(rig.answer, "diff_id")), id);
        id[10] = id[10] == 'a' ? 'b' : 'a';
        CHECK(strstr(unpack_fd(fd, id), "does not match its digest"));
        CHECK_STR(builder_rig_kind(&rig), "invalid");
}

static void whiteouts_remove_what_older_layers_have(void)
{
        sh("mkdir -p /u4/dir/sub /u4/opq/sub /u4/both && touch /u4/file /u4/dir/sub/x /u4/opq/a /u4/opq/sub/b "
           "/u4/both/old /u4/keep"
           " '/u4/odd name' /u4/.wh /u4/...");
        tar_begin(&tar);
        tar_add_file(&tar, "u4/.wh.file", "", 0);
        tar_add_file(&tar, "u4/.wh.dir", "", 0);
        tar_add_file(&tar, "u4/.wh.not there", "", 0);
        tar_add_file(&tar, "u4/.wh.odd name", "", 0);
        tar_add_file(&tar, "u4/.wh..wh", "", 0);     /* of the file .wh */
        tar_add_file(&tar, "u4/.wh....", "", 0);     /* of the file ... */
        tar_add_file(&tar, "u4/opq/new", "n", 0644); /* before the mark: stays */
        tar_add_file(&tar, "u4/opq/sub/new", "n", 0644);
        tar_add_file(&tar, "u4/opq/.wh..wh..opq", "", 0);
        tar_add_file(&tar, "u4/opq/later", "n", 0644);
        tar_add_file(&tar, "u4/both/new", "n", 0644);
        tar_add_file(&tar, "u4/.wh.both", "", 0); /* what this layer has brought stays */
        tar_add_file(&tar, "u4/.wh..wh.plnk", "", 0);
        CHECK_STR(unpack(), "");
        CHECK(is_true("cd /u4 && find . | sort | tr '\\n' ' ' && [ \"$(find . | sort | tr '\\n' ' ')\" = '. ./both "
                      "./both/new ./keep "
                      "./opq ./opq/later ./opq/new ./opq/sub ./opq/sub/new ' ]"));
        tar_begin(&tar);
        tar_add_file(&tar, "u4/.wh.", "", 0);
        CHECK_STR(unpack(), "the whiteout '/u4/.wh.' names no file");
        tar_begin(&tar);
        tar_add_file(&tar, "u4/.wh...", "", 0); /* of ".." */
        CHECK_STR(unpack(), "the whiteout '/u4/.wh...' names no file");
        CHECK(is_true("[ -e /u4/keep ] && [ -e /etc/passwd ]"));
}

static void newer_entries_take_the_place_of_older_ones(void)
{
        sh("mkdir -p /u5/dir/sub /u5/real /u5/bin_is && touch /u5/dir/x /u5/file && ln -s real /u5/link && ln -s "
           "/u5/real /u5/abs");
        tar_begin(&tar);
        tar_add_file(&tar, "u5/dir", "now a file", 0644);
        tar_add_dir(&tar, "u5/file", 0755);
        tar_add_file(&tar, "u5/file/in", "x", 0644);
        tar_add_file(&tar, "u5/link/through", "x", 0644); /* as with /bin in a merged /usr */
        tar_add_file(&tar, "u5/abs/through2", "x", 0644);
        tar_add_dir(&tar, "u5/abs", 0755); /* the link is a directory now */
        CHECK_STR(unpack(), "");
        CHECK(is_true("[ \"$(cat /u5/dir)\" = 'now a file' ] && [ -f /u5/file/in ] && [ -L /u5/link ] && [ -f "
                      "/u5/real/through ] && "
                      "[ -f /u5/real/through2 ] && [ -d /u5/abs ] && [ ! -L /u5/abs ]"));
}

static void absolute_names_are_below_the_root(void)
{
        tar_begin(&tar);
        tar_add_file(&tar, "/u6/./x", "x", 0644);
        CHECK_STR(unpack(), "");
        CHECK(is_true("[ -f /u6/x ]"));
}

static void hostile_names_are_refused(void)
{
        static const char *const bad[] = {"..", "../x", "a/../../x", "a/..", "x/../y"};
        char name[5000];

        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
                tar_begin(&tar);
                tar_add_file(&tar, bad[i], "x", 0644);
                CHECK(strstr(unpack(), "a name is not allowed"));
                tar_begin(&tar);
                tar_add_link(&tar, TAR_HARD_LINK, "u7", bad[i]);
                CHECK(strstr(unpack(), "the target of a hard link is not allowed"));
        }
        memset(name, 'a', sizeof(name));
        name[300] = '\0'; /* one part that is too long */
        tar_begin(&tar);
        tar_add_file(&tar, name, "x", 0644);
        CHECK(strstr(unpack(), "a name is not allowed"));
        for (size_t i = 0; i < sizeof(name); i += 100)
                name[i ? i : 300] = '/';
        name[sizeof(name) - 1] = '\0'; /* a path that is too long */
        tar_begin(&tar);
        tar_add_file(&tar, name, "x", 0644);
        CHECK(strstr(unpack(), "a name is too long"));
}

static void hard_links_lead_to_files_only(void)
{
        sh("mkdir -p /u8; ln -s /etc/passwd /u8/sym");
        tar_begin(&tar);
        tar_add_link(&tar, TAR_HARD_LINK, "u8/a", "etc");
        CHECK(strstr(unpack(), "which is no file"));
        tar_begin(&tar);
        tar_add_link(&tar, TAR_HARD_LINK, "u8/a", "not/there");
        CHECK(strstr(unpack(), "which is no file"));
        tar_begin(&tar);
        tar_add_link(&tar, TAR_HARD_LINK, "u8/a", "u8/sym"); /* of the link, not of what it leads to */
        CHECK_STR(unpack(), "");
        CHECK(is_true("[ -L /u8/a ] && [ \"$(stat -c %h /etc/passwd)\" = 1 ]"));
}

/* A link of an older layer leads elsewhere in the sandbox; the machine's own files are out of reach. */
static void links_never_lead_out_of_the_sandbox(void)
{
        char outside[128];

        (void)snprintf(outside, sizeof(outside), "%s.out", rig.dir);
        CHECK_INT(mkdir(outside, 0755), ==, 0);
        tar_begin(&tar);
        tar_add_link(&tar, TAR_SYMLINK, "u9", "../../../../../../../../../../../../../tmp");
        tar_add_link(&tar, TAR_SYMLINK, "u9b", "/proc/1/root/tmp");
        CHECK_STR(unpack(), "");
        tar_begin(&tar);
        tar_add_file(&tar, "u9/owned", "x", 0644);
        tar_add_file(&tar, "u9b/owned2", "x", 0644);
        (void)unpack();
        CHECK_INT(access("/tmp/owned", F_OK), <, 0);
        CHECK_INT(access("/tmp/owned2", F_OK), <, 0);
        CHECK_INT(rmdir(outside), ==, 0);
        CHECK(is_true("[ -f /tmp/owned ]"));
}

static void cut_off_layers_are_errors(void)
{
        AUTO_CLOSE int fd = -1;

        tar_begin(&tar);
        tar_add_file(&tar, "u10", "0123456789", 0644);
        fd = tar_file(&tar);
        CHECK_INT(ftruncate(fd, 515), ==, 0);
        CHECK_STR(unpack_fd(fd, NULL), "the archive was cut off");
        CHECK_INT(ftruncate(fd, 100), ==, 0);
        CHECK_STR(unpack_fd(fd, NULL), "the archive was cut off");
}

static void zeros_become_holes(void)
{
        static char bytes[3 << 20];

        memset(bytes, 0, sizeof(bytes));
        bytes[1 << 20] = 'x';
        bytes[sizeof(bytes) - 1] = 'y';
        tar_begin(&tar);
        tar_add(&tar, &(struct tar_entry){.type = TAR_FILE, .name = "u11", .mode = 0644, .size = sizeof(bytes)}, bytes);
        memset(bytes, 0, sizeof(bytes));
        tar_add(&tar, &(struct tar_entry){.type = TAR_FILE, .name = "u11z", .mode = 0644, .size = sizeof(bytes) - 100},
                bytes);
        CHECK_STR(unpack(), "");
        CHECK(is_true("[ $(stat -c %s /u11) = 3145728 ] && [ $(stat -c %b /u11) -lt 64 ] && [ $(stat -c %s /u11z) = "
                      "3145628 ] && "
                      "[ $(stat -c %b /u11z) -lt 64 ] && python3 -c 'd=open(\"/u11\",\"rb\").read(); "
                      "assert d[1<<20]==120 and d[-1]==121 and d.count(0)==len(d)-2'"));
}

/* What a command of this machine prints, as a file. */
static int output_of(const char *cmd)
{
        int fd = memfd_create("output", MFD_CLOEXEC), status = -1;
        pid_t pid = fork();

        if (pid == 0) {
                (void)dup2(fd, 1);
                (void)execl("/bin/sh", "sh", "-ec", cmd, (char *)NULL);
                _exit(127);
        }
        if (waitpid(pid, &status, 0) == pid && status == 0)
                return fd;
        (void)close(fd);
        return -1;
}

static void ten_gib_of_nothing(const char *format)
{
        AUTO_CLOSE int fd = -1;
        char cmd[400];

        (void)snprintf(
                cmd, sizeof(cmd),
                "d=$(mktemp -d); cd $d; truncate -s 10G u12; echo middle | dd of=u12 bs=1 seek=5000000000 conv=notrunc "
                "status=none; tar %s -cSf - u12; cd /; rm -r $d",
                format);
        fd = output_of(cmd);
        CHECK(fd >= 0);
        CHECK_STR(unpack_fd(fd, NULL), "");
        CHECK(is_true("[ $(stat -c %s /u12) = 10737418240 ] && [ $(stat -c %b /u12) -lt 256 ] && "
                      "[ \"$(dd if=/u12 bs=1 skip=5000000000 count=6 status=none)\" = middle ] && rm /u12"));
}

static void sparse_files_stay_sparse(void)
{
        ten_gib_of_nothing("--format=gnu");
}

static void sparse_files_of_pax_stay_sparse(void)
{
        ten_gib_of_nothing("--format=posix");
}

static void a_bomb_of_zeros_is_a_hole(void)
{
        AUTO_CLOSE int fd =
                output_of("d=$(mktemp -d); cd $d; truncate -s 512M u12; tar -cf - u12 | gzip -1; cd /; rm -r $d");

        CHECK(fd >= 0);
        CHECK_INT(lseek(fd, 0, SEEK_END), <, 4 << 20);
        CHECK_STR(unpack_fd(fd, NULL), "");
        CHECK_INT(json_integer_value(json_object_get(rig.answer, "bytes")), >, 512 << 20);
        CHECK(is_true("[ $(stat -c %s /u12) = 536870912 ] && [ $(stat -c %b /u12) -lt 64 ] && rm /u12"));
}

static void many_small_files(void)
{
        char name[64];
        uint64_t began;

        tar_begin(&tar);
        for (int i = 0; i < 100000; i++) {
                (void)snprintf(name, sizeof(name), "u13/d%d/f%d", i / 1000, i);
                tar_add_file(&tar, name, "small", 0644);
        }
        began = clock_mono_ms();
        CHECK_STR(unpack(), "");
        printf("# 100000 files in %llu ms\n", (unsigned long long)(clock_mono_ms() - began));
        CHECK(is_true("[ $(find /u13 -type f | wc -l) = 100000 ] && rm -r /u13"));
}

/* The disk of the rig is a tmpfs: its size is what the sandbox has. */
static void a_full_disk_is_told(void)
{
        AUTO_CLOSE int fd =
                output_of("d=$(mktemp -d); cd $d; head -c 300M /dev/urandom >u14; tar -cf - u14; cd /; rm -r $d");

        CHECK(fd >= 0);
        CHECK(builder_rig_limit(&rig, 200));
        CHECK(strstr(unpack_fd(fd, NULL), "No space left on device"));
        CHECK_STR(builder_rig_kind(&rig), "no_space");
        CHECK(is_true("rm -f /u14"));
}

int main(int argc, char **argv)
{
        const char *why = argc == 2 ? builder_rig_start(&rig, argv[1]) : "usage: test PATH-OF-sandglass-envd";

        if (why) {
                printf("1..0 # SKIP %s\n", why);
                builder_rig_stop(&rig);
                return getenv("TESTS_MUST_RUN") ? 1 : 0;
        }
        RUN(a_layer_is_unpacked);
        RUN(notes_say_what_was_left_out);
        RUN(the_sum_is_checked);
        RUN(whiteouts_remove_what_older_layers_have);
        RUN(newer_entries_take_the_place_of_older_ones);
        RUN(absolute_names_are_below_the_root);
        RUN(hostile_names_are_refused);
        RUN(hard_links_lead_to_files_only);
        RUN(links_never_lead_out_of_the_sandbox);
        RUN(cut_off_layers_are_errors);
        RUN(zeros_become_holes);
        RUN(sparse_files_stay_sparse);
        RUN(sparse_files_of_pax_stay_sparse);
        RUN(a_bomb_of_zeros_is_a_hole);
        RUN(many_small_files);
        RUN(a_full_disk_is_told);
        builder_rig_stop(&rig);
        buf_done(&tar.out);
        return tap_done();
}
