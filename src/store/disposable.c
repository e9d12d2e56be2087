/* What may be deleted, and tokens in images that came from elsewhere. */
#include "base/err.h"
#include "store/db.h"
#include "store/store.h"

static int db_run_with(struct store *s, enum db_statement which, const char *name, struct err *err, const char *what)
{
        (void)sqlite3_bind_text(s->statement[which], 1, name, -1, SQLITE_STATIC);
        return db_run(s, which, err, what);
}

int store_disposable_add(struct store *s, const char *name, struct err *err)
{
        return db_run_with(s, DB_DISPOSABLE_ADD, name, err, "add disposable");
}

int store_disposable_remove(struct store *s, const char *name, struct err *err)
{
        return db_run_with(s, DB_DISPOSABLE_REMOVE, name, err, "remove disposable");
}

int store_image_token_add(struct store *s, const char *checkpoint, const char *token, struct err *err)
{
        (void)sqlite3_bind_text(s->statement[DB_IMAGE_TOKEN_ADD], 2, token, -1, SQLITE_STATIC);
        return db_run_with(s, DB_IMAGE_TOKEN_ADD, checkpoint, err, "add image token");
}

int store_image_token_remove(struct store *s, const char *checkpoint, struct err *err)
{
        return db_run_with(s, DB_IMAGE_TOKEN_REMOVE, checkpoint, err, "remove image token");
}

struct store_walk {
        int (*name)(const char *name, void *arg);
        int (*token)(const char *checkpoint, const char *token, void *arg);
        void *arg;
};

static int store_walk_names(struct store *s, enum db_statement which, const struct store_walk *w, struct err *err)
{
        sqlite3_stmt *q = s->statement[which];
        int step, r = 0;

        while (r >= 0 && (step = sqlite3_step(q)) != SQLITE_DONE) {
                const char *name, *token;

                if (step != SQLITE_ROW) {
                        r = db_fail(s->db, err, "read names");
                        break;
                }
                name = (const char *)sqlite3_column_text(q, 0);
                token = w->token ? (const char *)sqlite3_column_text(q, 1) : "";
                if (name && token)
                        r = w->token ? w->token(name, token, w->arg) : w->name(name, w->arg);
                if (r < 0)
                        err_sys(err, r, "store: read names");
        }
        sqlite3_reset(q);
        return r < 0 ? r : 0;
}

int store_disposable_each(struct store *s, int (*each)(const char *name, void *arg), void *arg, struct err *err)
{
        return store_walk_names(s, DB_DISPOSABLE_ALL, &(struct store_walk){.name = each, .arg = arg}, err);
}

int store_image_token_each(struct store *s, int (*each)(const char *checkpoint, const char *token, void *arg),
                           void *arg, struct err *err)
{
        return store_walk_names(s, DB_IMAGE_TOKEN_ALL, &(struct store_walk){.token = each, .arg = arg}, err);
}
