#include "store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "store/db.h"

static int bind_json(sqlite3_stmt *q, int at, const json_t *v)
{
        char *text;

        if (!v) {
                (void)sqlite3_bind_null(q, at);
                return 0;
        }
        text = json_dumps(v, JSON_COMPACT);
        if (!text)
                return -ENOMEM;
        (void)sqlite3_bind_text(q, at, text, -1, free);
        return 0;
}

int store_sandbox_add(struct store *s, const struct sandbox *sb, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_SANDBOX_ADD];
        const int64_t numbers[][2] = {
                {2, sb->team},      {3, sb->state},    {6, sb->started_ns},  {7, sb->end_ns},    {8, sb->cpu_count},
                {9, sb->memory_mb}, {10, sb->disk_mb}, {11, sb->is_secured}, {12, sb->internet},
        };
        int r;

        (void)sqlite3_bind_text(q, 1, sb->id, -1, SQLITE_STATIC);
        (void)sqlite3_bind_text(q, 4, sb->template_id, -1, SQLITE_STATIC);
        (void)sqlite3_bind_text(q, 5, sb->alias, -1, SQLITE_STATIC); /* NULL binds NULL */
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                (void)sqlite3_bind_int64(q, (int)numbers[i][0], numbers[i][1]);
        if (bind_json(q, 13, sb->metadata) < 0 || bind_json(q, 14, sb->network) < 0 || bind_json(q, 15, sb->mcp) < 0)
                r = err_sys(err, -ENOMEM, "store: add sandbox");
        else
                r = db_run(s, DB_SANDBOX_ADD, err, "add sandbox");
        (void)sqlite3_clear_bindings(q); /* what it borrowed or owns for long is not kept */
        return r;
}

int store_sandbox_started(struct store *s, const char *id, int64_t started_ns, int64_t end_ns, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_SANDBOX_STARTED];

        (void)sqlite3_bind_int(q, 1, SANDBOX_RUNNING);
        (void)sqlite3_bind_int64(q, 2, started_ns);
        (void)sqlite3_bind_int64(q, 3, end_ns);
        (void)sqlite3_bind_text(q, 4, id, -1, SQLITE_STATIC);
        return db_run(s, DB_SANDBOX_STARTED, err, "start sandbox");
}

int store_sandbox_set_end(struct store *s, const char *id, int64_t end_ns, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_SANDBOX_END];

        (void)sqlite3_bind_int64(q, 1, end_ns);
        (void)sqlite3_bind_text(q, 2, id, -1, SQLITE_STATIC);
        return db_run(s, DB_SANDBOX_END, err, "set end of sandbox");
}

int store_sandbox_remove(struct store *s, const char *id, struct err *err)
{
        sqlite3_stmt *q = s->statement[DB_SANDBOX_REMOVE];

        (void)sqlite3_bind_text(q, 1, id, -1, SQLITE_STATIC);
        return db_run(s, DB_SANDBOX_REMOVE, err, "remove sandbox");
}

static json_t *column_json(sqlite3_stmt *q, int at)
{
        const char *text = (const char *)sqlite3_column_text(q, at);

        return text ? json_loads(text, 0, NULL) : NULL;
}

static int read_row(sqlite3_stmt *q, struct sandbox *sb)
{
        const char *id = (const char *)sqlite3_column_text(q, 0);
        const char *template = (const char *)sqlite3_column_text(q, 3);
        const char *alias = (const char *)sqlite3_column_text(q, 4);

        if (!sandbox_id_is_valid(str_of(id)) || !template || strlen(template) >= TEMPLATE_ID_MAX)
                return -EBADMSG;
        memcpy(sb->id, id, SANDBOX_ID_MAX);
        memcpy(sb->template_id, template, strlen(template) + 1);
        sb->team = sqlite3_column_int64(q, 1);
        sb->state = sqlite3_column_int(q, 2) == SANDBOX_RUNNING ? SANDBOX_RUNNING : SANDBOX_STARTING;
        sb->started_ns = sqlite3_column_int64(q, 5);
        sb->end_ns = sqlite3_column_int64(q, 6);
        sb->cpu_count = (uint32_t)sqlite3_column_int64(q, 7);
        sb->memory_mb = (uint32_t)sqlite3_column_int64(q, 8);
        sb->disk_mb = (uint32_t)sqlite3_column_int64(q, 9);
        sb->is_secured = sqlite3_column_int(q, 10) != 0;
        sb->internet = (enum choice)sqlite3_column_int(q, 11);
        sb->metadata = column_json(q, 12);
        sb->network = column_json(q, 13);
        sb->mcp = column_json(q, 14);
        sb->alias = alias ? strdup(alias) : NULL;
        return alias && !sb->alias ? -ENOMEM : 0;
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
                r = read_row(q, &sb);
                if (r == 0)
                        r = each(&sb, arg);
                sandbox_done(&sb);
                if (r < 0)
                        err_sys(err, r, "store: read sandboxes");
        }
        sqlite3_reset(q);
        return r < 0 ? r : 0;
}
