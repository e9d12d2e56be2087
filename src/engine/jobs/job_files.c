#include "engine/jobs/job_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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
#include "engine/storage/trash.h"
#include "sys/fs.h"

#define COUNT_MAX 20000u /* entries looked at for a size, since a request waits for it */
#define COUNT_DEPTH_MAX 64u
#define TRACED_ROUNDS 2000u /* of 5 ms */

/* ------------------------------------------------------------- sizes, sealing */

struct size_count {
        uint64_t bytes;
        unsigned entries;
};

static void count_below(int at, const char *name, struct size_count *n, unsigned depth)
{
        int fd = sys_open_beneath(at, name, O_RDONLY | O_DIRECTORY, 0);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *e;
        struct stat st;

        while (d && n->entries < COUNT_MAX && (e = readdir(d))) {
                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                        continue;
                n->entries++;
                if (e->d_type == DT_DIR && depth < COUNT_DEPTH_MAX)
                        count_below(fd, e->d_name, n, depth + 1);
                else if (e->d_type == DT_REG && fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                        n->bytes += (uint64_t)st.st_blocks * 512u;
        }
        if (d)
                (void)closedir(d);
}

uint64_t job_size_of(int dir, const char *name)
{
        struct size_count n = {0};

        count_below(dir, name, &n, 0);
        return n.bytes;
}

/* Only the files of this sandbox: layers are shared with others. */
int job_measure(const struct job_conf *c, const struct job *job, struct job_answer *ret, struct err *err)
{
        const char *id = job->id;
        AUTO_CLOSE int dir = sys_open_dir(c->sandboxes_dir, id);
        struct size_count n = {0};

        if (dir == -ENOENT) /* control takes no sample then, as of any sandbox that does not run */
                return err_set(err, ERR_CONFLICT, "sandbox %s is being ended", id);
        if (dir < 0)
                return err_sys(err, dir, "open directory of sandbox %s", id);
        job_stall_point(c, "measuring");
        count_below(dir, "u", &n, 0);
        ret->disk_bytes = n.bytes;
        return 0;
}

/* Fine when the upper directory is that layer already: the job is repeated when its job process dies. */
static int move_upper(const struct job_conf *c, int dir, const char *layer, struct err *err)
{
        if (renameat2(dir, "u", c->sealed_dir, layer, RENAME_NOREPLACE) == 0) {
                trash_discard(c->trash_dir, dir, "w");
                return 0;
        }
        if (errno == ENOENT && faccessat(c->sealed_dir, layer, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return 0;
        if (errno == ENOENT)
                return err_set(err, ERR_INTERNAL, "it has no files of its own");
        return err_sys(err, -errno, "seal layer %s", layer);
}

/* paused.json names the layer before the upper directory becomes that layer.  A layer that nothing names may be dropped at any
 * time, and with it the only copy of the files.  A crash in between leaves the directory in place, and the name is removed
 * from paused.json again (adopt.c). */
static int seal_as(const struct job_conf *c, int dir, const char *id, struct paused *s, const char *layer,
                   struct err *err)
{
        const struct paused before = *s;
        struct err why = {0};
        int r;

        (void)snprintf(s->sealed, sizeof(s->sealed), "%s", layer);
        r = paused_write(dir, id, s, !s->boot_id[0], err);
        if (r < 0)
                return r;
        job_stall_point(c, "sealing");
        r = move_upper(c, dir, layer, err);
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
        struct size_count n = {0};
        struct paused s;
        int r;

        if (dir < 0)
                return err_sys(err, dir, "open directory of sandbox %s", id);
        r = paused_read(dir, id, &s, err);
        if (r == 0 && s.checkpoint[0] && !s.sealed[0])
                r = unlinked_files_put_back(dir, err);
        if (r == 0)
                r = seal_as(c, dir, id, &s, layer, err);
        if (r < 0)
                return r;
        job_stall_point(c, "moved");
        note_origin(c, dir, id, &s, job->seal.origin);
        count_below(c->sealed_dir, layer, &n, 0);
        ret->bytes = n.bytes;
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
        if (r == 0 && syncfs(dir) < 0)
                r = err_sys(err, -errno, "flush its files");
        s.boot_id[0] = '\0';
        return r < 0 ? r : paused_write(dir, id, &s, true, err);
}

/* ------------------------------------------------------------- waiting for another job process */

bool job_is_traced(const struct job_conf *c, pid_t pid)
{
        char path[48], text[4096];
        const char *at;

        (void)snprintf(path, sizeof(path), "%d/status", pid);
        if (sys_read_at(c->proc_dir, path, text, sizeof(text)) < 0)
                return false;
        at = strstr(text, "\nTracerPid:\t");
        return at && at[12] != '0';
}

/* The lock tells when the other job process is gone.  Its CRIU may end a moment later, and no event tells when. */
int job_recheck(const struct job_conf *c, const struct job *job, struct job_answer *ret, struct err *err)
{
        const struct timespec pause = {.tv_nsec = 5000000};
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
                for (unsigned i = 0; i < TRACED_ROUNDS && job_is_traced(c, rec.pid); i++)
                        (void)nanosleep(&pause, NULL);
                record_done(&rec);
        }
        (void)job_note_remove(dir); /* the disk answers, too: the engine is about to read the directory itself */
        return 0;
}
