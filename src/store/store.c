#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "store/db.h"

/* Pages of write-ahead log: from the first number on store_tidy() has something to do, at the second the log is moved in
 * the middle of the work, because it never came. */
#define TIDY_PAGES 512
#define TIDY_PAGES_MAX 8000

/* Exclusive: the lock is taken once, and no second control can write below us.
 * Order matters: in that mode the log's index is kept in memory only if the mode is set before WAL is entered. */
static const char pragmas[] = "PRAGMA locking_mode = EXCLUSIVE;"
                              "PRAGMA journal_mode = WAL;"
                              "PRAGMA synchronous = NORMAL;"
                              "PRAGMA temp_store = MEMORY;"
                              "PRAGMA foreign_keys = ON;"
                              "PRAGMA cache_size = -1024;"
                              "PRAGMA trusted_schema = OFF;";

/* In the order in which sandboxes.c, snapshots.c, templates.c and builds.c bind and read them. */
#define SANDBOX_COLUMNS                                                                                                \
        "id, team, state, template_id, alias, started_ns, end_ns, cpu_count, memory_mb, disk_mb, is_secured, "         \
        "internet,"                                                                                                    \
        " metadata, network, mcp, layers, default_user, default_workdir, auto_pause, auto_pause_memory, auto_resume,"  \
        " timeout_s, checkpoint, upper_kept, image_of, image_secured, purpose"
#define SNAPSHOT_COLUMNS                                                                                               \
        "id, template_id, name, tag, team, source, created_ns, checkpoint, layers, image_of, image_secured, "          \
        "cpu_count,"                                                                                                   \
        " memory_mb, disk_mb, env, default_user, default_workdir"

#define CREDENTIAL_COLUMNS "team, owner, name, sealed, created_ns, updated_ns"
#define TEMPLATE_COLUMNS                                                                                               \
        "id, team, alias, is_public, is_bare, created_ns, updated_ns, spawn_count, last_spawned_ns, build_count"
#define BUILD_COLUMNS                                                                                                  \
        "id, template_id, number, status, tags, cpu_count, memory_mb, disk_mb, created_ns, updated_ns, finished_ns,"   \
        " reason, attempts, checkpoint, layers, image_of, image_secured, env, default_user, default_workdir,"          \
        " start_cmd, ready_cmd"

static const char *const texts[DB_STATEMENTS] = {
        [DB_BEGIN] = "BEGIN IMMEDIATE",
        [DB_COMMIT] = "COMMIT",
        [DB_ROLLBACK] = "ROLLBACK",
        [DB_SETTING_GET] = "SELECT value FROM setting WHERE name = ?",
        [DB_PAGE_COUNT] = "PRAGMA page_count",
        [DB_FREE_COUNT] = "PRAGMA freelist_count",
        [DB_PRIME] = "INSERT OR REPLACE INTO setting (name, value) VALUES ('primed', randomblob(8))",
        [DB_SETTING_PUT] = "INSERT INTO setting (name, value) VALUES (?, ?)",
        [DB_TEAM_ADD] = "INSERT INTO team (id, slug, name, created_ns) VALUES (?, ?, ?, ?)",
        [DB_TEAM_ALL] = "SELECT no, id, slug, name FROM team ORDER BY no",
        [DB_KEY_ADD] = ("INSERT INTO api_key (id, team, name, mask, hash, created_ns, kind, uid, last_used_ns)"
                        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"),
        [DB_KEY_ALL] = ("SELECT id, team, name, mask, hash, created_ns, kind, uid, last_used_ns FROM api_key"
                        " ORDER BY created_ns, id"),
        [DB_KEY_REMOVE] = "DELETE FROM api_key WHERE id = ?",
        [DB_KEY_USED] = "UPDATE api_key SET last_used_ns = ? WHERE id = ?",
        [DB_SANDBOX_ADD] = ("INSERT INTO sandbox (" SANDBOX_COLUMNS ", env) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
                            " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
        [DB_SANDBOX_STARTED] = "UPDATE sandbox SET state = ?, started_ns = ?, end_ns = ? WHERE id = ?",
        [DB_SANDBOX_END] = "UPDATE sandbox SET end_ns = ? WHERE id = ?",
        [DB_SANDBOX_UPDATE] = ("UPDATE sandbox SET state = ?2, started_ns = ?3, end_ns = ?4, layers = ?5,"
                               " auto_pause = ?6, checkpoint = ?7, upper_kept = ?8, image_of = ?9, image_secured = ?10"
                               " WHERE id = ?1"),
        [DB_SANDBOX_ENV] = "SELECT env FROM sandbox WHERE id = ?",
        [DB_SANDBOX_KILL] = "UPDATE sandbox SET state = ? WHERE id = ?",
        [DB_SANDBOX_REMOVE] = "DELETE FROM sandbox WHERE id = ?",
        [DB_SANDBOX_ALL] = "SELECT " SANDBOX_COLUMNS " FROM sandbox",
        [DB_SNAPSHOT_ADD] =
                ("INSERT INTO snapshot (" SNAPSHOT_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
                 " ?, ?, ?, ?)"),
        [DB_SNAPSHOT_LAYERS] = "UPDATE snapshot SET layers = ? WHERE id = ?",
        [DB_SNAPSHOT_REMOVE] = "DELETE FROM snapshot WHERE id = ?",
        [DB_SNAPSHOT_ALL] = "SELECT " SNAPSHOT_COLUMNS " FROM snapshot ORDER BY created_ns",
        [DB_DISPOSABLE_ADD] = "INSERT OR IGNORE INTO disposable (name) VALUES (?)",
        [DB_DISPOSABLE_REMOVE] = "DELETE FROM disposable WHERE name = ?",
        [DB_DISPOSABLE_ALL] = "SELECT name FROM disposable",
        [DB_IMAGE_TOKEN_ADD] = "INSERT OR REPLACE INTO image_token (checkpoint, token) VALUES (?, ?)",
        [DB_IMAGE_TOKEN_REMOVE] = "DELETE FROM image_token WHERE checkpoint = ?",
        [DB_IMAGE_TOKEN_ALL] = "SELECT checkpoint, token FROM image_token",
        [DB_TEMPLATE_ADD] = "INSERT INTO template (" TEMPLATE_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [DB_TEMPLATE_UPDATE] = ("UPDATE template SET alias = ?3, is_public = ?4, is_bare = ?5, updated_ns = ?7,"
                                " spawn_count = ?8, last_spawned_ns = ?9, build_count = ?10 WHERE id = ?1"),
        [DB_TEMPLATE_REMOVE] = "DELETE FROM template WHERE id = ?",
        [DB_TEMPLATE_ALL] = "SELECT " TEMPLATE_COLUMNS " FROM template ORDER BY created_ns, id",
        [DB_TAG_PUT] = "INSERT OR REPLACE INTO tag (template_id, tag, build_id, created_ns) VALUES (?, ?, ?, ?)",
        [DB_TAG_REMOVE] = "DELETE FROM tag WHERE template_id = ? AND tag = ?",
        [DB_TAGS_REMOVE] = "DELETE FROM tag WHERE template_id = ?",
        [DB_TAG_ALL] = "SELECT template_id, tag, build_id, created_ns FROM tag ORDER BY template_id, created_ns, tag",
        [DB_BUILD_ADD] = ("INSERT INTO build (" BUILD_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
                          " ?, ?, ?, ?, ?, ?, ?)"),
        [DB_BUILD_UPDATE] = ("UPDATE build SET status = ?4, tags = ?5, cpu_count = ?6, memory_mb = ?7, disk_mb = ?8,"
                             " updated_ns = ?10, finished_ns = ?11, reason = ?12, attempts = ?13, checkpoint = ?14,"
                             " layers = ?15, image_of = ?16, image_secured = ?17, env = ?18, default_user = ?19,"
                             " default_workdir = ?20, start_cmd = ?21, ready_cmd = ?22 WHERE id = ?1"),
        [DB_BUILD_SET_REQUEST] = "UPDATE build SET request = ? WHERE id = ?",
        [DB_BUILD_REQUEST] = "SELECT request FROM build WHERE id = ?",
        [DB_BUILD_REMOVE] = "DELETE FROM build WHERE id = ?",
        [DB_BUILD_ALL] = "SELECT " BUILD_COLUMNS " FROM build ORDER BY created_ns, number",
        [DB_CACHED_PUT] =
                "INSERT OR REPLACE INTO layer_cache (team, key, layer, context, used_ns) VALUES (?, ?, ?, ?, ?)",
        [DB_CACHED_GET] = "SELECT layer, context FROM layer_cache WHERE team = ? AND key = ?",
        [DB_CACHED_USED] = "UPDATE layer_cache SET used_ns = ? WHERE team = ? AND key = ?",
        [DB_CACHED_REMOVE] = "DELETE FROM layer_cache WHERE team = ? AND key = ?",
        [DB_CACHED_ALL] = "SELECT team, key, layer, used_ns FROM layer_cache ORDER BY used_ns",
        [DB_IMAGE_PUT] = ("INSERT OR REPLACE INTO image (name, digest, layers, config, bytes, created_ns, source)"
                          " VALUES (?, ?, ?, ?, ?, ?, ?)"),
        [DB_IMAGE_REMOVE] = "DELETE FROM image WHERE name = ?",
        [DB_IMAGE_ALL] = "SELECT name, digest, layers, config, bytes, created_ns, source FROM image ORDER BY name",
        [DB_CREDENTIAL_PUT] = ("INSERT INTO credential (" CREDENTIAL_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?)"
                               " ON CONFLICT (team, owner, name) DO UPDATE SET sealed = excluded.sealed,"
                               " updated_ns = excluded.updated_ns"),
        [DB_CREDENTIAL_REMOVE] = "DELETE FROM credential WHERE team = ? AND owner = ? AND name = ?",
        [DB_CREDENTIAL_OF] = ("SELECT " CREDENTIAL_COLUMNS " FROM credential WHERE team = ?1 AND owner IN ('', ?2)"
                              " ORDER BY owner DESC, name"),
        [DB_CREDENTIAL_ALL] = "SELECT " CREDENTIAL_COLUMNS " FROM credential ORDER BY team, owner, name",
        [DB_CREDENTIAL_USAGE] = ("SELECT count(*), total(length(sealed)), (SELECT count(*) FROM credential"
                                 " WHERE team = ?1 AND NOT (owner = ?2 AND name = ?3))"
                                 " FROM credential WHERE team = ?1 AND owner = ?2 AND name <> ?3"),
};

static bool is_full(sqlite3 *db)
{
        int code = sqlite3_errcode(db) & 0xff, sys = sqlite3_system_errno(db);

        return code == SQLITE_FULL || (code == SQLITE_IOERR && (sys == ENOSPC || sys == EDQUOT));
}

int db_fail(sqlite3 *db, struct err *err, const char *what)
{
        enum err_kind kind = ERR_INTERNAL;

        if (is_full(db))
                return err_set(err, ERR_NO_SPACE, "store: %s: %s", what, sqlite3_errmsg(db));
        switch (sqlite3_errcode(db) & 0xff) {
        case SQLITE_CONSTRAINT:
        case SQLITE_BUSY:
        case SQLITE_LOCKED: kind = ERR_CONFLICT; break;
        case SQLITE_NOMEM: kind = ERR_LIMIT; break;
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB: kind = ERR_INVALID; break;
        case SQLITE_PERM:
        case SQLITE_READONLY: kind = ERR_DENIED; break;
        default: break;
        }
        return err_set(err, kind, "store: %s: %s", what, sqlite3_errmsg(db));
}

int db_run(struct store *s, enum db_statement which, struct err *err, const char *what)
{
        sqlite3_stmt *q = s->statement[which];
        int r = 0;

        if (sqlite3_get_autocommit(s->db))
                db_keep_log_room(s);
        if (sqlite3_step(q) != SQLITE_DONE)
                r = db_fail(s->db, err, what);
        sqlite3_reset(q);
        return r;
}

void db_bind_text(sqlite3_stmt *q, int at, const char *text)
{
        if (text && text[0])
                (void)sqlite3_bind_text(q, at, text, -1, SQLITE_STATIC);
        else
                (void)sqlite3_bind_null(q, at);
}

int db_bind_json(sqlite3_stmt *q, int at, const json_t *v)
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

int db_column_json(sqlite3_stmt *q, int at, json_t **ret)
{
        const char *text = (const char *)sqlite3_column_text(q, at);

        if (!text)
                return 0;
        *ret = json_loads(text, 0, NULL);
        return *ret ? 0 : -EBADMSG;
}

int db_column_text(sqlite3_stmt *q, int at, char **ret)
{
        const char *text = (const char *)sqlite3_column_text(q, at);

        if (!text)
                return 0;
        *ret = strdup(text);
        return *ret ? 0 : -ENOMEM;
}

int db_column_id(sqlite3_stmt *q, int at, char *out, size_t size)
{
        const char *text = (const char *)sqlite3_column_text(q, at);

        out[0] = 0;
        if (!text)
                return 0;
        if (strlen(text) >= size)
                return -EBADMSG;
        memcpy(out, text, strlen(text) + 1);
        return 0;
}

static int prepare_all(struct store *s, struct err *err)
{
        for (int i = 0; i < DB_STATEMENTS; i++)
                if (sqlite3_prepare_v3(s->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &s->statement[i], NULL) !=
                    SQLITE_OK)
                        return db_fail(s->db, err, "prepare");
        return 0;
}

/* SQLite makes files 0644; this one is nobody else's, nor are the log and journal, which take its mode. */
static int open_private(struct store *s, const char *path, struct err *err)
{
        s->file_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        return s->file_fd < 0 ? err_sys(err, -errno, "open store '%s'", path) : 0;
}

/* The log stays when the store is closed, with its room, and the file keeps its own. */
static void keep_files(struct store *s)
{
        int yes = 1;

        (void)sqlite3_file_control(s->db, "main", SQLITE_FCNTL_PERSIST_WAL, &yes);
        db_keep_file_size(s);
}

/* After each commit: how long the log is now. */
static int on_log(void *arg, sqlite3 *db, const char *name, int pages)
{
        struct store *s = arg;

        s->log_pages = pages;
        if (pages >= TIDY_PAGES_MAX)
                (void)sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        return SQLITE_OK;
}

/* As if all of it were in use, until the first commit tells. */
static int log_pages_max(int log_fd)
{
        struct stat st;

        return fstat(log_fd, &st) < 0 ? 0 : (int)(st.st_size / DB_FRAME_BYTES);
}

/* Somebody else's fd of the log, to wait on outside the loop; and the directory, so that the log's name is on disk.
 * (Closing a fd drops a process's locks on a file; SQLite's are on the database, not on the log.) */
static int open_log(struct store *s, const char *path, struct err *err)
{
        AUTO_FREE char *log = NULL, *copy = strdup(path);
        AUTO_CLOSE int dir = -1;

        if (!copy || asprintf(&log, "%s-wal", path) < 0) {
                log = NULL;
                return err_sys(err, -ENOMEM, "open store");
        }
        s->log_fd = open(log, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (s->log_fd < 0)
                return err_sys(err, -errno, "open '%s'", log);
        s->log_pages = log_pages_max(s->log_fd);
        dir = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0 || fsync(dir) < 0)
                return err_sys(err, -errno, "flush the directory of '%s'", path);
        return 0;
}

int store_log_fd(const struct store *s)
{
        return s->log_fd;
}

/* The first write to a fresh log waits for the disk: let that be this one, not a client's. */
static int prime(struct store *s, struct err *err)
{
        return db_run(s, DB_PRIME, err, "write");
}

/* On a full disk what is there can be read at least, and what is tried later may succeed. */
static int prime_if_room(struct store *s, struct err *err)
{
        int r = prime(s, err);

        if (r == 0 || err->kind != ERR_NO_SPACE)
                return r;
        log_warn("store.full", "failed=\"%s\", going on without writing", err->msg);
        return 0;
}

static void close_p(struct store **s)
{
        store_close(*s);
}

int store_open(const char *path, struct store **ret, struct err *err)
{
        AUTO(close_p) struct store *s = NULL;
        int r;

        s = calloc(1, sizeof(*s));
        if (!s)
                return err_sys(err, -ENOMEM, "open store");
        s->log_fd = s->file_fd = -1;
        r = open_private(s, path, err);
        if (r < 0)
                return r;
        if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK ||
            sqlite3_exec(s->db, pragmas, NULL, NULL, NULL) != SQLITE_OK)
                return db_fail(s->db, err, "open");
        keep_files(s);
        (void)sqlite3_wal_hook(s->db, on_log, s);
        r = db_migrate(s->db, DB_SCHEMA_VERSION, err);
        if (r == 0)
                r = prepare_all(s, err);
        if (r == 0)
                r = open_log(s, path, err);
        if (r < 0)
                return r;
        (void)store_keep_room(s);
        r = prime_if_room(s, err ? err : &(struct err){0});
        if (r < 0)
                return r;
        if (!store_keep_room(s))
                log_warn("store.room", "the disk is full, room for changes cannot be set aside now");
        *ret = TAKE_PTR(s);
        return 0;
}

struct store *store_close(struct store *s)
{
        if (!s)
                return NULL;
        for (int i = 0; i < DB_STATEMENTS; i++)
                sqlite3_finalize(s->statement[i]);
        sqlite3_close(s->db);
        close_fd(&s->log_fd);
        close_fd(&s->file_fd);
        free(s);
        return NULL;
}

int store_begin(struct store *s, struct err *err)
{
        return db_run(s, DB_BEGIN, err, "begin");
}

int store_commit(struct store *s, struct err *err)
{
        return db_run(s, DB_COMMIT, err, "commit");
}

void store_rollback(struct store *s)
{
        (void)db_run(s, DB_ROLLBACK, NULL, "rollback"); /* fails when there is nothing to undo */
}

bool store_wants_tidy(const struct store *s)
{
        return s->log_pages >= TIDY_PAGES;
}

void store_tidy(struct store *s)
{
        struct err err;

        if (db_move_log(s) < 0)
                log_debug("store.tidy", "failed=%s", sqlite3_errstr(sqlite3_errcode(s->db)));
        else if (prime(s, &err) < 0)
                log_debug("store.tidy", "failed=%s", err.msg);
}
