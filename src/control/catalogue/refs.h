/* refs.h - who refers to the checkpoints and sealed layers on the engine's disk, and which of them may be deleted.
 *
 * Rows of the store name what they need; what is under way holds names in memory, each as often as it likes.  Every name that
 * is known and that no row has stands in the store's table of disposable ones: it is written there before the engine hears of
 * it (refs_make), or in the same transaction as the row that lets go of it, and taken out in the same transaction as the row
 * that takes it.  So after any crash the store says what may go; the engine deletes nothing else.  What it has and nobody knows
 * (refs_unknown) is not ours to delete.
 *
 * When nobody holds a disposable name it is dropped, after a flush of the store: a row that a power cut brings back must not
 * name what is gone.  It leaves the table when the engine has said that it is gone. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/map.h"
#include "control/catalogue/durable.h"
#include "control/engine_link/engine_link.h"

struct err;
struct store;

struct refs {
        struct loop *loop;
        struct store *store; /* borrowed, as the next two */
        struct engine_link *engine;
        struct durable *durable;
        struct map by_name;   /* -> struct ref, owned */
        struct list unused;   /* those in no row and with no hold, to be dropped */
        struct list dropping; /* those the engine was asked to drop */
        struct timer go;
        struct durable_waiter flushed;
        struct engine_call drop;
        void (*on_dropped)(const char *name, void *arg); /* NULL: nobody wants to know */
        void *arg;
};

void refs_init(struct refs *r, struct loop *loop, struct store *store, struct engine_link *engine,
               struct durable *durable);
int refs_load(struct refs *r, struct err *err); /* the table; nothing of it is dropped before refs_drop_unused() */
void refs_done(struct refs *r);                 /* also zeroed */

/* ---- what is under way.  A checkpoint ("": none) and a list of layers (NULL: none); layers of templates are not ours and
 * pass. ---- */

/* Names of what is to be made: written down as disposable, and held.  All or nothing. */
int refs_make(struct refs *r, const char *checkpoint, const json_t *layers, struct err *err);
int refs_hold(struct refs *r, const char *checkpoint, const json_t *layers); /* all or nothing; -ENOMEM */
void refs_release(struct refs *r, const char *checkpoint, const json_t *layers);
/* Is it known to be on disk?  (A name that is not ours is.)  Forgotten at a restart. */
bool refs_is_flushed(const struct refs *r, const char *name);
void refs_set_flushed(struct refs *r, const char *name);

/* ---- rows ---- */

struct refs_change { /* zeroed to begin with */
        json_t *taken, *left;
        bool has_begun;
};
/* What rows that are about to be written will name, and what rows will name no longer.  -ENOMEM: refs_cancel(). */
int refs_take(struct refs *r, struct refs_change *c, const char *checkpoint, const json_t *layers);
int refs_leave(struct refs *r, struct refs_change *c, const char *checkpoint, const json_t *layers);
void refs_cancel(struct refs *r, struct refs_change *c);
/* Then the transaction: always one with is_many, else only where the table changes.  Whatever it returns, refs_end() follows,
 * with the result of the writes in between (or of this call).  is_fact: the names change hands in memory even if they could
 * not in the store. */
int refs_begin(struct refs *r, struct refs_change *c, bool is_many, struct err *err);
int refs_end(struct refs *r, struct refs_change *c, int result, bool is_fact, struct err *err);
int refs_load_row(struct refs *r, const char *checkpoint,
                  const json_t *layers); /* names of a row that is there; -ENOMEM */

/* ---- after a reconnect ---- */

/* Every row is as it should be: what is in the table and in no row may go. */
void refs_drop_unused(struct refs *r);
/* Of names on the engine's disk those that neither a row nor the table nor anybody under way knows.  New reference. */
json_t *refs_unknown(const struct refs *r, const json_t *names);
