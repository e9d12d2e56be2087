#include "control/access/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "store/store.h"
#include "wire/sha256.h"

#define FIRST_KEY "first-key"
#define FIRST_KEY_NEW "first-key.new" /* written, but the store may not have it yet */

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

static int keys_add_key(const struct store_key *row, void *arg)
{
        struct keys *k = arg;
        struct team *t = keys_team(k, row->team);

        return t ? map_put(&k->by_hash, (struct str){(const char *)row->hash, sizeof(row->hash)}, t, NULL) : -EBADMSG;
}

int keys_load(struct keys *k, struct store *store, struct err *err)
{
        int r;

        list_init(&k->teams);
        r = store_team_each(store, keys_add_team, k, err);
        return r < 0 ? r : store_key_each(store, keys_add_key, k, err);
}

void keys_done(struct keys *k)
{
        struct list *node;

        while (k->teams.next && (node = list_pop_front(&k->teams))) {
                struct team *t = LIST_ENTRY(node, struct team, node);

                free(t->slug);
                free(t);
        }
        map_done(&k->by_hash);
}

bool key_is_wellformed(struct str key)
{
        if (key.n != KEY_LEN || !str_starts(key, KEY_PREFIX))
                return false;
        for (size_t i = sizeof(KEY_PREFIX) - 1; i < key.n; i++)
                if (!((key.p[i] >= '0' && key.p[i] <= '9') || (key.p[i] >= 'a' && key.p[i] <= 'f')))
                        return false;
        return true;
}

struct team *keys_find(const struct keys *k, struct str key)
{
        uint8_t hash[SHA256_LEN];

        if (!key_is_wellformed(key))
                return NULL;
        sha256(key.p, key.n, hash); /* keys are random: how long a lookup takes tells nothing about other keys */
        return map_get(&k->by_hash, (struct str){(const char *)hash, sizeof(hash)});
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

/* ---- the first key ---- */

static void key_make(char out[KEY_LEN + 1])
{
        uint8_t raw[20];

        random_bytes(raw, sizeof(raw));
        memcpy(out, KEY_PREFIX, sizeof(KEY_PREFIX) - 1);
        hex_encode(raw, sizeof(raw), out + sizeof(KEY_PREFIX) - 1);
}

/* A key file that was prepared before a crash is put in place if the store has the key, and removed otherwise. */
static void finish_prepared_key(const struct keys *k, int dir)
{
        AUTO_CLOSE int fd = openat(dir, FIRST_KEY_NEW, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        char text[KEY_LEN + 1];

        if (fd < 0)
                return;
        if (read(fd, text, sizeof(text)) == (ssize_t)sizeof(text) && keys_find(k, (struct str){text, KEY_LEN}))
                (void)renameat(dir, FIRST_KEY_NEW, dir, FIRST_KEY);
        else
                (void)unlinkat(dir, FIRST_KEY_NEW, 0);
}

static int prepare_key_file(int dir, const char *key, struct err *err)
{
        AUTO_CLOSE int fd = -1;
        char text[KEY_LEN + 1];

        (void)unlinkat(dir, FIRST_KEY_NEW, 0);
        fd = openat(dir, FIRST_KEY_NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return err_sys(err, -errno, "create %s", FIRST_KEY_NEW);
        memcpy(text, key, KEY_LEN);
        text[KEY_LEN] = '\n';
        if (write(fd, text, sizeof(text)) != (ssize_t)sizeof(text) || fsync(fd) < 0)
                return err_sys(err, errno ? -errno : -EIO, "write %s", FIRST_KEY_NEW);
        return 0;
}

static int store_first_key(struct store *store, int64_t team, const char *key, struct err *err)
{
        struct store_team t = {.slug = TEAM_DEFAULT, .name = "Default"};
        struct store_key k = {.team = team, .name = "first"};
        char mask[32];
        int r;

        uuid_make(t.id);
        uuid_make(k.id);
        (void)snprintf(mask, sizeof(mask), KEY_PREFIX "%.2s...%.4s", key + sizeof(KEY_PREFIX) - 1, key + KEY_LEN - 4);
        k.mask = mask;
        sha256(key, KEY_LEN, k.hash);
        r = store_begin(store, err);
        if (r == 0 && !team)
                r = store_team_add(store, &t, &k.team, err);
        if (r == 0)
                r = store_key_add(store, &k, err);
        if (r == 0)
                r = store_commit(store, err);
        if (r < 0)
                store_rollback(store);
        return r;
}

int keys_ensure_first(struct keys *k, struct store *store, const char *dir, bool must, struct err *err)
{
        AUTO_CLOSE int fd = open(dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
        struct team *first = list_is_empty(&k->teams) ? NULL : LIST_ENTRY(k->teams.next, struct team, node);
        char key[KEY_LEN + 1];
        int r;

        if (fd < 0)
                return err_sys(err, -errno, "open '%s'", dir);
        finish_prepared_key(k, fd);
        if (first && (!must || faccessat(fd, FIRST_KEY, F_OK, 0) == 0))
                return 0;
        key_make(key);
        r = prepare_key_file(fd, key, err);
        if (r == 0)
                r = store_first_key(store, first ? first->no : 0, key, err);
        if (r < 0)
                return r;
        if (renameat(fd, FIRST_KEY_NEW, fd, FIRST_KEY) < 0)
                return err_sys(err, -errno, "create %s", FIRST_KEY);
        log_info("key.made", "team=%s", first ? first->slug : TEAM_DEFAULT);
        keys_done(k);
        return keys_load(k, store, err);
}
