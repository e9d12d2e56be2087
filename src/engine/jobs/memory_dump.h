/* memory_dump.h - stopping a sandbox's processes and writing their memory down: what pauses and copies begin with. */
#pragma once
#include "engine/checkpoint/image_sums.h"
#include "engine/jobs/job_process.h"

struct memory_dump {
        const struct job_conf *conf; /* borrowed, as all pointers */
        const char *id, *checkpoint; /* checkpoint NULL: its memory is not wanted */
        const struct job_namespace *sandbox;
        bool is_durable; /* the images are given to the disk as they grow */
        int dir;         /* sandboxes/<id> */
        /* The images are written, nothing has moved since, and what CRIU put into the file system for their sake is still
         * there.  Negative: they are in vain. */
        int (*on_written)(void *arg, struct err *err);
        void *arg;
        /* the dump's own */
        bool is_made;       /* the checkpoint's directory, by us */
        int checkpoint_dir; /* owned, as the next */
        int images;
        char envd_found[RECORD_HASH_MAX];
        uint64_t criu_frozen_us;
        struct image_sums sums;
};

/* What may be set then: is_durable, on_written, arg; dir must. */
void memory_dump_init(struct memory_dump *d, const struct job_conf *c, const char *id, const char *checkpoint,
                      const struct job_namespace *sandbox);
/* Freeze, and wait for it. */
int memory_dump_freeze(const struct memory_dump *d, struct err *err);
void memory_dump_thaw(const struct memory_dump *d);
/* After a failure: when it failed because the sandbox is ending, that has an end; then the engine knows, too. */
void memory_dump_await_end(const struct memory_dump *d);
/* Frozen, and still so afterwards: images into checkpoints/<checkpoint>, which must not be there. */
int memory_dump_write(struct memory_dump *d, struct err *err);
/* What was written goes. */
void memory_dump_discard(const struct memory_dump *d);
/* Sum them up and write the manifest; frozen or not. */
int memory_dump_finish(struct memory_dump *d, uint64_t *ret_bytes, struct err *err);
