/* db.h - the store's own view of its database: prepared statements and the errors of SQLite. */
#pragma once
#include <jansson.h>
#include <sqlite3.h>
#include <stdbool.h>

struct err;

/* One prepared statement each, made when the store opens. */
enum db_statement {
        DB_BEGIN,
        DB_COMMIT,
        DB_ROLLBACK,
        DB_PRIME,
        DB_PAGE_COUNT,
        DB_FREE_COUNT,
        DB_SETTING_GET,
        DB_SETTING_PUT,
        DB_TEAM_ADD,
        DB_TEAM_ALL,
        DB_KEY_ADD,
        DB_KEY_ALL,
        DB_KEY_REMOVE,
        DB_KEY_USED,
        DB_SANDBOX_ADD,
        DB_SANDBOX_STARTED,
        DB_SANDBOX_END,
        DB_SANDBOX_UPDATE,
        DB_SANDBOX_ENV,
        DB_SANDBOX_KILL,
        DB_SANDBOX_REMOVE,
        DB_SANDBOX_ALL,
        DB_SNAPSHOT_ADD,
        DB_SNAPSHOT_LAYERS,
        DB_SNAPSHOT_REMOVE,
        DB_SNAPSHOT_ALL,
        DB_DISPOSABLE_ADD,
        DB_DISPOSABLE_REMOVE,
        DB_DISPOSABLE_ALL,
        DB_IMAGE_TOKEN_ADD,
        DB_IMAGE_TOKEN_REMOVE,
        DB_IMAGE_TOKEN_ALL,
        DB_TEMPLATE_ADD,
        DB_TEMPLATE_UPDATE,
        DB_TEMPLATE_REMOVE,
        DB_TEMPLATE_ALL,
        DB_TAG_PUT,
        DB_TAG_REMOVE,
        DB_TAGS_REMOVE,
        DB_TAG_ALL,
        DB_BUILD_ADD,
        DB_BUILD_UPDATE,
        DB_BUILD_SET_REQUEST,
        DB_BUILD_REQUEST,
        DB_BUILD_REMOVE,
        DB_BUILD_ALL,
        DB_CACHED_PUT,
        DB_CACHED_GET,
        DB_CACHED_USED,
        DB_CACHED_REMOVE,
        DB_CACHED_ALL,
        DB_IMAGE_PUT,
        DB_IMAGE_REMOVE,
        DB_IMAGE_ALL,
        DB_CREDENTIAL_PUT,
        DB_CREDENTIAL_REMOVE,
        DB_CREDENTIAL_OF,
        DB_CREDENTIAL_ALL,
        DB_CREDENTIAL_USAGE,
        DB_STATEMENTS,
};

struct store {
        sqlite3 *db;                            /* owned */
        sqlite3_stmt *statement[DB_STATEMENTS]; /* owned */
        int log_pages;                          /* of the write-ahead log, at the last commit */
        int log_fd;                             /* the log, for who waits until it is on disk; owned */
        int file_fd; /* the database, to allocate blocks; owned, and closed last: that drops SQLite's locks on it */
};

/* Set *err from the connection's last error; returns its negative errno. */
int db_fail(sqlite3 *db, struct err *err, const char *what);
/* Run a statement that gives no rows, and make it ready for the next use.  Its bindings stay until then. */
int db_run(struct store *s, enum db_statement which, struct err *err, const char *what);

/* ---- room.c ---- */
#define DB_PAGE_BYTES 4096                  /* SQLite's default */
#define DB_FRAME_BYTES (DB_PAGE_BYTES + 24) /* of the log */
#define DB_STEP_BYTES (1 << 20)             /* by which the file grows */
/* For the next transaction: in the log, if need be by moving the log into the file. */
void db_keep_log_room(struct store *s);
/* For one more row, or for one that changes: in the file.  ERR_NO_SPACE: the disk is full, nothing was written. */
int db_keep_row_room(struct store *s, struct err *err, const char *what);
int db_keep_change_room(struct store *s, struct err *err, const char *what);
void db_keep_file_size(struct store *s);
int db_move_log(struct store *s); /* into the file; the next write begins the log anew */

/* Columns: NULL binds NULL and reads as NULL.  -ENOMEM, and -EBADMSG for a column that is not JSON. */
void db_bind_text(sqlite3_stmt *q, int at,
                  const char *text); /* borrowed until the statement was run; "" binds NULL, too */
int db_bind_json(sqlite3_stmt *q, int at, const json_t *v);
int db_column_json(sqlite3_stmt *q, int at, json_t **ret);
int db_column_text(sqlite3_stmt *q, int at, char **ret);
/* Text of a fixed form, "" for NULL; -EBADMSG when it is longer than `size` has room for. */
int db_column_id(sqlite3_stmt *q, int at, char *out, size_t size);

#define DB_SCHEMA_VERSION 8
/* Bring the schema from whatever version the file has to `version` (at most DB_SCHEMA_VERSION), in one transaction. */
int db_migrate(sqlite3 *db, int version, struct err *err);
