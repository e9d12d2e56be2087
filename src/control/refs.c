#include "control/refs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "model/ids.h"

#define DROP_TIMEOUT_MS 60000
#define DROP_MAX 256     /* names in one message */
#define DROP_AFTER_MS 50 /* whoever let go of it has more to do, most often for somebody who waits */

struct ref {
        struct list node; /* in `unused` */
        size_t holds;
        bool is_flushed;
        char name[SEALED_ID_MAX > CHECKPOINT_ID_MAX ? SEALED_ID_MAX : CHECKPOINT_ID_MAX];
};

static bool is_ours(const char *name)
{
        return name && (checkpoint_id_is_valid(str_of(name)) || sealed_id_is_valid(str_of(name)));
}

static int hold_one(struct refs *r, const char *name)
{
        struct ref *ref;

        if (!is_ours(name))
                return 0;
        ref = map_get(&r->by_name, str_of(name));
        if (!ref) {
                ref = calloc(1, sizeof(*ref));
                if (!ref)
                        return -ENOMEM;
                memcpy(ref->name, name, strlen(name) + 1);
                if (map_put(&r->by_name, str_of(name), ref, NULL) < 0) {
                        free(ref);
                        return -ENOMEM;
                }
        }
        list_remove(&ref->node);
        ref->holds++;
        return 0;
}

static void drop_later(struct refs *r)
{
        if (!timer_is_armed(&r->go))
                timer_set(r->loop, &r->go, DROP_AFTER_MS);
}

static void release_one(struct refs *r, const char *name)
{
        struct ref *ref = is_ours(name) ? map_get(&r->by_name, str_of(name)) : NULL;

        if (!ref || --ref->holds)
                return;
        list_push_back(&r->unused, &ref->node);
        drop_later(r);
}

int refs_hold(struct refs *r, const char *checkpoint, const json_t *layers)
{
        size_t i;
        json_t *v;

        if (hold_one(r, checkpoint) < 0)
                return -ENOMEM;
        json_array_foreach (layers, i, v) {
                if (hold_one(r, json_string_value(v)) == 0)
                        continue;
                while (i-- > 0)
                        release_one(r, json_string_value(json_array_get(layers, i)));
                release_one(r, checkpoint);
                return -ENOMEM;
        }
        return 0;
}

void refs_release(struct refs *r, const char *checkpoint, const json_t *layers)
{
        size_t i;
        json_t *v;

        release_one(r, checkpoint);
        json_array_foreach (layers, i, v)
                release_one(r, json_string_value(v));
}

bool refs_is_flushed(const struct refs *r, const char *name)
{
        const struct ref *ref = map_get(&r->by_name, str_of(name));

        return !is_ours(name) || (ref && ref->is_flushed);
}

void refs_set_flushed(struct refs *r, const char *name)
{
        struct ref *ref = name ? map_get(&r->by_name, str_of(name)) : NULL;

        if (ref)
                ref->is_flushed = true;
}

/* ---- dropping ---- */

static void on_dropped(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct refs *r = CONTAINER_OF(c, struct refs, drop);

        (void)answer;
        if (err) /* what is left is found by the next sweep */
                log_warn("refs.drop", "failed=\"%s\"", err->msg);
        if (!list_is_empty(&r->unused))
                drop_later(r);
}

static void send_drop(struct refs *r, json_t *checkpoints, json_t *layers)
{
        log_info("refs.drop", "checkpoints=%zu layers=%zu", json_array_size(checkpoints), json_array_size(layers));
        engine_call(r->engine, &r->drop,
                    json_pack("{s:s,s:o,s:o}", "op", "drop", "checkpoints", checkpoints, "layers", layers),
                    DROP_TIMEOUT_MS);
}

/* The store says on disk that nobody needs them. */
static void on_flushed(struct durable_waiter *w, int result)
{
        struct refs *r = CONTAINER_OF(w, struct refs, flushed);
        json_t *checkpoints = json_array(), *layers = json_array();
        struct list *node;
        size_t n = 0;

        while (result == 0 && n < DROP_MAX && (node = list_pop_front(&r->unused))) {
                struct ref *ref = LIST_ENTRY(node, struct ref, node);

                (void)json_array_append_new(ref->name[0] == 'c' ? checkpoints : layers, json_string(ref->name));
                (void)map_remove(&r->by_name, str_of(ref->name));
                free(ref);
                n++;
        }
        if (n) {
                send_drop(r, checkpoints, layers);
        } else {
                json_decref(checkpoints);
                json_decref(layers);
        }
}

static void on_go(struct timer *t)
{
        struct refs *r = CONTAINER_OF(t, struct refs, go);

        if (!engine_call_is_started(&r->drop) && !durable_is_waiting(&r->flushed) && !list_is_empty(&r->unused))
                durable_wait(r->durable, &r->flushed);
}

/* Give a name that nobody holds to the ordinary way of dropping. */
static void doom(struct refs *r, const json_t *names)
{
        size_t i;
        json_t *v;

        json_array_foreach (names, i, v) {
                const char *name = json_string_value(v);

                if (is_ours(name) && !map_get(&r->by_name, str_of(name)) && hold_one(r, name) == 0)
                        release_one(r, name);
        }
}

void refs_sweep(struct refs *r, const json_t *checkpoints, const json_t *layers)
{
        doom(r, checkpoints);
        doom(r, layers);
}

void refs_init(struct refs *r, struct loop *loop, struct engine_link *engine, struct durable *durable)
{
        *r = (struct refs){.loop = loop,
                           .engine = engine,
                           .durable = durable,
                           .go.on = on_go,
                           .flushed.on = on_flushed,
                           .drop.on = on_dropped};
        list_init(&r->unused);
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
