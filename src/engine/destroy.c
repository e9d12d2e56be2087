#include "engine/destroy.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/guest/adopt.h"
#include "engine/host/cgroups.h"
#include "engine/net/firewall.h"
#include "engine/net/passage.h"
#include "engine/host/instance.h"
#include "engine/namespace/leftovers.h"
#include "engine/records/paused.h"
#include "engine/records/job_note.h"
#include "sys/fs.h"

#define DEATH_MS 10000
#define PROCESS_ROUNDS 6000u /* of 10 ms */

struct ending {
        int proc_dir;
        char boot_id[SYS_BOOT_ID_MAX];
        bool is_waiting; /* all are told to die before anyone is waited for: they do it side by side */
};

/* Its cgroups go with the others'; here only a process that sits in none of them any more would be missed. */
static void end_one(int sandboxes, const char *id, const struct ending *e)
{
        AUTO_CLOSE int dir = sys_open_dir(sandboxes, id), pidfd = -1;
        struct err err = {0};
        struct record r;

        if (dir < 0 || adopt_find(dir, e->proc_dir, e->boot_id, &r, &pidfd, &err) < 0)
                return;
        (void)sys_pidfd_kill(pidfd, SIGKILL);
        if (e->is_waiting && sys_pidfd_wait(pidfd, DEATH_MS) < 0)
                log_error("sandbox.left", "sandbox=%s pid=%d", r.id, r.pid);
        record_done(&r);
}

static void each_entry(int dir, void (*fn)(int dir, const char *name, void *arg), void *arg)
{
        AUTO_DIR DIR *d = sys_list(dir);
        struct dirent *e;

        while (d && (e = sys_list_next(d)))
                fn(dir, e->d_name, arg);
}

static void end_entry(int dir, const char *name, void *arg)
{
        if (guest_id_is_valid(str_of(name)))
                end_one(dir, name, arg);
}

static void remove_entry(int dir, const char *name, void *arg)
{
        int r = sys_remove_tree(dir, name);

        (void)arg;
        if (r < 0)
                log_error("file.left", "name=%.64s error=\"%s\"", name, strerror(-r));
}

/* Its directory, locked; negative: there is no such directory, or the job process does not come to an end. */
static int wait_for_job_process(int sandboxes, const char *id)
{
        const struct timespec pause = {.tv_nsec = 10000000};
        int r = job_lock(sandboxes, id);

        for (unsigned i = 0; r == -EWOULDBLOCK && i < PROCESS_ROUNDS; i++) {
                (void)nanosleep(&pause, NULL); /* a lock has no event */
                r = job_lock(sandboxes, id);
        }
        return r;
}

/* What is paused stays; a job process that is still at one of them decides first.  Only where it is certain that nothing is paused
 * the directory goes. */
static void remove_awake(int dir, const char *name, void *arg)
{
        AUTO_CLOSE int at = wait_for_job_process(dir, name);
        struct err err = {0};
        struct paused s;
        int r;

        (void)arg;
        r = at < 0 ? err_sys(&err, at, "open") : paused_read(at, name, &s, &err);
        if (at >= 0 && r == -ENOENT && guest_id_is_valid(str_of(name))) {
                remove_entry(dir, name, NULL);
        } else if (r < 0) {
                log_warn("sandbox.left", "name=%.64s error=\"%s\"", name, err.msg);
        } else {
                (void)record_remove(at);
                (void)job_note_remove(at);
        }
}

/* A job process may be about to give a standby the name of a sandbox (job_hand_over.c): after this none is. */
static void settle_names(int sandboxes)
{
        AUTO_CLOSE int names = sys_open_dir(sandboxes, ".");

        (void)flock(names, LOCK_EX);
}

static int end_sandboxes(int data, struct err *err)
{
        AUTO_CLOSE int sandboxes = sys_open_dir(data, "sandboxes"), trash = sys_open_dir(data, "trash");
        AUTO_CLOSE int ahead = sys_open_dir(data, "ahead");
        AUTO_CLOSE int proc_dir = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct ending e = {.proc_dir = proc_dir};
        int r = adopt_boot_id(data, e.boot_id);

        (void)syncfs(
                data); /* rows in the store before the files they are about: a power cut must find both, or only files */
        if (r < 0 || proc_dir < 0)
                return err_sys(err, r < 0 ? r : -EIO, "read boot id");
        if (sandboxes >= 0) {
                settle_names(sandboxes);
                each_entry(sandboxes, end_entry, &e);
                e.is_waiting = true;
                each_entry(sandboxes, end_entry, &e);
                each_entry(sandboxes, remove_awake, NULL);
        }
        if (ahead >= 0)
                each_entry(ahead, remove_entry, NULL);
        if (trash >= 0)
                each_entry(trash, remove_entry, NULL);
        return 0;
}

static int destroy_instance(struct instance *in, int data, struct err *err)
{
        struct err firewall_err = {0};
        struct cgroups cg;
        unsigned left;
        int r;

        r = cgroups_open(in->name, &cg, err);
        if (r < 0)
                return r;
        r = end_sandboxes(data, err);
        left = leftovers_clear(&cg, NULL, NULL);
        cgroups_done(&cg);
        if (r < 0)
                return r;
        passage_close(in);
        (void)firewall_remove_table(in, &firewall_err); /* a host without nftables has no table to remove */
        if (left > 0 || (r = cgroups_remove_parent(in->name)) < 0)
                return err_set(err, ERR_INTERNAL, "%u slots could not be emptied", left);
        return 0;
}

int engine_destroy_all(const char *data_dir, struct err *err)
{
        AUTO_CLOSE int data = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct instance in;
        int r;

        if (data < 0)
                return errno == ENOENT ? 0 : err_sys(err, -errno, "open data directory %s", data_dir);
        if (faccessat(data, "engine.json", F_OK, 0) < 0)
                return 0; /* no engine ever ran here */
        r = instance_take(data, &in, err);
        if (r < 0)
                return r;
        r = destroy_instance(&in, data, err);
        if (r < 0)
                instance_done(&in);
        else
                instance_give_up(&in);
        return r;
}
