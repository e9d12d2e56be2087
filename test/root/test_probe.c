/* The probes tell what is there from what is not. */
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/host/mount_ways.h"
#include "engine/namespace/probe.h"
#include "rig.h"
#include "sys/proc.h"

static void finds_everything_where_sandboxes_run(void)
{
        struct probe_result r[PROBES_MAX];
        size_t n = probe_all(r);

        CHECK(n > 5);
        for (size_t i = 0; i < n; i++)
                printf("# %s: %s %s\n", r[i].name, r[i].ok ? "ok" : "MISSING", r[i].detail);
        CHECK(!probe_find_missing(r, n));
}

static void names_what_an_ordinary_user_lacks(void)
{
        int st = 0;
        pid_t pid = fork();

        if (pid == 0) {
                struct probe_result r[PROBES_MAX];
                const struct probe_result *missing;

                if (setuid(54321) < 0)
                        _exit(1);
                missing = probe_find_missing(r, probe_all(r));
                _exit(missing && strcmp(missing->name, "root") == 0 && missing->fix && missing->detail[0] ? 42 : 2);
        }
        CHECK_INT(waitpid(pid, &st, 0), ==, pid);
        CHECK_INT(WEXITSTATUS(st), ==, 42);
}

/* Both ways, whichever this kernel would use: init and nobody else is seen, and not by our numbers. */
static void shows_the_processes_of_another_namespace(void)
{
        const struct sys_clone how = {.flags = CLONE_NEWPID, .cgroup = -1};
        AUTO_CLOSE int host = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct mount_ways found = {0};
        struct err err = {0};
        pid_t pid = sys_clone(&how);
        int st = 0;

        while (pid == 0)
                (void)pause();
        CHECK(pid > 0);
        CHECK_INT(mount_ways_find(&found, &err), ==, 0);
        for (int by_option = 0; by_option <= found.proc_by_option; by_option++) {
                const struct mount_ways ways = {.proc_by_option = by_option};
                AUTO_CLOSE int proc = mount_ways_proc(&ways, host, pid);
                char own[16];

                (void)snprintf(own, sizeof(own), "%d", (int)getpid());
                CHECK(proc >= 0);
                CHECK_INT(faccessat(proc, "1/stat", F_OK, 0), ==, 0);
                CHECK_INT(faccessat(proc, "2", F_OK, 0), ==, -1);
                CHECK(getpid() < 3 || faccessat(proc, own, F_OK, 0) == -1);
        }
        CHECK_INT(kill(pid, SIGKILL), ==, 0);
        CHECK_INT(waitpid(pid, NULL, 0), ==, pid);
        pid = fork(); /* we are where we were */
        if (pid == 0)
                _exit(getpid() > 2 ? 7 : 8);
        CHECK_INT(waitpid(pid, &st, 0), ==, pid);
        CHECK_INT(WEXITSTATUS(st), ==, 7);
}

/* ramfs is one that never can. */
static void refuses_a_file_system_that_cannot_be_idmapped(void)
{
        char dir[] = "/tmp/sandglass-probe-XXXXXX";
        AUTO_CLOSE int host = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
        struct err err = {0};
        int r;

        CHECK(mkdtemp(dir));
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK_INT(mount_ways_check_owners(host, fd, dir, &err), ==, 0);
        CHECK_INT(mount("none", dir, "ramfs", 0, NULL), ==, 0);
        close_fd(&fd);
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = mount_ways_check_owners(host, fd, dir, &err);
        (void)umount2(dir, MNT_DETACH);
        (void)rmdir(dir);
        CHECK_INT(r, <, 0);
        CHECK_INT(err.kind, ==, ERR_UNAVAILABLE);
        CHECK(strstr(err.msg, "cannot be idmapped") && strstr(err.msg, "ext4"));
}

static void leaves_nothing(void)
{
        static const char *const at[] = {"", "/memory", "/pids", "/cpu", "/unified"};

        for (size_t i = 0; i < ARRAY_LEN(at); i++) {
                char path[96];

                (void)snprintf(path, sizeof(path), "/sys/fs/cgroup%s/sandglass-probe-%d", at[i], (int)getpid());
                CHECK_INT(access(path, F_OK), ==, -1);
        }
}

int main(void)
{
        if (rig_reason_to_skip()) {
                printf("1..0 # SKIP %s\n", rig_reason_to_skip());
                return 0;
        }
        RUN(finds_everything_where_sandboxes_run);
        RUN(names_what_an_ordinary_user_lacks);
        RUN(shows_the_processes_of_another_namespace);
        RUN(refuses_a_file_system_that_cannot_be_idmapped);
        RUN(leaves_nothing);
        return tap_done();
}
