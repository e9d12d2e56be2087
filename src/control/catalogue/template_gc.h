/* template_gc.h - what no template needs any more is collected, at the start and then every few minutes: old builds that no tag
 * points to, logs of builds that are gone, builds that were requested and never started, uploads and cached steps that nobody has
 * used for long.  Layers and checkpoints follow by refs.h. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "io/loop.h"

struct build_logs;
struct layer_cache;
struct template_rows;
struct uploads;

struct template_gc_options { /* all borrowed */
        struct loop *loop;
        struct template_rows *rows;
        struct build_logs *logs;
        struct uploads *uploads;
        struct layer_cache *cache;
        size_t builds_kept;   /* builds_collect() */
        uint32_t cached_days; /* steps that were not used for so long; 0: for ever */
        const char *
                data_dir; /* with less than free_mb of room there, the cache is emptied, the least recently used steps first */
        uint32_t free_mb; /* 0: it stays */
        int64_t (*now_ns)(void);
};

struct template_gc {
        struct template_gc_options o;
        struct timer timer;
        struct timer look; /* at the room on the disk */
};

void template_gc_init(struct template_gc *gc, const struct template_gc_options *o);
void template_gc_done(struct template_gc *gc); /* also zeroed */
void template_gc_run(struct template_gc *gc);  /* now */
