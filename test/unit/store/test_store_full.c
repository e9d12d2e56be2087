/* The store on a full disk. */
#include "store/store.h"

#include <errno.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "store/db.h"

#include "full_disk.h"
#include "tap.h"

#define ROWS 1500 /* to remove them one by one takes the log several times its own room */

static char path[64];
static int64_t team_no;

static void store_close_p(struct store **s)
{
        store_close(*s);
}
#define AUTO_STORE AUTO(store_close_p)

static bool has_disk;
#define BEGIN                                                                                                          \
        do {                                                                                                           \
                if (!has_disk)                                                                                         \
                        SKIP("no mount namespace of our own");                                                         \
                clear();                                                                                               \
        } while (0)

static void clear(void)
{
        static const char *const also[] = {"", "-wal", "-shm", "-journal"};

        full_disk_make_room();
        for (size_t i = 0; i < ARRAY_LEN(also); i++) {
                char name[96];

                (void)snprintf(name, sizeof(name), "%s%s", path, also[i]);
                (void)unlink(name);
        }
}

static void name_row(int i, struct sandbox *s)
{
        *s = (struct sandbox){.team = team_no, .state = SANDBOX_STARTING, .cpu_count = 2, .memory_mb = 512};
        (void)snprintf(s->id, sizeof(s->id), "i%020d", i);
        (void)snprintf(s->template_id, sizeof(s->template_id), "abcdefghij0123456789");
}

static int add_row(struct store *s, int i, struct err *err)
{
        char text[700] = "";
        struct sandbox sb;
        int r;

        memset(text, 'x', sizeof(text) - 1);
        name_row(i, &sb);
        sb.metadata = json_pack("{s:s}", "m", text);
        r = store_sandbox_add(s, &sb, err);
        json_decref(sb.metadata);
        return r;
}

static int remove_row(struct store *s, int i, struct err *err)
{
        struct sandbox sb;

        name_row(i, &sb);
        return store_sandbox_remove(s, sb.id, err);
}

static int count_row(struct sandbox *sb, void *arg)
{
        (void)sb;
        ++*(int *)arg;
        return 0;
}

static int count(struct store *s)
{
        int n = 0;

        return store_sandbox_each(s, count_row, &n, NULL) < 0 ? -1 : n;
}

/* In a process that is killed: what is in the log stays there. */
static bool add_and_die(int rows)
{
        const struct store_team team = {.id = "t-1", .slug = "default", .name = "Default"};
        int status = 1;
        pid_t pid = fork();

        if (pid == 0) {
                struct store *s = NULL;
                bool ok = store_open(path, &s, NULL) == 0 && store_team_add(s, &team, &team_no, NULL) == 0;

                for (int i = 0; ok && i < rows; i++)
                        ok = add_row(s, i, NULL) == 0;
                _exit(ok && team_no == 1 ? 0 : 1);
        }
        team_no = 1;
        return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void a_full_disk_keeps_nobody_from_reading_and_removing(void)
{
        AUTO_STORE struct store *s = NULL;
        struct err err = {0};
        struct sandbox sb;

        BEGIN;
        CHECK(add_and_die(ROWS));
        full_disk_fill();
        CHECK_INT(store_open(path, &s, &err), ==, 0);
        CHECK_INT(count(s), ==, ROWS);
        for (int i = 0; i < ROWS; i++) {
                name_row(i, &sb);
                CHECK_INT(store_sandbox_started(s, sb.id, 1, 2, &err), ==, 0);
                CHECK_INT(store_sandbox_set_end(s, sb.id, 3, &err), ==, 0);
        }
        for (int i = 0; i < ROWS; i++)
                CHECK_INT(remove_row(s, i, &err), ==, 0);
        s = store_close(s);
        CHECK_INT(store_open(path, &s, &err), ==, 0); /* in order this time; and still no room */
        CHECK_INT(count(s), ==, 0);
        CHECK_INT(add_row(s, 1, &err), ==, 0); /* there is room in the file itself now */
}

static void the_room_outlives_every_way_to_end(void)
{
        struct store *s = NULL;
        struct err err = {0};

        BEGIN;
        CHECK(add_and_die(ROWS));
        full_disk_fill();
        CHECK_INT(store_open(path, &s, &err), ==, 0);
        CHECK(store_keep_room(s));
        store_tidy(s);
        CHECK(store_keep_room(s));
        s = store_close(s);
        CHECK_INT(store_open(path, &s, &err), ==, 0);
        CHECK(store_keep_room(s));
        s = store_close(s);
}

static void rows_are_refused_before_the_room_to_remove_them_is_gone(void)
{
        AUTO_STORE struct store *s = NULL;
        struct err err = {0};
        int n = 0;

        BEGIN;
        CHECK(add_and_die(1));
        full_disk_fill();
        CHECK_INT(store_open(path, &s, &err), ==, 0);
        while (n < 10 * ROWS && add_row(s, n + 1, &err) == 0)
                n++;
        printf("# %d rows on a full disk\n", n);
        CHECK(n < 10 * ROWS);
        CHECK_INT(err.kind, ==, ERR_NO_SPACE);
        CHECK(strstr(err.msg, "No space left on device"));
        for (int i = 0; i <= n; i++) { /* and it stays like that, whatever is tried */
                (void)add_row(s, n + 1 + i, NULL);
                CHECK_INT(remove_row(s, i, &err), ==, 0);
        }
        for (int i = 0; i <= n; i++)
                CHECK_INT(remove_row(s, n + 1 + i, &err), ==, 0);
        CHECK_INT(count(s), ==, 0);
        full_disk_make_room();
        CHECK(store_keep_room(s));
        for (int i = 0; i < ROWS; i++)
                CHECK_INT(add_row(s, i, &err), ==, 0);
}

static void the_largest_row_can_be_removed(void)
{
        AUTO_STORE struct store *s = NULL;
        AUTO_FREE char *text = calloc(1, 1 << 20);
        struct err err = {0};
        struct sandbox sb;

        BEGIN;
        CHECK(text && add_and_die(1));
        CHECK_INT(store_open(path, &s, &err), ==, 0);
        memset(text, 'x', (1 << 20) - 1);
        for (int i = 1; i < 5; i++) {
                name_row(i, &sb);
                sb.env = json_pack("{s:s}", "V", text);
                CHECK_INT(store_sandbox_add(s, &sb, &err), ==, 0);
                json_decref(sb.env);
        }
        full_disk_fill();
        for (int i = 0; i < 5; i++)
                CHECK_INT(remove_row(s, i, &err), ==, 0);
        CHECK_INT(count(s), ==, 0);
}

static int plain(void *arg, int columns, char **values, char **names)
{
        (void)arg, (void)columns, (void)values, (void)names;
        return 0;
}

/* Of a version that set nothing aside, stopped in order: no log, and no block more than the rows need. */
static void a_store_without_room_of_its_own_is_read_and_gets_it_later(void)
{
        AUTO_STORE struct store *s = NULL;
        struct err err = {0};
        sqlite3 *db = NULL;
        char log[80];

        BEGIN;
        CHECK(add_and_die(3));
        CHECK_INT(sqlite3_open(path, &db), ==, SQLITE_OK);
        CHECK_INT(sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE); VACUUM; PRAGMA wal_checkpoint(TRUNCATE)", plain,
                               NULL, NULL),
                  ==, SQLITE_OK);
        sqlite3_close(db);
        (void)snprintf(log, sizeof(log), "%s-wal", path);
        CHECK(access(log, F_OK) < 0);
        full_disk_fill();
        CHECK_INT(store_open(path, &s, &err), ==, 0);
        CHECK_INT(count(s), ==, 3);
        CHECK(!store_keep_room(s));
        CHECK_INT(add_row(s, 3, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_NO_SPACE);
        CHECK_INT(remove_row(s, 0, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_NO_SPACE);
        CHECK_INT(count(s), ==, 3);
        full_disk_make_room();
        CHECK(store_keep_room(s));
        full_disk_fill();
        CHECK_INT(remove_row(s, 0, &err), ==, 0);
        CHECK_INT(count(s), ==, 2);
}

int main(int argc, char **argv)
{
        bool is_given = argc > 1; /* a directory on another file system, that is all ours */
        const char *dir = is_given ? argv[1] : full_disk_dir;

        has_disk = is_given || full_disk_mount("size=32m,mode=0755");
        (void)snprintf(path, sizeof(path), "%s/test.db", dir);
        (void)snprintf(full_disk_filler, sizeof(full_disk_filler), "%s/filler", dir);
        RUN(a_full_disk_keeps_nobody_from_reading_and_removing);
        RUN(the_room_outlives_every_way_to_end);
        RUN(rows_are_refused_before_the_room_to_remove_them_is_gone);
        RUN(the_largest_row_can_be_removed);
        RUN(a_store_without_room_of_its_own_is_read_and_gets_it_later);
        clear();
        if (!is_given)
                full_disk_remove();
        return tap_done();
}
