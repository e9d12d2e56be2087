/* build_keep.h - results of steps on their way into the cache: a row of the cache may name a layer only when the layer is on
 * disk (layer_cache.h), and no step waits for a disk.
 *
 * Results are found here at once, by all builds.  They are written down when the engine has flushed their layers: after a while,
 * or when a build that needs them is about to be ready.  One flush covers every layer that was made before it began. */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "base/list.h"
#include "control/engine_link/engine_link.h"
#include "io/loop.h"
#include "model/build/build_key.h"
#include "model/ids.h"

struct cached_step;
struct err;
struct layer_cache;
struct refs;

struct build_keep {
        struct loop *loop;
        struct engine_link *engine; /* borrowed, as the next two */
        struct refs *refs;
        struct layer_cache *cache;
        struct list unwritten; /* struct kept_step, owned; oldest first */
        uint64_t last;         /* number of the newest result */
        struct timer later;
        struct engine_call flush;
        uint64_t flushing; /* the flush under way covers results up to this number */
};

void build_keep_init(struct build_keep *k, struct loop *loop, struct engine_link *engine, struct refs *refs,
                     struct layer_cache *cache);
void build_keep_done(struct build_keep *k); /* also zeroed */

/* A step has made `layer` ("": it changed no file); the context is borrowed.  -ENOMEM: it is not kept. */
int build_keep_add(struct build_keep *k, int64_t team, const struct build_key *key, const char *layer,
                   const json_t *context);
/* From here, else from the cache.  As layer_cache_find(). */
int build_keep_find(struct build_keep *k, int64_t team, const struct build_key *key, struct cached_step *ret,
                    struct err *err);
/* The engine has flushed all layers that were made when the newest result was `upto` (k->last). */
void build_keep_write(struct build_keep *k, uint64_t upto);
