/* The store, SQLite's own allocations failing as well. */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "fault.h"
#include "store/credentials.h"
#include "store/store.h"

static char dir[] = "/dev/shm/store-XXXXXX", path[64];

/* ---- SQLite on our malloc; it wants to ask for the size of what it got ---- */

static void *sq_malloc(int n)
{
        size_t *p = malloc(sizeof(max_align_t) + (size_t)n);

        if (!p)
                return NULL;
        *p = (size_t)n;
        return (char *)p + sizeof(max_align_t);
}
static void *sq_head(void *p)
{
        return p ? (char *)p - sizeof(max_align_t) : NULL;
}
static void sq_free(void *p)
{
        free(sq_head(p));
}
static void *sq_realloc(void *old, int n)
{
        size_t *p = realloc(sq_head(old), sizeof(max_align_t) + (size_t)n);

        if (!p)
                return NULL;
        *p = (size_t)n;
        return (char *)p + sizeof(max_align_t);
}
static int sq_size(void *p)
{
        return p ? (int)*(size_t *)sq_head(p) : 0;
}
static int sq_roundup(int n)
{
        return (n + 7) & ~7;
}
static int sq_init(void *arg)
{
        (void)arg;
        return SQLITE_OK;
}
static void sq_shutdown(void *arg)
{
        (void)arg;
}

/* ---- one life of a database ---- */

static void remove_files(void)
{
        static const char *const also[] = {"", "-wal", "-shm", "-journal"};

        for (size_t i = 0; i < ARRAY_LEN(also); i++) {
                char name[96];

                (void)snprintf(name, sizeof(name), "%s%s", path, also[i]);
                (void)unlink(name);
        }
}

static int count_sandbox(struct sandbox *sb, void *arg)
{
        *(int *)arg += sb->state == SANDBOX_RUNNING;
        return 0;
}

static int count_credential(const struct store_credential *c, void *arg)
{
        *(int *)arg += c->sealed.n == 4 && memcmp(c->sealed.p, "box!", 4) == 0;
        return 0;
}

static int use_credentials(struct store *s, int64_t team, struct err *err)
{
        const struct store_credential c = {.team = team, .owner = "key:k-1", .name = "git", .sealed = {"box!", 4}};
        struct store_credential_usage usage = {0};
        bool was_there = false;
        int found = 0, r = store_credential_put(s, &c, err);

        if (r == 0)
                r = store_credential_of(s, team, "key:k-1", count_credential, &found, err);
        MUST(r < 0 || found == 1);
        if (r == 0)
                r = store_credential_usage(s, &c, &usage, err);
        MUST(r < 0 || usage.count == 0);
        if (r == 0)
                r = store_credential_remove(s, &c, &was_there, err);
        MUST(r < 0 || was_there);
        return r;
}

static int use(struct store *s, struct err *err)
{
        struct store_team team = {.id = "t-1", .slug = "default", .name = "Default"};
        struct store_key key = {.id = "k-1", .name = "first", .mask = "e2b_ab...cdef"};
        struct sandbox sb = {
                .state = SANDBOX_STARTING, .cpu_count = 2, .memory_mb = 512, .disk_mb = 1024, .alias = (char *)"base"};
        uint8_t seed[STORE_SEED_LEN];
        int r, running = 0;

        (void)snprintf(sb.id, sizeof(sb.id), "i0123456789abcdefghij");
        (void)snprintf(sb.template_id, sizeof(sb.template_id), "abcdefghij0123456789");
        r = store_seed(s, seed, err);
        if (r == 0)
                r = store_team_add(s, &team, &key.team, err);
        if (r == 0)
                r = store_key_add(s, &key, err);
        sb.team = key.team;
        if (r == 0)
                r = store_sandbox_add(s, &sb, err);
        if (r == 0)
                r = store_sandbox_started(s, sb.id, 1, 2, err);
        if (r == 0)
                r = store_sandbox_each(s, count_sandbox, &running, err);
        MUST(r < 0 || running == 1);
        if (r == 0)
                r = store_sandbox_remove(s, sb.id, err);
        if (r == 0)
                r = use_credentials(s, key.team, err);
        return r;
}

static int a_store_works_or_says_why_not(void)
{
        struct store *s = NULL;
        struct err err = {0};
        int r;

        remove_files();
        r = store_open(path, &s, &err);
        if (r == 0)
                r = use(s, &err);
        MUST(r >= 0 || err.kind != ERR_NONE);
        s = store_close(s);
        return r;
}

int main(void)
{
        static const sqlite3_mem_methods methods = {sq_malloc,  sq_free, sq_realloc,  sq_size,
                                                    sq_roundup, sq_init, sq_shutdown, NULL};

        if (sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) != SQLITE_OK || !mkdtemp(dir))
                return 1;
        (void)snprintf(path, sizeof(path), "%s/db", dir);
        if (a_store_works_or_says_why_not() != 0) /* also lets SQLite allocate what it keeps */
                return 1;
        EACH(a_store_works_or_says_why_not);
        remove_files();
        (void)rmdir(dir);
        return fault_done();
}
