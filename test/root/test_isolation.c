/* What a sandbox sees, may do, and can use up. */
#include <fcntl.h>
#include <sys/stat.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "rig.h"

#define A "iaaaaaaaaaaaaaaaaaaaa"
#define B "ibbbbbbbbbbbbbbbbbbbb"
#define UID_FIRST 0x40000000u

static struct rig g;

static pid_t host_pid(const char *id)
{
        json_t *answer = rig_call(&g, json_pack("{s:s}", "op", "list")), *item;
        pid_t pid = 0;
        size_t i;

        json_array_foreach (json_object_get(answer, "sandboxes"), i, item)
                if (strcmp(json_string_value(json_object_get(item, "id")), id) == 0)
                        pid = (pid_t)json_integer_value(json_object_get(item, "pid"));
        json_decref(answer);
        return pid;
}

static void sees_its_own_processes_only(void)
{
        const char *text = rig_run(&g, A, "list /proc");
        unsigned numbers = 0;

        for (const char *p = text; *p; p++)
                numbers += *p >= '0' && *p <= '9' && (p == text || p[-1] == ' ');
        CHECK_INT(numbers, ==, 2); /* init and the one that looks */
        CHECK_STR(rig_run(&g, A, "kill 2000"), "ESRCH");
}

static void is_nobody_on_the_host(void)
{
        char path[64], line[256];
        unsigned uid[4] = {0};
        unsigned long long effective = 0, bounding = 0;
        FILE *f;

        (void)snprintf(path, sizeof(path), "/proc/%d/status", host_pid(A));
        f = fopen(path, "re");
        CHECK(f);
        while (fgets(line, sizeof(line), f)) {
                (void)sscanf(line, "Uid: %u %u %u %u", &uid[0], &uid[1], &uid[2], &uid[3]);
                (void)sscanf(line, "CapEff: %llx", &effective);
                (void)sscanf(line, "CapBnd: %llx", &bounding);
        }
        (void)fclose(f);
        for (int i = 0; i < 4; i++)
                CHECK_INT(uid[i], >=, UID_FIRST);
        CHECK_INT(bounding >> 16 & 1, ==, 0); /* SYS_MODULE */
        CHECK_INT(bounding >> 12 & 1, ==, 0); /* NET_ADMIN */
        CHECK(strstr(rig_run(&g, A, "read /proc/self/uid_map"), "65536"));
}

static void each_has_its_own_range(void)
{
        char a[64], b[64];

        (void)snprintf(a, sizeof(a), "%.60s", rig_run(&g, A, "read /proc/self/uid_map"));
        (void)snprintf(b, sizeof(b), "%.60s", rig_run(&g, B, "read /proc/self/uid_map"));
        CHECK(strcmp(a, b) != 0);
}

static void files_keep_their_owner_on_disk(void)
{
        char path[160];
        struct stat st;

        CHECK_STR(rig_run(&g, A, "stat /"), "755 0 0");
        CHECK_STR(rig_run(&g, A, "stat /tmp"), "1777 0 0");
        CHECK_STR(rig_run(&g, A, "write /tmp/owned x"), "ok");
        CHECK_STR(rig_run(&g, A, "stat /tmp/owned"), "644 0 0");
        (void)snprintf(path, sizeof(path), "%s/data/sandboxes/" A "/upper/tmp/owned", g.dir);
        CHECK_INT(stat(path, &st), ==, 0);
        CHECK_INT(st.st_uid, ==, 0);
        (void)snprintf(path, sizeof(path), "%s/images/layers/base/tmp/owned", g.dir);
        CHECK_INT(access(path, F_OK), ==, -1); /* the layer is not written to */
}

static void cannot_change_the_kernel(void)
{
        static const char *const refused[] = {
                "write /proc/sys/kernel/core_pattern x",  "write /proc/sys/net/ipv4/ip_forward 0",
                "write /proc/sys/vm/overcommit_memory 1", "write /proc/sysrq-trigger h",
                "write /sys/kernel/mm/ksm/run 0",         "write /dev/new x",
                "write /proc/1/oom_score_adj -1000",
        };

        for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
                const char *is = rig_run(&g, A, refused[i]);

                if (strcmp(is, "ok") == 0 || is[0] != 'E')
                        printf("# %s: %s\n", refused[i], is);
                CHECK_INT(is[0], ==, 'E');
        }
}

static void has_harmless_devices(void)
{
        CHECK_STR(rig_run(&g, A, "stat /dev/null"), "666 0 0");
        CHECK_STR(rig_run(&g, A, "write /dev/null x"), "ok");
        CHECK_STR(rig_run(&g, A, "write /dev/full x"), "ENOSPC");
        CHECK_STR(rig_run(&g, A, "stat /dev/shm"), "1777 0 0");
        CHECK_STR(rig_run(&g, A, "stat /dev/mqueue"), "1777 0 0");
        CHECK_STR(rig_run(&g, A, "stat /dev/pts/ptmx"), "666 65534 65534");
        CHECK_STR(rig_run(&g, A, "read /dev/sda"), "ENOENT");
        CHECK_STR(rig_run(&g, A, "try mknod"), "EPERM");
}

/* A lock is seen by processes of the same sandbox, and by nobody else: it says nothing to another sandbox. */
static void locks_on_devices_stay_inside(void)
{
        static const char *const commands[] = {"lock /dev/null", "lock /dev/.envd", "lock /dev/pts"};

        for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
                CHECK_STR(rig_run(&g, A, commands[i]), "ok");
                CHECK_STR(rig_run(&g, A, commands[i]), "EAGAIN");
                CHECK_STR(rig_run(&g, B, commands[i]), "ok");
        }
}

static void is_refused_dangerous_calls(void)
{
        static const struct {
                const char *call, *answer;
        } table[] = {
                {"mount", "EPERM"},
                {"umount", "EPERM"},
                {"fsopen", "EPERM"},
                {"open_tree", "EPERM"},
                {"unshare-user", "EPERM"},
                {"unshare-files", "ok"},
                {"clone-newns", "EPERM"},
                {"clone3", "ENOSYS"},
                {"setns", "EPERM"},
                {"io_uring", "ENOSYS"},
                {"aio", "ENOSYS"},
                {"x32", ""}, /* killed */
                {"chroot-out", "ENOTEMPTY"},
                {"bpf", "EPERM"},
                {"keyctl", "ENOSYS"},
                {"settime", "EPERM"},
                {"syslog", "EPERM"},
                {"tiocsti", "EPERM"},
                {"socket-packet", "EAFNOSUPPORT"},
                {"socket-vsock", "EAFNOSUPPORT"},
                {"socket-garbage", "EAFNOSUPPORT"},
                {"socket-sctp", "EPROTONOSUPPORT"},
                {"socket-raw", "EPERM"},
                {"socket-raw6", "EPERM"},
                {"socket-old-packet", "EPERM"},
                {"netlink-route", "ok"},
                {"netlink-audit", "EAFNOSUPPORT"},
        };

        for (size_t i = 0; i < ARRAY_LEN(table); i++) {
                char command[64];
                const char *is;

                (void)snprintf(command, sizeof(command), "try %s", table[i].call);
                is = rig_run(&g, A, command);
                if (strcmp(is, table[i].answer) != 0)
                        printf("# %s: %s\n", table[i].call, is);
                CHECK_STR(is, table[i].answer);
        }
}

static void pings_without_raw_sockets(void)
{
        CHECK_STR(rig_run(&g, A, "ping 127.0.0.1"), "reply");
}

static void memory_limit_holds(void)
{
        json_t *plan = rig_plan("icccccccccccccccccccc");

        CHECK_STR(rig_run(&g, A, "hog 64"), "fits");
        CHECK_STR(rig_run(&g, A, "hog 512"), "killed");
        CHECK_STR(rig_run(&g, A, "read /proc/1/comm"), ".envd\n"); /* the others live on */
        (void)json_object_set_new(json_object_get(plan, "limits"), "memory_bytes", json_integer(1024 << 20));
        CHECK(!rig_create(&g, plan));
        CHECK_STR(rig_run(&g, "icccccccccccccccccccc", "hog 512"), "fits");
        CHECK(!rig_kill(&g, "icccccccccccccccccccc"));
}

static void pids_limit_holds(void)
{
        unsigned have = 0;

        CHECK_INT(sscanf(rig_run(&g, A, "forks 400"), "%u", &have), ==, 1);
        CHECK_INT(have, <, 256);
        CHECK_INT(have, >, 200);
        CHECK_STR(rig_run(&g, B, "read /proc/1/comm"), ".envd\n");
}

/* 128 instances are what a user gets; were all sandboxes one user, the second would find them used up. */
static void user_limits_count_per_sandbox(void)
{
        AUTO_CLOSE int a = rig_dial(&g, A, 49983), b = rig_dial(&g, B, 49983);
        int fds[2] = {a, b};

        for (int i = 0; i < 2; i++) {
                char text[16] = "";

                CHECK(fds[i] >= 0);
                CHECK_INT(fcntl(fds[i], F_SETFL, O_RDWR), ==, 0);
                CHECK(dprintf(fds[i], "inotify 100\n") > 0);
                CHECK(read(fds[i], text, sizeof(text) - 1) > 0);
                CHECK_STR(text, "100\n");
        }
}

static void takes_its_share_of_terminals_only(void)
{
        CHECK_STR(rig_run(&g, A, "ptys 400"), "256");
}

/* What waits in sockets is memory, too: at most a quarter of the 256 MiB, beside them or (cgroup v2) in them. */
static void socket_buffers_are_limited(void)
{
        unsigned mib = 0;

        CHECK_INT(sscanf(rig_run(&g, A, "stuff 600"), "%u", &mib), ==, 1);
        CHECK_INT(mib, >, 0);
        CHECK_INT(mib, <=, 256);
}

/* 1, and it stays: with 0 the kernel would still start the host's helper, were there a pipe in core_pattern. */
static void crashes_are_no_matter_of_the_host(void)
{
        static const char line[] = "Max core file size        1                    1 ";

        CHECK(strstr(rig_run(&g, A, "read /proc/self/limits"), line));
        CHECK_STR(rig_run(&g, A, "try core-limit"), "ok"); /* it says */
        CHECK(strstr(rig_run(&g, A, "read /proc/1/limits"), line));
}

static void knows_its_own_cgroup_as_root(void)
{
        const char *text = rig_run(&g, A, "read /proc/self/cgroup");

        CHECK(strstr(text, "0::/\n"));
        CHECK(!strstr(text, "sandglass"));
}

int main(void)
{
        if (rig_reason_to_skip()) {
                printf("1..0 # SKIP %s\n", rig_reason_to_skip());
                return 0;
        }
        if (!rig_open(&g, 2) || !rig_start(&g) || rig_create(&g, rig_plan(A)) || rig_create(&g, rig_plan(B)))
                return 1;
        RUN(sees_its_own_processes_only);
        RUN(is_nobody_on_the_host);
        RUN(each_has_its_own_range);
        RUN(files_keep_their_owner_on_disk);
        RUN(cannot_change_the_kernel);
        RUN(has_harmless_devices);
        RUN(is_refused_dangerous_calls);
        RUN(pings_without_raw_sockets);
        RUN(memory_limit_holds);
        RUN(pids_limit_holds);
        RUN(user_limits_count_per_sandbox);
        RUN(takes_its_share_of_terminals_only);
        RUN(socket_buffers_are_limited);
        RUN(crashes_are_no_matter_of_the_host);
        RUN(knows_its_own_cgroup_as_root);
        RUN(locks_on_devices_stay_inside); /* the last one: the processes stay */
        rig_close(&g);
        return tap_done();
}
