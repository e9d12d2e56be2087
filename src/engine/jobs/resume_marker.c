#include "engine/jobs/resume_marker.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/host/helper.h"
#include "engine/checkpoint/unlinked_files.h"
#include "engine/checkpoint/used_checkpoints.h"
#include "engine/records/job_note.h"
#include "engine/jobs/job_process.h"
#include "sys/fs.h"
#include "sys/proc.h"

static bool is_dead(pid_t pid)
{
        AUTO_CLOSE int fd = sys_pidfd_open(pid);

        return fd < 0 || sys_pidfd_is_dead(fd);
}

/* In the order of used_checkpoints.h.  A crash at any point leaves the sandbox paused, or running.  A sandbox that died while it
 * was frozen stays paused. */
static int mark_resumes(const struct job_conf *c, const struct resume_marker_order *o)
{
        AUTO_CLOSE int dir = sys_open_dir(c->sandboxes_dir, o->id);
        struct err err = {0};
        int r = dir;

        if (r >= 0)
                r = c->used_checkpoints < 0 ? 0
                                            : used_checkpoints_mark(c->used_checkpoints, o->turn, o->paused.checkpoint,
                                                                    c->boot_id, &err);
        job_stall_point(c, "thawing");
        if (r == 0)
                r = is_dead(o->pid) ? -ESRCH : paused_remove(dir);
        return r == 0 && c->used_checkpoints < 0 ? used_checkpoints_flush(dir, &err) : r;
}

static int mark_paused(const struct job_conf *c, const struct resume_marker_order *o)
{
        AUTO_CLOSE int dir = sys_open_dir(c->sandboxes_dir, o->id);
        struct err err = {0};
        int r = dir < 0 ? dir : paused_write(dir, o->id, &o->paused, true, &err);

        return r == 0 && c->used_checkpoints >= 0
                       ? used_checkpoints_unmark(c->used_checkpoints, o->paused.checkpoint, &err)
                       : r;
}

/* This may come late.  A job process that pauses the sandbox meanwhile holds the lock, and leaves paused.json: then the names that
 * are there are new ones. */
static int mark_runs(const struct job_conf *c, const struct resume_marker_order *o)
{
        AUTO_CLOSE int dir = job_lock(c->sandboxes_dir, o->id);
        const struct writable w = job_writable(c, dir);
        struct paused paused;
        struct err err = {0};

        if (dir >= 0 && paused_read(dir, o->id, &paused, &err) < 0)
                (void)writable_names_discard(&w);
        return 0;
}

static _Noreturn void resume_marker_serve(const struct job_conf *c, int sock)
{
        struct resume_marker_order o;

        while (recv(sock, &o, sizeof(o), 0) == (ssize_t)sizeof(o)) {
                o.result = o.what == MARK_RESUMES  ? mark_resumes(c, &o)
                           : o.what == MARK_PAUSED ? mark_paused(c, &o)
                                                   : mark_runs(c, &o);
                if (send(sock, &o, sizeof(o), MSG_NOSIGNAL) < 0)
                        break;
        }
        _exit(0);
}

int resume_marker_fork(const struct job_conf *c, int *ret_sock, struct err *err)
{
        int keep[] = {c->data_dir, c->sandboxes_dir, c->trash_dir, c->used_checkpoints};
        int sock = -1;
        pid_t pid = helper_fork("sg-resume-mark", keep, ARRAY_LEN(keep) - (c->used_checkpoints < 0), &sock);

        if (pid < 0)
                return err_sys(err, pid, "fork marker");
        if (pid == 0)
                resume_marker_serve(c, sock);
        *ret_sock = sock;
        return 0;
}
