#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/checkpoint.h"
#include "engine/criu_log.h"
#include "engine/still.h"
#include "engine/sums.h"
#include "engine/worker.h"
#include "engine/worker_envd.h"
#include "engine/worker_files.h"
#include "sys/fs.h"

#define FREEZE_MS 10000
/* What CRIU needs to restore them grows by the square of their number, as does its time: more would be saved in minutes, and
 * could not be brought back within SPARE_MEMORY (worker_wake.c). */
#define PROCESSES_MAX 1000u

struct pausing {
        const struct worker_conf *conf;
        const char *id;
        struct still still;
        unsigned slot;
        pid_t pid;
        bool is_durable;
        int dir; /* sandboxes/<id> */
        uint64_t bytes;
        struct sums sums;
        uint64_t began_us, frozen_us, dumped_us, summed_us; /* when each was done */
};

static int stop_processes(const struct pausing *p, struct err *err)
{
        int r = cgroups_freeze(p->conf->cgroups, p->slot, true);

        if (r == -EOPNOTSUPP)
                return err_set(err, ERR_UNAVAILABLE, "this host has no cgroup v2 hierarchy to freeze sandboxes with");
        if (r == 0)
                r = cgroups_wait_frozen(p->conf->cgroups, p->slot, FREEZE_MS);
        if (r == -ETIMEDOUT)
                return err_set(err, ERR_CONFLICT, "its processes did not stop in %d ms", FREEZE_MS);
        return r < 0 ? err_sys(err, r, "freeze slot %u", p->slot) : 0;
}

/* ------------------------------------------------------------- its memory */

static int make_dirs(const struct pausing *p, int *ret_dir, int *ret_images, struct err *err)
{
        const char *cid = p->still.checkpoint;
        int at = p->conf->checkpoints_dir, dir;

        if (mkdirat(at, cid, 0711) < 0)
                return err_sys(err, -errno, "make checkpoint %s", cid);
        dir = sys_open_dir(at, cid);
        if (dir < 0)
                return err_sys(err, dir, "open checkpoint %s", cid);
        *ret_dir = dir;
        if (mkdirat(dir, CHECKPOINT_IMAGES, 0711) < 0)
                return err_sys(err, -errno, "make checkpoint %s", cid);
        *ret_images = sys_open_dir(dir, CHECKPOINT_IMAGES);
        return *ret_images < 0 ? err_sys(err, *ret_images, "open checkpoint %s", cid) : 0;
}

static int dump(const struct pausing *p, struct criu_stats *stats, struct err *err)
{
        AUTO_FREE char *images = NULL, *group = cgroups_v2_path(p->conf->cgroups, p->slot);
        struct criu_dump d = {.pid = p->pid, .freeze_cgroup = group};
        int r;

        if (asprintf(&images, "%s/checkpoints/%s/" CHECKPOINT_IMAGES, p->conf->data_path, p->still.checkpoint) < 0)
                images = NULL;
        if (!images || !group)
                return err_sys(err, -ENOMEM, "dump");
        d.images = images;
        r = criu_dump(&p->conf->tool, &d, stats, err);
        if (r < 0 && err->kind == ERR_CONFLICT) {
                struct err why = *err;

                return err_set(err, ERR_CONFLICT, "%.170s; pause with memory:false keeps the files", why.msg);
        }
        return r;
}

/* Set the disk to work on everything while the images are summed up: what keep_files() waits for is then little.  One wait
 * for all of them instead of one for each. */
static void *flush_early(void *arg)
{
        const struct pausing *p = arg;

        (void)syncfs(p->dir); /* if it fails, it does so again later */
        return NULL;
}

static int finish(struct pausing *p, int dir, const struct checkpoint_facts *f, struct err *err)
{
        pthread_t flusher;
        bool is_flushing = p->is_durable && pthread_create(&flusher, NULL, flush_early, p) == 0;
        int r;

        sums_stop(&p->sums);
        r = checkpoint_finish(dir, f, &p->sums, false, &p->bytes, err);

        p->summed_us = clock_mono_us();
        if (is_flushing)
                (void)pthread_join(flusher, NULL);
        return r;
}

/* CRIU would wait ten seconds for it to stop, twice, and then call it something else. */
static bool is_traced(const struct pausing *p, pid_t pid, struct err *err)
{
        char path[32], status[4096], name[CRIU_COMM_MAX] = "";
        const char *at, *end;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "%d/status", (int)pid);
        n = sys_read_at(p->conf->proc_dir, path, status, sizeof(status));
        at = n > 0 ? strstr(status, "\nTracerPid:\t") : NULL;
        if (!at || at[12] == '0')
                return false;
        end = strchr(status, '\n');
        if (end && end - status > 6)
                criu_log_printable((struct str){status + 6, (size_t)(end - status) - 6}, name, sizeof(name));
        (void)err_set(err, ERR_CONFLICT,
                      "pid %d (%s): another process traces it; pause with memory:false keeps the files",
                      (int)criu_log_inner_pid((struct str){status, (size_t)n}), name);
        return true;
}

static int check_processes(const struct pausing *p, struct err *err)
{
        static pid_t pids[PROCESSES_MAX];
        size_t n = 0;
        int r = cgroups_processes(p->conf->cgroups, p->slot, pids, PROCESSES_MAX, &n);

        if (r < 0)
                return err_sys(err, r, "count processes");
        if (n > PROCESSES_MAX)
                return err_set(err, ERR_CONFLICT,
                               "it has %zu processes, and no more than %u can be saved; pause with memory:false keeps "
                               "the files",
                               n, PROCESSES_MAX);
        for (size_t i = 0; i < n; i++)
                if (is_traced(p, pids[i], err))
                        return -EBUSY;
        return 0;
}

static int write_checkpoint(struct pausing *p, const json_t *job, struct err *err)
{
        struct checkpoint_facts f = {
                .uid_base = (uint32_t)json_integer_value(json_object_get(job, "uid_base")),
                .address = (uint32_t)json_integer_value(json_object_get(job, "address")),
        };
        const char *envd = json_string_value(json_object_get(job, "envd"));
        struct criu_stats stats = {0};
        AUTO_CLOSE int dir = -1, images = -1;
        int r;

        (void)snprintf(f.sandbox, sizeof(f.sandbox), "%s", p->id);
        (void)snprintf(f.envd, sizeof(f.envd), "%s", envd ? envd : "");
        r = check_processes(p, err);
        if (r == 0 && !f.envd[0])
                r = worker_envd_hash(p->conf->proc_dir, p->pid, f.envd, err);
        if (r == 0)
                r = worker_envd_keep(p->conf, f.envd, p->pid, err);
        if (r == 0)
                r = make_dirs(p, &dir, &images, err);
        if (r < 0)
                return r;
        sums_start(&p->sums, images, p->is_durable);
        r = dump(p, &stats, err);
        p->dumped_us = clock_mono_us();
        worker_point(p->conf, "dumped");
        f.frozen_us = stats.frozen_us;
        if (r == 0)
                r = finish(p, dir, &f, err);
        sums_stop(&p->sums); /* what it has open goes with us: to close a watch takes the kernel 15 ms */
        return r;
}

/* ------------------------------------------------------------- its files */

/* What its files are at this instant, on disk; then the word that it is at rest. */
static int keep_files(const struct pausing *p, struct err *err)
{
        if (p->is_durable && syncfs(p->dir) < 0)
                return err_sys(err, -errno, "flush its files");
        return still_write(p->dir, p->id, &p->still, p->is_durable, err);
}

static void undo(const struct pausing *p)
{
        int r;

        (void)still_remove(p->dir);
        if (p->still.checkpoint[0])
                worker_discard(p->conf, p->conf->checkpoints_dir, p->still.checkpoint);
        r = cgroups_freeze(p->conf->cgroups, p->slot, false);
        if (r < 0 && r != -EOPNOTSUPP)
                log_error("sandbox.stuck", "sandbox=%s slot=%u error=\"%s\"", p->id, p->slot, strerror(-r));
}

static int pause_it(struct pausing *p, const json_t *job, struct err *err)
{
        int r = stop_processes(p, err);

        p->frozen_us = p->dumped_us = clock_mono_us();
        worker_point(p->conf, "frozen");
        if (r == 0 && p->still.checkpoint[0])
                r = write_checkpoint(p, job, err);
        if (!p->still.checkpoint[0])
                p->summed_us = p->frozen_us;
        if (r == 0)
                r = keep_files(p, err);
        if (r < 0)
                undo(p);
        else
                worker_point(p->conf, "kept");
        return r;
}

int worker_pause(const struct worker_conf *c, const json_t *job, struct worker_result *ret, struct err *err)
{
        const char *checkpoint = json_string_value(json_object_get(job, "checkpoint"));
        struct pausing p = {.conf = c,
                            .id = json_string_value(json_object_get(job, "id")),
                            .slot = (unsigned)json_integer_value(json_object_get(job, "slot")),
                            .pid = (pid_t)json_integer_value(json_object_get(job, "pid")),
                            .is_durable = json_is_true(json_object_get(job, "durable")),
                            .began_us = clock_mono_us()};
        uint64_t now;
        int r;

        (void)snprintf(p.still.checkpoint, sizeof(p.still.checkpoint), "%s", checkpoint ? checkpoint : "");
        p.dir = sys_open_dir(c->sandboxes_dir, p.id);
        if (p.dir < 0)
                return err_sys(err, p.dir, "open directory of sandbox %s", p.id);
        r = pause_it(&p, job, err);
        if (r < 0)
                return r;
        now = clock_mono_us();
        log_debug("pause.steps", "sandbox=%s freeze_us=%llu dump_us=%llu images_us=%llu files_us=%llu", p.id,
                  (unsigned long long)(p.frozen_us - p.began_us), (unsigned long long)(p.dumped_us - p.frozen_us),
                  (unsigned long long)(p.summed_us - p.dumped_us), (unsigned long long)(now - p.summed_us));
        ret->body = json_pack("{s:I,s:I}", "bytes", (json_int_t)p.bytes, "frozen_us", (json_int_t)(now - p.began_us));
        return 0;
}
