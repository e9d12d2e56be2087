/* What goes wrong is answered, and leaves nothing behind. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <tap.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "rig.h"

#define A "iaaaaaaaaaaaaaaaaaaaa"
#define B "ibbbbbbbbbbbbbbbbbbbb"

static struct rig g;

/* Run fn between two counts. */
#define CHECK_NO_LEAK(fn)                                                                                              \
        do {                                                                                                           \
                struct leak_count before_, after_;                                                                     \
                rig_wait_pool(&g);                                                                                     \
                before_ = rig_count(&g, NULL);                                                                         \
                fn();                                                                                                  \
                rig_wait_pool(&g);                                                                                     \
                after_ = rig_count(&g, &before_);                                                                      \
                after_.fds = after_.fds <= before_.fds + 4 ? before_.fds : after_.fds; /* kept networks */             \
                after_.links = after_.links <= before_.links + 4 ? before_.links : after_.links;                       \
                CHECK(leak_none(&after_, &before_));                                                                   \
        } while (0)

static bool starts(const char *text, const char *with)
{
        if (text && strncmp(text, with, strlen(with)) == 0)
                return true;
        printf("# is: %s\n", text ? text : "(success)");
        return false;
}

static json_t *plan_with_init(const char *mark)
{
        json_t *plan = rig_plan(A);

        (void)json_object_set_new(json_object_get(plan, "init"), "hostname", json_string(mark));
        return plan;
}

static const char *refusal;

static void create_with_missing_layer(void)
{
        json_t *plan = rig_plan(A);

        (void)json_object_set_new(plan, "layers", json_pack("[s,s]", "base", "not-there"));
        refusal = rig_create(&g, plan);
}

static void a_missing_layer_is_named(void)
{
        CHECK_NO_LEAK(create_with_missing_layer);
        CHECK(starts(refusal, "internal: layer 'not-there'"));
}

static void create_with_failing_envd(void)
{
        refusal = rig_create(&g, plan_with_init("test-fail"));
}

static void a_failing_envd_is_quoted(void)
{
        CHECK_NO_LEAK(create_with_failing_envd);
        CHECK(starts(refusal, "internal: envd: "));
        CHECK(strstr(refusal, "asked"));
}

static void create_with_dying_envd(void)
{
        refusal = rig_create(&g, plan_with_init("test-die"));
}

static void a_dying_envd_is_noticed(void)
{
        CHECK_NO_LEAK(create_with_dying_envd);
        CHECK(starts(refusal, "internal: envd ended"));
}

static void create_with_bad_plans(void)
{
        json_t *plan = rig_plan("../../../etc/passwd--");

        refusal = rig_create(&g, plan);
        (void)rig_create(&g, json_object());
        (void)rig_create(&g, json_array());
        json_decref(rig_call(&g, json_pack("{s:s}", "op", "no-such-op")));
        json_decref(rig_call(&g, json_pack("{s:s,s:i}", "op", "kill", "id", 7)));
        rig_send(&g, json_object());
        json_decref(rig_receive(&g));
}

static void bad_plans_are_refused(void)
{
        CHECK_NO_LEAK(create_with_bad_plans);
        CHECK(!rig_create(&g, rig_plan(A))); /* and the engine goes on */
        CHECK(!rig_kill(&g, A));
}

static void kill_while_starting(void)
{
        json_t *first, *second;

        rig_send(&g, json_pack("{s:s,s:o}", "op", "create", "plan", plan_with_init("test-hang")));
        rig_send(&g, json_pack("{s:s,s:s}", "op", "kill", "id", A));
        first = rig_receive(&g);
        second = rig_receive(&g);
        refusal = json_is_true(json_object_get(second, "ok")) &&
                                  strcmp(json_string_value(json_object_get(json_object_get(first, "error"), "kind")),
                                         "conflict") == 0
                          ? "both"
                          : "no";
        json_decref(first);
        json_decref(second);
}

static void one_being_made_can_be_killed(void)
{
        CHECK_NO_LEAK(kill_while_starting);
        CHECK_STR(refusal, "both");
}

static void leave_while_creating(void)
{
        rig_send(&g, json_pack("{s:s,s:o}", "op", "create", "plan", plan_with_init("test-hang")));
        rig_reconnect(&g);
}

static void what_nobody_waits_for_is_ended(void)
{
        const char *why = "conflict";

        CHECK_NO_LEAK(leave_while_creating);
        for (int i = 0; why && strncmp(why, "conflict", 8) == 0 && i < 10000; i++)
                why = rig_create(&g, rig_plan(A)); /* until the engine has heard of the hang-up */
        CHECK(!why);
        CHECK(!rig_kill(&g, A));
}

static void dialling_says_what_is_wrong(void)
{
        AUTO_CLOSE int fd = -1;
        char text[8] = "";

        CHECK(!rig_create(&g, rig_plan(A)));
        CHECK(starts(rig_dial_refusal(&g, A, 81), "unavailable: nothing listens on port 81"));
        CHECK(starts(rig_dial_refusal(&g, B, 81), "gone"));
        CHECK(starts(rig_dial_refusal(&g, A, 0), "invalid"));
        CHECK(starts(rig_dial_refusal(&g, A, 65536), "invalid"));
        CHECK(starts(rig_dial_refusal(&g, "../..", 80), "invalid"));
        CHECK_STR(rig_run(&g, A, "listen6 8080"), "listening");
        fd = rig_dial(&g, A, 8080);
        CHECK(fd >= 0);
        CHECK_INT(fcntl(fd, F_GETFL) & O_NONBLOCK, ==, O_NONBLOCK);
        CHECK_INT(fcntl(fd, F_SETFL, O_RDWR), ==, 0);
        CHECK_INT(read(fd, text, 3), ==, 3);
        CHECK_STR(text, "six");
        CHECK(!rig_kill(&g, A));
}

static void strangers_may_not_connect(void)
{
        int st = 0;
        pid_t pid;

        CHECK_INT(chmod(g.dir, 0755), ==, 0);
        CHECK_INT(chmod(g.sock, 0777), ==, 0);
        pid = fork();
        if (pid == 0) {
                struct sockaddr_un a = {.sun_family = AF_UNIX};
                int fd = socket(AF_UNIX, SOCK_STREAM, 0);
                char c;

                (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", g.sock);
                if (setuid(54321) < 0 || connect(fd, (struct sockaddr *)(void *)&a, sizeof(a)) < 0)
                        _exit(1);
                _exit(read(fd, &c, 1) == 0 ? 42 : 2); /* hung up without a word */
        }
        CHECK_INT(waitpid(pid, &st, 0), ==, pid);
        CHECK_INT(WEXITSTATUS(st), ==, 42);
}

static void a_full_disk_is_told_as_such(void)
{
        char path[160];
        int fd;

        CHECK(rig_stop(&g));
        (void)snprintf(path, sizeof(path), "%s/data", g.dir);
        CHECK_INT(mount("tiny", path, "tmpfs", 0, "size=256k,nr_inodes=64"), ==, 0);
        CHECK(rig_start(&g));
        CHECK(!rig_create(&g, rig_plan(A)));
        (void)snprintf(path, sizeof(path), "%s/data/filler", g.dir);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        while (write(fd, path, sizeof(path)) > 0)
                ;
        (void)close(fd);
        CHECK(starts(rig_create(&g, rig_plan(B)), "no_space: "));
        CHECK_STR(rig_run(&g, A, "read /proc/1/comm"), ".envd\n"); /* those that run go on */
        CHECK_INT(unlink(path), ==, 0);
        CHECK(!rig_create(&g, rig_plan(B)));
        CHECK(!rig_kill(&g, A));
        CHECK(!rig_kill(&g, B));
}

static bool has_entries(const char *name)
{
        char path[160];
        unsigned n = 0;
        DIR *d;

        (void)snprintf(path, sizeof(path), "%s/data/%s", g.dir, name);
        d = opendir(path);
        while (d && readdir(d))
                n++;
        if (d)
                (void)closedir(d);
        return n > 2; /* "." and ".." */
}

/* The kernel makes a directory of its own in each work directory, and a mount without is read-only: nobody is to run in it. */
static void directories_made_ahead_do_not_hide_a_full_disk(void)
{
        const struct timespec moment = {0, 5000000};
        char path[160];
        int n = 0;

        CHECK(rig_stop(&g));
        (void)snprintf(path, sizeof(path), "%s/data", g.dir);
        CHECK_INT(mount("few", path, "tmpfs", 0, "size=96m,nr_inodes=6000"), ==, 0);
        CHECK(rig_start(&g));
        while (!has_entries("ahead"))
                (void)nanosleep(&moment, NULL);
        do {
                (void)snprintf(path, sizeof(path), "%s/data/filler%d", g.dir, n++);
        } while (mknod(path, S_IFREG | 0600, 0) == 0);
        CHECK_STARTS(rig_create(&g, rig_plan(A)), "no_space: ");
        while (n-- > 0) {
                (void)snprintf(path, sizeof(path), "%s/data/filler%d", g.dir, n);
                (void)unlink(path);
        }
        CHECK(!rig_create(&g, rig_plan(A)));
        CHECK(!rig_kill(&g, A));
}

static void put_the_disk_back(void)
{
        char path[160];

        (void)rig_stop(&g);
        (void)snprintf(path, sizeof(path), "%s/data", g.dir);
        (void)umount2(path, MNT_DETACH);
        (void)rig_start(&g);
}

static void an_empty_pool_only_takes_longer(void)
{
        json_t *info;

        CHECK(rig_stop(&g));
        g.pool_size = 0;
        CHECK(rig_start(&g));
        for (unsigned i = 0; i < 10; i++) {
                char id[22];

                (void)snprintf(id, sizeof(id), "i%020u", i);
                CHECK(!rig_create(&g, rig_plan(id)));
                CHECK(!rig_kill(&g, id));
        }
        info = rig_info(&g);
        CHECK_INT(json_integer_value(json_object_get(info, "pool_misses")), ==, 10);
        CHECK_INT(json_integer_value(json_object_get(info, "pool_hits")), ==, 0);
        json_decref(info);
}

static void a_broken_layer_does_not_lead_outside(void)
{
        char path[160];

        (void)snprintf(path, sizeof(path), "%s/images/layers/evil", g.dir);
        CHECK_INT(mkdir(path, 0755), ==, 0);
        (void)snprintf(path, sizeof(path), "%s/images/layers/evil/proc", g.dir);
        CHECK_INT(symlink("/tmp", path), ==, 0);
        (void)snprintf(path, sizeof(path), "%s/images/layers/link", g.dir);
        CHECK_INT(symlink("/etc", path), ==, 0);
        json_t *plan = rig_plan(A);
        (void)json_object_set_new(plan, "layers", json_pack("[s]", "evil"));
        CHECK(rig_create(&g, plan)); /* a link is no place for a mount */
        plan = rig_plan(A);
        (void)json_object_set_new(plan, "layers", json_pack("[s]", "link"));
        CHECK(rig_create(&g, plan)); /* nor a layer */
}

int main(void)
{
        if (rig_reason_to_skip()) {
                printf("1..0 # SKIP %s\n", rig_reason_to_skip());
                return 0;
        }
        if (!rig_open(&g, 2) || !rig_start(&g))
                return 1;
        RUN(a_missing_layer_is_named);
        RUN(a_failing_envd_is_quoted);
        RUN(a_dying_envd_is_noticed);
        RUN(bad_plans_are_refused);
        RUN(one_being_made_can_be_killed);
        RUN(what_nobody_waits_for_is_ended);
        RUN(dialling_says_what_is_wrong);
        RUN(strangers_may_not_connect);
        RUN(a_broken_layer_does_not_lead_outside);
        RUN(a_full_disk_is_told_as_such);
        put_the_disk_back();
        RUN(directories_made_ahead_do_not_hide_a_full_disk);
        put_the_disk_back();
        RUN(an_empty_pool_only_takes_longer);
        rig_close(&g);
        return tap_done();
}
