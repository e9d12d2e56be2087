/* job_copy.c - a copy of a running sandbox.  The sandbox stands still only until its memory and its files are written; then the
 * same processes go on, with the same connections.
 *
 *   measure the upper directory → freeze → CRIU writes the images → before CRIU is done, the upper directory is copied beside
 *   them → thaw → manifest → the copy becomes a layer: checkpoint and layer are complete, and belong together */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/records/origin.h"
#include "engine/jobs/job_process.h"
#include "engine/jobs/memory_dump.h"
#include "sys/fs.h"

struct copying {
        struct memory_dump dump;
        struct writable writable; /* its files */
        const char *layer;
        const json_t *origin; /* borrowed; NULL: none */
        struct tree_size files;
        uint64_t bytes;
        uint64_t began_us, frozen_us, written_us, copied_us, thawed_us; /* when each was done */
};

/* CRIU's hook.  A file that is open and has lost one of its names has a new name from CRIU now, beside the old one.  Processes
 * that are restored from the images look for the file under that name, in the copy. */
static int copy_files(void *arg, struct err *err)
{
        struct copying *c = arg;
        int r;

        c->written_us = clock_mono_us();
        r = writable_copy(&c->writable, &c->files, err);
        job_stall_point(c->dump.conf, "copied");
        c->copied_us = clock_mono_us();
        return r;
}

static int copy_frozen(struct copying *c, struct err *err)
{
        int r = memory_dump_freeze(&c->dump, err);

        c->frozen_us = clock_mono_us();
        job_stall_point(c->dump.conf, "frozen");
        if (r == 0)
                r = memory_dump_write(&c->dump, err);
        job_stall_point(c->dump.conf, "dumped");
        memory_dump_thaw(&c->dump);
        c->thawed_us = clock_mono_us();
        return r;
}

static int copy_sandbox(struct copying *c, struct err *err)
{
        int r = writable_copy_measure(&c->writable, &c->files, err);

        if (r < 0)
                return r;
        r = copy_frozen(c, err);
        job_stall_point(c->dump.conf, "thawed");
        if (r == 0)
                origin_write(c->dump.checkpoint_dir, c->dump.checkpoint, c->origin);
        if (r == 0)
                r = memory_dump_finish(&c->dump, &c->bytes, err);
        if (r == 0)
                r = writable_copy_seal(&c->writable, c->layer, err); /* now it is found as a layer, and is whole */
        if (r < 0) {
                memory_dump_discard(&c->dump);
                (void)writable_copy_discard(&c->writable);
                memory_dump_await_end(&c->dump);
        }
        job_stall_point(c->dump.conf, "sealed");
        return r;
}

int job_copy(const struct job_conf *conf, const struct job *job, struct job_answer *ret, struct err *err)
{
        const struct job_copy *how = &job->copy;
        struct copying c = {.layer = how->layer, .origin = how->origin, .began_us = clock_mono_us()};
        int r;

        memory_dump_init(&c.dump, conf, job->id, how->checkpoint, &how->namespace);
        c.dump.on_written = copy_files;
        c.dump.arg = &c;
        c.dump.dir = sys_open_dir(conf->sandboxes_dir, c.dump.id);
        if (c.dump.dir < 0)
                return err_sys(err, c.dump.dir, "open directory of sandbox %s", c.dump.id);
        c.writable = job_writable(conf, c.dump.dir);
        r = copy_sandbox(&c, err);
        if (r < 0)
                return r;
        log_debug("copy.steps", "sandbox=%s freeze_us=%llu dump_us=%llu files_us=%llu thaw_us=%llu rest_us=%llu",
                  c.dump.id, (unsigned long long)(c.frozen_us - c.began_us),
                  (unsigned long long)(c.written_us - c.frozen_us), (unsigned long long)(c.copied_us - c.written_us),
                  (unsigned long long)(c.thawed_us - c.copied_us), (unsigned long long)(clock_mono_us() - c.thawed_us));
        ret->bytes = c.bytes;
        ret->layer_bytes = c.files.bytes;
        ret->frozen_us = c.thawed_us - c.began_us;
        return 0;
}
