#include "control/catalogue/snapshots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "control/access/keys.h"
#include "control/catalogue/refs.h"
#include "store/store.h"

static void snapshot_entry_free(struct snapshots *ss, struct snapshot_entry *e)
{
        list_remove(&e->node);
        snapshot_done(&e->snapshot);
        free(e);
        ss->count--;
}

/* Moves from sn on success. */
static int snapshot_entry_add(struct snapshots *ss, struct snapshot *sn)
{
        struct snapshot_entry *e = calloc(1, sizeof(*e));

        if (!e)
                return -ENOMEM;
        e->snapshot = *sn;
        *sn = (struct snapshot){0};
        list_push_front(&ss->all, &e->node);
        ss->count++;
        return 0;
}

static int snapshots_take_row(struct snapshot *row, void *arg)
{
        struct snapshots *ss = arg;
        int r = refs_load_row(ss->refs, row->checkpoint, row->layers);

        return r < 0 ? r : snapshot_entry_add(ss, row);
}

int snapshots_init(struct snapshots *ss, struct store *store, struct refs *refs, struct err *err)
{
        *ss = (struct snapshots){.store = store, .refs = refs};
        list_init(&ss->all);
        return store_snapshot_each(store, snapshots_take_row, ss, err);
}

void snapshots_done(struct snapshots *ss)
{
        while (ss->all.next && ss->all.next != &ss->all)
                snapshot_entry_free(ss, LIST_ENTRY(ss->all.next, struct snapshot_entry, node));
}

static struct snapshot_entry *snapshots_find_same(const struct snapshots *ss, const struct snapshot *sn)
{
        LIST_EACH (node, &ss->all) {
                struct snapshot_entry *e = LIST_ENTRY(node, struct snapshot_entry, node);

                if (strcmp(e->snapshot.template_id, sn->template_id) == 0 && strcmp(e->snapshot.tag, sn->tag) == 0)
                        return e;
        }
        return NULL;
}

static int snapshots_write_row(struct snapshots *ss, const struct snapshot *sn, const struct snapshot_entry *old,
                               struct err *err)
{
        struct refs_change change = {0};
        int r;

        if (refs_take(ss->refs, &change, sn->checkpoint, sn->layers) < 0 ||
            (old && refs_leave(ss->refs, &change, old->snapshot.checkpoint, old->snapshot.layers) < 0)) {
                refs_cancel(ss->refs, &change);
                return err_sys(err, -ENOMEM, "snapshot");
        }
        r = refs_begin(ss->refs, &change, true, err);
        if (r == 0 && old)
                r = store_snapshot_remove(ss->store, old->snapshot.id, err);
        if (r == 0)
                r = store_snapshot_add(ss->store, sn, err);
        return refs_end(ss->refs, &change, r, false, err);
}

int snapshots_add(struct snapshots *ss, struct snapshot *sn, struct err *err)
{
        struct snapshot_entry *old = snapshots_find_same(ss, sn);
        struct snapshot_entry *added;
        int r;

        if (ss->count >= SNAPSHOTS_MAX)
                return err_set(err, ERR_LIMIT, "there are %d snapshots, and no more are kept", SNAPSHOTS_MAX);
        r = snapshot_entry_add(ss, sn);
        if (r < 0)
                return err_sys(err, r, "snapshot");
        added = LIST_ENTRY(ss->all.next, struct snapshot_entry, node);
        r = snapshots_write_row(ss, &added->snapshot, old, err);
        if (r < 0) {
                *sn = added->snapshot; /* given back */
                added->snapshot = (struct snapshot){0};
                snapshot_entry_free(ss, added);
                return r;
        }
        if (old)
                snapshot_entry_free(ss, old);
        return 0;
}

static bool snapshot_is_named(const struct snapshot *sn, const char *name)
{
        return strcmp(sn->template_id, name) == 0 || (sn->name && strcmp(sn->name, name) == 0);
}

int snapshots_find(const struct snapshots *ss, const struct template_ref *ref, const struct team *team,
                   const struct snapshot **ret, struct err *err)
{
        bool is_foreign = ref->ns[0] && strcmp(ref->ns, team->slug) != 0, is_known = false;
        const char *slash = ref->ns[0] ? "/" : "";

        LIST_EACH (node, &ss->all) {
                const struct snapshot *sn = &LIST_ENTRY(node, struct snapshot_entry, node)->snapshot;

                if (is_foreign || sn->team != team->no || !snapshot_is_named(sn, ref->name))
                        continue;
                is_known = true;
                if (strcmp(sn->tag, ref->tag[0] ? ref->tag : "default") == 0 ||
                    (template_ref_is_newest(ref) && strcmp(sn->tag, "default") == 0)) {
                        *ret = sn;
                        return 0;
                }
        }
        if (is_known)
                return err_set(err, ERR_NOT_FOUND, "tag '%.60s' does not exist for template '%.60s%s%.60s'",
                               ref->tag[0] ? ref->tag : "default", ref->ns, slash, ref->name);
        return err_set(err, ERR_NOT_FOUND, "template '%.60s%s%.60s' not found", ref->ns, slash, ref->name);
}

const char *snapshots_template_of(const struct snapshots *ss, const char *name, const struct team *team)
{
        LIST_EACH (node, &ss->all) {
                const struct snapshot *sn = &LIST_ENTRY(node, struct snapshot_entry, node)->snapshot;

                if (sn->team == team->no && sn->name && strcmp(sn->name, name) == 0)
                        return sn->template_id;
        }
        return NULL;
}

static int snapshots_remove_rows(struct snapshots *ss, const char *template_id, struct err *err)
{
        struct refs_change change = {0};
        int r = 0;

        LIST_EACH (node, &ss->all) {
                const struct snapshot *sn = &LIST_ENTRY(node, struct snapshot_entry, node)->snapshot;

                if (r == 0 && strcmp(sn->template_id, template_id) == 0)
                        r = refs_leave(ss->refs, &change, sn->checkpoint, sn->layers);
        }
        if (r < 0) {
                refs_cancel(ss->refs, &change);
                return err_sys(err, r, "snapshot");
        }
        r = refs_begin(ss->refs, &change, true, err);
        LIST_EACH (node, &ss->all) {
                const struct snapshot *sn = &LIST_ENTRY(node, struct snapshot_entry, node)->snapshot;

                if (r == 0 && strcmp(sn->template_id, template_id) == 0)
                        r = store_snapshot_remove(ss->store, sn->id, err);
        }
        return refs_end(ss->refs, &change, r, false, err);
}

int snapshots_remove(struct snapshots *ss, const char *template_id, struct err *err)
{
        char id[TEMPLATE_ID_MAX]; /* the caller's may be in a snapshot that is removed */
        int r;

        memcpy(id, template_id, sizeof(id));
        r = snapshots_remove_rows(ss, id, err);
        if (r < 0)
                return r;
        LIST_EACH (node, &ss->all) {
                struct snapshot_entry *e = LIST_ENTRY(node, struct snapshot_entry, node);

                if (strcmp(e->snapshot.template_id, id) == 0)
                        snapshot_entry_free(ss, e);
        }
        return 0;
}

int snapshot_set_layers(struct snapshots *ss, struct snapshot *sn, json_t *layers, struct err *err)
{
        struct refs_change change = {0};
        int r;

        if (refs_take(ss->refs, &change, "", layers) < 0 || refs_leave(ss->refs, &change, "", sn->layers) < 0) {
                refs_cancel(ss->refs, &change);
                return err_sys(err, -ENOMEM, "snapshot");
        }
        r = refs_begin(ss->refs, &change, false, err);
        if (r == 0)
                r = store_snapshot_set_layers(ss->store, sn->id, layers, err);
        r = refs_end(ss->refs, &change, r, false, err);
        if (r < 0)
                return r;
        json_decref(sn->layers);
        sn->layers = json_incref(layers);
        return 0;
}
