/* The archive of an empty directory: tar reads ours, we read tar's, and everything else is tar's. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/fs.h"
#include "tap.h"

struct place {
        char path[64];
        int dir;
};

static void place_done(struct place *p)
{
        for (const char *const *name = (const char *const[]){"a", "b", "image", NULL}; *name; name++)
                (void)sys_remove_tree(p->dir, *name);
        (void)rmdir(p->path);
        close_fd(&p->dir);
}

#define PLACE AUTO(place_done) struct place

static bool place_make(struct place *p)
{
        *p = (struct place){.path = "/tmp/sandglass-shim-XXXXXX", .dir = -1};
        return mkdtemp(p->path) && (p->dir = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0 &&
               mkdirat(p->dir, "a", 0700) == 0 && mkdirat(p->dir, "b", 0700) == 0 &&
               fchmodat(p->dir, "a", 01751, 0) == 0;
}

/* The exit status.  program: "tar" is what CRIU calls, a path is the real one. */
static int run(const struct place *p, const char *program, const char *what, const char *dir)
{
        char *argv[] = {(char *)(size_t)program,
                        (char *)(size_t)what,
                        (char *)(size_t) "--gzip",
                        (char *)(size_t) "--directory",
                        (char *)(size_t)dir,
                        (char *)(size_t) ".",
                        NULL};
        bool is_create = strcmp(what, "--create") == 0;
        pid_t pid = fork();
        int status = -1;

        if (pid == 0) {
                int image = openat(p->dir, "image", is_create ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0600);
                int null = open("/dev/null", O_WRONLY);

                if (!is_create)
                        argv[5] = NULL;
                if (image < 0 || fchdir(p->dir) < 0 || dup2(image, is_create ? 1 : 0) < 0 || dup2(null, 2) < 0)
                        _exit(99);
                (void)execvp(program, argv);
                _exit(98);
        }
        return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static off_t image_size(const struct place *p)
{
        struct stat st;

        return fstatat(p->dir, "image", &st, 0) < 0 ? -1 : st.st_size;
}

/* Both directories, each in its own right. */
static bool are_alike(const struct place *p)
{
        struct stat a, b;

        return fstatat(p->dir, "a", &a, 0) == 0 && fstatat(p->dir, "b", &b, 0) == 0 && a.st_mode == b.st_mode &&
               a.st_uid == b.st_uid && a.st_gid == b.st_gid && a.st_mtime == b.st_mtime;
}

static bool make_old(const struct place *p)
{
        const struct timespec times[2] = {{.tv_sec = 1000000007}, {.tv_sec = 1000000007}};

        return utimensat(p->dir, "a", times, 0) == 0;
}

static void an_empty_one_comes_back(void)
{
        PLACE p = {0};

        CHECK(place_make(&p) && make_old(&p));
        CHECK_INT(run(&p, "tar", "--create", "a"), ==, 0);
        CHECK_INT(image_size(&p), ==, 3 * 512); /* not tar's */
        CHECK(!are_alike(&p));
        CHECK_INT(run(&p, "tar", "--extract", "b"), ==, 0);
        CHECK(are_alike(&p));
}

static int unpack(const struct place *p)
{
        char *argv[] = {(char *)(size_t) "tar", (char *)(size_t) "-xpf", (char *)(size_t) "image",
                        (char *)(size_t) "-C",  (char *)(size_t) "b",    NULL};
        pid_t pid = fork();
        int status = -1;

        if (pid == 0) {
                if (fchdir(p->dir) == 0)
                        (void)execv("/usr/bin/tar", argv);
                _exit(98);
        }
        return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void tar_reads_ours(void)
{
        PLACE p = {0};

        CHECK(place_make(&p) && make_old(&p));
        CHECK_INT(run(&p, "tar", "--create", "a"), ==, 0);
        CHECK_INT(unpack(&p), ==, 0);
        CHECK(are_alike(&p));
}

static void what_tar_wrote_is_read(void)
{
        PLACE p = {0};

        CHECK(place_make(&p) && make_old(&p));
        CHECK_INT(run(&p, "/usr/bin/tar", "--create", "a"), ==, 0); /* compressed: tar's to read */
        CHECK_INT(run(&p, "tar", "--extract", "b"), ==, 0);
        CHECK(are_alike(&p));
}

static void one_with_something_in_it_is_left_to_tar(void)
{
        PLACE p = {0};

        CHECK(place_make(&p) && sys_replace_at(p.dir, "a/file", "text", 4, 0640) == 0);
        CHECK_INT(run(&p, "tar", "--create", "a"), ==, 0);
        CHECK_INT(run(&p, "tar", "--extract", "b"), ==, 0);
        CHECK(faccessat(p.dir, "b/file", R_OK, 0) == 0 && are_alike(&p));
}

static void damage_is_for_tar_to_tell(void)
{
        PLACE p = {0};
        AUTO_CLOSE int fd = -1;

        CHECK(place_make(&p) && make_old(&p));
        CHECK_INT(run(&p, "tar", "--create", "a"), ==, 0);
        fd = openat(p.dir, "image", O_WRONLY | O_CLOEXEC);
        CHECK(pwrite(fd, "7", 1, 103) == 1); /* its mode, but not its sum */
        CHECK_INT(run(&p, "tar", "--extract", "b"), !=, 0);
        CHECK(!are_alike(&p));
        CHECK_INT(run(&p, "tar", "--create", "nowhere"), !=, 0);
}

int main(void)
{
        RUN(an_empty_one_comes_back);
        RUN(tar_reads_ours);
        RUN(what_tar_wrote_is_read);
        RUN(one_with_something_in_it_is_left_to_tar);
        RUN(damage_is_for_tar_to_tell);
        return tap_done();
}
