#include "control/build/build_keep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "control/catalogue/layer_cache.h"
#include "control/catalogue/refs.h"

#define LATER_MS 2000
#define FLUSH_TIMEOUT_MS 900000

struct kept_step {
        struct list node;
        uint64_t number;
        int64_t team;
        struct build_key key;
        char layer[SEALED_ID_MAX]; /* held; "": none */
        json_t *context;           /* owned */
};

static void kept_hold(struct build_keep *k, struct kept_step *s, bool is_held)
{
        json_t *one = s->layer[0] ? json_pack("[s]", s->layer) : NULL;

        if (is_held && refs_hold(k->refs, "", one) < 0)
                s->layer[0] = 0;
        else if (!is_held)
                refs_release(k->refs, "", one);
        json_decref(one);
}

static void kept_free(struct build_keep *k, struct kept_step *s)
{
        list_remove(&s->node);
        kept_hold(k, s, false);
        json_decref(s->context);
        free(s);
}

int build_keep_add(struct build_keep *k, int64_t team, const struct build_key *key, const char *layer,
                   const json_t *context)
{
        struct kept_step *s = calloc(1, sizeof(*s));

        if (!s)
                return -ENOMEM;
        s->number = ++k->last;
        s->team = team;
        s->key = *key;
        s->context = json_deep_copy(context);
        (void)snprintf(s->layer, sizeof(s->layer), "%s", layer);
        kept_hold(k, s, true);
        list_push_back(&k->unwritten, &s->node);
        if (!s->context || strcmp(s->layer, layer) != 0) {
                kept_free(k, s);
                return -ENOMEM;
        }
        if (!timer_is_armed(&k->later) && !engine_call_is_started(&k->flush))
                timer_set(k->loop, &k->later, LATER_MS);
        return 0;
}

int build_keep_find(struct build_keep *k, int64_t team, const struct build_key *key, struct cached_step *ret,
                    struct err *err)
{
        LIST_EACH (node, &k->unwritten) {
                const struct kept_step *s = LIST_ENTRY(node, struct kept_step, node);

                if (s->team != team || strcmp(s->key.hex, key->hex) != 0)
                        continue;
                *ret = (struct cached_step){.context = json_deep_copy(s->context)};
                memcpy(ret->layer, s->layer, sizeof(ret->layer));
                return ret->context ? 1 : err_sys(err, -ENOMEM, "cache");
        }
        return layer_cache_find(k->cache, team, key->hex, ret, err);
}

void build_keep_write(struct build_keep *k, uint64_t upto)
{
        struct err err;

        LIST_EACH (node, &k->unwritten) {
                struct kept_step *s = LIST_ENTRY(node, struct kept_step, node);

                if (s->number > upto)
                        break;
                if (s->layer[0])
                        refs_set_flushed(k->refs, s->layer);
                if (layer_cache_add(k->cache, s->team, s->key.hex, s->layer, s->context, &err) < 0)
                        log_warn("build.cache", "failed=\"%s\": the step will be run again", err.msg);
                kept_free(k, s);
        }
}

static void keep_flushed(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct build_keep *k = CONTAINER_OF(c, struct build_keep, flush);

        (void)answer;
        if (err && err->kind != ERR_UNAVAILABLE)
                log_warn("build.flush", "failed=\"%s\", trying again", err->msg);
        if (!err)
                build_keep_write(k, k->flushing);
        if (!list_is_empty(&k->unwritten))
                timer_set(k->loop, &k->later, LATER_MS);
}

static const char *newest_layer(const struct build_keep *k)
{
        for (const struct list *node = k->unwritten.prev; node != &k->unwritten; node = node->prev) {
                const struct kept_step *s = LIST_ENTRY((struct list *)(uintptr_t)node, struct kept_step, node);

                if (s->layer[0])
                        return s->layer;
        }
        return NULL;
}

static void keep_flush(struct timer *t)
{
        struct build_keep *k = CONTAINER_OF(t, struct build_keep, later);
        const char *layer = newest_layer(k);

        if (!layer) {
                build_keep_write(k, k->last);
                return;
        }
        k->flushing = k->last;
        k->flush.on = keep_flushed;
        engine_call(k->engine, &k->flush, json_pack("{s:s,s:s}", "op", "flush", "layer", layer), FLUSH_TIMEOUT_MS);
}

void build_keep_init(struct build_keep *k, struct loop *loop, struct engine_link *engine, struct refs *refs,
                     struct layer_cache *cache)
{
        *k = (struct build_keep){.loop = loop, .engine = engine, .refs = refs, .cache = cache, .later.on = keep_flush};
        list_init(&k->unwritten);
}

void build_keep_done(struct build_keep *k)
{
        engine_call_cancel(&k->flush);
        timer_clear(&k->later);
        while (k->unwritten.next && k->unwritten.next != &k->unwritten)
                kept_free(k, LIST_ENTRY(k->unwritten.next, struct kept_step, node));
}
