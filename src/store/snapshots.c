#include "store/store.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "store/db.h"

int store_snapshot_add(struct store *s, const struct snapshot *sn, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_SNAPSHOT_ADD];
        const int64_t numbers[][2] = {
                {5, sn->team},       {7, sn->created_ns}, {11, sn->image_secured},
                {12, sn->cpu_count}, {13, sn->memory_mb}, {14, sn->disk_mb},
        };
        int r = db_keep_row_room(s, err, "add snapshot");

        if (r < 0)
                return r;
        db_bind_text(q, 1, sn->id);
        db_bind_text(q, 2, sn->template_id);
        db_bind_text(q, 3, sn->name);
        db_bind_text(q, 4, sn->tag);
        db_bind_text(q, 6, sn->source);
        db_bind_text(q, 8, sn->checkpoint);
        db_bind_text(q, 10, sn->image_of);
        db_bind_text(q, 16, sn->default_user);
        db_bind_text(q, 17, sn->default_workdir);
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                (void)sqlite3_bind_int64(q, (int)numbers[i][0], numbers[i][1]);
        if (db_bind_json(q, 9, sn->layers) < 0 || db_bind_json(q, 15, sn->env) < 0)
                r = err_sys(err, -ENOMEM, "store: add snapshot");
        else
                r = db_run(s, DB_SNAPSHOT_ADD, err, "add snapshot");
        (void)sqlite3_clear_bindings(q);
        return r;
}

int store_snapshot_set_layers(struct store *s, const char *id, const json_t *layers, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_SNAPSHOT_LAYERS];
        int r = db_keep_change_room(s, err, "update snapshot");

        if (r < 0)
                return r;
        db_bind_text(q, 2, id);
        if (db_bind_json(q, 1, layers) < 0)
                r = err_sys(err, -ENOMEM, "store: update snapshot");
        else
                r = db_run(s, DB_SNAPSHOT_LAYERS, err, "update snapshot");
        (void)sqlite3_clear_bindings(q);
        return r;
}

int store_snapshot_remove(struct store *s, const char *id, struct err *err)
{
        db_bind_text(s->statement[DB_SNAPSHOT_REMOVE], 1, id);
        return db_run(s, DB_SNAPSHOT_REMOVE, err, "remove snapshot");
}

static int snapshot_read_names(sqlite3_stmt *q, struct snapshot *sn)
{
        int r;

        if ((r = db_column_id(q, 0, sn->id, sizeof(sn->id))) < 0 ||
            (r = db_column_id(q, 1, sn->template_id, sizeof(sn->template_id))) < 0 ||
            (r = db_column_id(q, 5, sn->source, sizeof(sn->source))) < 0 ||
            (r = db_column_id(q, 7, sn->checkpoint, sizeof(sn->checkpoint))) < 0 ||
            (r = db_column_id(q, 9, sn->image_of, sizeof(sn->image_of))) < 0 ||
            (r = db_column_text(q, 2, &sn->name)) < 0 || (r = db_column_text(q, 3, &sn->tag)) < 0 ||
            (r = db_column_text(q, 15, &sn->default_user)) < 0)
                return r;
        return db_column_text(q, 16, &sn->default_workdir);
}

static int snapshot_read_row(sqlite3_stmt *q, struct snapshot *sn)
{
        int r = snapshot_read_names(q, sn);

        sn->team = sqlite3_column_int64(q, 4);
        sn->created_ns = sqlite3_column_int64(q, 6);
        sn->image_secured = sqlite3_column_int(q, 10) != 0;
        sn->cpu_count = (uint32_t)sqlite3_column_int64(q, 11);
        sn->memory_mb = (uint32_t)sqlite3_column_int64(q, 12);
        sn->disk_mb = (uint32_t)sqlite3_column_int64(q, 13);
        if (r == 0)
                r = db_column_json(q, 8, &sn->layers);
        return r < 0 ? r : db_column_json(q, 14, &sn->env);
}

int store_snapshot_each(struct store *s, int (*each)(struct snapshot *sn, void *arg), void *arg, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_SNAPSHOT_ALL];
        int step, r = 0;

        while (r >= 0 && (step = sqlite3_step(q)) != SQLITE_DONE) {
                struct snapshot sn = {0};

                if (step != SQLITE_ROW) {
                        r = db_fail(s->db, err, "read snapshots");
                        break;
                }
                r = snapshot_read_row(q, &sn);
                if (r == 0)
                        r = each(&sn, arg);
                snapshot_done(&sn);
                if (r < 0)
                        err_sys(err, r, "store: read snapshots");
        }
        sqlite3_reset(q);
        return r < 0 ? r : 0;
}
