/* keys.h - who may call the API: teams and their API keys, all in memory, keys as hashes only.
 *
 * Invariant: memory and store have the same; control is the store's only writer.  One exception: when a key was used last is
 * written now and then (keys_note_use()), and at the end.
 *
 * Kinds of keys (enum store_key_kind): the operator's key in <data>/env, which may also manage keys; keys that the operator
 * made for somebody; and one for each user of the machine who is a member of the group (user_door.h).  The key of a user is
 * derived from the store's seed and the id of its row, so the user gets the same key each time, and it is kept nowhere. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "base/str.h"
#include "model/ids.h"
#include "store/store.h"

struct err;
struct tokens;

#define KEY_PREFIX "e2b_"
#define KEY_LEN (sizeof(KEY_PREFIX) - 1 + 40)
#define KEY_NAME_MAX 100u      /* bytes */
#define KEYS_MAX 10000u        /* of all teams */
#define TEAM_DEFAULT "default" /* slug of the team that is there from the start */

struct team {
        struct list node;
        int64_t no;
        char id[UUID_MAX];
        char *slug;           /* owned */
        size_t sandbox_count; /* starting or running */
};

struct api_key {
        struct list node;
        char id[UUID_MAX];
        struct team *team; /* borrowed from `teams` */
        char *name, *mask; /* owned */
        uint8_t hash[STORE_KEY_HASH_LEN];
        enum store_key_kind kind;
        uint32_t uid; /* STORE_KEY_USER only */
        int64_t created_ns;
        int64_t last_used_ns, written_use_ns; /* 0: never; as the store has it */
};

struct keys {
        struct store *store; /* borrowed */
        struct list teams;   /* owned */
        struct list all;     /* owned: struct api_key, oldest first */
        size_t count;
        struct map by_hash; /* SHA-256 of the key -> struct api_key, borrowed from `all` */
};

int keys_load(struct keys *k, struct store *store, struct err *err);
void keys_done(struct keys *k); /* uses that are not written yet are written; also zeroed */

bool key_is_wellformed(struct str key);                          /* "e2b_" and 40 lower-case hexadecimal digits */
struct api_key *keys_find(const struct keys *k, struct str key); /* NULL: no such key */
struct api_key *keys_by_id(const struct keys *k, struct str id); /* NULL: no such key */
struct team *keys_team(const struct keys *k, int64_t no);        /* NULL: no such team */
struct team *keys_team_named(const struct keys *k, struct str id_or_slug);
struct team *keys_first_team(const struct keys *k); /* NULL: there is none yet */

/* 1 to KEY_NAME_MAX bytes of UTF-8 without control characters. */
bool key_name_is_valid(struct str name);

void keys_note_use(struct keys *k, struct api_key *key, int64_t now_ns);

/* A new random key for somebody.  *ret is borrowed.  ERR_CONFLICT: there are KEYS_MAX. */
int keys_make(struct keys *k, struct team *team, const char *name, char ret_key[KEY_LEN + 1], struct api_key **ret,
              struct err *err);
/* The key of a user of the machine, made at the first time. */
int keys_of_user(struct keys *k, const struct tokens *tokens, uint32_t uid, char ret_key[KEY_LEN + 1], struct err *err);
/* From now on nobody can use it; `key` is gone.  On failure it is as before. */
int keys_revoke(struct keys *k, struct api_key *key, struct err *err);

/* When there is no team yet (or `must`), make a team with a key of the operator, and leave the key in the file <dir>/first-key
 * (0600), from where the supervisor takes the key.  A crash at any point leaves both the team and the file, or neither. */
int keys_ensure_first(struct keys *k, struct store *store, const char *dir, bool must, struct err *err);

/* ---- for first_key.c ---- */
void key_random(char out[KEY_LEN + 1]);
#define KEY_MASK_MAX 16
void key_mask(const char key[KEY_LEN], char out[KEY_MASK_MAX]); /* "e2b_ab...9f3c" */
