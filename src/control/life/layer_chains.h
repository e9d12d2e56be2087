/* layer_chains.h - long chains of sealed layers are shortened: the engine merges the oldest layers into one, in the background.
 *
 * One merge at a time.  Sealed layers never change, so sandboxes may run on them meanwhile.  Afterwards every snapshot that has
 * exactly that run of layers takes the merged layer instead, and so do sandboxes: paused ones whose upper directory was sealed
 * at once, the others when theirs is sealed (struct life, `merged_layers`).  Layers without references are then dropped as
 * always (refs.h). */
#pragma once
#include <jansson.h>

#include "base/list.h"
#include "control/engine_link/engine_link.h"
#include "io/loop.h"

struct lives;
struct refs;
struct snapshots;

struct layer_chains {
        struct loop *loop;
        struct engine_link *engine; /* borrowed, as the next three */
        struct refs *refs;
        struct lives *lives;
        struct snapshots *snapshots;
        struct task go;
        struct timer retry;
        struct engine_call merge;
        json_t *run;       /* the layers that are being merged; owned, and held; NULL: none */
        json_t *into;      /* list of one name: the layer they become; owned, and held */
        struct list notes; /* struct layer_note, owned: the engine is being told new layers */
        json_t *failed; /* owned: first layers of runs that could not be merged, until all other runs had their turn */
};

void layer_chains_init(struct layer_chains *ch, struct loop *loop, struct engine_link *engine, struct refs *refs,
                       struct lives *lives, struct snapshots *snapshots);
void layer_chains_done(struct layer_chains *ch); /* also zeroed */
void layer_chains_look(struct layer_chains *ch); /* there may be a chain that is too long */
