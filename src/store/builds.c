#include "store/templates.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "store/db.h"

/* The columns in the order of BUILD_COLUMNS in store.c. */
static int bind_build(sqlite3_stmt *q, const struct build *b)
{
        const int64_t numbers[][2] = {
                {3, b->number},    {4, b->status},         {6, b->cpu_count},   {7, b->memory_mb},
                {8, b->disk_mb},   {9, b->created_ns},     {10, b->updated_ns}, {11, b->finished_ns},
                {13, b->attempts}, {17, b->image_secured},
        };

        db_bind_text(q, 1, b->id);
        db_bind_text(q, 2, b->template_id);
        db_bind_text(q, 14, b->checkpoint);
        db_bind_text(q, 16, b->image_of);
        db_bind_text(q, 19, b->default_user);
        db_bind_text(q, 20, b->default_workdir);
        db_bind_text(q, 21, b->start_cmd);
        db_bind_text(q, 22, b->ready_cmd);
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                (void)sqlite3_bind_int64(q, (int)numbers[i][0], numbers[i][1]);
        if (db_bind_json(q, 5, b->tags) < 0 || db_bind_json(q, 12, b->reason) < 0 ||
            db_bind_json(q, 15, b->layers) < 0 || db_bind_json(q, 18, b->env) < 0)
                return -ENOMEM;
        return 0;
}

static int write_build(struct store *s, enum db_statement which, const struct build *b, struct err *err)
{
        sqlite3_stmt *q = s->statement[which];
        int r;

        if (bind_build(q, b) < 0)
                r = err_sys(err, -ENOMEM, "store: write build");
        else
                r = db_run(s, which, err, "write build");
        (void)sqlite3_clear_bindings(q);
        return r;
}

int store_build_add(struct store *s, const struct build *b, struct err *err)
{
        int r = db_keep_row_room(s, err, "add build");

        return r < 0 ? r : write_build(s, DB_BUILD_ADD, b, err);
}

int store_build_update(struct store *s, const struct build *b, struct err *err)
{
        int r = db_keep_change_room(s, err, "update build");

        return r < 0 ? r : write_build(s, DB_BUILD_UPDATE, b, err);
}

int store_build_set_request(struct store *s, const char *id, const json_t *request, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_BUILD_SET_REQUEST];
        int r = request ? db_keep_row_room(s, err, "update build") : 0;

        if (r < 0)
                return r;
        db_bind_text(q, 2, id);
        if (db_bind_json(q, 1, request) < 0)
                r = err_sys(err, -ENOMEM, "store: update build");
        else
                r = db_run(s, DB_BUILD_SET_REQUEST, err, "update build");
        (void)sqlite3_clear_bindings(q);
        return r;
}

int store_build_request(struct store *s, const char *id, json_t **ret, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_BUILD_REQUEST];
        json_t *request = NULL;
        int step, r = 0;

        db_bind_text(q, 1, id);
        step = sqlite3_step(q);
        if (step == SQLITE_ROW)
                r = db_column_json(q, 0, &request);
        if (step != SQLITE_ROW && step != SQLITE_DONE)
                r = db_fail(s->db, err, "read build");
        else if (r < 0)
                err_sys(err, r, "store: read build");
        sqlite3_reset(q);
        (void)sqlite3_clear_bindings(q);
        if (r == 0)
                *ret = request;
        return r;
}

int store_build_remove(struct store *s, const char *id, struct err *err)
{
        int r;

        db_bind_text(s->statement[DB_BUILD_REMOVE], 1, id);
        r = db_run(s, DB_BUILD_REMOVE, err, "remove build");
        (void)sqlite3_clear_bindings(s->statement[DB_BUILD_REMOVE]);
        return r;
}

static int build_read_texts(sqlite3_stmt *q, struct build *b)
{
        int r;

        if ((r = db_column_id(q, 0, b->id, sizeof(b->id))) < 0 ||
            (r = db_column_id(q, 1, b->template_id, sizeof(b->template_id))) < 0 ||
            (r = db_column_id(q, 13, b->checkpoint, sizeof(b->checkpoint))) < 0 ||
            (r = db_column_id(q, 15, b->image_of, sizeof(b->image_of))) < 0 ||
            (r = db_column_text(q, 18, &b->default_user)) < 0 || (r = db_column_text(q, 19, &b->default_workdir)) < 0 ||
            (r = db_column_text(q, 20, &b->start_cmd)) < 0)
                return r;
        return db_column_text(q, 21, &b->ready_cmd);
}

static int build_read_objects(sqlite3_stmt *q, struct build *b)
{
        int r;

        if ((r = db_column_json(q, 4, &b->tags)) < 0 || (r = db_column_json(q, 11, &b->reason)) < 0 ||
            (r = db_column_json(q, 14, &b->layers)) < 0)
                return r;
        return db_column_json(q, 17, &b->env);
}

static int build_read(sqlite3_stmt *q, struct build *b)
{
        int status = sqlite3_column_int(q, 3), r = build_read_texts(q, b);

        b->number = (uint32_t)sqlite3_column_int64(q, 2);
        b->status = (enum build_status)status;
        b->cpu_count = (uint32_t)sqlite3_column_int64(q, 5);
        b->memory_mb = (uint32_t)sqlite3_column_int64(q, 6);
        b->disk_mb = (uint32_t)sqlite3_column_int64(q, 7);
        b->created_ns = sqlite3_column_int64(q, 8);
        b->updated_ns = sqlite3_column_int64(q, 9);
        b->finished_ns = sqlite3_column_int64(q, 10);
        b->attempts = (uint32_t)sqlite3_column_int64(q, 12);
        b->image_secured = sqlite3_column_int(q, 16) != 0;
        if (r == 0 && (status < BUILD_WAITING || status > BUILD_ERROR))
                r = -EBADMSG;
        return r < 0 ? r : build_read_objects(q, b);
}

int store_build_each(struct store *s, int (*each)(struct build *b, void *arg), void *arg, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_BUILD_ALL];
        int step, r = 0;

        while (r >= 0 && (step = sqlite3_step(q)) != SQLITE_DONE) {
                struct build b = {0};

                if (step != SQLITE_ROW) {
                        r = db_fail(s->db, err, "read builds");
                        break;
                }
                r = build_read(q, &b);
                if (r == 0)
                        r = each(&b, arg);
                build_done(&b);
                if (r < 0)
                        err_sys(err, r, "store: read builds");
        }
        sqlite3_reset(q);
        return r < 0 ? r : 0;
}
