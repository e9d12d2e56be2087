#include "store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "store/db.h"

int store_sandbox_add(struct store *s, const struct sandbox *sb, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_SANDBOX_ADD];
        const int64_t numbers[][2] = {
                {2, sb->team},       {3, sb->state},       {6, sb->started_ns},         {7, sb->end_ns},
                {8, sb->cpu_count},  {9, sb->memory_mb},   {10, sb->disk_mb},           {11, sb->is_secured},
                {12, sb->internet},  {19, sb->auto_pause}, {20, sb->auto_pause_memory}, {21, sb->auto_resume},
                {22, sb->timeout_s}, {24, sb->upper_kept}, {26, sb->image_secured},     {27, sb->purpose},
        };
        int r = db_keep_row_room(s, err, "add sandbox");

        if (r < 0)
                return r;
        db_bind_text(q, 1, sb->id);
        db_bind_text(q, 4, sb->template_id);
        db_bind_text(q, 5, sb->alias);
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                (void)sqlite3_bind_int64(q, (int)numbers[i][0], numbers[i][1]);
        db_bind_text(q, 17, sb->default_user);
        db_bind_text(q, 18, sb->default_workdir);
        db_bind_text(q, 23, sb->checkpoint);
        db_bind_text(q, 25, sb->image_of);
        if (db_bind_json(q, 13, sb->metadata) < 0 || db_bind_json(q, 14, sb->network) < 0 ||
            db_bind_json(q, 15, sb->mcp) < 0 || db_bind_json(q, 16, sb->layers) < 0 || db_bind_json(q, 28, sb->env) < 0)
                r = err_sys(err, -ENOMEM, "store: add sandbox");
        else
                r = db_run(s, DB_SANDBOX_ADD, err, "add sandbox");
        (void)sqlite3_clear_bindings(q); /* what it borrowed or owns for long is not kept */
        return r;
}

int store_sandbox_update(struct store *s, const struct sandbox *sb, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_SANDBOX_UPDATE];
        const int64_t numbers[][2] = {
                {2, sb->state},      {3, sb->started_ns}, {4, sb->end_ns},
                {6, sb->auto_pause}, {8, sb->upper_kept}, {10, sb->image_secured},
        };
        int r = db_keep_change_room(s, err, "update sandbox");

        if (r < 0)
                return r;
        db_bind_text(q, 1, sb->id);
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                (void)sqlite3_bind_int64(q, (int)numbers[i][0], numbers[i][1]);
        db_bind_text(q, 7, sb->checkpoint);
        db_bind_text(q, 9, sb->image_of);
        if (db_bind_json(q, 5, sb->layers) < 0)
                r = err_sys(err, -ENOMEM, "store: update sandbox");
        else
                r = db_run(s, DB_SANDBOX_UPDATE, err, "update sandbox");
        (void)sqlite3_clear_bindings(q);
        return r;
}

int store_sandbox_env(struct store *s, const char *id, json_t **ret, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_SANDBOX_ENV];
        json_t *env = NULL;
        int r = 0;

        db_bind_text(q, 1, id);
        switch (sqlite3_step(q)) {
        case SQLITE_ROW:
                r = db_column_json(q, 0, &env);
                if (r < 0)
                        err_sys(err, r, "store: environment of a sandbox");
                break;
        case SQLITE_DONE: r = err_set(err, ERR_NOT_FOUND, "store: no such sandbox"); break;
        default: r = db_fail(s->db, err, "read sandbox"); break;
        }
        sqlite3_reset(q);
        if (r == 0)
                *ret = env;
        return r;
}

int store_sandbox_started(struct store *s, const char *id, int64_t started_ns, int64_t end_ns, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_SANDBOX_STARTED];
        int r = db_keep_change_room(s, err, "start sandbox");

        if (r < 0)
                return r;
        (void)sqlite3_bind_int(q, 1, SANDBOX_RUNNING);
        (void)sqlite3_bind_int64(q, 2, started_ns);
        (void)sqlite3_bind_int64(q, 3, end_ns);
        (void)sqlite3_bind_text(q, 4, id, -1, SQLITE_STATIC);
        return db_run(s, DB_SANDBOX_STARTED, err, "start sandbox");
}

int store_sandbox_set_end(struct store *s, const char *id, int64_t end_ns, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_SANDBOX_END];
        int r = db_keep_change_room(s, err, "set end of sandbox");

        if (r < 0)
                return r;
        (void)sqlite3_bind_int64(q, 1, end_ns);
        (void)sqlite3_bind_text(q, 2, id, -1, SQLITE_STATIC);
        return db_run(s, DB_SANDBOX_END, err, "set end of sandbox");
}

int store_sandbox_kill(struct store *s, const char *id, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_SANDBOX_KILL];

        (void)sqlite3_bind_int(q, 1, SANDBOX_KILLING);
        (void)sqlite3_bind_text(q, 2, id, -1, SQLITE_STATIC);
        return db_run(s, DB_SANDBOX_KILL, err, "kill sandbox");
}

int store_sandbox_remove(struct store *s, const char *id, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_SANDBOX_REMOVE];

        (void)sqlite3_bind_text(q, 1, id, -1, SQLITE_STATIC);
        return db_run(s, DB_SANDBOX_REMOVE, err, "remove sandbox");
}

/* A number that no row should have reads as PAUSED: nothing is done to a paused sandbox before the engine has said what it
 * has of the sandbox. */
static enum sandbox_state sandbox_read_state(int n)
{
        bool is_stored =
                n >= SANDBOX_STARTING && n <= SANDBOX_KILLING && n != SANDBOX_COPYING && n != SANDBOX_COPYING_PAUSED;

        return is_stored ? (enum sandbox_state)n : SANDBOX_PAUSED;
}

static int sandbox_read_names(sqlite3_stmt *q, struct sandbox *sb)
{
        int r;

        if (db_column_id(q, 0, sb->id, sizeof(sb->id)) < 0 || !sandbox_id_is_valid(str_of(sb->id)))
                return -EBADMSG;
        r = db_column_id(q, 3, sb->template_id, sizeof(sb->template_id));
        if (r == 0)
                r = db_column_id(q, 22, sb->checkpoint, sizeof(sb->checkpoint));
        if (r == 0)
                r = db_column_id(q, 24, sb->image_of, sizeof(sb->image_of));
        if (r == 0)
                r = db_column_text(q, 4, &sb->alias);
        if (r == 0)
                r = db_column_text(q, 16, &sb->default_user);
        if (r == 0)
                r = db_column_text(q, 17, &sb->default_workdir);
        return r;
}

static int sandbox_read_row(sqlite3_stmt *q, struct sandbox *sb)
{
        int r = sandbox_read_names(q, sb);

        sb->team = sqlite3_column_int64(q, 1);
        sb->state = sandbox_read_state(sqlite3_column_int(q, 2));
        sb->started_ns = sqlite3_column_int64(q, 5);
        sb->end_ns = sqlite3_column_int64(q, 6);
        sb->cpu_count = (uint32_t)sqlite3_column_int64(q, 7);
        sb->memory_mb = (uint32_t)sqlite3_column_int64(q, 8);
        sb->disk_mb = (uint32_t)sqlite3_column_int64(q, 9);
        sb->is_secured = sqlite3_column_int(q, 10) != 0;
        sb->internet = (enum choice)sqlite3_column_int(q, 11);
        sb->auto_pause = sqlite3_column_int(q, 18) != 0;
        sb->auto_pause_memory = sqlite3_column_int(q, 19) != 0;
        sb->auto_resume = sqlite3_column_int(q, 20) != 0;
        sb->timeout_s = (uint32_t)sqlite3_column_int64(q, 21);
        sb->upper_kept = sqlite3_column_int(q, 23) != 0;
        sb->image_secured = sqlite3_column_int(q, 25) != 0;
        sb->purpose = sqlite3_column_int(q, 26) == SANDBOX_FOR_BUILD ? SANDBOX_FOR_BUILD : SANDBOX_FOR_CLIENT;
        if (r == 0)
                r = db_column_json(q, 12, &sb->metadata);
        if (r == 0)
                r = db_column_json(q, 13, &sb->network);
        if (r == 0)
                r = db_column_json(q, 14, &sb->mcp);
        return r < 0 ? r : db_column_json(q, 15, &sb->layers);
}

int store_sandbox_each(struct store *s, int (*each)(struct sandbox *sb, void *arg), void *arg, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_SANDBOX_ALL];
        int step, r = 0;

        while (r >= 0 && (step = sqlite3_step(q)) != SQLITE_DONE) {
                struct sandbox sb = {0};

                if (step != SQLITE_ROW) {
                        r = db_fail(s->db, err, "read sandboxes");
                        break;
                }
                r = sandbox_read_row(q, &sb);
                if (r == 0)
                        r = each(&sb, arg);
                sandbox_done(&sb);
                if (r < 0)
                        err_sys(err, r, "store: read sandboxes");
        }
        sqlite3_reset(q);
        return r < 0 ? r : 0;
}
