/* job_pause.c - a running sandbox is paused.
 *
 *   freeze → CRIU writes the images, if its memory is wanted → manifest → files to the disk → paused.json
 *
 * Any step that fails leads back: what was written is discarded, and the sandbox is thawed (pause_undo). */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/records/origin.h"
#include "engine/checkpoint/unlinked_files.h"
#include "engine/records/paused.h"
#include "engine/jobs/job_process.h"
#include "engine/jobs/memory_dump.h"
#include "sys/fs.h"

struct pausing {
        struct memory_dump dump;
        struct writable writable; /* its files */
        struct paused paused;
        const json_t *origin; /* borrowed; NULL: none */
        uint64_t bytes;
        uint64_t began_us, frozen_us, dumped_us, summed_us; /* when each was done */
};

/* ------------------------------------------------------------- its memory */

/* The disk writes everything while the images are summed up.  Little is then left for keep_files() to wait for. */
static void *flush_early(void *arg)
{
        const struct pausing *p = arg;
        struct err none = {0};

        (void)writable_flush(&p->writable, &none); /* keep_files() does so again, and sees the error */
        return NULL;
}

static int finish_checkpoint(struct pausing *p, struct err *err)
{
        pthread_t flusher;
        bool is_flushing = p->dump.is_durable && pthread_create(&flusher, NULL, flush_early, p) == 0;
        int r = memory_dump_finish(&p->dump, &p->bytes, err);

        p->summed_us = clock_mono_us();
        if (is_flushing)
                (void)pthread_join(flusher, NULL);
        return r;
}

/* CRIU's hook: files that are open and have no name any more are kept (unlinked_files.h). */
static int keep_names(void *arg, struct err *err)
{
        const struct pausing *p = arg;

        (void)writable_names_discard(&p->writable); /* of a dump that failed */
        return unlinked_files_keep(p->dump.images, &p->writable, err);
}

static int write_checkpoint(struct pausing *p, struct err *err)
{
        int r = memory_dump_write(&p->dump, err);

        p->dumped_us = clock_mono_us();
        job_stall_point(p->dump.conf, "dumped");
        return r < 0 ? r : finish_checkpoint(p, err);
}

/* ------------------------------------------------------------- its files */

/* The files to the disk as they are now; then paused.json. */
static int keep_files(const struct pausing *p, struct err *err)
{
        const struct memory_dump *d = &p->dump;
        int r;

        origin_write(d->dir, d->id, p->origin);
        r = d->is_durable ? writable_flush(&p->writable, err) : 0;
        return r < 0 ? r : paused_write(d->dir, d->id, &p->paused, d->is_durable, err);
}

static void pause_undo(const struct pausing *p)
{
        const struct memory_dump *d = &p->dump;

        (void)paused_remove(d->dir);
        memory_dump_discard(d);
        (void)writable_names_discard(&p->writable);
        memory_dump_thaw(d);
        memory_dump_await_end(d);
}

static int pause_sandbox(struct pausing *p, struct err *err)
{
        int r = memory_dump_freeze(&p->dump, err);

        p->frozen_us = p->dumped_us = p->summed_us = clock_mono_us();
        job_stall_point(p->dump.conf, "frozen");
        if (r == 0 && p->dump.checkpoint)
                r = write_checkpoint(p, err);
        if (r == 0)
                r = keep_files(p, err);
        if (r < 0)
                pause_undo(p);
        else
                job_stall_point(p->dump.conf, "kept");
        return r;
}

int job_pause(const struct job_conf *c, const struct job *job, struct job_answer *ret, struct err *err)
{
        const struct job_pause *how = &job->pause;
        struct pausing p = {.origin = how->origin, .began_us = clock_mono_us()};
        uint64_t now;
        int r;

        memory_dump_init(&p.dump, c, job->id, how->checkpoint, &how->namespace);
        p.dump.is_durable = how->is_durable;
        p.paused.kind = job->note.facts.kind;
        (void)snprintf(p.paused.checkpoint, sizeof(p.paused.checkpoint), "%s",
                       p.dump.checkpoint ? p.dump.checkpoint : "");
        if (!p.dump.is_durable)
                memcpy(p.paused.boot_id, c->boot_id, sizeof(p.paused.boot_id));
        p.dump.dir = sys_open_dir(c->sandboxes_dir, p.dump.id);
        if (p.dump.dir < 0)
                return err_sys(err, p.dump.dir, "open directory of sandbox %s", p.dump.id);
        p.dump.on_written = keep_names;
        p.dump.arg = &p;
        p.writable = job_writable(c, p.dump.dir);
        (void)writable_names_discard(&p.writable); /* of a pause that ended with a thaw */
        r = pause_sandbox(&p, err);
        if (r < 0)
                return r;
        now = clock_mono_us();
        log_debug("pause.steps", "sandbox=%s freeze_us=%llu dump_us=%llu images_us=%llu files_us=%llu", p.dump.id,
                  (unsigned long long)(p.frozen_us - p.began_us), (unsigned long long)(p.dumped_us - p.frozen_us),
                  (unsigned long long)(p.summed_us - p.dumped_us), (unsigned long long)(now - p.summed_us));
        ret->bytes = p.bytes;
        ret->frozen_us = now - p.began_us;
        return 0;
}
