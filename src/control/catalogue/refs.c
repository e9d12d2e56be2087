#include "control/catalogue/refs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "model/ids.h"
#include "store/store.h"

#define DROP_TIMEOUT_MS 60000
#define DROP_MAX 256     /* names in one message */
#define DROP_AFTER_MS 50 /* the job that let go of the name has more to do, most often for a request that waits */
#define RETRY_MS 5000    /* after a failure of the store or the engine */
#define LEFT_MS 1000     /* the engine is still making the files */

struct ref {
        struct list node;   /* in `unused` or `dropping` */
        size_t rows;        /* how many rows of the store have the name */
        size_t holds;       /* by jobs under way */
        bool is_disposable; /* the name is in the store's table */
        bool is_flushed;
        char name[SEALED_ID_MAX > CHECKPOINT_ID_MAX ? SEALED_ID_MAX : CHECKPOINT_ID_MAX];
};

static bool ref_is_ours(const char *name)
{
        return name && (checkpoint_id_is_valid(str_of(name)) || sealed_id_is_valid(str_of(name)));
}

static struct ref *ref_find(const struct refs *r, const char *name)
{
        return ref_is_ours(name) ? map_get(&r->by_name, str_of(name)) : NULL;
}

/* NULL: out of memory. */
static struct ref *ref_find_or_add(struct refs *r, const char *name)
{
        struct ref *ref = ref_find(r, name);

        if (ref)
                return ref;
        ref = calloc(1, sizeof(*ref));
        if (!ref)
                return NULL;
        memcpy(ref->name, name, strlen(name) + 1);
        if (map_put(&r->by_name, str_of(name), ref, NULL) < 0) {
                free(ref);
                return NULL;
        }
        return ref;
}

static void ref_forget(struct refs *r, struct ref *ref)
{
        list_remove(&ref->node);
        (void)map_remove(&r->by_name, str_of(ref->name));
        free(ref);
}

static void refs_drop_in(struct refs *r, unsigned ms)
{
        if (!timer_is_armed(&r->go))
                timer_set(r->loop, &r->go, ms);
}

/* After a change of its rows or holds: a name without both is to be dropped. */
static void ref_requeue(struct refs *r, struct ref *ref)
{
        list_remove(&ref->node);
        if (ref->rows || ref->holds)
                return;
        list_push_back(&r->unused, &ref->node);
        refs_drop_in(r, DROP_AFTER_MS);
}

/* ---- jobs under way ---- */

static int ref_hold(struct refs *r, const char *name)
{
        struct ref *ref;

        if (!ref_is_ours(name))
                return 0;
        ref = ref_find_or_add(r, name);
        if (!ref)
                return -ENOMEM;
        ref->holds++;
        ref_requeue(r, ref);
        return 0;
}

static void ref_release(struct refs *r, const char *name)
{
        struct ref *ref = ref_find(r, name);

        if (!ref || !ref->holds)
                return;
        ref->holds--;
        ref_requeue(r, ref);
}

int refs_hold(struct refs *r, const char *checkpoint, const json_t *layers)
{
        size_t i;
        json_t *v;

        if (ref_hold(r, checkpoint) < 0)
                return -ENOMEM;
        json_array_foreach (layers, i, v) {
                if (ref_hold(r, json_string_value(v)) == 0)
                        continue;
                while (i-- > 0)
                        ref_release(r, json_string_value(json_array_get(layers, i)));
                ref_release(r, checkpoint);
                return -ENOMEM;
        }
        return 0;
}

void refs_release(struct refs *r, const char *checkpoint, const json_t *layers)
{
        size_t i;
        json_t *v;

        ref_release(r, checkpoint);
        json_array_foreach (layers, i, v)
                ref_release(r, json_string_value(v));
}

static int ref_write_disposable(struct refs *r, const char *name, struct err *err)
{
        struct ref *ref = ref_find(r, name);
        int res;

        if (!ref || ref->rows || ref->is_disposable)
                return 0;
        res = store_disposable_add(r->store, name, err);
        if (res == 0)
                ref->is_disposable = true;
        return res;
}

int refs_make(struct refs *r, const char *checkpoint, const json_t *layers, struct err *err)
{
        size_t i;
        json_t *v;
        int res;

        if (refs_hold(r, checkpoint, layers) < 0)
                return err_sys(err, -ENOMEM, "make names");
        res = ref_write_disposable(r, checkpoint,
                                   err); /* in no transaction: a name in the table without its files does no harm */
        json_array_foreach (layers, i, v)
                if (res == 0)
                        res = ref_write_disposable(r, json_string_value(v), err);
        if (res < 0)
                refs_release(r, checkpoint, layers);
        return res;
}

bool refs_is_flushed(const struct refs *r, const char *name)
{
        const struct ref *ref = ref_find(r, name);

        return !ref_is_ours(name) || (ref && ref->is_flushed);
}

void refs_set_flushed(struct refs *r, const char *name)
{
        struct ref *ref = ref_find(r, name);

        if (ref)
                ref->is_flushed = true;
}

/* ---- rows ---- */

static int name_list_add(json_t **list, const char *name)
{
        if (!*list)
                *list = json_array();
        return json_array_append_new(*list, json_string(name)) < 0 ? -ENOMEM : 0;
}

static int ref_take(struct refs *r, struct refs_change *c, const char *name)
{
        struct ref *ref;

        if (!ref_is_ours(name))
                return 0;
        if (name_list_add(&c->taken, name) < 0)
                return -ENOMEM;
        ref = ref_find_or_add(r, name);
        if (!ref) {
                (void)json_array_remove(c->taken, json_array_size(c->taken) - 1);
                return -ENOMEM;
        }
        ref->rows++;
        return 0;
}

static int ref_leave(struct refs *r, struct refs_change *c, const char *name)
{
        struct ref *ref = ref_find(r, name);

        if (!ref || !ref->rows)
                return 0;
        if (name_list_add(&c->left, name) < 0)
                return -ENOMEM;
        ref->rows--;
        return 0;
}

int refs_take(struct refs *r, struct refs_change *c, const char *checkpoint, const json_t *layers)
{
        int res = ref_take(r, c, checkpoint);
        size_t i;
        json_t *v;

        json_array_foreach (layers, i, v)
                if (res == 0)
                        res = ref_take(r, c, json_string_value(v));
        return res;
}

int refs_leave(struct refs *r, struct refs_change *c, const char *checkpoint, const json_t *layers)
{
        int res = ref_leave(r, c, checkpoint);
        size_t i;
        json_t *v;

        json_array_foreach (layers, i, v)
                if (res == 0)
                        res = ref_leave(r, c, json_string_value(v));
        return res;
}

static void refs_change_free(struct refs_change *c)
{
        json_decref(c->taken);
        json_decref(c->left);
        *c = (struct refs_change){0};
}

/* The change is made in memory: names that lost their last row are to be dropped. */
static void refs_change_requeue(struct refs *r, const struct refs_change *c)
{
        size_t i;
        json_t *v;

        json_array_foreach (c->taken, i, v)
                ref_requeue(r, ref_find(r, json_string_value(v)));
        json_array_foreach (c->left, i, v)
                ref_requeue(r, ref_find(r, json_string_value(v)));
}

/* A name that came with this change becomes unknown again: it must not be taken for a name that was let go of. */
void refs_cancel(struct refs *r, struct refs_change *c)
{
        size_t i;
        json_t *v;

        json_array_foreach (c->left, i, v)
                ref_find(r, json_string_value(v))->rows++;
        json_array_foreach (c->taken, i, v) {
                struct ref *ref = ref_find(r, json_string_value(v));

                ref->rows--;
                if (!ref->rows && !ref->holds && !ref->is_disposable && !list_is_hooked(&ref->node))
                        ref_forget(r, ref);
        }
        refs_change_free(c);
}

/* Change the table: add the names that no row has any more, or take out the names that a row has now.
 * do_it: write it, else only tell whether there is anything. */
static int refs_change_table(struct refs *r, const json_t *names, bool add, bool do_it, struct err *err)
{
        size_t i;
        json_t *v;
        int n = 0, res = 0;

        json_array_foreach (names, i, v) {
                const struct ref *ref = ref_find(r, json_string_value(v));

                if (ref->is_disposable == add || (ref->rows == 0) != add)
                        continue;
                n++;
                if (do_it && res == 0)
                        res = (add ? store_disposable_add : store_disposable_remove)(r->store, ref->name, err);
        }
        return res < 0 ? res : n;
}

int refs_begin(struct refs *r, struct refs_change *c, bool is_many, struct err *err)
{
        int res;

        if (!is_many &&
            refs_change_table(r, c->taken, false, false, err) + refs_change_table(r, c->left, true, false, err) == 0)
                return 0;
        res = store_begin(r->store, err);
        if (res < 0)
                return res;
        c->has_begun = true;
        res = refs_change_table(r, c->taken, false, true, err);
        if (res >= 0)
                res = refs_change_table(r, c->left, true, true, err);
        return res < 0 ? res : 0;
}

static void refs_table_written(struct refs *r, const json_t *names)
{
        size_t i;
        json_t *v;

        json_array_foreach (names, i, v) {
                struct ref *ref = ref_find(r, json_string_value(v));

                ref->is_disposable = ref->rows == 0;
        }
}

int refs_end(struct refs *r, struct refs_change *c, int result, bool is_fact, struct err *err)
{
        if (c->has_begun && result == 0)
                result = store_commit(r->store, err);
        if (c->has_begun && result < 0)
                store_rollback(r->store);
        if (result < 0 && !is_fact) {
                refs_cancel(r, c);
                return result;
        }
        if (result == 0) {
                refs_table_written(r, c->taken);
                refs_table_written(r, c->left);
        }
        refs_change_requeue(r, c);
        refs_change_free(c);
        return result;
}

int refs_load_row(struct refs *r, const char *checkpoint, const json_t *layers)
{
        struct refs_change c = {0};
        int res = refs_take(r, &c, checkpoint, layers);

        if (res < 0) {
                refs_cancel(r, &c);
                return res;
        }
        refs_change_requeue(r, &c);
        refs_change_free(&c);
        return 0;
}

/* ---- dropping ---- */

static void refs_put_back(struct refs *r)
{
        struct list *node;

        while ((node = list_pop_front(&r->dropping)))
                list_push_back(&r->unused, node);
}

/* The engine has said that the files are gone. */
static void ref_gone(struct refs *r, struct ref *ref)
{
        struct err err;

        if (store_disposable_remove(r->store, ref->name, &err) <
            0) /* after the next start the name is dropped again, in vain */
                log_warn("refs.drop", "name=%s failed=\"%s\"", ref->name, err.msg);
        if (r->on_dropped)
                r->on_dropped(ref->name, r->arg);
        ref_forget(r, ref);
}

static void refs_dropped(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct refs *r = CONTAINER_OF(c, struct refs, drop);
        struct list *node;
        bool has_begun;
        struct err why;
        size_t i;
        json_t *v;

        if (err) {
                log_warn("refs.drop", "failed=\"%s\", trying again", err->msg);
                refs_put_back(r);
                refs_drop_in(r, RETRY_MS);
                return;
        }
        json_array_foreach (json_object_get(answer, "left"), i, v) {
                struct ref *ref = ref_find(r, json_string_value(v));

                if (!ref)
                        continue;
                list_remove(&ref->node);
                list_push_back(&r->unused, &ref->node);
                refs_drop_in(r, LEFT_MS);
        }
        has_begun = store_begin(r->store, &why) == 0; /* one write for all names */
        while ((node = list_pop_front(&r->dropping)))
                ref_gone(r, LIST_ENTRY(node, struct ref, node));
        if (has_begun && store_commit(r->store, &why) < 0)
                store_rollback(r->store);
        if (!list_is_empty(&r->unused))
                refs_drop_in(r, DROP_AFTER_MS);
}

/* The table of disposable names is on disk. */
static void refs_flushed(struct durable_waiter *w, int result)
{
        struct refs *r = CONTAINER_OF(w, struct refs, flushed);
        json_t *checkpoints = json_array(), *layers = json_array();
        struct list *node;
        size_t n = 0;

        while (result == 0 && n < DROP_MAX && (node = list_pop_front(&r->unused))) {
                struct ref *ref = LIST_ENTRY(node, struct ref, node);

                list_push_back(&r->dropping, node);
                (void)json_array_append_new(ref->name[0] == 'c' ? checkpoints : layers, json_string(ref->name));
                n++;
        }
        if (n == 0) {
                json_decref(checkpoints);
                json_decref(layers);
                return;
        }
        log_info("refs.drop", "checkpoints=%zu layers=%zu", json_array_size(checkpoints), json_array_size(layers));
        engine_call(r->engine, &r->drop,
                    json_pack("{s:s,s:o,s:o}", "op", "drop", "checkpoints", checkpoints, "layers", layers),
                    DROP_TIMEOUT_MS);
}

/* Names that could not be written when they were let go of. */
static int refs_write_disposable(struct refs *r, struct err *err)
{
        int res = 0;

        LIST_EACH (node, &r->unused)
                if (res == 0)
                        res = ref_write_disposable(r, LIST_ENTRY(node, struct ref, node)->name, err);
        return res;
}

static void refs_drop_timer(struct timer *t)
{
        struct refs *r = CONTAINER_OF(t, struct refs, go);
        struct err err;

        if (engine_call_is_started(&r->drop) || durable_is_waiting(&r->flushed) || list_is_empty(&r->unused))
                return;
        if (refs_write_disposable(r, &err) < 0) {
                log_warn("refs.drop", "failed=\"%s\", trying again", err.msg);
                refs_drop_in(r, RETRY_MS);
                return;
        }
        durable_wait(r->durable, &r->flushed);
}

/* ---- after a reconnect ---- */

void refs_drop_unused(struct refs *r)
{
        MAP_EACH (slot, &r->by_name) {
                struct ref *ref = slot->value;

                if (!list_is_hooked(&ref->node))
                        ref_requeue(r, ref);
        }
        if (!list_is_empty(&r->unused))
                refs_drop_in(r, DROP_AFTER_MS);
}

json_t *refs_unknown(const struct refs *r, const json_t *names)
{
        json_t *list = json_array(), *v;
        size_t i;

        json_array_foreach (names, i, v) {
                const char *name = json_string_value(v);

                if (ref_is_ours(name) && !ref_find(r, name))
                        (void)json_array_append_new(list, json_string(name));
        }
        return list;
}

/* ---- from the store to the end ---- */

static int ref_load(const char *name, void *arg)
{
        struct ref *ref;

        if (!ref_is_ours(name))
                return 0;
        ref = ref_find_or_add(arg, name);
        if (!ref)
                return -ENOMEM;
        ref->is_disposable = true;
        return 0;
}

int refs_load(struct refs *r, struct err *err)
{
        return store_disposable_each(r->store, ref_load, r, err);
}

void refs_init(struct refs *r, struct loop *loop, struct store *store, struct engine_link *engine,
               struct durable *durable)
{
        *r = (struct refs){.loop = loop,
                           .store = store,
                           .engine = engine,
                           .durable = durable,
                           .go.on = refs_drop_timer,
                           .flushed.on = refs_flushed,
                           .drop.on = refs_dropped};
        list_init(&r->unused);
        list_init(&r->dropping);
}

void refs_done(struct refs *r)
{
        if (!r->loop)
                return;
        engine_call_cancel(&r->drop);
        durable_cancel(&r->flushed);
        timer_clear(&r->go);
        MAP_EACH (slot, &r->by_name)
                free(slot->value);
        map_done(&r->by_name);
        r->loop = NULL;
}
