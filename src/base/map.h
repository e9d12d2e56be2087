/* map.h - text to pointer, open addressing; keys are copied, values are the caller's. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct map_slot {
        char *key; /* owned; NULL: free */
        size_t key_len;
        void *value;
};

struct map {
        struct map_slot *slots;
        size_t used, cap;
        uint64_t seed; /* so that outside text cannot aim for collisions */
};

void map_done(struct map *m);                       /* a zeroed map is an empty map */
void *map_get(const struct map *m, struct str key); /* NULL: not there */
/* Insert or replace; *ret_old (may be NULL) is the value that was there, or NULL.  -ENOMEM. */
int map_put(struct map *m, struct str key, void *value, void **ret_old);
void *map_remove(struct map *m, struct str key); /* the value that was there, or NULL */

#define MAP_EACH(slot, m)                                                                                              \
        for (struct map_slot *slot = (m)->slots; slot && slot < (m)->slots + (m)->cap; slot++)                         \
                if (slot->key)
