/* CRIU on real processes: the small tree of engine/criu/criu_tree.h, dumped and restored. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/criu/criu.h"
#include "engine/criu/criu_find.h"
#include "engine/criu/criu_tree.h"
#include "rig.h"
#include "sys/fs.h"
#include "sys/mnt.h"

static struct criu_place place;
static struct criu_tool tool;
static char scratch[64];

static const char *reason_to_skip(void)
{
        struct err err = {0};

        if (rig_reason_to_skip())
                return rig_reason_to_skip();
        if (!rig_criu_dir() || criu_find_private(rig_criu_dir(), &place, &err) < 0)
                return "SANDGLASS_CRIU_DIR names no directory that `sandglass criu` has filled";
        tool = criu_place_tool(&place);
        return NULL;
}

/* ------------------------------------------------------------- each case in a child: its mounts go with it */

struct bench { /* what a case works with */
        struct criu_tree tree;
        char images[CRIU_TREE_PATH_MAX], work[CRIU_TREE_PATH_MAX];
};
static struct bench b;

static bool make_dir(char out[CRIU_TREE_PATH_MAX], const char *name)
{
        (void)snprintf(out, CRIU_TREE_PATH_MAX, "%s/%s", scratch, name);
        return mkdir(out, 0711) == 0 && chmod(out, 0711) == 0;
}

static bool set_up(int extra)
{
        struct err err = {0};

        if (make_dir(b.images, "images") && make_dir(b.work, "work") &&
            criu_tree_furnish(&b.tree, scratch, &err) == 0 && criu_tree_start(&b.tree, extra, &err) == 0)
                return true;
        printf("# %s\n", err.msg);
        return false;
}

static void in_child(void (*fn)(void))
{
        int status = 0;
        pid_t pid;

        (void)snprintf(scratch, sizeof(scratch), "/tmp/sandglass-criu-XXXXXX");
        CHECK(mkdtemp(scratch) != NULL && chmod(scratch, 0711) == 0);
        (void)fflush(stdout);
        pid = fork();
        if (pid == 0) {
                fn();
                criu_tree_end(b.tree.pid);
                if (waitpid(-1, NULL, 0) >= 0 || errno != ECHILD) {
                        printf("# a process was left\n");
                        tap_case_failed = 1;
                }
                (void)fflush(stdout);
                _exit(tap_case_failed);
        }
        CHECK_INT(waitpid(pid, &status, 0), ==, pid);
        {
                AUTO_CLOSE int top = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

                (void)sys_remove_tree(top, scratch + 5);
        }
        CHECK_INT(status, ==, 0);
}

#define CASE(name)                                                                                                     \
        static void name##_inside(void);                                                                               \
        static void name(void)                                                                                         \
        {                                                                                                              \
                in_child(name##_inside);                                                                               \
        }                                                                                                              \
        static void name##_inside(void)

static int dump(const char *images, const char *cgroup, struct err *err)
{
        const struct criu_dump d = {.pid = b.tree.pid, .images = images, .freeze_cgroup = cgroup};
        struct criu_stats stats = {0};
        int r = criu_dump(&tool, &d, &stats, err);

        if (r == 0 && (stats.frozen_us == 0 || stats.pages_written == 0))
                return err_set(err, ERR_INTERNAL, "no statistics");
        return r;
}

static int restore(const struct criu_restore *with, pid_t *ret, struct err *err)
{
        struct criu_restore c = *with;

        c.images = b.images;
        c.work = b.work;
        c.root = b.tree.root;
        c.dev = b.tree.dev;
        c.uid_base = CRIU_TREE_UID;
        return criu_restore(&tool, &c, ret, err);
}

static void end_tree(void)
{
        criu_tree_end(b.tree.pid);
        b.tree.pid = 0;
}

/* ------------------------------------------------------------- cases */

static void works_here(void)
{
        struct err err = {0};
        struct stat st;
        int r;

        (void)snprintf(scratch, sizeof(scratch), "/tmp/sandglass-criu-XXXXXX");
        CHECK(mkdtemp(scratch) != NULL && chmod(scratch, 0711) == 0);
        r = criu_prove(&tool, scratch, &err);
        if (r < 0)
                printf("# %s\n", err.msg);
        CHECK_INT(r, ==, 0);
        CHECK(stat(scratch, &st) == 0 && st.st_nlink == 2); /* nothing is left in it */
        CHECK_INT(rmdir(scratch), ==, 0);
}

struct heard {
        pid_t namespaces, resume;
        uid_t owner;
        bool has_network;
};

static int on_namespaces(pid_t pid, void *arg, struct err *err)
{
        struct heard *h = arg;
        char path[48];
        AUTO_CLOSE int user = -1, net = -1;

        (void)err;
        h->namespaces = pid;
        (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
        user = open(path, O_RDONLY | O_CLOEXEC);
        (void)ioctl(user, NS_GET_OWNER_UID, &h->owner);
        (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
        net = open(path, O_RDONLY | O_CLOEXEC);
        h->has_network = net >= 0;
        return 0;
}

static int on_before_resume(pid_t pid, void *arg, struct err *err)
{
        (void)err;
        ((struct heard *)arg)->resume = pid;
        return 0;
}

CASE(processes_run_on_after_a_dump_and_come_back_twice)
{
        struct heard h = {0};
        const struct criu_restore with = {
                .on_namespaces = on_namespaces, .on_before_resume = on_before_resume, .arg = &h};
        struct err err = {0};
        pid_t again = 0;
        char log[CRIU_TREE_PATH_MAX + 16];

        CHECK(set_up(-1));
        CHECK_INT(dump(b.images, NULL, &err), ==, 0);
        (void)snprintf(log, sizeof(log), "%s/dump.log", b.images);
        CHECK(access(log, F_OK) < 0);
        CHECK_INT(criu_tree_check(b.tree.pid, &err), ==, 0);
        end_tree();
        for (int i = 0; i < 2; i++) {
                int r = restore(&with, &again, &err);

                if (r < 0)
                        printf("# %s\n", err.msg);
                CHECK_INT(r, ==, 0);
                CHECK(h.namespaces == again && h.resume == again && h.has_network);
                CHECK_INT(h.owner, ==, CRIU_TREE_UID);
                CHECK_INT(criu_tree_check(again, &err), ==, 0);
                criu_tree_end(again);
        }
}

static bool find_v2(char out[64])
{
        static const char *const places[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
        char path[96];

        for (size_t i = 0; i < ARRAY_LEN(places); i++) {
                (void)snprintf(path, sizeof(path), "%s/cgroup.procs", places[i]);
                if (access(path, F_OK) == 0) {
                        (void)snprintf(out, 64, "%s/criu-test-%d", places[i], (int)getpid());
                        return true;
                }
        }
        return false;
}

static bool is_frozen(int group)
{
        char text[128];

        return sys_read_at(group, "cgroup.events", text, sizeof(text)) > 0 && strstr(text, "frozen 1");
}

static void freeze_dump_thaw(int group, const char *path)
{
        struct err err = {0};
        char text[32], child[32];
        AUTO_CLOSE int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

        (void)snprintf(text, sizeof(text), "%d", (int)b.tree.pid);
        CHECK_INT(sys_write_at(group, "cgroup.procs", text), ==, 0);
        (void)snprintf(text, sizeof(text), "%d/task/%d/children", (int)b.tree.pid, (int)b.tree.pid);
        CHECK_INT(sys_read_at(proc, text, child, sizeof(child)), >, 0);
        CHECK_INT(sys_write_at(group, "cgroup.procs", child), ==, 0);
        CHECK_INT(sys_write_at(group, "cgroup.freeze", "1"), ==, 0);
        for (int i = 0; i < 1000 && !is_frozen(group); i++)
                (void)usleep(1000); /* the kernel's event for it is what is read */
        CHECK(is_frozen(group));
        CHECK_INT(dump(b.images, path, &err), ==, 0);
        CHECK(is_frozen(group));
        CHECK_INT(sys_write_at(group, "cgroup.freeze", "0"), ==, 0);
        CHECK_INT(criu_tree_check(b.tree.pid, &err), ==, 0);
}

CASE(what_was_frozen_is_dumped_and_stays_frozen)
{
        char path[64];
        AUTO_CLOSE int group = -1;

        CHECK(find_v2(path));
        CHECK(set_up(-1));
        CHECK_INT(mkdir(path, 0755), ==, 0);
        group = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        freeze_dump_thaw(group, path);
        (void)sys_write_at(group, "cgroup.freeze", "0");
        end_tree();
        CHECK_INT(rmdir(path), ==, 0);
}

CASE(who_cannot_be_dumped_is_named_and_lives_on)
{
        AUTO_CLOSE int extra = sys_fsopen("tmpfs"); /* half-made mounts are nothing CRIU knows */
        struct err err = {0};

        CHECK(extra >= 0);
        CHECK(set_up(extra));
        CHECK_INT(dump(b.images, NULL, &err), <, 0);
        printf("# %s\n", err.msg);
        CHECK_INT(err.kind, ==, ERR_CONFLICT);
        CHECK(strncmp(err.msg, "pid 1 (init): ", 14) == 0);
        CHECK_INT(criu_tree_check(b.tree.pid, &err), ==, 0);
}

CASE(a_full_disk_is_told_as_such)
{
        struct err err = {0};

        CHECK(set_up(-1));
        CHECK_INT(mount("tmpfs", b.images, "tmpfs", 0, "size=16k,mode=711"), ==, 0);
        CHECK_INT(dump(b.images, NULL, &err), <, 0);
        printf("# %s\n", err.msg);
        CHECK_INT(err.kind, ==, ERR_NO_SPACE);
        CHECK_INT(criu_tree_check(b.tree.pid, &err), ==, 0);
}

static int refuse(pid_t pid, void *arg, struct err *err)
{
        *(pid_t *)arg = pid;
        return err_set(err, ERR_TIMEOUT, "not today");
}

CASE(a_hook_can_give_up)
{
        struct err err = {0};
        pid_t seen = 0, again;
        const struct criu_restore first = {.on_namespaces = refuse, .arg = &seen};
        const struct criu_restore second = {.on_before_resume = refuse, .arg = &seen};

        CHECK(set_up(-1));
        CHECK_INT(dump(b.images, NULL, &err), ==, 0);
        end_tree();
        CHECK_INT(restore(&first, &again, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_TIMEOUT);
        CHECK_STR(err.msg, "restore: not today");
        CHECK(seen > 0 && kill(seen, 0) < 0);
        seen = 0;
        CHECK_INT(restore(&second, &again, &err), <, 0);
        CHECK_STR(err.msg, "restore: not today");
        CHECK(seen > 0 && kill(seen, 0) < 0);
}

/* One of the images of this kind: the second process is number 2, or 3 where another mounted its proc. */
static bool cut_image(const char *pattern)
{
        char path[CRIU_TREE_PATH_MAX + 32];
        glob_t found = {0};
        bool ok;

        (void)snprintf(path, sizeof(path), "%s/%s", b.images, pattern);
        ok = glob(path, 0, NULL, &found) == 0 && found.gl_pathc == 1 && truncate(found.gl_pathv[0], 5) == 0;
        globfree(&found);
        return ok;
}

CASE(images_that_do_not_fit_are_refused)
{
        static const char *const files[] = {"core-[23].img", "pstree.img", "inventory.img"};
        const struct criu_restore plain = {0};
        struct err err = {0};
        pid_t again;

        CHECK(set_up(-1));
        CHECK_INT(dump(b.images, NULL, &err), ==, 0);
        end_tree();
        for (size_t i = 0; i < ARRAY_LEN(files); i++) {
                CHECK(cut_image(files[i]));
                err = (struct err){0};
                CHECK_INT(restore(&plain, &again, &err), <, 0);
                printf("# %s\n", err.msg);
                CHECK_INT(err.kind, ==, ERR_INVALID);
        }
}

/* It reads on for ever where pages should be. */
CASE(images_that_keep_criu_busy_for_ever_are_given_up)
{
        const struct criu_restore impatient = {.limit_ms = 1000};
        char path[CRIU_TREE_PATH_MAX + 32];
        struct err err = {0};
        pid_t again;

        CHECK(set_up(-1));
        CHECK_INT(dump(b.images, NULL, &err), ==, 0);
        end_tree();
        (void)snprintf(path, sizeof(path), "%s/pages-1.img", b.images);
        CHECK_INT(truncate(path, 4096), ==, 0);
        CHECK_INT(restore(&impatient, &again, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_TIMEOUT);
        CHECK_STR(err.msg, "CRIU did not come to an end in 1 s");
}

CASE(without_criu_it_is_said)
{
        const struct criu_tool none = {.dir = "/nonexistent", .shim = tool.shim, .run_dir = tool.run_dir};
        const struct criu_dump d = {.pid = getpid(), .images = b.images};
        struct criu_stats stats;
        struct err err = {0};

        CHECK(make_dir(b.images, "images"));
        CHECK_INT(criu_dump(&none, &d, &stats, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_UNAVAILABLE);
        CHECK(strstr(err.msg, "/nonexistent/ld.so") != NULL);
}

static unsigned count_fds(void)
{
        unsigned n = 0;

        for (int fd = 0; fd < 1024; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

CASE(no_file_descriptor_is_left)
{
        const struct criu_restore plain = {0};
        struct err err = {0};
        unsigned before;
        pid_t again;

        CHECK(set_up(-1));
        before = count_fds();
        CHECK_INT(dump(b.images, NULL, &err), ==, 0);
        end_tree();
        CHECK_INT(restore(&plain, &again, &err), ==, 0);
        criu_tree_end(again);
        CHECK_INT(count_fds(), ==, before);
}

int main(void)
{
        const char *why = reason_to_skip();

        if (why) {
                printf("1..0 # SKIP %s\n", why);
                return getenv("TESTS_MUST_RUN") ? 1 : 0;
        }
        RUN(works_here);
        RUN(processes_run_on_after_a_dump_and_come_back_twice);
        RUN(what_was_frozen_is_dumped_and_stays_frozen);
        RUN(who_cannot_be_dumped_is_named_and_lives_on);
        RUN(a_full_disk_is_told_as_such);
        RUN(a_hook_can_give_up);
        RUN(images_that_do_not_fit_are_refused);
        RUN(images_that_keep_criu_busy_for_ever_are_given_up);
        RUN(without_criu_it_is_said);
        RUN(no_file_descriptor_is_left);
        criu_place_done(&place);
        return tap_done();
}
