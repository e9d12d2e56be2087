#include "engine/jobs/job_files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/records/origin.h"
#include "engine/checkpoint/unlinked_files.h"
#include "engine/records/paused.h"
#include "engine/records/job_note.h"
#include "sys/fs.h"

#define TRACED_MS_MAX 600000u /* as long as a dump may take (criu.c) */
#define TRACED_STEP_MS 5u
#define DYING_MS 5000

/* ------------------------------------------------------------- sizes, sealing */

/* Only the files of this sandbox: layers are shared with others. */
int job_measure(const struct job_conf *c, const struct job *job, struct job_answer *ret, struct err *err)
{
        const char *id = job->id;
        AUTO_CLOSE int dir = sys_open_dir(c->sandboxes_dir, id);
        const struct writable w = job_writable(c, dir);

        if (dir == -ENOENT) /* control takes no sample then, as of any sandbox that does not run */
                return err_set(err, ERR_CONFLICT, "sandbox %s is being ended", id);
        if (dir < 0)
                return err_sys(err, dir, "open directory of sandbox %s", id);
        job_stall_point(c, "measuring");
        ret->disk_bytes = writable_measure(&w).bytes;
        return 0;
}

/* paused.json names the layer before the files become that layer.  A layer that nothing names may be dropped at any
 * time, and with it the only copy of the files.  A crash in between leaves the files in place, and the name is removed
 * from paused.json again (adopt.c). */
static int seal_as(const struct job_conf *c, int dir, const struct job *job, struct paused *s, struct err *err)
{
        const struct writable w = job_writable(c, dir);
        const char *id = job->id, *layer = job->seal.layer;
        const struct paused before = *s;
        struct err why = {0};
        int r;

        (void)snprintf(s->sealed, sizeof(s->sealed), "%s", layer);
        r = paused_write(dir, id, s, !s->boot_id[0], err);
        if (r < 0)
                return r;
        job_stall_point(c, "sealing");
        r = writable_seal(&w, job->seal.below, layer, err);
        if (r < 0 && paused_write(dir, id, &before, !s->boot_id[0], &why) < 0)
                log_error("paused.stale", "sandbox=%s error=\"%s\"", id, why.msg);
        return r;
}

/* Beside the checkpoint too: it may outlive the sandbox. */
static void note_origin(const struct job_conf *c, int dir, const char *id, const struct paused *s, const json_t *origin)
{
        AUTO_CLOSE int checkpoint = s->checkpoint[0] ? sys_open_dir(c->checkpoints_dir, s->checkpoint) : -1;

        origin_write(dir, id, origin);
        if (checkpoint >= 0)
                origin_write(checkpoint, s->checkpoint, origin);
}

int job_seal(const struct job_conf *c, const struct job *job, struct job_answer *ret, struct err *err)
{
        const char *id = job->id;
        const char *layer = job->seal.layer;
        AUTO_CLOSE int dir = sys_open_dir(c->sandboxes_dir, id);
        const struct writable w = job_writable(c, dir);
        struct paused s;
        int r;

        if (dir < 0)
                return err_sys(err, dir, "open directory of sandbox %s", id);
        r = paused_read(dir, id, &s, err);
        if (r == 0 && s.checkpoint[0] && !s.sealed[0])
                r = unlinked_files_put_back(&w, err);
        if (r == 0)
                r = seal_as(c, dir, job, &s, err);
        if (r < 0)
                return r;
        job_stall_point(c, "moved");
        note_origin(c, dir, id, &s, job->seal.origin);
        ret->bytes = tree_size_of(c->sealed_dir, layer).bytes;
        return 0;
}

/* ------------------------------------------------------------- flushing */

static int flush_layer(const struct job_conf *c, const char *layer, struct err *err)
{
        AUTO_CLOSE int dir = sys_open_dir(c->sealed_dir, layer);

        if (dir < 0)
                return err_sys(err, dir, "layer '%s'", layer);
        return syncfs(dir) < 0 ? err_sys(err, -errno, "flush layer '%s'", layer) : 0;
}

static int flush_checkpoint(const struct job_conf *c, const char *checkpoint, struct err *err)
{
        AUTO_CLOSE int dir = sys_open_dir(c->checkpoints_dir, checkpoint);

        return dir < 0 ? err_sys(err, dir, "checkpoint '%s'", checkpoint) : checkpoint_flush(dir, err);
}

int job_flush(const struct job_conf *c, const struct job *job, struct job_answer *ret, struct err *err)
{
        const struct job_flush *what = &job->flush;
        int r = 0;

        (void)ret;
        job_stall_point(c, "flushing");
        if (what->checkpoint)
                r = flush_checkpoint(c, what->checkpoint, err);
        if (r == 0 && what->layer)
                r = flush_layer(c, what->layer, err);
        return r;
}

int job_make_durable(const struct job_conf *c, const struct job *job, struct job_answer *ret, struct err *err)
{
        const char *id = job->id;
        AUTO_CLOSE int dir = sys_open_dir(c->sandboxes_dir, id);
        const struct writable w = job_writable(c, dir);
        struct paused s;
        int r;

        (void)ret;
        if (dir < 0)
                return err_sys(err, dir, "open directory of sandbox %s", id);
        r = paused_read(dir, id, &s, err);
        if (r == 0 && s.checkpoint[0])
                r = flush_checkpoint(c, s.checkpoint, err);
        if (r == 0 && s.sealed[0])
                r = flush_layer(c, s.sealed, err);
        if (r == 0)
                r = writable_flush(&w, err);
        s.boot_id[0] = '\0';
        return r < 0 ? r : paused_write(dir, id, &s, true, err);
}

/* ------------------------------------------------------------- waiting for another job process */

static pid_t read_tracer(const struct job_conf *c, pid_t pid)
{
        char path[48], text[4096];
        const char *at;

        (void)snprintf(path, sizeof(path), "%d/status", pid);
        if (sys_read_at(c->proc_dir, path, text, sizeof(text)) < 0)
                return 0;
        at = strstr(text, "\nTracerPid:\t");
        return at ? (pid_t)strtol(at + 12, NULL, 10) : 0;
}

bool job_is_traced(const struct job_conf *c, pid_t pid)
{
        return read_tracer(c, pid) > 0;
}

/* CRIU is the only one of ours who traces; others are of the sandbox itself.  0: it does not. */
static pid_t find_criu(const struct job_conf *c, pid_t pid)
{
        pid_t tracer = read_tracer(c, pid);
        struct stat st;
        char path[24];

        (void)snprintf(path, sizeof(path), "%d", (int)tracer);
        return tracer > 0 && fstatat(c->proc_dir, path, &st, 0) == 0 && st.st_uid == 0 ? tracer : 0;
}

/* A job process that died has left CRIU alone with the sandbox.  It comes to its end, unless the sandbox is killed meanwhile: then they
 * wait for each other (criu_process.c), and nobody else is there to see it. */
static void await_criu(const struct job_conf *c, pid_t pid)
{
        const struct timespec pause = {.tv_nsec = TRACED_STEP_MS * 1000000};
        pid_t criu;

        for (unsigned ms = 0; (criu = find_criu(c, pid)) > 0; ms += TRACED_STEP_MS) {
                if (sys_is_ending(c->proc_dir, pid) || ms >= TRACED_MS_MAX) {
                        log_warn("criu.killed", "pid=%d, its job process is gone and the sandbox waits for it",
                                 (int)criu);
                        (void)kill(getpgid(criu) == criu ? -criu : criu, SIGKILL); /* a leader: with its helpers */
                }
                if (ms >= 2 * TRACED_MS_MAX)
                        return;
                (void)nanosleep(&pause, NULL);
        }
}

/* One that is about to end would be taken for one that runs. */
static void await_end(const struct job_conf *c, pid_t pid)
{
        AUTO_CLOSE int fd = sys_is_ending(c->proc_dir, pid) ? sys_pidfd_open(pid) : -1;

        if (fd >= 0)
                (void)sys_pidfd_wait(fd, DYING_MS);
}

/* The lock tells when the other job process is gone.  Its CRIU may end a moment later, and no event tells when. */
int job_recheck(const struct job_conf *c, const struct job *job, struct job_answer *ret, struct err *err)
{
        const char *id = job->id;
        AUTO_CLOSE int dir = sys_open_dir(c->sandboxes_dir, id);
        struct record rec;
        struct err none;

        (void)ret;
        if (dir < 0)
                return err_sys(err, dir, "open directory of sandbox %s", id);
        while (flock(dir, LOCK_EX) < 0)
                if (errno != EINTR)
                        return err_sys(err, -errno, "wait for the job process of sandbox %s", id);
        if (record_read(dir, &rec, &none) == 0) {
                await_criu(c, rec.pid);
                await_end(c, rec.pid);
                record_done(&rec);
        }
        (void)job_note_remove(dir); /* the disk answers, too: the engine is about to read the directory itself */
        return 0;
}
