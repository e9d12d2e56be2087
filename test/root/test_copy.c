/* A copy of a running sandbox: it goes on as if nothing had been, whoever dies meanwhile. */
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <tap.h>
#include <unistd.h>

#include "base/auto.h"
#include "engine/storage/upper_copy.h"
#include "one.h"

#define C "icccccccccccccccccccc"
#define IMAGE2 "cbbbbbbbbbbbbbbbbbbbb"
#define LAYER2 "u-bbbbbbbbbbbbbbbbbbbb"

static const char *end(void)
{
        const char *why = rig_kill(&g, A);

        return why ? why : rig_drop(&g, IMAGE, LAYER);
}

static const char *why_not(json_t *answer) /* used up */
{
        const json_t *e = json_object_get(answer, "error");
        static char text[300];

        if (json_is_true(json_object_get(answer, "ok"))) {
                json_decref(answer);
                return NULL;
        }
        (void)snprintf(text, sizeof(text), "%s: %s", e ? json_string_value(json_object_get(e, "kind")) : "no answer",
                       e ? json_string_value(json_object_get(e, "message")) : "");
        json_decref(answer);
        return text;
}

static json_t *order(const char *image, const char *layer)
{
        return json_pack("{s:s,s:s,s:s,s:s}", "op", "copy", "id", A, "checkpoint", image, "layer", layer);
}

static const char *copy_as(const char *image, const char *layer)
{
        return why_not(rig_call(&g, order(image, layer)));
}

static json_t *plan_from(const char *id, const char *image, const char *layer)
{
        json_t *plan = rig_plan(id);

        (void)json_array_append_new(json_object_get(plan, "layers"), json_string(layer));
        (void)json_object_set_new(plan, "checkpoint", json_string(image));
        return plan;
}

static const char *heard(const char *id, unsigned port)
{
        static char text[64];
        AUTO_CLOSE int fd = rig_dial(&g, id, port);
        ssize_t n;

        if (fd < 0)
                return "not reachable";
        (void)fcntl(fd, F_SETFL, O_RDWR);
        n = read(fd, text, sizeof(text) - 1);
        text[n > 0 ? n : 0] = '\0';
        return text;
}

static bool exists(const char *below)
{
        char path[200];

        (void)snprintf(path, sizeof(path), "%s/data/%s", g.dir, below);
        return access(path, F_OK) == 0;
}

static bool is_clean(void) /* nothing of the copy is there */
{
        return !exists("checkpoints/" IMAGE) && !exists("sealed/" LAYER) && !exists("sandboxes/" A "/copy") &&
               !exists("sandboxes/" A "/job.json");
}

/* ------------------------------------------------------------- what it is for */

static void the_original_goes_on_and_copies_begin_there(void)
{
        AUTO_CLOSE int before = -1;
        char pid[32];

        CHECK(begin());
        (void)snprintf(pid, sizeof(pid), "%s", rig_run(&g, A, "sleeper"));
        before = rig_dial(&g, A, 49983); /* a connection that is open all the time */
        CHECK(before >= 0);
        CHECK_NONE(copy_as(IMAGE, LAYER));
        CHECK_STR(rig_state(&g, A), "running");
        CHECK(exists("sealed/" LAYER) && exists("checkpoints/" IMAGE "/manifest.json"));
        CHECK(!exists("sandboxes/" A "/copy") && !exists("sandboxes/" A "/job.json"));
        CHECK_STR(rig_run(&g, A, "append A"), "ok");
        CHECK_STR(rig_run(&g, A, "read /tmp/kept"), "one A");
        CHECK_NONE(rig_create(&g, plan_from(B, IMAGE, LAYER)));
        CHECK_NONE(copy_as(IMAGE2, LAYER2)); /* again, with what it has now */
        CHECK_NONE(rig_create(&g, plan_from(C, IMAGE2, LAYER2)));
        CHECK_STR(rig_run(&g, B, "append B"), "ok");
        CHECK_STR(rig_run(&g, B, "read /tmp/kept"), "one B");
        CHECK_STR(rig_run(&g, C, "read /tmp/kept"), "one A");
        CHECK_STR(rig_run(&g, A, "read /tmp/kept"), "one A");
        CHECK_STR(heard(A, 4000), "still here");
        CHECK_STR(heard(B, 4000), "still here");
        CHECK_STR(rig_run(&g, B, "hostname"), B "\n");
        (void)fcntl(before, F_SETFL, O_RDWR);
        CHECK_INT(write(before, "read /tmp/kept\n", 15), ==, 15);
        CHECK_INT(read(before, pid, sizeof(pid)), ==, 5); /* "one A", by those who had it then */
        CHECK_NONE(rig_kill(&g, B));
        CHECK_NONE(rig_kill(&g, C));
        CHECK_NONE(rig_pause(&g, A, "cdddddddddddddddddddd")); /* like any other */
        CHECK_NONE(rig_drop(&g, IMAGE2, LAYER2));
        CHECK_NONE(rig_drop(&g, "cdddddddddddddddddddd", NULL));
        CHECK_NONE(end());
}

static void ids_are_checked(void)
{
        CHECK(begin());
        CHECK_STARTS(copy_as("../../etc", LAYER), "invalid");
        CHECK_STARTS(copy_as(IMAGE, "../../etc"), "invalid");
        CHECK_STARTS(why_not(rig_call(&g, json_pack("{s:s,s:s,s:s}", "op", "copy", "id", A, "checkpoint", IMAGE))),
                     "invalid");
        CHECK_STARTS(why_not(rig_call(&g, json_pack("{s:s,s:s,s:s,s:s}", "op", "copy", "id", B, "checkpoint", IMAGE,
                                                    "layer", LAYER))),
                     "gone");
        CHECK_NONE(copy_as(IMAGE, LAYER));
        CHECK_STARTS(copy_as(IMAGE, LAYER2), "internal"); /* there is one of that name */
        CHECK_STARTS(copy_as(IMAGE2, LAYER), "internal");
        CHECK(exists("sealed/" LAYER) && exists("checkpoints/" IMAGE "/manifest.json"));
        CHECK(!exists("checkpoints/" IMAGE2));
        CHECK(is_itself());
        CHECK_NONE(end());
}

/* ------------------------------------------------------------- too much of it */

static void fill(unsigned mib, unsigned entries) /* its upper directory, from outside: as if it had written that */
{
        char path[240], block[4096] = {1};

        for (unsigned i = 0; i < entries; i++) {
                (void)snprintf(path, sizeof(path), "%s/data/sandboxes/" A "/upper/tmp/many%u", g.dir, i);
                (void)close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
        }
        (void)snprintf(path, sizeof(path), "%s/data/sandboxes/" A "/upper/tmp/large", g.dir);
        AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        for (unsigned i = 0; i < mib << 8; i++)
                (void)!write(fd, block, sizeof(block));
}

static void too_much_is_refused_and_nothing_happened(void)
{
        for (int many = 0; many < 2; many++) {
                CHECK(begin());
                fill(many ? 0 : 17, many ? UPPER_COPY_ENTRIES_MAX : 0);
                CHECK_STARTS(copy_as(IMAGE, LAYER), "too_large");
                CHECK(is_clean());
                CHECK_STR(rig_state(&g, A), "running");
                CHECK(is_itself());
                CHECK_NONE(end());
        }
}

/* It was small when it was measured. */
static void what_grows_meanwhile_is_refused_too(void)
{
        int fd;

        CHECK(begin());
        (void)stall("frozen");
        rig_send(&g, order(IMAGE, LAYER));
        fd = reach("frozen");
        fill(17, 0);
        (void)close(fd);
        CHECK_STARTS(why_not(rig_receive(&g)), "too_large");
        CHECK(is_clean());
        CHECK(is_itself());
        CHECK_NONE(end());
}

/* "gone" would say that the sandbox is. */
static void what_a_job_process_misses_is_not_the_sandbox(void)
{
        char path[160], away[160];

        CHECK(begin());
        (void)snprintf(path, sizeof(path), "%s/data/checkpoints", g.dir);
        (void)snprintf(away, sizeof(away), "%s/data/away", g.dir);
        CHECK_INT(rename(path, away), ==, 0);
        CHECK_STARTS(copy_as(IMAGE, LAYER), "internal");
        CHECK_STARTS(rig_pause(&g, A, IMAGE), "internal");
        CHECK_INT(rename(away, path), ==, 0);
        CHECK(is_clean());
        CHECK(is_itself());
        CHECK_NONE(end());
}

/* ------------------------------------------------------------- while it is copied */

static void it_can_be_reached_all_the_time(void)
{
        int fd, socket;
        json_t *answer;

        CHECK(begin());
        (void)stall("dumped");
        rig_send(&g, order(IMAGE, LAYER));
        fd = reach("dumped");
        socket = rig_dial(&g, A, 49983); /* answered when it goes on */
        CHECK(socket >= 0);
        answer = rig_call(&g, json_pack("{s:s,s:s}", "op", "stats", "id", A));
        CHECK(json_object_get(answer, "memory_bytes"));
        json_decref(answer);
        CHECK_STR(rig_state(&g, A), "busy");
        CHECK_STARTS(rig_pause(&g, A, IMAGE2), "conflict");
        CHECK_STARTS(copy_as(IMAGE2, LAYER2), "conflict");
        (void)close(fd);
        CHECK_NONE(why_not(rig_receive(&g)));
        (void)fcntl(socket, F_SETFL, O_RDWR);
        CHECK_INT(write(socket, "count\n", 6), ==, 6);
        char text[8];
        CHECK_INT(read(socket, text, sizeof(text)), ==, 1);
        (void)close(socket);
        CHECK(is_itself());
        CHECK_NONE(end());
}

static bool is_waited_for(void) /* a lock of ours, by a worker */
{
        AUTO_CLOSE int fd = open("/proc/locks", O_RDONLY | O_CLOEXEC);
        static char text[65536];
        ssize_t n = read(fd, text, sizeof(text) - 1);
        char waiting[64];

        text[n > 0 ? n : 0] = 0;
        (void)snprintf(waiting, sizeof(waiting), "-> FLOCK  ADVISORY  WRITE %d ", (int)rig_job_process(&g));
        return strstr(text, waiting);
}

/* Who tidies up after a resume has it for a moment. */
static void who_has_its_lock_is_waited_for(void)
{
        char path[160];
        int fd;

        CHECK(begin());
        (void)snprintf(path, sizeof(path), "%s/data/sandboxes/" A, g.dir);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK_INT(flock(fd, LOCK_EX), ==, 0);
        rig_send(&g, order(IMAGE, LAYER));
        for (int i = 0; i < 1000 && !is_waited_for(); i++)
                (void)usleep(10000);
        CHECK(is_waited_for());
        (void)close(fd);
        CHECK_NONE(why_not(rig_receive(&g)));
        CHECK(is_itself());
        CHECK_NONE(end());
}

/* One that was resumed, and just starts a program: CRIU could not open its namespaces. */
static void one_that_hides_for_a_moment_is_copied(void)
{
        CHECK(begin());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_NONE(rig_create(&g, used_checkpoints(A)));
        CHECK_STR(rig_run(&g, A, "hide"), "ok");
        CHECK_NONE(copy_as(IMAGE2, LAYER));
        CHECK(is_itself());
        CHECK_NONE(rig_drop(&g, IMAGE2, NULL));
        CHECK_NONE(end());
}

static void a_kill_waits_for_it(void)
{
        static const char *const points[] = {"frozen", "copied", "dumped", "thawed"};

        for (size_t i = 0; i < ARRAY_LEN(points); i++) {
                int fd;

                CHECK(begin());
                (void)stall(points[i]);
                rig_send(&g, order(IMAGE, LAYER));
                fd = reach(points[i]);
                rig_send(&g, json_pack("{s:s,s:s}", "op", "kill", "id", A));
                (void)close(fd);
                CHECK_NONE(why_not(rig_receive(&g)));
                CHECK_NONE(why_not(rig_receive(&g)));
                CHECK(!rig_state(&g, A));
                CHECK_NONE(rig_drop(&g, IMAGE, LAYER));
        }
}

static void it_may_end_by_itself_meanwhile(void)
{
        json_t *fact;
        int fd;

        CHECK(begin());
        (void)stall("thawed");
        rig_send(&g, order(IMAGE, LAYER));
        fd = reach("thawed");
        (void)rig_run(&g, A, "exit");
        (void)close(fd);
        CHECK_NONE(why_not(rig_receive(&g))); /* the copy is as good */
        fact = rig_receive(&g);
        CHECK_STR(json_string_value(json_object_get(fact, "event")), "exited");
        json_decref(fact);
        CHECK_STR(rig_state(&g, A), "ended");
        CHECK_NONE(rig_forget(&g, A));
        CHECK(!rig_state(&g, A));
        CHECK_NONE(rig_create(&g, plan_from(B, IMAGE, LAYER)));
        CHECK_STR(rig_run(&g, B, "read /tmp/kept"), "one ");
        CHECK_NONE(rig_kill(&g, B));
        CHECK_NONE(rig_drop(&g, IMAGE, LAYER));
}

/* ------------------------------------------------------------- somebody dies */

static void without_its_job_process_it_goes_on(void)
{
        static const char *const points[] = {"frozen", "copied", "dumped", "thawed", "sealed"};

        for (size_t i = 0; i < ARRAY_LEN(points); i++) {
                int fd;

                CHECK(begin());
                (void)stall(points[i]);
                rig_send(&g, order(IMAGE, LAYER));
                fd = reach(points[i]);
                CHECK_INT(kill(rig_job_process(&g), SIGKILL), ==, 0);
                (void)close(fd);
                CHECK_STARTS(why_not(rig_receive(&g)), "interrupted");
                CHECK_STR(fact(), "rechecked running");
                CHECK_STR(rig_state(&g, A), "running");
                CHECK(is_itself());
                if (strcmp(points[i], "sealed") == 0)
                        CHECK_NONE(rig_drop(&g, IMAGE, LAYER)); /* complete, and nobody's: control drops it */
                CHECK(is_clean());
                CHECK_NONE(copy_as(IMAGE, LAYER)); /* and it can be copied */
                CHECK_NONE(end());
        }
}

static void without_the_engine_it_is_finished(void)
{
        static const char *const points[] = {"frozen", "copied", "dumped", "thawed", "sealed"};

        for (size_t i = 0; i < ARRAY_LEN(points); i++) {
                int fd, socket;

                CHECK(begin());
                (void)stall(points[i]);
                rig_send(&g, order(IMAGE, LAYER));
                fd = reach(points[i]);
                rig_crash(&g);
                CHECK(rig_start(&g));
                CHECK_STR(rig_state(&g, A), "busy");
                rig_dial_send(&g, A, 49983); /* whoever wants to reach it waits for that */
                CHECK_STR(rig_state(&g, A), "busy");
                (void)close(fd);
                CHECK_STR(fact(), "rechecked running");
                socket = rig_dial_receive(&g);
                CHECK(socket >= 0);
                (void)close(socket);
                CHECK(exists("sealed/" LAYER) && exists("checkpoints/" IMAGE "/manifest.json"));
                CHECK(is_itself());
                CHECK_NONE(rig_drop(&g, IMAGE, LAYER));
                CHECK(is_clean());
                CHECK_NONE(rig_kill(&g, A));
        }
}

static void when_everything_dies_it_goes_on(void)
{
        static const char *const points[] = {"frozen", "copied", "dumped", "thawed"};

        for (size_t i = 0; i < ARRAY_LEN(points); i++) {
                pid_t job_process;
                int fd;

                CHECK(begin());
                (void)stall(points[i]);
                rig_send(&g, order(IMAGE, LAYER));
                fd = reach(points[i]);
                job_process = rig_job_process(&g);
                rig_crash(&g);
                CHECK_INT(kill(job_process, SIGKILL), ==, 0);
                (void)close(fd);
                CHECK(rig_start(&g));
                while (strcmp(rig_state(&g, A), "busy") == 0)
                        continue; /* the fact may have come before we listened */
                CHECK_STR(rig_state(&g, A), "running");
                CHECK(is_itself());
                CHECK(is_clean());
                CHECK_NONE(rig_kill(&g, A));
        }
}

static void who_comes_instead_of_the_asker_is_told(void)
{
        int fd;

        CHECK(begin());
        (void)stall("dumped");
        rig_send(&g, order(IMAGE, LAYER));
        fd = reach("dumped");
        rig_reconnect(&g);
        CHECK_STR(rig_state(&g, A), "busy");
        (void)close(fd);
        CHECK_STR(fact(), "rechecked running");
        CHECK(is_itself());
        CHECK_NONE(end());
}

/* ------------------------------------------------------------- it cannot be done */

static void what_cannot_be_dumped_runs_on(void)
{
        CHECK(begin());
        CHECK_STR(rig_run(&g, A, "queue"), "ok");
        CHECK_STARTS(copy_as(IMAGE, LAYER), "conflict: ");
        CHECK(is_clean());
        CHECK_STR(rig_run(&g, A, "unqueue"), "ok");
        CHECK_NONE(copy_as(IMAGE, LAYER));
        CHECK(is_itself());
        CHECK_NONE(end());
}

/* CRIU could not stop who waits for such a child. */
static void one_that_lends_its_memory_to_a_child_is_named_soon(void)
{
        CHECK(begin());
        CHECK_STR(rig_run(&g, A, "vfork /tmp/go"), "ok");
        CHECK_STARTS(copy_as(IMAGE, LAYER), "conflict: pid ");
        CHECK_STARTS(rig_pause(&g, A, IMAGE), "conflict: pid ");
        CHECK(is_clean());
        CHECK_STR(rig_run(&g, A, "write /tmp/go x"), "ok");
        CHECK_NONE(copy_as(IMAGE, LAYER)); /* it was a moment ago, and may still be: that is waited for */
        CHECK(is_itself());
        CHECK_NONE(end());
}

static void a_full_disk_changes_nothing(void)
{
        char path[160], block[4096] = {0};
        int fd;

        CHECK(rig_stop(&g));
        (void)snprintf(path, sizeof(path), "%s/data", g.dir);
        CHECK_INT(mount("tiny", path, "tmpfs", 0, "size=24m"), ==, 0);
        CHECK(rig_start(&g));
        CHECK(begin());
        fill(8, 0); /* the images fit, the files beside them do not */
        (void)snprintf(path, sizeof(path), "%s/data/filler", g.dir);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        for (unsigned i = 0; i < (10u << 20) / sizeof(block); i++)
                (void)!write(fd, block, sizeof(block));
        CHECK_STARTS(copy_as(IMAGE, LAYER), "no_space: ");
        CHECK(is_clean());
        while (write(fd, block, sizeof(block)) > 0)
                ;
        CHECK_STARTS(copy_as(IMAGE, LAYER), "no_space: ");
        CHECK(is_clean());
        (void)close(fd);
        CHECK_INT(unlink(path), ==, 0);
        CHECK(is_itself());
        CHECK_NONE(copy_as(IMAGE, LAYER));
        CHECK_NONE(end());
}

/* ------------------------------------------------------------- files without their names */

static void make_pair(void) /* in the template: one file, two names */
{
        char one[160], two[160];

        (void)snprintf(one, sizeof(one), "%s/images/layers/base/low", g.dir);
        (void)snprintf(two, sizeof(two), "%s/images/layers/base/low2", g.dir);
        FILE *f = fopen(one, "we");
        (void)fputs("of the template", f);
        (void)fclose(f);
        CHECK_INT(link(one, two), ==, 0);
}

static bool begin_orphans(void)
{
        return begin() && strcmp(rig_run(&g, A, "write /tmp/name its own"), "ok") == 0 &&
               strcmp(rig_run(&g, A, "link /tmp/name /tmp/other"), "ok") == 0 &&
               strcmp(rig_run(&g, A, "orphan 4001 /tmp/name"), "ok") == 0 &&
               strcmp(rig_run(&g, A, "orphan 4002 /low"), "ok") == 0;
}

static bool has_orphans(const char *id)
{
        printf("# %s: %s, ", id, heard(id, 4001));
        printf("%s\n", heard(id, 4002));
        return strcmp(heard(id, 4001), "its own") == 0 && strcmp(heard(id, 4002), "of the template") == 0;
}

static bool has_no_remaps(const char *id) /* CRIU's names for them */
{
        char command[64];

        (void)id;
        (void)snprintf(command, sizeof(command), "list /tmp");
        return !strstr(rig_run(&g, id, command), "link_remap") && !strstr(rig_run(&g, id, "list /"), "link_remap");
}

static void files_that_lost_one_name_of_two_are_copied(void)
{
        CHECK(begin_orphans());
        CHECK_NONE(copy_as(IMAGE, LAYER));
        CHECK(has_orphans(A) && has_no_remaps(A));
        CHECK_NONE(rig_create(&g, plan_from(B, IMAGE, LAYER)));
        CHECK(has_orphans(B) && has_no_remaps(B));
        CHECK_STR(rig_run(&g, B, "read /tmp/other"), "its own");
        CHECK_NONE(rig_kill(&g, B));
        CHECK_NONE(end());
}

static void files_that_lost_one_name_of_two_survive_a_pause(void)
{
        json_t *plan = rig_plan(A);

        (void)json_object_set_new(plan, "upper", json_string("kept"));
        (void)json_object_set_new(plan, "checkpoint", json_string(IMAGE));
        CHECK(begin_orphans());
        CHECK_NONE(rig_pause(&g, A, IMAGE));
        CHECK_NONE(rig_create(&g, plan));
        CHECK(has_orphans(A) && has_no_remaps(A));
        CHECK_NONE(rig_drop(&g, IMAGE, NULL));
        CHECK_NONE(rig_pause(&g, A, IMAGE)); /* and another one */
        CHECK_NONE(rig_seal(&g, A, LAYER));
        CHECK_NONE(rig_create(&g, plan_from(A, IMAGE, LAYER)));
        CHECK(has_orphans(A) && has_no_remaps(A));
        CHECK_NONE(end());
}

/* ------------------------------------------------------------- */

int main(void)
{
        if (!can_run())
                return 0;
        if (!rig_open(&g, 2))
                return 1;
        make_pair();
        if (!rig_start(&g))
                return 1;
        RUN_CLEAN(the_original_goes_on_and_copies_begin_there);
        RUN_CLEAN(ids_are_checked);
        RUN_CLEAN(too_much_is_refused_and_nothing_happened);
        RUN_CLEAN(what_grows_meanwhile_is_refused_too);
        RUN_CLEAN(what_a_job_process_misses_is_not_the_sandbox);
        RUN_CLEAN(it_can_be_reached_all_the_time);
        RUN_CLEAN(who_has_its_lock_is_waited_for);
        RUN_CLEAN(one_that_hides_for_a_moment_is_copied);
        RUN_CLEAN(a_kill_waits_for_it);
        RUN_CLEAN(it_may_end_by_itself_meanwhile);
        RUN_CLEAN(without_its_job_process_it_goes_on);
        RUN_CLEAN(without_the_engine_it_is_finished);
        RUN_CLEAN(when_everything_dies_it_goes_on);
        RUN_CLEAN(who_comes_instead_of_the_asker_is_told);
        RUN_CLEAN(what_cannot_be_dumped_runs_on);
        RUN_CLEAN(one_that_lends_its_memory_to_a_child_is_named_soon);
        RUN_CLEAN(files_that_lost_one_name_of_two_are_copied);
        RUN_CLEAN(files_that_lost_one_name_of_two_survive_a_pause);
        RUN(a_full_disk_changes_nothing);
        put_the_disk_back();
        RUN(nothing_is_left);
        rig_close(&g);
        return tap_done();
}
