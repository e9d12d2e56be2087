/* refs.h - references to the checkpoints and sealed layers on the engine's disk: which of them may be deleted?
 *
 * Rows of the store name the checkpoints and layers they need.  A job under way holds names in memory, each name as often as it
 * likes.  Every known name that is in no row is in the store's table of disposable names: the name is written there before the
 * engine hears of it (refs_make), or in the same transaction as the row that lets go of it; the name is taken out in the same
 * transaction as the row that takes it.  So after any crash the store says what may be deleted, and the engine deletes
 * nothing else.  Names that only the engine knows (refs_unknown) are not this store's to delete.
 *
 * A disposable name without holds is dropped, after a flush of the store: a row that a power cut brings back must not name
 * files that are gone.  The name leaves the table when the engine has said that the files are gone. */
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
        struct list unused;   /* names in no row and without holds, to be dropped */
        struct list dropping; /* names that the engine was asked to drop */
        struct timer go;
        struct durable_waiter flushed;
        struct engine_call drop;
        void (*on_dropped)(const char *name,
                           void *arg); /* the engine has said that the files are gone; NULL: not told */
        void *arg;
};

void refs_init(struct refs *r, struct loop *loop, struct store *store, struct engine_link *engine,
               struct durable *durable);
int refs_load(struct refs *r,
              struct err *err); /* reads the table; no name in it is dropped before refs_drop_unused() */
void refs_done(struct refs *r); /* also zeroed */

/* ---- jobs under way.  A checkpoint ("": none) and a list of layers (NULL: none); layers of templates are not counted. ---- */

/* Names of files that are to be made: written into the table of disposable names, and held.  All or nothing. */
int refs_make(struct refs *r, const char *checkpoint, const json_t *layers, struct err *err);
int refs_hold(struct refs *r, const char *checkpoint, const json_t *layers); /* all or nothing; -ENOMEM */
void refs_release(struct refs *r, const char *checkpoint, const json_t *layers);
/* Are the files of that name known to be on disk?  (Layers of templates are.)  Forgotten at a restart. */
bool refs_is_flushed(const struct refs *r, const char *name);
void refs_set_flushed(struct refs *r, const char *name);

/* ---- rows ---- */

struct refs_change { /* zeroed to begin with */
        json_t *taken, *left;
        bool has_begun;
};
/* Names that rows which are about to be written will have, and names that rows will not have any more.  -ENOMEM: call
 * refs_cancel(). */
int refs_take(struct refs *r, struct refs_change *c, const char *checkpoint, const json_t *layers);
int refs_leave(struct refs *r, struct refs_change *c, const char *checkpoint, const json_t *layers);
void refs_cancel(struct refs *r, struct refs_change *c);
/* Then the transaction: always with is_many, else only where the table changes.  Whatever refs_begin() returns, refs_end()
 * follows, with the result of the writes in between (or of refs_begin()).  is_fact: the names change hands in memory even if
 * they could not in the store. */
int refs_begin(struct refs *r, struct refs_change *c, bool is_many, struct err *err);
int refs_end(struct refs *r, struct refs_change *c, int result, bool is_fact, struct err *err);
int refs_load_row(struct refs *r, const char *checkpoint,
                  const json_t *layers); /* names of a row that is there; -ENOMEM */

/* ---- after a reconnect ---- */

/* Every row has been compared with the engine: names that are in the table and in no row may be dropped. */
void refs_drop_unused(struct refs *r);
/* Of the names on the engine's disk those that are in no row, not in the table, and held by no job.  New reference. */
json_t *refs_unknown(const struct refs *r, const json_t *names);
