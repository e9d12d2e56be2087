/* keys.h - who may call the API: teams and their API keys, all in memory, keys as hashes only.
 *
 * Invariant: memory and store have the same; control is the store's only writer. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "base/str.h"
#include "model/ids.h"

struct err;
struct store;

#define KEY_PREFIX "e2b_"
#define KEY_LEN (sizeof(KEY_PREFIX) - 1 + 40)
#define TEAM_DEFAULT "default" /* slug of the team that is there from the start */

struct team {
        struct list node;
        int64_t no;
        char id[UUID_MAX];
        char *slug;           /* owned */
        size_t sandbox_count; /* starting or running */
};

struct keys {
        struct list teams;  /* owned */
        struct map by_hash; /* SHA-256 of the key -> struct team, borrowed from `teams` */
};

int keys_load(struct keys *k, struct store *store, struct err *err);
void keys_done(struct keys *k);

bool key_is_wellformed(struct str key);                       /* "e2b_" and 40 lower-case hexadecimal digits */
struct team *keys_find(const struct keys *k, struct str key); /* NULL: no such key */
struct team *keys_team(const struct keys *k, int64_t no);     /* NULL: no such team */

/* When there is no team yet (or `must`), make a team with a key, and leave the key in the file <dir>/first-key (0600), from
 * where the supervisor takes the key.  A crash at any point leaves both the team and the file, or neither. */
int keys_ensure_first(struct keys *k, struct store *store, const char *dir, bool must, struct err *err);
