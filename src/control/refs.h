/* refs.h - who refers to the checkpoints and sealed layers on the engine's disk; what nobody refers to is dropped.
 *
 * Lives, snapshots and what is under way hold the names they need, each as often as it likes.  When the last hold goes,
 * the store is flushed first: a row that a power cut brings back must not name what is gone.  After a reconnect
 * refs_sweep() drops what is on the disk and held by nobody. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/map.h"
#include "control/durable.h"
#include "control/engine_link.h"

struct refs {
        struct loop *loop;
        struct engine_link *engine; /* borrowed, as the next */
        struct durable *durable;
        struct map by_name; /* -> struct ref, owned */
        struct list unused; /* those with no hold, to be dropped */
        struct timer go;
        struct durable_waiter flushed;
        struct engine_call drop;
};

void refs_init(struct refs *r, struct loop *loop, struct engine_link *engine, struct durable *durable);
void refs_done(struct refs *r); /* also zeroed */

/* A checkpoint ("": none) and a list of layers (NULL: none); layers of templates are not ours and pass.
 * All or nothing; -ENOMEM. */
int refs_hold(struct refs *r, const char *checkpoint, const json_t *layers);
void refs_release(struct refs *r, const char *checkpoint, const json_t *layers);
/* Is it known to be on disk?  (A name that is not ours is.)  Forgotten with the last hold, and at a restart. */
bool refs_is_flushed(const struct refs *r, const char *name);
void refs_set_flushed(struct refs *r, const char *name);

/* Lists of names on disk, as the engine gives them. */
void refs_sweep(struct refs *r, const json_t *checkpoints, const json_t *layers);
