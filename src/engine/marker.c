#include "engine/marker.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/helper.h"
#include "engine/remaps.h"
#include "engine/woken.h"
#include "engine/work_note.h"
#include "engine/worker.h"
#include "engine/worker_files.h"
#include "sys/fs.h"
#include "sys/proc.h"

static bool is_dead(pid_t pid)
{
        AUTO_CLOSE int fd = sys_pidfd_open(pid);

        return fd < 0 || sys_pidfd_is_dead(fd);
}

/* The order is that of woken.h.  A crash at any point of it leaves the sandbox at rest, or running: one that died while it was
 * frozen stays at rest. */
static int wakes(const struct worker_conf *c, const struct marker_order *o)
{
        AUTO_CLOSE int dir = sys_open_dir(c->sandboxes_dir, o->id);
        struct err err = {0};
        int r = dir;

        if (r >= 0)
                r = c->woken < 0 ? 0 : woken_mark(c->woken, o->turn, o->still.checkpoint, c->boot_id, &err);
        worker_point(c, "roused");
        if (r == 0)
                r = is_dead(o->pid) ? -ESRCH : still_remove(dir);
        return r == 0 && c->woken < 0 ? woken_flush(dir, &err) : r;
}

static int rests(const struct worker_conf *c, const struct marker_order *o)
{
        AUTO_CLOSE int dir = sys_open_dir(c->sandboxes_dir, o->id);
        struct err err = {0};
        int r = dir < 0 ? dir : still_write(dir, o->id, &o->still, true, &err);

        return r == 0 && c->woken >= 0 ? woken_unmark(c->woken, o->still.checkpoint, &err) : r;
}

/* This may come late.  Whoever pauses the sandbox holds the lock, and leaves still.json: names that are there then are new. */
static int runs(const struct worker_conf *c, const struct marker_order *o)
{
        AUTO_CLOSE int dir = work_lock(c->sandboxes_dir, o->id);
        struct still still;
        struct err err = {0};

        if (dir >= 0 && still_read(dir, o->id, &still, &err) < 0)
                worker_discard(c, dir, REMAPS_DIR);
        return 0;
}

static _Noreturn void run_marker(const struct worker_conf *c, int sock)
{
        struct marker_order o;

        while (recv(sock, &o, sizeof(o), 0) == (ssize_t)sizeof(o)) {
                o.result = o.what == MARK_WAKES ? wakes(c, &o) : o.what == MARK_RESTS ? rests(c, &o) : runs(c, &o);
                if (send(sock, &o, sizeof(o), MSG_NOSIGNAL) < 0)
                        break;
        }
        _exit(0);
}

int marker_fork(const struct worker_conf *c, int *ret_sock, struct err *err)
{
        int keep[] = {c->data_dir, c->sandboxes_dir, c->trash_dir, c->woken};
        int sock = -1;
        pid_t pid = helper_fork("sg-marker", keep, ARRAY_LEN(keep) - (c->woken < 0), &sock);

        if (pid < 0)
                return err_sys(err, pid, "fork marker");
        if (pid == 0)
                run_marker(c, sock);
        *ret_sock = sock;
        return 0;
}
