#include "store/templates.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "store/db.h"

int store_cached_put(struct store *s, const struct store_cached *c, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_CACHED_PUT];
        int r = db_keep_row_room(s, err, "cache a step");

        if (r < 0)
                return r;
        (void)sqlite3_bind_int64(q, 1, c->team);
        db_bind_text(q, 2, c->key);
        db_bind_text(q, 3, c->layer);
        (void)sqlite3_bind_int64(q, 5, c->used_ns);
        if (db_bind_json(q, 4, c->context) < 0)
                r = err_sys(err, -ENOMEM, "store: cache a step");
        else
                r = db_run(s, DB_CACHED_PUT, err, "cache a step");
        (void)sqlite3_clear_bindings(q);
        return r;
}

int store_cached_get(struct store *s, int64_t team, const char *key, char ret_layer[SEALED_ID_MAX],
                     json_t **ret_context, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_CACHED_GET];
        char layer[SEALED_ID_MAX] = "";
        json_t *context = NULL;
        int step, r = 0;

        (void)sqlite3_bind_int64(q, 1, team);
        db_bind_text(q, 2, key);
        step = sqlite3_step(q);
        if (step == SQLITE_ROW && (r = db_column_id(q, 0, layer, sizeof(layer))) == 0)
                r = db_column_json(q, 1, &context);
        if (step != SQLITE_ROW && step != SQLITE_DONE)
                r = db_fail(s->db, err, "read a cached step");
        else if (r < 0)
                err_sys(err, r, "store: read a cached step");
        sqlite3_reset(q);
        (void)sqlite3_clear_bindings(q);
        if (r < 0 || step != SQLITE_ROW)
                return r;
        memcpy(ret_layer, layer, sizeof(layer));
        *ret_context = context;
        return 1;
}

int store_cached_used(struct store *s, int64_t team, const char *key, int64_t used_ns, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_CACHED_USED];
        int r = db_keep_change_room(s, err, "note the use of a cached step");

        if (r < 0)
                return r;
        (void)sqlite3_bind_int64(q, 1, used_ns);
        (void)sqlite3_bind_int64(q, 2, team);
        db_bind_text(q, 3, key);
        r = db_run(s, DB_CACHED_USED, err, "note the use of a cached step");
        (void)sqlite3_clear_bindings(q);
        return r;
}

int store_cached_remove(struct store *s, int64_t team, const char *key, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_CACHED_REMOVE];
        int r;

        (void)sqlite3_bind_int64(q, 1, team);
        db_bind_text(q, 2, key);
        r = db_run(s, DB_CACHED_REMOVE, err, "forget a cached step");
        (void)sqlite3_clear_bindings(q);
        return r;
}

int store_cached_each(struct store *s, int (*each)(const struct store_cached *c, void *arg), void *arg, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_CACHED_ALL];
        int step, r = 0;

        while (r >= 0 && (step = sqlite3_step(q)) != SQLITE_DONE) {
                struct store_cached c = {0};

                if (step != SQLITE_ROW) {
                        r = db_fail(s->db, err, "read cached steps");
                        break;
                }
                c.team = sqlite3_column_int64(q, 0);
                c.key = (const char *)sqlite3_column_text(q, 1);
                c.layer = (const char *)sqlite3_column_text(q, 2);
                c.used_ns = sqlite3_column_int64(q, 3);
                r = each(&c, arg);
                if (r < 0)
                        err_sys(err, r, "store: read cached steps");
        }
        sqlite3_reset(q);
        return r < 0 ? r : 0;
}
