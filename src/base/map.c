#include "base/map.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t hash(const struct map *m, struct str key)
{
        uint64_t h = m->seed ^ 0x9e3779b97f4a7c15u;

        for (size_t i = 0; i < key.n; i++) {
                h ^= (uint8_t)key.p[i];
                h *= 0x100000001b3u;
                h ^= h >> 29;
        }
        return h;
}

/* The slot that holds key, or the free one where it belongs. */
static struct map_slot *probe(const struct map *m, struct str key)
{
        size_t i = hash(m, key) & (m->cap - 1);

        for (;; i = (i + 1) & (m->cap - 1)) {
                struct map_slot *s = &m->slots[i];

                if (!s->key || (s->key_len == key.n && memcmp(s->key, key.p, key.n) == 0))
                        return s;
        }
}

static int grow(struct map *m)
{
        struct map bigger = {.cap = m->cap ? m->cap * 2 : 16, .seed = m->seed, .used = m->used};

        if (!m->cap)
                random_bytes(&bigger.seed, sizeof(bigger.seed));
        bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
        if (!bigger.slots)
                return -ENOMEM;
        MAP_EACH (s, m)
                *probe(&bigger, (struct str){s->key, s->key_len}) = *s;
        free(m->slots);
        *m = bigger;
        return 0;
}

void map_done(struct map *m)
{
        MAP_EACH (s, m)
                free(s->key);
        free(m->slots);
        *m = (struct map){0};
}

void *map_get(const struct map *m, struct str key)
{
        struct map_slot *s = m->cap ? probe(m, key) : NULL;

        return s && s->key ? s->value : NULL;
}

int map_put(struct map *m, struct str key, void *value, void **ret_old)
{
        struct map_slot *s;
        void *old = NULL;
        int r;

        if ((m->used + 1) * 4 > m->cap * 3) {
                r = grow(m);
                if (r < 0)
                        return r;
        }
        s = probe(m, key);
        if (s->key) {
                old = s->value;
        } else {
                s->key = str_dup(key);
                if (!s->key)
                        return -ENOMEM;
                s->key_len = key.n;
                m->used++;
        }
        s->value = value;
        if (ret_old)
                *ret_old = old;
        return 0;
}

void *map_remove(struct map *m, struct str key)
{
        struct map_slot *s = m->cap ? probe(m, key) : NULL;
        size_t hole, i;
        void *value;

        if (!s || !s->key)
                return NULL;
        value = s->value;
        free(s->key);
        *s = (struct map_slot){0};
        m->used--;
        /* Close the gap: whoever was pushed past it moves back. */
        hole = (size_t)(s - m->slots);
        for (i = (hole + 1) & (m->cap - 1); m->slots[i].key; i = (i + 1) & (m->cap - 1)) {
                struct map_slot moved = m->slots[i];

                m->slots[i] = (struct map_slot){0};
                *probe(m, (struct str){moved.key, moved.key_len}) = moved;
        }
        return value;
}
