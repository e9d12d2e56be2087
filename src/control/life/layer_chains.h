/* chains.h - long chains of sealed layers, shortened: the engine merges the oldest of them into one, in the background.
 *
 * One merge at a time.  Sealed layers never change, so it does not matter what runs on them meanwhile.  Afterwards every
 * snapshot that has exactly that run of layers takes the merged one instead, and so do sandboxes: at once those at rest
 * whose upper directory was sealed, the others when theirs is (struct life, `merged_layers`).  What nobody refers to then is
 * dropped as always. */
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
        json_t *run;       /* what is being merged; owned, and held; NULL: nothing */
        json_t *into;      /* list of the one name it becomes; owned, and held */
        struct list notes; /* struct layer_note, owned: what the engine is being told of new layers */
        json_t *failed;    /* owned: first layers of runs that could not be merged, until every other had its turn */
};

void layer_chains_init(struct layer_chains *ch, struct loop *loop, struct engine_link *engine, struct refs *refs,
                       struct lives *lives, struct snapshots *snapshots);
void layer_chains_done(struct layer_chains *ch); /* also zeroed */
void layer_chains_look(struct layer_chains *ch); /* there may be something to do */
