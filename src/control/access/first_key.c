/* The operator's key, made at the first start and handed to the supervisor in a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "control/access/keys.h"
#include "wire/sha256.h"

#define FIRST_KEY "first-key"
#define FIRST_KEY_NEW "first-key.new" /* written, but the store may not have it yet */

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
        struct store_key k = {.team = team, .name = "first", .kind = STORE_KEY_OPERATOR, .created_ns = clock_real_ns()};
        char mask[KEY_MASK_MAX];
        int r;

        uuid_make(t.id);
        uuid_make(k.id);
        key_mask(key, mask);
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
        const struct team *first = keys_first_team(k);
        char key[KEY_LEN + 1];
        int r;

        if (fd < 0)
                return err_sys(err, -errno, "open '%s'", dir);
        finish_prepared_key(k, fd);
        if (first && (!must || faccessat(fd, FIRST_KEY, F_OK, 0) == 0))
                return 0;
        key_random(key);
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
