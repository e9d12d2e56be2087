#include "one.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <tap.h>
#include <unistd.h>

struct rig g;

bool can_run(void)
{
        const char *why = rig_reason_to_skip();

        if (!why && !rig_criu_dir())
                why = "SANDGLASS_CRIU_DIR is not set";
        if (why)
                printf("1..0 # SKIP %s\n", why);
        return !why;
}

json_t *used_checkpoints(const char *id)
{
        json_t *plan = rig_plan(id);

        (void)json_object_set_new(plan, "upper", json_string("kept"));
        (void)json_object_set_new(plan, "checkpoint", json_string(IMAGE));
        return plan;
}

bool begin(void)
{
        const char *why = rig_create(&g, rig_plan(A));

        if (why)
                printf("# %s\n", why);
        return !why && strcmp(rig_run(&g, A, "append one "), "ok") == 0;
}

bool is_itself(void)
{
        return strcmp(rig_run(&g, A, "append two"), "ok") == 0 &&
               strcmp(rig_run(&g, A, "read /tmp/kept"), "one two") == 0;
}

int stall(const char *point)
{
        char path[160];

        (void)snprintf(path, sizeof(path), "%s/data/stall", g.dir);
        (void)mkdir(path, 0700);
        (void)snprintf(path, sizeof(path), "%s/data/stall/%s", g.dir, point);
        return mkfifo(path, 0600);
}

int reach(const char *point)
{
        char path[160];
        int fd;

        (void)snprintf(path, sizeof(path), "%s/data/stall/%s", g.dir, point);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        (void)unlink(path);
        return fd;
}

bool end_one(pid_t pid)
{
        return pid > 1 && kill(pid, SIGKILL) == 0;
}

void send_pause(void)
{
        rig_send(&g, json_pack("{s:s,s:s,s:s}", "op", "pause", "id", A, "checkpoint", IMAGE));
}

void send_wake(void)
{
        rig_send(&g, json_pack("{s:s,s:o}", "op", "create", "plan", used_checkpoints(A)));
}

const char *fact(void)
{
        json_t *msg = rig_receive(&g);
        const char *event = json_string_value(json_object_get(msg, "event"));
        const char *state = json_string_value(json_object_get(msg, "state"));
        static char text[64];

        (void)snprintf(text, sizeof(text), "%s %s", event ? event : "no fact", state ? state : "");
        json_decref(msg);
        return text;
}

void put_the_disk_back(void)
{
        char path[160];

        (void)rig_kill(&g, A);
        (void)rig_stop(&g);
        (void)snprintf(path, sizeof(path), "%s/data", g.dir);
        (void)umount2(path, MNT_DETACH);
        (void)rig_start(&g);
}

bool is_nothing_left(void)
{
        const struct leak_count none = {0};
        struct leak_count after;
        bool is_stopped;

        rig_wait_files(&g, 0);
        is_stopped = rig_stop(&g);
        after = rig_count(&g, &none);
        return rig_start(&g) && is_stopped && leak_none(&after, &none);
}
