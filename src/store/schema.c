/* The schema as steps: step n makes version n+1 out of version n.  A step that was released is never edited. */
#include "store/db.h"

#include <stdio.h>

#include "base/err.h"

static const char *const steps[DB_SCHEMA_VERSION] = {
        "CREATE TABLE setting (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;"
        "CREATE TABLE team ("
        " no INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, slug TEXT NOT NULL UNIQUE, name TEXT NOT NULL,"
        " created_ns INTEGER NOT NULL);"
        "CREATE TABLE api_key ("
        " id TEXT PRIMARY KEY, team INTEGER NOT NULL REFERENCES team (no), name TEXT NOT NULL, mask TEXT NOT NULL,"
        " hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32), created_ns INTEGER NOT NULL) WITHOUT ROWID;",

        "CREATE TABLE sandbox ("
        " id TEXT PRIMARY KEY, team INTEGER NOT NULL REFERENCES team (no), state INTEGER NOT NULL,"
        " template_id TEXT NOT NULL, alias TEXT, started_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,"
        " cpu_count INTEGER NOT NULL, memory_mb INTEGER NOT NULL, disk_mb INTEGER NOT NULL,"
        " is_secured INTEGER NOT NULL, internet INTEGER NOT NULL, metadata TEXT, network TEXT, mcp TEXT"
        ") WITHOUT ROWID;",

        "ALTER TABLE sandbox ADD COLUMN layers TEXT;" /* NULL: from before this version; never paused */
        "ALTER TABLE sandbox ADD COLUMN env TEXT;"
        "ALTER TABLE sandbox ADD COLUMN default_user TEXT;"
        "ALTER TABLE sandbox ADD COLUMN default_workdir TEXT;"
        "ALTER TABLE sandbox ADD COLUMN auto_pause INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE sandbox ADD COLUMN auto_pause_memory INTEGER NOT NULL DEFAULT 1;"
        "ALTER TABLE sandbox ADD COLUMN auto_resume INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE sandbox ADD COLUMN timeout_s INTEGER NOT NULL DEFAULT 300;"
        "ALTER TABLE sandbox ADD COLUMN checkpoint TEXT;"
        "ALTER TABLE sandbox ADD COLUMN upper_kept INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE sandbox ADD COLUMN image_of TEXT;"
        "ALTER TABLE sandbox ADD COLUMN image_secured INTEGER NOT NULL DEFAULT 0;"
        "CREATE TABLE snapshot ("
        " id TEXT PRIMARY KEY, template_id TEXT NOT NULL, name TEXT, tag TEXT NOT NULL,"
        " team INTEGER NOT NULL REFERENCES team (no), source TEXT NOT NULL, created_ns INTEGER NOT NULL,"
        " checkpoint TEXT, layers TEXT NOT NULL, image_of TEXT, image_secured INTEGER NOT NULL,"
        " cpu_count INTEGER NOT NULL, memory_mb INTEGER NOT NULL, disk_mb INTEGER NOT NULL,"
        " env TEXT, default_user TEXT, default_workdir TEXT) WITHOUT ROWID;",

        ("CREATE TABLE disposable (name TEXT PRIMARY KEY) WITHOUT ROWID;"
         "CREATE TABLE image_token (checkpoint TEXT PRIMARY KEY, token TEXT NOT NULL) WITHOUT ROWID;"),

        /* kind: enum store_key_kind.  Every key of before was made for the operator. */
        ("ALTER TABLE api_key ADD COLUMN kind INTEGER NOT NULL DEFAULT 1;"
         "ALTER TABLE api_key ADD COLUMN uid INTEGER;"
         "ALTER TABLE api_key ADD COLUMN last_used_ns INTEGER NOT NULL DEFAULT 0;"
         "CREATE UNIQUE INDEX api_key_uid ON api_key (uid) WHERE uid IS NOT NULL;"),

        "ALTER TABLE sandbox ADD COLUMN purpose INTEGER NOT NULL DEFAULT 0;", /* enum sandbox_purpose */
        /* A build is removed before its template, and a tag before its build.  A row of layer_cache with team 0 is for all teams. */
        ("CREATE TABLE template ("
         " id TEXT PRIMARY KEY, team INTEGER NOT NULL REFERENCES team (no), alias TEXT, is_public INTEGER NOT NULL,"
         " is_bare INTEGER NOT NULL, created_ns INTEGER NOT NULL, updated_ns INTEGER NOT NULL,"
         " spawn_count INTEGER NOT NULL, last_spawned_ns INTEGER NOT NULL, build_count INTEGER NOT NULL"
         ") WITHOUT ROWID;"
         "CREATE UNIQUE INDEX template_alias ON template (team, alias) WHERE alias IS NOT NULL;"
         "CREATE TABLE build ("
         " id TEXT PRIMARY KEY, template_id TEXT NOT NULL REFERENCES template (id), number INTEGER NOT NULL,"
         " status INTEGER NOT NULL, request TEXT, tags TEXT, cpu_count INTEGER NOT NULL, memory_mb INTEGER NOT NULL,"
         " disk_mb INTEGER NOT NULL, created_ns INTEGER NOT NULL, updated_ns INTEGER NOT NULL,"
         " finished_ns INTEGER NOT NULL, reason TEXT, attempts INTEGER NOT NULL, checkpoint TEXT, layers TEXT,"
         " image_of TEXT, image_secured INTEGER NOT NULL, env TEXT, default_user TEXT, default_workdir TEXT,"
         " start_cmd TEXT, ready_cmd TEXT) WITHOUT ROWID;"
         "CREATE UNIQUE INDEX build_number ON build (template_id, number);"
         "CREATE TABLE tag ("
         " template_id TEXT NOT NULL REFERENCES template (id), tag TEXT NOT NULL,"
         " build_id TEXT NOT NULL REFERENCES build (id), created_ns INTEGER NOT NULL, PRIMARY KEY (template_id, tag)"
         ") WITHOUT ROWID;"
         "CREATE INDEX tag_build ON tag (build_id);"
         "CREATE TABLE layer_cache ("
         " team INTEGER NOT NULL, key TEXT NOT NULL, layer TEXT, context TEXT, used_ns INTEGER NOT NULL,"
         " PRIMARY KEY (team, key)) WITHOUT ROWID;"
         "CREATE TABLE image ("
         " name TEXT PRIMARY KEY, digest TEXT NOT NULL, layers TEXT NOT NULL, config TEXT NOT NULL,"
         " bytes INTEGER NOT NULL, created_ns INTEGER NOT NULL, source TEXT NOT NULL) WITHOUT ROWID;"),

        /* owner: '' is the team; else whose keys: "key:<id>" is the holder of one key (kind 0: given), and goes with that key. */
        ("CREATE TABLE credential ("
         " team INTEGER NOT NULL REFERENCES team (no), owner TEXT NOT NULL, name TEXT NOT NULL, sealed BLOB NOT NULL,"
         " created_ns INTEGER NOT NULL, updated_ns INTEGER NOT NULL, PRIMARY KEY (team, owner, name)) WITHOUT ROWID;"
         "CREATE TRIGGER credential_of_key AFTER DELETE ON api_key WHEN OLD.kind = 0 BEGIN"
         " DELETE FROM credential WHERE team = OLD.team AND owner = 'key:' || OLD.id; END;"),
};

static int schema_version_of(sqlite3 *db, int *ret, struct err *err)
{
        sqlite3_stmt *q = NULL;
        int r = 0;

        if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &q, NULL) != SQLITE_OK || sqlite3_step(q) != SQLITE_ROW)
                r = db_fail(db, err, "read schema version");
        else
                *ret = sqlite3_column_int(q, 0);
        sqlite3_finalize(q);
        return r;
}

static int schema_apply(sqlite3 *db, int from, int to, struct err *err)
{
        char mark[64];

        for (int v = from; v < to; v++)
                if (sqlite3_exec(db, steps[v], NULL, NULL, NULL) != SQLITE_OK)
                        return db_fail(db, err, "change schema");
        /* PRAGMA takes no parameters; the number is ours. */
        (void)snprintf(mark, sizeof(mark), "PRAGMA user_version = %d", to);
        if (sqlite3_exec(db, mark, NULL, NULL, NULL) != SQLITE_OK)
                return db_fail(db, err, "mark schema version");
        return 0;
}

int db_migrate(sqlite3 *db, int version, struct err *err)
{
        int have = 0, r;

        r = schema_version_of(db, &have, err);
        if (r < 0 || have == version)
                return r;
        if (have > version || have < 0)
                return err_set(err, ERR_INVALID, "the store has schema version %d, this program knows up to %d", have,
                               version);
        if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
                return db_fail(db, err, "change schema");
        r = schema_apply(db, have, version, err);
        if (r == 0 && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
                r = db_fail(db, err, "change schema");
        if (r < 0)
                (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
        return r;
}
