/* Guests of another kind than namespaces: a machine is a process with a disk, as microvm.h draws it.  What guest/ does with
 * them shows that nothing in guest/ knows cells, slots or directories. */
#include "engine/microvm/microvm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <tap.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/guest/trash_retry.h"
#include "sys/fs.h"
#include "sys/proc.h"

#define ID "i0123456789abcdefghij"
#define WAIT_MS 10000u

static struct engine engine;
static int home;
static bool is_refusing; /* machines do not start */
static struct {
        unsigned inits, starts, kills, releases, rules;
} calls;

/* ------------------------------------------------------------- the machines */

static struct microvm_guest *machine_of(struct guest *g)
{
        return CONTAINER_OF(g, struct microvm_guest, guest);
}

static void machine_init(struct guest *g)
{
        calls.inits++;
        machine_of(g)->disk = machine_of(g)->control = -1;
}

static int machine_set_net(struct guest *g, struct plan_net *net, struct err *err)
{
        (void)err;
        calls.rules++;
        plan_net_done(&g->record.net);
        g->record.net = *net;
        *net = (struct plan_net){0};
        return 0;
}

static int make_disk(struct guest *g)
{
        AUTO_CLOSE int dir = -1;

        if (mkdirat(engine.sandboxes_dir, g->record.id, 0700) < 0)
                return -errno;
        dir = sys_open_dir(engine.sandboxes_dir, g->record.id);
        machine_of(g)->disk = openat(dir, "disk", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        return machine_of(g)->disk < 0 ? -errno : 0;
}

static pid_t run_machine(void)
{
        pid_t pid = fork();

        while (pid == 0)
                (void)pause();
        return pid;
}

static void machine_start(struct guest *g, struct plan_create *plan, struct ask *a)
{
        struct err err = {0};
        int r;

        calls.starts++;
        r = machine_set_net(g, &plan->net, &err);
        plan_done(plan);
        guest_go(g, GUEST_STARTING);
        if (r == 0)
                r = is_refusing ? -EIO : make_disk(g);
        if (r == 0) {
                g->record.pid = run_machine();
                r = guest_watch(g, sys_pidfd_open(g->record.pid));
        }
        if (r == 0) {
                guest_started(g, a, clock_mono_us(), "disk", NULL);
                return;
        }
        (void)err_sys(&err, r, "start the machine");
        guest_fail(g, &err);
}

static struct ask *machine_give_up(struct guest *g)
{
        (void)g;
        return NULL;
}

static void machine_kill(struct guest *g)
{
        calls.kills++;
        if (g->record.pid > 0)
                (void)kill(g->record.pid, SIGKILL);
}

static void machine_release(struct guest *g)
{
        calls.releases++;
        close_fd(&machine_of(g)->disk);
        g->record.pid = 0;
}

static const struct engine_ops machine_ops = {
        .kind = ENGINE_NAMESPACE, /* records on disk are not written here */
        .isolation = "machine",
        .guest_bytes = sizeof(struct microvm_guest),
        .init = machine_init,
        .start = machine_start,
        .give_up = machine_give_up,
        .kill = machine_kill,
        .release = machine_release,
        .set_net = machine_set_net,
};

/* ------------------------------------------------------------- the engine around them */

static void on_too_late(struct timer *t)
{
        (void)t;
        loop_stop(engine.loop);
}

static bool (*awaited)(void);

static void on_look(struct timer *t)
{
        if (awaited())
                loop_stop(engine.loop);
        else
                timer_set(engine.loop, t, 1);
}

static bool run_until(bool (*is_so)(void))
{
        struct timer late = {.on = on_too_late}, look = {.on = on_look};

        awaited = is_so;
        timer_set(engine.loop, &late, WAIT_MS);
        timer_set(engine.loop, &look, 0);
        (void)loop_run(engine.loop);
        timer_clear(&late);
        timer_clear(&look);
        return is_so();
}

static bool is_nothing_there(void)
{
        return !guest_find(&engine, ID);
}

static bool is_ended(void)
{
        const struct guest *g = guest_find(&engine, ID);

        return g && g->state == GUEST_ENDED;
}

static bool has_directory(void)
{
        return faccessat(engine.sandboxes_dir, ID, F_OK, 0) == 0;
}

static void close_now(void *arg, int *fds, size_t n)
{
        (void)arg;
        while (n > 0)
                close_fd(&fds[--n]);
}

static int make_dir(const char *name)
{
        return mkdirat(home, name, 0700) < 0 ? -errno : sys_open_dir(home, name);
}

static bool engine_opens(void)
{
        static const struct engine_ops *const kinds[] = {&machine_ops, NULL};
        struct disk_dirs dirs;
        struct err err;

        engine.kinds = kinds;
        engine.sandboxes_dir = make_dir("sandboxes");
        engine.trash_dir = make_dir("trash");
        dirs = (struct disk_dirs){.host = -1,
                                  .boot_id = "",
                                  .sandboxes = engine.sandboxes_dir,
                                  .layers = make_dir("layers"),
                                  .sealed = make_dir("sealed"),
                                  .checkpoints = make_dir("checkpoints"),
                                  .trash = engine.trash_dir,
                                  .lost = make_dir("lost"),
                                  .ahead = make_dir("ahead")};
        list_init(&engine.controls);
        list_init(&engine.edges);
        list_init(&engine.warm);
        list_init(&engine.disk.requests); /* as the engine does before there is a helper */
        return loop_create(&engine.loop) == 0 &&
               disk_open(&engine.disk, engine.loop, &dirs, close_now, NULL, &err) == 0;
}

static void create(void)
{
        struct plan_create plan = {.id = ID, .net = {.internet = true}};

        memset(&calls, 0, sizeof(calls));
        guest_create(&engine, &plan, NULL);
}

/* ------------------------------------------------------------- cases */

static void a_machine_lives_and_is_killed(void)
{
        struct guest *g;

        create();
        g = guest_find(&engine, ID);
        CHECK(g && g->state == GUEST_RUNNING);
        CHECK(g->ops == &machine_ops);
        CHECK_INT(calls.inits, ==, 1);
        CHECK_INT(calls.rules, ==, 1);
        CHECK_INT(engine.alive, ==, 1);
        CHECK(has_directory());
        guest_kill(g, NULL);
        CHECK_INT(engine.alive, ==, 0);
        CHECK(run_until(is_nothing_there));
        CHECK_INT(calls.kills, ==, 1);
        CHECK_INT(calls.releases, ==, 1);
        CHECK(!has_directory());
}

static void a_machine_that_ends_by_itself_leaves_its_files_until_they_are_dropped(void)
{
        struct guest *g;

        create();
        g = guest_find(&engine, ID);
        CHECK(g);
        (void)kill(g->record.pid, SIGKILL);
        CHECK(run_until(is_ended));
        CHECK_INT(calls.kills, ==, 0);
        CHECK_INT(calls.releases, ==, 1);
        CHECK_INT(engine.alive, ==, 0);
        CHECK(has_directory());
        guest_end(guest_find(&engine, ID));
        CHECK(run_until(is_nothing_there));
        CHECK(!has_directory());
}

static void a_machine_that_does_not_start_leaves_nothing(void)
{
        is_refusing = true;
        create();
        is_refusing = false;
        CHECK_INT(calls.starts, ==, 1);
        CHECK(run_until(is_nothing_there));
        CHECK_INT(calls.releases, ==, 1);
        CHECK_INT(engine.alive, ==, 0);
        CHECK(!has_directory());
}

static void a_kind_that_is_not_there_is_not_found(void)
{
        CHECK(guest_kind(&engine, ENGINE_NAMESPACE) == &machine_ops);
        CHECK(!guest_kind(&engine, (enum engine_kind)99));
}

int main(void)
{
        char path[] = "/tmp/sandglass-test-XXXXXX";

        if (!mkdtemp(path))
                return 1;
        (void)signal(SIGCHLD, SIG_IGN); /* as in the engine */
        home = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (!engine_opens())
                return 1;
        RUN(a_machine_lives_and_is_killed);
        RUN(a_machine_that_ends_by_itself_leaves_its_files_until_they_are_dropped);
        RUN(a_machine_that_does_not_start_leaves_nothing);
        RUN(a_kind_that_is_not_there_is_not_found);
        disk_close(&engine.disk);
        (void)sys_remove_tree(AT_FDCWD, path);
        return tap_done();
}
