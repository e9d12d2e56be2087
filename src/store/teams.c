/* Teams, their keys, and the seed of the tokens. */
#include "store/store.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/db.h"

static void team_bind_text(sqlite3_stmt *q, int at, const char *s)
{
        (void)sqlite3_bind_text(q, at, s, -1, SQLITE_STATIC);
}

static const char *team_column(sqlite3_stmt *q, int at)
{
        const char *s = (const char *)sqlite3_column_text(q, at);

        return s ? s : "";
}

static void copy_uuid(char out[UUID_MAX], const char *s)
{
        size_t n = strnlen(s, UUID_MAX - 1);

        memcpy(out, s, n);
        out[n] = 0;
}

int store_seed(struct store *s, uint8_t ret[STORE_SEED_LEN], struct err *err)
{
        sqlite3_stmt *get = s->statement[DB_SETTING_GET], *put = s->statement[DB_SETTING_PUT];
        int step, r = 0;

        team_bind_text(get, 1, "token_seed");
        step = sqlite3_step(get);
        if (step == SQLITE_ROW && sqlite3_column_bytes(get, 0) == STORE_SEED_LEN)
                memcpy(ret, sqlite3_column_blob(get, 0), STORE_SEED_LEN);
        else if (step == SQLITE_ROW)
                r = err_set(err, ERR_INVALID, "store: the token seed is damaged");
        else if (step != SQLITE_DONE)
                r = db_fail(s->db, err, "read seed");
        sqlite3_reset(get);
        if (r < 0 || step == SQLITE_ROW)
                return r;

        random_bytes(ret, STORE_SEED_LEN);
        team_bind_text(put, 1, "token_seed");
        (void)sqlite3_bind_blob(put, 2, ret, STORE_SEED_LEN, SQLITE_STATIC);
        return db_run(s, DB_SETTING_PUT, err, "write seed");
}

int store_team_add(struct store *s, const struct store_team *t, int64_t *ret_no, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_TEAM_ADD];
        int r;

        r = db_keep_change_room(s, err, "add team");
        if (r < 0)
                return r;
        team_bind_text(q, 1, t->id);
        team_bind_text(q, 2, t->slug);
        team_bind_text(q, 3, t->name);
        (void)sqlite3_bind_int64(q, 4, clock_real_ns());
        r = db_run(s, DB_TEAM_ADD, err, "add team");
        if (r < 0)
                return r;
        *ret_no = sqlite3_last_insert_rowid(s->db);
        return 0;
}

int store_team_each(struct store *s, int (*each)(const struct store_team *t, void *arg), void *arg, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_TEAM_ALL];
        int step, r = 0;

        while (r >= 0 && (step = sqlite3_step(q)) != SQLITE_DONE) {
                struct store_team t = {.no = sqlite3_column_int64(q, 0)};

                if (step != SQLITE_ROW) {
                        r = db_fail(s->db, err, "read teams");
                        break;
                }
                copy_uuid(t.id, team_column(q, 1));
                t.slug = team_column(q, 2);
                t.name = team_column(q, 3);
                r = each(&t, arg);
                if (r < 0)
                        err_sys(err, r, "store: read teams");
        }
        sqlite3_reset(q);
        return r < 0 ? r : 0;
}

int store_key_add(struct store *s, const struct store_key *k, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_KEY_ADD];
        int r = db_keep_change_room(s, err, "add key");

        if (r < 0)
                return r;
        team_bind_text(q, 1, k->id);
        (void)sqlite3_bind_int64(q, 2, k->team);
        team_bind_text(q, 3, k->name);
        team_bind_text(q, 4, k->mask);
        (void)sqlite3_bind_blob(q, 5, k->hash, STORE_KEY_HASH_LEN, SQLITE_STATIC);
        (void)sqlite3_bind_int64(q, 6, k->created_ns);
        (void)sqlite3_bind_int(q, 7, (int)k->kind);
        if (k->kind == STORE_KEY_USER)
                (void)sqlite3_bind_int64(q, 8, k->uid);
        else
                (void)sqlite3_bind_null(q, 8);
        (void)sqlite3_bind_int64(q, 9, k->last_used_ns);
        return db_run(s, DB_KEY_ADD, err, "add key");
}

int store_key_remove(struct store *s, const char *id, struct err *err)
{
        team_bind_text(s->statement[DB_KEY_REMOVE], 1, id);
        return db_run(s, DB_KEY_REMOVE, err, "remove key");
}

int store_key_used(struct store *s, const char *id, int64_t at_ns, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_KEY_USED];

        (void)sqlite3_bind_int64(q, 1, at_ns);
        team_bind_text(q, 2, id);
        return db_run(s, DB_KEY_USED, err, "note the use of a key");
}

int store_key_each(struct store *s, int (*each)(const struct store_key *k, void *arg), void *arg, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_KEY_ALL];
        int step, r = 0;

        while (r >= 0 && (step = sqlite3_step(q)) != SQLITE_DONE) {
                struct store_key k = {.team = sqlite3_column_int64(q, 1)};

                if (step != SQLITE_ROW) {
                        r = db_fail(s->db, err, "read keys");
                        break;
                }
                copy_uuid(k.id, team_column(q, 0));
                k.name = team_column(q, 2);
                k.mask = team_column(q, 3);
                if (sqlite3_column_bytes(q, 4) == STORE_KEY_HASH_LEN) /* the schema holds it to that */
                        memcpy(k.hash, sqlite3_column_blob(q, 4), STORE_KEY_HASH_LEN);
                k.created_ns = sqlite3_column_int64(q, 5);
                k.kind = (enum store_key_kind)sqlite3_column_int(q, 6);
                k.uid = (uint32_t)sqlite3_column_int64(q, 7);
                k.last_used_ns = sqlite3_column_int64(q, 8);
                r = each(&k, arg);
                if (r < 0)
                        err_sys(err, r, "store: read keys");
        }
        sqlite3_reset(q);
        return r < 0 ? r : 0;
}
