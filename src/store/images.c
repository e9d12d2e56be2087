#include "store/templates.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "store/db.h"

int store_image_put(struct store *s, const struct store_image *i, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_IMAGE_PUT];
        int r = db_keep_row_room(s, err, "add image");

        if (r < 0)
                return r;
        db_bind_text(q, 1, i->name);
        db_bind_text(q, 2, i->digest);
        (void)sqlite3_bind_int64(q, 5, i->bytes);
        (void)sqlite3_bind_int64(q, 6, i->created_ns);
        db_bind_text(q, 7, i->source);
        if (db_bind_json(q, 3, i->layers) < 0 || db_bind_json(q, 4, i->config) < 0)
                r = err_sys(err, -ENOMEM, "store: add image");
        else
                r = db_run(s, DB_IMAGE_PUT, err, "add image");
        (void)sqlite3_clear_bindings(q);
        return r;
}

int store_image_remove(struct store *s, const char *name, struct err *err)
{
        int r;

        db_bind_text(s->statement[DB_IMAGE_REMOVE], 1, name);
        r = db_run(s, DB_IMAGE_REMOVE, err, "remove image");
        (void)sqlite3_clear_bindings(s->statement[DB_IMAGE_REMOVE]);
        return r;
}

static int image_read(sqlite3_stmt *q, int (*each)(const struct store_image *i, void *arg), void *arg)
{
        json_t *layers = NULL, *config = NULL;
        struct store_image i = {
                .name = (const char *)sqlite3_column_text(q, 0),
                .digest = (const char *)sqlite3_column_text(q, 1),
                .bytes = sqlite3_column_int64(q, 4),
                .created_ns = sqlite3_column_int64(q, 5),
                .source = (const char *)sqlite3_column_text(q, 6),
        };
        int r = db_column_json(q, 2, &layers);

        if (r == 0)
                r = db_column_json(q, 3, &config);
        i.layers = layers;
        i.config = config;
        if (r == 0)
                r = each(&i, arg);
        json_decref(layers);
        json_decref(config);
        return r;
}

int store_image_each(struct store *s, int (*each)(const struct store_image *i, void *arg), void *arg, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_IMAGE_ALL];
        int step, r = 0;

        while (r >= 0 && (step = sqlite3_step(q)) != SQLITE_DONE) {
                if (step != SQLITE_ROW) {
                        r = db_fail(s->db, err, "read images");
                        break;
                }
                r = image_read(q, each, arg);
                if (r < 0)
                        err_sys(err, r, "store: read images");
        }
        sqlite3_reset(q);
        return r < 0 ? r : 0;
}
