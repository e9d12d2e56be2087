/* Room on disk that is the store's own, so that rows can be removed and changed while the disk is full.
 *
 * Room that is merely given back when it is needed would be taken by whoever fills the disk.  So it lies inside the two
 * files that need it: blocks are allocated for them before they are written to.
 *
 *   the log   has LOG_BYTES at least, and room for one more transaction before each.  Where that cannot be had, what is in
 *             the log is moved into the file, and it is written from its beginning again.
 *   the file  has blocks for every page there is in file and log, so that moving never fails; and some beyond these, which
 *             rows may grow into.  A row that could need more than there is, is refused before anything is written. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/err.h"
#include "base/log.h"
#include "store/db.h"
#include "store/store.h"

#define LOG_BYTES (4 << 20)      /* a thousand pages */
#define TRANSACTION_PAGES 512    /* to remove the largest row: its pages are written over with zeros */
#define ROW_GROWTH_MAX (3 << 19) /* the largest request there is, and what comes with it */
#define CHANGE_GROWTH_MAX (1 << 16)

static off_t round_up(off_t n)
{
        return (n + DB_STEP_BYTES - 1) / DB_STEP_BYTES * DB_STEP_BYTES;
}

/* How much of the file has blocks: there are no holes in it. */
static off_t allocated(int fd)
{
        struct stat st;

        return fstat(fd, &st) < 0 ? 0 : (off_t)st.st_blocks * 512;
}

/* On a full disk the attempt alone would wait for the journal, several times. */
static bool is_hopeless(int fd, off_t bytes)
{
        struct statvfs fs;

        return bytes > 0 && fstatvfs(fd, &fs) == 0 && fs.f_blocks > 0 &&
               (uint64_t)bytes > (uint64_t)fs.f_bavail * fs.f_frsize;
}

/* 0 also where the file system cannot do so: then there is nothing to wait for. */
static int allocate(int fd, int mode, off_t size)
{
        off_t have = allocated(fd);

        if (have >= size)
                return 0;
        if (is_hopeless(fd, size - have))
                return -ENOSPC;
        if (fallocate(fd, mode, 0, size) == 0)
                return 0;
        return errno == ENOSPC || errno == EDQUOT ? -errno : 0;
}

static off_t page_bytes(struct store *s, enum db_statement counts)
{
        sqlite3_stmt *q = s->statement[counts];
        off_t n = sqlite3_step(q) == SQLITE_ROW ? (off_t)sqlite3_column_int64(q, 0) : 0;

        sqlite3_reset(q);
        return n * DB_PAGE_BYTES;
}

/* When all pages of the log are in the file SQLite cuts it after the last one, at a multiple of this size: make it one
 * that keeps what was allocated. */
void db_keep_file_size(struct store *s)
{
        struct stat st;
        int step = DB_STEP_BYTES;

        if (fstat(s->file_fd, &st) == 0 && st.st_size > 0 && st.st_size <= 1 << 30)
                step = (int)round_up(st.st_size);
        (void)sqlite3_file_control(s->db, "main", SQLITE_FCNTL_CHUNK_SIZE, &step);
}

static int keep_file_room(struct store *s, off_t growth)
{
        off_t end = page_bytes(s, DB_PAGE_COUNT), spare = allocated(s->file_fd) - end;
        int r;

        if (spare >= growth || (spare >= 0 && spare + page_bytes(s, DB_FREE_COUNT) >= growth))
                return 0;
        r = allocate(s->file_fd, 0, round_up(end + ROW_GROWTH_MAX));
        db_keep_file_size(s);
        return r;
}

int db_move_log(struct store *s)
{
        int r = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);

        return r == SQLITE_OK ? 0 : -EIO;
}

void db_keep_log_room(struct store *s)
{
        off_t need = (off_t)(s->log_pages + TRANSACTION_PAGES) * DB_FRAME_BYTES;

        if (allocated(s->log_fd) >= need || allocate(s->log_fd, FALLOC_FL_KEEP_SIZE, round_up(need)) == 0)
                return;
        if (s->log_pages > 0 && db_move_log(s) < 0)
                log_debug("store.room", "log_pages=%d failed=%s", s->log_pages, sqlite3_errmsg(s->db));
}

static int grow(struct store *s, off_t growth, struct err *err, const char *what)
{
        int r = keep_file_room(s, growth);

        if (r == 0)
                return 0;
        (void)err_sys(err, r, "store: %s", what);
        if (err)
                err->kind = ERR_NO_SPACE;
        return r;
}

int db_keep_row_room(struct store *s, struct err *err, const char *what)
{
        return grow(s, ROW_GROWTH_MAX, err, what);
}

int db_keep_change_room(struct store *s, struct err *err, const char *what)
{
        return grow(s, CHANGE_GROWTH_MAX, err, what);
}

bool store_keep_room(struct store *s)
{
        off_t log = (off_t)(s->log_pages + TRANSACTION_PAGES) * DB_FRAME_BYTES;

        if (log < LOG_BYTES)
                log = LOG_BYTES;
        return allocate(s->log_fd, FALLOC_FL_KEEP_SIZE, round_up(log)) == 0 && keep_file_room(s, ROW_GROWTH_MAX) == 0;
}
