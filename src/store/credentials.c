#include "store/credentials.h"

#include "base/err.h"
#include "store/db.h"
#include "store/store.h"

static void bind_text(sqlite3_stmt *q, int at, const char *text) /* "" stays "" */
{
        (void)sqlite3_bind_text(q, at, text, -1, SQLITE_STATIC);
}

static void bind_place(sqlite3_stmt *q, const struct store_credential *c)
{
        (void)sqlite3_bind_int64(q, 1, c->team);
        bind_text(q, 2, c->owner);
        bind_text(q, 3, c->name);
}

int store_credential_put(struct store *s, const struct store_credential *c, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_CREDENTIAL_PUT];
        int r = db_keep_row_room(s, err, "add credential");

        if (r < 0)
                return r;
        bind_place(q, c);
        (void)sqlite3_bind_blob(q, 4, c->sealed.p, (int)c->sealed.n, SQLITE_STATIC);
        (void)sqlite3_bind_int64(q, 5, c->created_ns);
        (void)sqlite3_bind_int64(q, 6, c->updated_ns);
        r = db_run(s, DB_CREDENTIAL_PUT, err, "add credential");
        (void)sqlite3_clear_bindings(q);
        return r;
}

int store_credential_remove(struct store *s, const struct store_credential *which, bool *ret_was_there, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_CREDENTIAL_REMOVE];
        int r;

        bind_place(q, which);
        r = db_run(s, DB_CREDENTIAL_REMOVE, err, "remove credential");
        (void)sqlite3_clear_bindings(q);
        if (r == 0 && ret_was_there)
                *ret_was_there = sqlite3_changes(s->db) > 0;
        return r;
}

static int credentials_walk(struct store *s, sqlite3_stmt *q, store_credential_fn each, void *arg, struct err *err)
{
        int step, r = 0;

        while (r >= 0 && (step = sqlite3_step(q)) != SQLITE_DONE) {
                struct store_credential c;

                if (step != SQLITE_ROW) {
                        r = db_fail(s->db, err, "read credentials");
                        break;
                }
                c = (struct store_credential){
                        .team = sqlite3_column_int64(q, 0),
                        .owner = (const char *)sqlite3_column_text(q, 1),
                        .name = (const char *)sqlite3_column_text(q, 2),
                        .created_ns = sqlite3_column_int64(q, 4),
                        .updated_ns = sqlite3_column_int64(q, 5),
                };
                c.sealed.p = sqlite3_column_blob(q, 3);
                c.sealed.n = c.sealed.p ? (size_t)sqlite3_column_bytes(q, 3) : 0;
                if (!c.owner || !c.name || !c.sealed.p) /* none of the columns can be NULL or empty */
                        r = err_set(err, ERR_LIMIT, "store: read credentials: out of memory");
                else
                        r = each(&c, arg);
        }
        sqlite3_reset(q);
        (void)sqlite3_clear_bindings(q);
        return r < 0 ? r : 0;
}

int store_credential_of(struct store *s, int64_t team, const char *owner, store_credential_fn each, void *arg,
                        struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_CREDENTIAL_OF];

        (void)sqlite3_bind_int64(q, 1, team);
        bind_text(q, 2, owner);
        return credentials_walk(s, q, each, arg, err);
}

int store_credential_each(struct store *s, store_credential_fn each, void *arg, struct err *err)
{
        return credentials_walk(s, s->statement[DB_CREDENTIAL_ALL], each, arg, err);
}

int store_credential_usage(struct store *s, const struct store_credential *of, struct store_credential_usage *ret,
                           struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_CREDENTIAL_USAGE];
        int r = 0;

        bind_place(q, of);
        if (sqlite3_step(q) == SQLITE_ROW)
                *ret = (struct store_credential_usage){.count = (uint64_t)sqlite3_column_int64(q, 0),
                                                       .bytes = (uint64_t)sqlite3_column_int64(q, 1),
                                                       .team_count = (uint64_t)sqlite3_column_int64(q, 2)};
        else
                r = db_fail(s->db, err, "count credentials");
        sqlite3_reset(q);
        (void)sqlite3_clear_bindings(q);
        return r;
}
