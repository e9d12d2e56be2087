#include "control/access/keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "control/access/tokens.h"
#include "wire/sha256.h"

#define USE_WRITE_NS (600 * INT64_C(1000000000)) /* a crash forgets uses of the last ten minutes */
#define KEY_RAW_LEN 20

/* ---- from the store ---- */

static int keys_add_team(const struct store_team *row, void *arg)
{
        struct keys *k = arg;
        struct team *t = calloc(1, sizeof(*t));

        if (!t)
                return -ENOMEM;
        t->no = row->no;
        memcpy(t->id, row->id, sizeof(t->id));
        t->slug = strdup(row->slug);
        list_push_back(&k->teams, &t->node);
        return t->slug ? 0 : -ENOMEM;
}

static void api_key_free(struct api_key *key)
{
        list_remove(&key->node);
        free(key->name);
        free(key->mask);
        free(key);
}

static struct str hash_of(const struct api_key *key)
{
        return (struct str){(const char *)key->hash, sizeof(key->hash)};
}

static int api_key_create(struct keys *k, const struct store_key *row, struct api_key **ret)
{
        struct api_key *key = calloc(1, sizeof(*key));

        if (!key)
                return -ENOMEM;
        memcpy(key->id, row->id, sizeof(key->id));
        memcpy(key->hash, row->hash, sizeof(key->hash));
        key->team = keys_team(k, row->team);
        key->name = strdup(row->name);
        key->mask = strdup(row->mask);
        key->kind = row->kind;
        key->uid = row->uid;
        key->created_ns = row->created_ns;
        key->last_used_ns = key->written_use_ns = row->last_used_ns;
        if (!key->team || !key->name || !key->mask || map_put(&k->by_hash, hash_of(key), key, NULL) < 0) {
                int r = key->team ? -ENOMEM : -EBADMSG;

                api_key_free(key);
                return r;
        }
        list_push_back(&k->all, &key->node);
        k->count++;
        *ret = key;
        return 0;
}

static int keys_add_key(const struct store_key *row, void *arg)
{
        struct api_key *key;

        return api_key_create(arg, row, &key);
}

int keys_load(struct keys *k, struct store *store, struct err *err)
{
        int r;

        *k = (struct keys){.store = store};
        list_init(&k->teams);
        list_init(&k->all);
        r = store_team_each(store, keys_add_team, k, err);
        return r < 0 ? r : store_key_each(store, keys_add_key, k, err);
}

static void key_write_use(struct keys *k, struct api_key *key)
{
        struct err err = {0};

        if (store_key_used(k->store, key->id, key->last_used_ns, &err) < 0)
                log_debug("key.use", "failed=\"%s\"", err.msg); /* it is tried again with a later use */
        else
                key->written_use_ns = key->last_used_ns;
}

void keys_done(struct keys *k)
{
        struct list *node;

        while (k->all.next && (node = list_pop_front(&k->all))) {
                struct api_key *key = LIST_ENTRY(node, struct api_key, node);

                if (key->last_used_ns != key->written_use_ns)
                        key_write_use(k, key);
                api_key_free(key);
        }
        while (k->teams.next && (node = list_pop_front(&k->teams))) {
                struct team *t = LIST_ENTRY(node, struct team, node);

                free(t->slug);
                free(t);
        }
        map_done(&k->by_hash);
        k->count = 0;
}

/* ---- finding ---- */

bool key_is_wellformed(struct str key)
{
        if (key.n != KEY_LEN || !str_starts(key, KEY_PREFIX))
                return false;
        for (size_t i = sizeof(KEY_PREFIX) - 1; i < key.n; i++)
                if (!((key.p[i] >= '0' && key.p[i] <= '9') || (key.p[i] >= 'a' && key.p[i] <= 'f')))
                        return false;
        return true;
}

struct api_key *keys_find(const struct keys *k, struct str key)
{
        uint8_t hash[SHA256_LEN];

        if (!key_is_wellformed(key))
                return NULL;
        sha256(key.p, key.n, hash); /* keys are random: how long a lookup takes tells nothing about other keys */
        return map_get(&k->by_hash, (struct str){(const char *)hash, sizeof(hash)});
}

struct api_key *keys_by_id(const struct keys *k, struct str id)
{
        LIST_EACH (node, &k->all) {
                struct api_key *key = LIST_ENTRY(node, struct api_key, node);

                if (str_is(id, key->id))
                        return key;
        }
        return NULL;
}

struct team *keys_team(const struct keys *k, int64_t no)
{
        LIST_EACH (node, &k->teams) {
                struct team *t = LIST_ENTRY(node, struct team, node);

                if (t->no == no)
                        return t;
        }
        return NULL;
}

struct team *keys_team_named(const struct keys *k, struct str id_or_slug)
{
        LIST_EACH (node, &k->teams) {
                struct team *t = LIST_ENTRY(node, struct team, node);

                if (str_is(id_or_slug, t->id) || str_is(id_or_slug, t->slug))
                        return t;
        }
        return NULL;
}

struct team *keys_first_team(const struct keys *k)
{
        return list_is_empty(&k->teams) ? NULL : LIST_ENTRY(k->teams.next, struct team, node);
}

void keys_note_use(struct keys *k, struct api_key *key, int64_t now_ns)
{
        key->last_used_ns = now_ns;
        if (now_ns - key->written_use_ns >= USE_WRITE_NS || now_ns < key->written_use_ns)
                key_write_use(k, key);
}

/* ---- making and revoking ---- */

bool key_name_is_valid(struct str name)
{
        if (name.n == 0 || name.n > KEY_NAME_MAX || !str_is_utf8(name))
                return false;
        for (size_t i = 0; i < name.n; i++)
                if ((unsigned char)name.p[i] < ' ' || name.p[i] == 0x7f)
                        return false;
        return true;
}

static void key_of_raw(const uint8_t raw[KEY_RAW_LEN], char out[KEY_LEN + 1])
{
        memcpy(out, KEY_PREFIX, sizeof(KEY_PREFIX) - 1);
        hex_encode(raw, KEY_RAW_LEN, out + sizeof(KEY_PREFIX) - 1);
}

void key_random(char out[KEY_LEN + 1])
{
        uint8_t raw[KEY_RAW_LEN];

        random_bytes(raw, sizeof(raw));
        key_of_raw(raw, out);
}

void key_mask(const char key[KEY_LEN], char out[KEY_MASK_MAX])
{
        (void)snprintf(out, KEY_MASK_MAX, KEY_PREFIX "%.2s...%.4s", key + sizeof(KEY_PREFIX) - 1, key + KEY_LEN - 4);
}

/* Into the store and into memory, or neither.  `row` has all but mask, hash and time. */
static int keys_add(struct keys *k, struct store_key *row, const char key[KEY_LEN], struct api_key **ret,
                    struct err *err)
{
        char mask[KEY_MASK_MAX];
        int r;

        if (k->count >= KEYS_MAX)
                return err_set(err, ERR_CONFLICT, "there are %u keys already: revoke some", KEYS_MAX);
        key_mask(key, mask);
        row->mask = mask;
        row->created_ns = clock_real_ns();
        sha256(key, KEY_LEN, row->hash);
        r = store_key_add(k->store, row, err);
        if (r < 0)
                return r;
        r = api_key_create(k, row, ret);
        if (r < 0) {
                (void)store_key_remove(k->store, row->id, NULL);
                return err_sys(err, r, "make a key");
        }
        log_info("key.made", "id=%s team=%s kind=%d", row->id, (*ret)->team->slug, (int)row->kind);
        return 0;
}

int keys_make(struct keys *k, struct team *team, const char *name, char ret_key[KEY_LEN + 1], struct api_key **ret,
              struct err *err)
{
        struct store_key row = {.team = team->no, .name = name, .kind = STORE_KEY_GIVEN};
        char key[KEY_LEN + 1];
        int r;

        uuid_make(row.id);
        key_random(key);
        r = keys_add(k, &row, key, ret, err);
        if (r == 0)
                memcpy(ret_key, key, sizeof(key));
        return r;
}

int keys_revoke(struct keys *k, struct api_key *key, struct err *err)
{
        int r = store_key_remove(k->store, key->id, err);

        if (r < 0)
                return r;
        log_info("key.revoked", "id=%s team=%s", key->id, key->team->slug);
        (void)map_remove(&k->by_hash, hash_of(key));
        k->count--;
        api_key_free(key);
        return 0;
}

/* ---- of users of the machine ---- */

static struct api_key *key_of_uid(const struct keys *k, uint32_t uid)
{
        LIST_EACH (node, &k->all) {
                struct api_key *key = LIST_ENTRY(node, struct api_key, node);

                if (key->kind == STORE_KEY_USER && key->uid == uid)
                        return key;
        }
        return NULL;
}

static void key_derive(const struct tokens *tokens, const char *id, char out[KEY_LEN + 1])
{
        uint8_t mac[SHA256_LEN];

        token_user_key(tokens, id, mac);
        key_of_raw(mac, out);
}

int keys_of_user(struct keys *k, const struct tokens *tokens, uint32_t uid, char ret_key[KEY_LEN + 1], struct err *err)
{
        struct api_key *key = key_of_uid(k, uid);
        const struct team *team = keys_first_team(k);
        struct store_key row = {.kind = STORE_KEY_USER, .uid = uid};
        char text[KEY_LEN + 1], name[32];
        int r;

        if (key) {
                key_derive(tokens, key->id, ret_key);
                return 0;
        }
        if (!team)
                return err_set(err, ERR_UNAVAILABLE, "the server has no team yet");
        (void)snprintf(name, sizeof(name), "user %u", uid);
        row.team = team->no;
        row.name = name;
        uuid_make(row.id);
        key_derive(tokens, row.id, text);
        r = keys_add(k, &row, text, &key, err);
        if (r == 0)
                memcpy(ret_key, text, sizeof(text));
        return r;
}
