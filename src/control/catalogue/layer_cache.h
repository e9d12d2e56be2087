/* layer_cache.h - finished steps of builds, by key (model/build/build_key.h): which layer a step made, and the context after it.
 *
 * Rows are in the store; layers that they name count in refs.h.  A row is added when its layer is on disk. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "model/ids.h"

struct err;
struct refs;
struct store;

#define LAYER_CACHE_SHARED INT64_C(0) /* as a team: for all teams (layers of images, recipes) */

struct layer_cache {
        struct store *store; /* borrowed, as the next */
        struct refs *refs;
        int64_t (*now_ns)(void);
        size_t count;
};

struct cached_step {
        char layer[SEALED_ID_MAX]; /* "": the step changed no file */
        json_t *context;           /* owned: {"env","user","workdir"} */
};
void cached_step_done(struct cached_step *c); /* zeroed is fine */

int layer_cache_init(struct layer_cache *c, struct store *store, struct refs *refs, int64_t (*now_ns)(void),
                     struct err *err);

/* 1: found, and noted as used; *ret is the caller's.  0: there is none.  The layer stays while a row or a hold has it: hold it
 * (refs_hold) before the loop goes on. */
int layer_cache_find(struct layer_cache *c, int64_t team, const char *key, struct cached_step *ret, struct err *err);
/* layer: "": none.  What was there under the key is replaced. */
int layer_cache_add(struct layer_cache *c, int64_t team, const char *key, const char *layer, const json_t *context,
                    struct err *err);
int layer_cache_remove(struct layer_cache *c, int64_t team, const char *key,
                       struct err *err); /* fine when it is not there */
/* Remove rows that were not used since `before_ns`, and the least recently used until at most `most` are left.  Returns how
 * many were removed. */
size_t layer_cache_trim(struct layer_cache *c, int64_t before_ns, size_t most);
/* All of a team (LAYER_CACHE_SHARED: the shared ones).  `each` gets the layer ("": none). */
int layer_cache_each(struct layer_cache *c,
                     int (*each)(int64_t team, const char *key, const char *layer, int64_t used_ns, void *arg),
                     void *arg, struct err *err);
