/* snapshots.h - the snapshots there are, by name or id: all in memory, as in the store.
 *
 * Snapshots of one name share a template id.  A name and tag that is used again moves to the new snapshot, and the snapshot
 * that had both before is removed. */
#pragma once
#include <stddef.h>

#include "base/list.h"
#include "model/snapshot.h"
#include "model/template_ref.h"

struct err;
struct refs;
struct store;
struct team;

#define SNAPSHOTS_MAX 65536

struct snapshot_entry {
        struct list node;
        struct snapshot snapshot;
};

struct snapshots {
        struct store *store; /* borrowed, as the next */
        struct refs *refs;
        struct list all; /* of struct snapshot_entry, owned; newest first */
        size_t count;
};

int snapshots_init(struct snapshots *ss, struct store *store, struct refs *refs, struct err *err);
void snapshots_done(struct snapshots *ss); /* also zeroed */

/* Written, but not yet on disk; sn is moved from.  From now on the row counts in refs.h.  ERR_LIMIT: there are too many. */
int snapshots_add(struct snapshots *ss, struct snapshot *sn, struct err *err);
/* A snapshot of the team, by [namespace/]name[:tag] or id[:tag]; borrowed until the next change.  ERR_NOT_FOUND with the texts for
 * templates. */
int snapshots_find(const struct snapshots *ss, const struct template_ref *ref, const struct team *team,
                   const struct snapshot **ret, struct err *err);
/* The template id that a name of the team has; NULL: the name is not in use. */
const char *snapshots_template_of(const struct snapshots *ss, const char *name, const struct team *team);
/* All snapshots with that template id are removed. */
int snapshots_remove(struct snapshots *ss, const char *template_id, struct err *err);
/* Replace its layers, in the store too. */
int snapshot_set_layers(struct snapshots *ss, struct snapshot *sn, json_t *layers, struct err *err);
