/* worker_dump.h - stopping a sandbox's processes and writing their memory down: what pauses and copies begin with. */
#pragma once
#include "engine/sums.h"
#include "engine/worker.h"

struct worker_dump {
        const struct worker_conf *conf; /* borrowed, as all pointers */
        const char *id, *checkpoint;
        unsigned slot;
        pid_t pid;
        uint32_t uid_base, address;
        const char *envd; /* its hash; NULL, "": to be found out */
        bool is_durable;  /* the images are given to the disk as they grow */
        int dir;          /* sandboxes/<id> */
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
        struct sums sums;
};

void worker_dump_init(struct worker_dump *d, const struct worker_conf *c, const json_t *job);
/* Freeze, and wait for it. */
int worker_dump_freeze(const struct worker_dump *d, struct err *err);
void worker_dump_thaw(const struct worker_dump *d);
/* After a failure: when it failed because the sandbox is ending, that has an end; then the engine knows, too. */
void worker_dump_await_end(const struct worker_dump *d);
/* Frozen, and still so afterwards: images into checkpoints/<checkpoint>, which must not be there. */
int worker_dump_write(struct worker_dump *d, struct err *err);
/* What was written goes. */
void worker_dump_discard(const struct worker_dump *d);
/* Sum them up and write the manifest; frozen or not. */
int worker_dump_finish(struct worker_dump *d, uint64_t *ret_bytes, struct err *err);
