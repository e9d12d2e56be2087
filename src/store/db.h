/* db.h - the store's own view of its database: prepared statements and the errors of SQLite. */
#pragma once
#include <sqlite3.h>
#include <stdbool.h>

struct err;

/* One prepared statement each, made when the store opens. */
enum db_statement {
        DB_BEGIN,
        DB_COMMIT,
        DB_ROLLBACK,
        DB_PRIME,
        DB_SETTING_GET,
        DB_SETTING_PUT,
        DB_TEAM_ADD,
        DB_TEAM_ALL,
        DB_KEY_ADD,
        DB_KEY_ALL,
        DB_SANDBOX_ADD,
        DB_SANDBOX_STARTED,
        DB_SANDBOX_END,
        DB_SANDBOX_REMOVE,
        DB_SANDBOX_ALL,
        DB_STATEMENTS,
};

struct store {
        sqlite3 *db;                            /* owned */
        sqlite3_stmt *statement[DB_STATEMENTS]; /* owned */
        int log_pages;                          /* of the write-ahead log, at the last commit */
};

/* Set *err from the connection's last error; returns its negative errno. */
int db_fail(sqlite3 *db, struct err *err, const char *what);
/* Run a statement that gives no rows, and make it ready for the next use.  Its bindings stay until then. */
int db_run(struct store *s, enum db_statement which, struct err *err, const char *what);

#define DB_SCHEMA_VERSION 2
/* Bring the schema from whatever version the file has to `version` (at most DB_SCHEMA_VERSION), in one transaction. */
int db_migrate(sqlite3 *db, int version, struct err *err);
