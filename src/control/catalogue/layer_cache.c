#include "control/catalogue/layer_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "control/catalogue/refs.h"
#include "store/store.h"
#include "store/templates.h"
#include "wire/sha256.h"

#define TRIM_ROUND 256 /* rows that are removed in one walk */

void cached_step_done(struct cached_step *c)
{
        json_decref(c->context);
        *c = (struct cached_step){0};
}

/* A list with the one layer, for refs.h; NULL for none, which is fine there. */
static json_t *layer_list(const char *layer)
{
        return layer && layer[0] ? json_pack("[s]", layer) : NULL;
}

static int layer_cache_load(const struct store_cached *row, void *arg)
{
        struct layer_cache *c = arg;
        json_t *list = layer_list(row->layer);
        int r = refs_load_row(c->refs, "", list);

        json_decref(list);
        if (r == 0)
                c->count++;
        return r;
}

int layer_cache_init(struct layer_cache *c, struct store *store, struct refs *refs, int64_t (*now_ns)(void),
                     struct err *err)
{
        *c = (struct layer_cache){.store = store, .refs = refs, .now_ns = now_ns};
        return store_cached_each(store, layer_cache_load, c, err);
}

int layer_cache_find(struct layer_cache *c, int64_t team, const char *key, struct cached_step *ret, struct err *err)
{
        struct cached_step found = {0};
        int r = store_cached_get(c->store, team, key, found.layer, &found.context, err);

        if (r <= 0)
                return r;
        if (store_cached_used(c->store, team, key, c->now_ns(), NULL) < 0)
                log_debug("cache.used", "key=%.16s could not be noted", key);
        *ret = found;
        return 1;
}

/* One row becomes another; either may be missing (NULL). */
static int layer_cache_change(struct layer_cache *c, const struct store_cached *old, const struct store_cached *row,
                              struct err *err)
{
        json_t *taken = layer_list(row ? row->layer : NULL), *left = layer_list(old ? old->layer : NULL);
        struct refs_change change = {0};
        int r = 0;

        if ((row && row->layer && row->layer[0] && !taken) || refs_take(c->refs, &change, "", taken) < 0 ||
            refs_leave(c->refs, &change, "", left) < 0) {
                refs_cancel(c->refs, &change);
                r = err_sys(err, -ENOMEM, "cache");
        } else {
                r = refs_begin(c->refs, &change, false, err);
                if (r == 0)
                        r = row ? store_cached_put(c->store, row, err)
                                : store_cached_remove(c->store, old->team, old->key, err);
                r = refs_end(c->refs, &change, r, false, err);
        }
        json_decref(taken);
        json_decref(left);
        if (r == 0 && row && !old)
                c->count++;
        if (r == 0 && old && !row)
                c->count--;
        return r;
}

/* 1: there is a row, with that layer. */
static int layer_cache_layer(struct layer_cache *c, int64_t team, const char *key, char layer[SEALED_ID_MAX],
                             struct err *err)
{
        json_t *context = NULL;
        int r = store_cached_get(c->store, team, key, layer, &context, err);

        json_decref(context);
        return r;
}

int layer_cache_add(struct layer_cache *c, int64_t team, const char *key, const char *layer, const json_t *context,
                    struct err *err)
{
        const struct store_cached row = {
                .team = team, .key = key, .layer = layer, .context = context, .used_ns = c->now_ns()};
        char before[SEALED_ID_MAX] = "";
        const struct store_cached old = {.team = team, .key = key, .layer = before};
        int r = layer_cache_layer(c, team, key, before, err);

        return r < 0 ? r : layer_cache_change(c, r > 0 ? &old : NULL, &row, err);
}

int layer_cache_remove(struct layer_cache *c, int64_t team, const char *key, struct err *err)
{
        char before[SEALED_ID_MAX] = "";
        const struct store_cached old = {.team = team, .key = key, .layer = before};
        int r = layer_cache_layer(c, team, key, before, err);

        return r <= 0 ? r : layer_cache_change(c, &old, NULL, err);
}

/* ---- trimming ---- */

struct trim {
        int64_t before_ns;
        size_t over; /* so many are too many */
        size_t n;
        struct {
                int64_t team;
                char key[SHA256_HEX_LEN + 1];
        } found[TRIM_ROUND];
};

/* The walk is in the order of use: the first that stays ends it. */
static int trim_note(const struct store_cached *row, void *arg)
{
        struct trim *t = arg;

        if (t->n == TRIM_ROUND || (row->used_ns >= t->before_ns && t->n >= t->over) ||
            strlen(row->key) >= sizeof(t->found->key))
                return -ECANCELED;
        t->found[t->n].team = row->team;
        memcpy(t->found[t->n++].key, row->key, strlen(row->key) + 1);
        return 0;
}

static size_t trim_round(struct layer_cache *c, int64_t before_ns, size_t most)
{
        struct trim *t = calloc(1, sizeof(*t));
        size_t removed = 0;
        struct err err = {0};

        if (!t)
                return 0;
        t->before_ns = before_ns;
        t->over = c->count > most ? c->count - most : 0;
        (void)store_cached_each(c->store, trim_note, t, NULL);
        for (size_t i = 0; i < t->n; i++) {
                if (layer_cache_remove(c, t->found[i].team, t->found[i].key, &err) < 0) {
                        log_warn("cache.trim", "failed=\"%s\"", err.msg);
                        break;
                }
                removed++;
        }
        free(t);
        return removed;
}

size_t layer_cache_trim(struct layer_cache *c, int64_t before_ns, size_t most)
{
        size_t all = 0, n;

        do {
                n = trim_round(c, before_ns, most);
                all += n;
        } while (n == TRIM_ROUND);
        return all;
}

/* ---- walking ---- */

struct cache_walk {
        int (*each)(int64_t team, const char *key, const char *layer, int64_t used_ns, void *arg);
        void *arg;
};

static int cache_walk_one(const struct store_cached *row, void *arg)
{
        const struct cache_walk *w = arg;

        return w->each(row->team, row->key, row->layer ? row->layer : "", row->used_ns, w->arg);
}

int layer_cache_each(struct layer_cache *c,
                     int (*each)(int64_t team, const char *key, const char *layer, int64_t used_ns, void *arg),
                     void *arg, struct err *err)
{
        struct cache_walk w = {each, arg};

        return store_cached_each(c->store, cache_walk_one, &w, err);
}
