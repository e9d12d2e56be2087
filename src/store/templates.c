#include "store/templates.h"

#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "store/db.h"

static void bind_template(sqlite3_stmt *q, const struct store_template *t)
{
        const int64_t numbers[][2] = {
                {2, t->team},       {4, t->is_public},   {5, t->is_bare},         {6, t->created_ns},
                {7, t->updated_ns}, {8, t->spawn_count}, {9, t->last_spawned_ns}, {10, t->build_count},
        };

        db_bind_text(q, 1, t->id);
        db_bind_text(q, 3, t->alias);
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                (void)sqlite3_bind_int64(q, (int)numbers[i][0], numbers[i][1]);
}

int store_template_add(struct store *s, const struct store_template *t, struct err *err)
{
        int r = db_keep_row_room(s, err, "add template");

        if (r < 0)
                return r;
        bind_template(s->statement[DB_TEMPLATE_ADD], t);
        r = db_run(s, DB_TEMPLATE_ADD, err, "add template");
        (void)sqlite3_clear_bindings(s->statement[DB_TEMPLATE_ADD]);
        return r;
}

int store_template_update(struct store *s, const struct store_template *t, struct err *err)
{
        int r = db_keep_change_room(s, err, "update template");

        if (r < 0)
                return r;
        bind_template(s->statement[DB_TEMPLATE_UPDATE], t);
        r = db_run(s, DB_TEMPLATE_UPDATE, err, "update template");
        (void)sqlite3_clear_bindings(s->statement[DB_TEMPLATE_UPDATE]);
        return r;
}

static int run_with_id(struct store *s, enum db_statement which, const char *id, struct err *err)
{
        int r;

        db_bind_text(s->statement[which], 1, id);
        r = db_run(s, which, err, "remove template");
        (void)sqlite3_clear_bindings(s->statement[which]);
        return r;
}

int store_template_remove(struct store *s, const char *id, struct err *err)
{
        return run_with_id(s, DB_TEMPLATE_REMOVE, id, err);
}

int store_tags_remove(struct store *s, const char *template_id, struct err *err)
{
        return run_with_id(s, DB_TAGS_REMOVE, template_id, err);
}

static int template_read(sqlite3_stmt *q, struct store_template *t)
{
        int r = db_column_id(q, 0, t->id, sizeof(t->id));

        t->team = sqlite3_column_int64(q, 1);
        t->alias = (const char *)sqlite3_column_text(q, 2);
        t->is_public = sqlite3_column_int(q, 3) != 0;
        t->is_bare = sqlite3_column_int(q, 4) != 0;
        t->created_ns = sqlite3_column_int64(q, 5);
        t->updated_ns = sqlite3_column_int64(q, 6);
        t->spawn_count = sqlite3_column_int64(q, 7);
        t->last_spawned_ns = sqlite3_column_int64(q, 8);
        t->build_count = (uint32_t)sqlite3_column_int64(q, 9);
        return r;
}

int store_template_each(struct store *s, int (*each)(const struct store_template *t, void *arg), void *arg,
                        struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_TEMPLATE_ALL];
        int step, r = 0;

        while (r >= 0 && (step = sqlite3_step(q)) != SQLITE_DONE) {
                struct store_template t = {0};

                if (step != SQLITE_ROW) {
                        r = db_fail(s->db, err, "read templates");
                        break;
                }
                r = template_read(q, &t);
                if (r == 0)
                        r = each(&t, arg);
                if (r < 0)
                        err_sys(err, r, "store: read templates");
        }
        sqlite3_reset(q);
        return r < 0 ? r : 0;
}

/* ---- tags ---- */

int store_tag_put(struct store *s, const struct store_tag *t, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_TAG_PUT];
        int r = db_keep_row_room(s, err, "add tag");

        if (r < 0)
                return r;
        db_bind_text(q, 1, t->template_id);
        db_bind_text(q, 2, t->tag);
        db_bind_text(q, 3, t->build_id);
        (void)sqlite3_bind_int64(q, 4, t->created_ns);
        r = db_run(s, DB_TAG_PUT, err, "add tag");
        (void)sqlite3_clear_bindings(q);
        return r;
}

int store_tag_remove(struct store *s, const char *template_id, const char *tag, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_TAG_REMOVE];
        int r;

        db_bind_text(q, 1, template_id);
        db_bind_text(q, 2, tag);
        r = db_run(s, DB_TAG_REMOVE, err, "remove tag");
        (void)sqlite3_clear_bindings(q);
        return r;
}

int store_tag_each(struct store *s, int (*each)(const struct store_tag *t, void *arg), void *arg, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_TAG_ALL];
        int step, r = 0;

        while (r >= 0 && (step = sqlite3_step(q)) != SQLITE_DONE) {
                struct store_tag t = {0};

                if (step != SQLITE_ROW) {
                        r = db_fail(s->db, err, "read tags");
                        break;
                }
                r = db_column_id(q, 0, t.template_id, sizeof(t.template_id));
                if (r == 0)
                        r = db_column_id(q, 2, t.build_id, sizeof(t.build_id));
                t.tag = (const char *)sqlite3_column_text(q, 1);
                t.created_ns = sqlite3_column_int64(q, 3);
                if (r == 0)
                        r = each(&t, arg);
                if (r < 0)
                        err_sys(err, r, "store: read tags");
        }
        sqlite3_reset(q);
        return r < 0 ? r : 0;
}
