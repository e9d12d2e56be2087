#include "store/store.h"

#include <errno.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/db.h"

#include "tap.h"

static char dir[] = "/tmp/sandglass-store-XXXXXX", path[64];

static void begin(void) /* each case starts with no database */
{
        static const char *const also[] = {"", "-wal", "-shm", "-journal"};

        for (size_t i = 0; i < ARRAY_LEN(also); i++) {
                char name[96];

                (void)snprintf(name, sizeof(name), "%s%s", path, also[i]);
                (void)unlink(name);
        }
}

static void store_close_p(struct store **s)
{
        store_close(*s);
}
#define AUTO_STORE AUTO(store_close_p)

static const struct store_team team = {.id = "t-1", .slug = "default", .name = "Default"};

static int count_teams(const struct store_team *t, void *arg)
{
        *(int *)arg += strcmp(t->slug, "default") == 0;
        return 0;
}

static int count_keys(const struct store_key *k, void *arg)
{
        *(int *)arg += k->hash[0] == 7 && strcmp(k->mask, "e2b_ab...cdef") == 0;
        return 0;
}

static int take_key(const struct store_key *k, void *arg)
{
        *(struct store_key *)arg = *k; /* without the texts, which are borrowed */
        return 0;
}

static struct sandbox sample(const char *id, int64_t team_no)
{
        struct sandbox s = {
                .team = team_no, .state = SANDBOX_STARTING, .cpu_count = 2, .memory_mb = 512, .disk_mb = 1024};

        (void)snprintf(s.id, sizeof(s.id), "%s", id);
        (void)snprintf(s.template_id, sizeof(s.template_id), "abcdefghij0123456789");
        s.alias = (char *)"base";
        return s;
}

static int take_one(struct sandbox *sb, void *arg)
{
        struct sandbox *out = arg;

        sandbox_done(out);
        *out = *sb;
        *sb = (struct sandbox){0};
        return 0;
}

static int count_sandboxes(struct sandbox *sb, void *arg)
{
        (void)sb;
        ++*(int *)arg;
        return 0;
}

static void a_new_store_is_private_and_has_a_seed_for_good(void)
{
        uint8_t seed[STORE_SEED_LEN] = {0}, again[STORE_SEED_LEN] = {0};
        struct store *s = NULL;
        struct stat st;

        begin();
        CHECK_INT(store_open(path, &s, NULL), ==, 0);
        CHECK_INT(store_seed(s, seed, NULL), ==, 0);
        CHECK_INT(store_seed(s, again, NULL), ==, 0);
        CHECK(memcmp(seed, again, sizeof(seed)) == 0);
        s = store_close(s);
        CHECK_INT(stat(path, &st), ==, 0);
        CHECK_INT(st.st_mode & 0777, ==, 0600);
        CHECK_INT(store_open(path, &s, NULL), ==, 0);
        CHECK_INT(store_seed(s, again, NULL), ==, 0);
        CHECK(memcmp(seed, again, sizeof(seed)) == 0);
        s = store_close(s);
}

static void teams_and_keys_survive(void)
{
        struct store_key key = {.id = "k-1", .name = "first", .mask = "e2b_ab...cdef", .hash = {7}};
        struct store *s = NULL;
        struct err err;
        int teams = 0, keys = 0;

        begin();
        CHECK_INT(store_open(path, &s, NULL), ==, 0);
        CHECK_INT(store_key_add(s, &key, &err), <, 0); /* no such team */
        CHECK_INT(store_team_add(s, &team, &key.team, NULL), ==, 0);
        CHECK_INT(store_key_add(s, &key, NULL), ==, 0);
        CHECK_INT(store_key_add(s, &key, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_CONFLICT);
        s = store_close(s);
        CHECK_INT(store_open(path, &s, NULL), ==, 0);
        CHECK_INT(store_team_each(s, count_teams, &teams, NULL), ==, 0);
        CHECK_INT(store_key_each(s, count_keys, &keys, NULL), ==, 0);
        s = store_close(s);
        CHECK_INT(teams, ==, 1);
        CHECK_INT(keys, ==, 1);
}

static void kind_user_and_times_of_a_key_survive(void)
{
        struct store_key key = {.id = "k-1",
                                .name = "u",
                                .mask = "m",
                                .kind = STORE_KEY_USER,
                                .uid = 4000000000u,
                                .created_ns = 11},
                         back = {0};
        AUTO_STORE struct store *s = NULL;
        struct err err = {0};
        int keys = 0;

        begin();
        CHECK_INT(store_open(path, &s, NULL), ==, 0);
        CHECK_INT(store_team_add(s, &team, &key.team, NULL), ==, 0);
        CHECK_INT(store_key_add(s, &key, NULL), ==, 0);
        CHECK_INT(store_key_used(s, "k-1", 22, NULL), ==, 0);
        s = store_close(s);
        CHECK_INT(store_open(path, &s, NULL), ==, 0);
        CHECK_INT(store_key_each(s, take_key, &back, NULL), ==, 0);
        CHECK(back.kind == STORE_KEY_USER && back.uid == 4000000000u && back.created_ns == 11 &&
              back.last_used_ns == 22);
        key.id[2] = '2';
        key.hash[0] = 1;
        CHECK_INT(store_key_add(s, &key, &err), <, 0); /* a user has one key */
        CHECK_INT(err.kind, ==, ERR_CONFLICT);
        CHECK_INT(store_key_remove(s, "k-1", NULL), ==, 0);
        CHECK_INT(store_key_remove(s, "k-1", NULL), ==, 0);
        CHECK_INT(store_key_add(s, &key, &err), ==, 0);
        key.kind = STORE_KEY_GIVEN; /* of these there may be many */
        for (int i = 3; i < 5; i++) {
                key.id[2] = (char)('0' + i);
                key.hash[0] = 7;
                key.hash[1] = (uint8_t)i;
                key.mask = "e2b_ab...cdef";
                CHECK_INT(store_key_add(s, &key, &err), ==, 0);
        }
        CHECK_INT(store_key_each(s, count_keys, &keys, NULL), ==, 0);
        CHECK_INT(keys, ==, 2);
}

static void a_rollback_leaves_nothing(void)
{
        AUTO_STORE struct store *s = NULL;
        int64_t no;
        int teams = 0;

        begin();
        CHECK_INT(store_open(path, &s, NULL), ==, 0);
        CHECK_INT(store_begin(s, NULL), ==, 0);
        CHECK_INT(store_team_add(s, &team, &no, NULL), ==, 0);
        store_rollback(s);
        CHECK_INT(store_team_each(s, count_teams, &teams, NULL), ==, 0);
        CHECK_INT(teams, ==, 0);
        store_rollback(s); /* nothing to undo: harmless */
        CHECK_INT(store_begin(s, NULL), ==, 0);
        CHECK_INT(store_team_add(s, &team, &no, NULL), ==, 0);
        CHECK_INT(store_commit(s, NULL), ==, 0);
        CHECK_INT(store_team_each(s, count_teams, &teams, NULL), ==, 0);
        CHECK_INT(teams, ==, 1);
}

static void a_sandbox_lives_through_reopening(void)
{
        struct sandbox in, out = {0};
        struct store *s = NULL;
        struct err err;
        int64_t no;
        int n = 0;

        begin();
        CHECK_INT(store_open(path, &s, NULL), ==, 0);
        CHECK_INT(store_team_add(s, &team, &no, NULL), ==, 0);
        in = sample("i00000000000000000000", no);
        in.internet = CHOICE_NO;
        in.is_secured = true;
        in.metadata = json_pack("{s:s}", "k", "v \xc3\xa9");
        in.network = json_pack("{s:b}", "allowPublicTraffic", 0);
        CHECK_INT(store_sandbox_add(s, &in, NULL), ==, 0);
        CHECK_INT(store_sandbox_add(s, &in, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_CONFLICT);
        CHECK_INT(store_sandbox_each(s, take_one, &out, NULL), ==, 0);
        CHECK_INT(out.state, ==, SANDBOX_STARTING);
        CHECK_INT(store_sandbox_started(s, in.id, 11, 22, NULL), ==, 0);
        CHECK_INT(store_sandbox_set_end(s, in.id, 33, NULL), ==, 0);
        s = store_close(s);

        CHECK_INT(store_open(path, &s, NULL), ==, 0);
        CHECK_INT(store_sandbox_each(s, take_one, &out, NULL), ==, 0);
        CHECK_STR(out.id, in.id);
        CHECK_STR(out.alias, "base");
        CHECK_STR(out.template_id, in.template_id);
        CHECK(out.state == SANDBOX_RUNNING && out.started_ns == 11 && out.end_ns == 33 && out.team == no);
        CHECK(out.internet == CHOICE_NO && out.is_secured && out.cpu_count == 2 && out.disk_mb == 1024);
        CHECK(json_equal(out.metadata, in.metadata) && json_equal(out.network, in.network) && !out.mcp);
        CHECK(!sandbox_is_public(&out));
        CHECK_INT(store_sandbox_remove(s, in.id, NULL), ==, 0);
        CHECK_INT(store_sandbox_remove(s, in.id, NULL), ==, 0);
        CHECK_INT(store_sandbox_each(s, count_sandboxes, &n, NULL), ==, 0);
        CHECK_INT(n, ==, 0);
        s = store_close(s);
        sandbox_done(&out);
        json_decref(in.metadata);
        json_decref(in.network);
}

static void a_second_opener_is_refused(void)
{
        AUTO_STORE struct store *s = NULL, *second = NULL;
        struct err err = {0};

        begin();
        CHECK_INT(store_open(path, &s, NULL), ==, 0);
        CHECK_INT(store_open(path, &second, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_CONFLICT);
        CHECK(!second);
}

static void an_older_store_is_brought_up_to_date(void)
{
        static const char old_rows[] = "INSERT INTO team VALUES (1, 't-1', 'default', 'Default', 0);"
                                       "INSERT INTO api_key VALUES ('k-1', 1, 'first', 'e2b_ab...cdef', "
                                       "X'0700000000000000000000000000000000000000000000000000000000000000', 0);";
        AUTO_STORE struct store *s = NULL;
        struct sandbox in = sample("i00000000000000000000", 1);
        struct store_key key = {0};
        sqlite3 *db = NULL;
        int keys = 0, r;

        begin();
        CHECK_INT(sqlite3_open(path, &db), ==, SQLITE_OK);
        r = db_migrate(db, 1, NULL) == 0 && sqlite3_exec(db, old_rows, NULL, NULL, NULL) == SQLITE_OK;
        sqlite3_close(db);
        CHECK(r);
        CHECK_INT(store_open(path, &s, NULL), ==, 0);
        CHECK_INT(store_key_each(s, count_keys, &keys, NULL), ==, 0);
        CHECK_INT(keys, ==, 1);
        CHECK_INT(store_key_each(s, take_key, &key, NULL), ==, 0);
        CHECK(key.kind == STORE_KEY_OPERATOR && key.last_used_ns == 0); /* there were no others */
        CHECK_INT(store_sandbox_add(s, &in, NULL), ==, 0);
}

static void sandboxes_of_version_2_are_kept(void)
{
        static const char old_rows[] = "INSERT INTO team VALUES (1, 't-1', 'default', 'Default', 0);"
                                       "INSERT INTO sandbox VALUES ('i00000000000000000000', 1, 1, "
                                       "'abcdefghij0123456789', 'base', 11, 22, 2, 512,"
                                       " 1024, 1, 0, '{\"k\":\"v\"}', NULL, NULL);";
        AUTO_STORE struct store *s = NULL;
        AUTO(sandbox_done) struct sandbox out = {0};
        sqlite3 *db = NULL;
        int r;

        begin();
        CHECK_INT(sqlite3_open(path, &db), ==, SQLITE_OK);
        r = db_migrate(db, 2, NULL) == 0 && sqlite3_exec(db, old_rows, NULL, NULL, NULL) == SQLITE_OK;
        sqlite3_close(db);
        CHECK(r);
        CHECK_INT(store_open(path, &s, NULL), ==, 0);
        CHECK_INT(store_sandbox_each(s, take_one, &out, NULL), ==, 0);
        CHECK(out.state == SANDBOX_RUNNING && out.started_ns == 11 && out.end_ns == 22 && out.is_secured);
        CHECK(!out.layers && !out.checkpoint[0] && !out.upper_kept && !out.auto_pause && out.auto_pause_memory);
        CHECK_INT(out.timeout_s, ==, 300);
        CHECK_STR(json_string_value(json_object_get(out.metadata, "k")), "v");
}

static void what_a_pause_needs_lives_through_reopening(void)
{
        AUTO(sandbox_done) struct sandbox out = {0};
        AUTO_STORE struct store *s = NULL;
        struct sandbox in;
        json_t *env = NULL;
        struct err err;
        int64_t no;

        begin();
        CHECK_INT(store_open(path, &s, NULL), ==, 0);
        CHECK(store_log_fd(s) >= 0 && fdatasync(store_log_fd(s)) == 0);
        CHECK_INT(store_team_add(s, &team, &no, NULL), ==, 0);
        in = sample("i00000000000000000000", no);
        in.layers = json_pack("[s,s]", "l1", "u-00000000000000000000");
        in.env = json_pack("{s:s}", "A", "b");
        in.auto_pause = in.auto_resume = true;
        in.timeout_s = 77;
        in.default_user = (char *)"user";
        CHECK_INT(store_sandbox_add(s, &in, NULL), ==, 0);
        in.state = SANDBOX_PAUSED;
        (void)snprintf(in.checkpoint, sizeof(in.checkpoint), "c00000000000000000000");
        (void)snprintf(in.image_of, sizeof(in.image_of), "i11111111111111111111");
        in.upper_kept = in.image_secured = true;
        in.started_ns = 5;
        CHECK_INT(store_sandbox_update(s, &in, NULL), ==, 0);
        s = store_close(s);
        CHECK_INT(store_open(path, &s, NULL), ==, 0);
        CHECK_INT(store_sandbox_each(s, take_one, &out, NULL), ==, 0);
        CHECK(out.state == SANDBOX_PAUSED && out.upper_kept && out.image_secured && out.started_ns == 5);
        CHECK(out.auto_pause && !out.auto_pause_memory && out.auto_resume && out.timeout_s == 77);
        CHECK(json_equal(out.layers, in.layers) && !out.env && !out.default_workdir);
        CHECK_STR(out.checkpoint, in.checkpoint);
        CHECK_STR(out.image_of, in.image_of);
        CHECK_STR(out.default_user, "user");
        CHECK_INT(store_sandbox_env(s, in.id, &env, NULL), ==, 0);
        CHECK(json_equal(env, in.env));
        json_decref(env);
        CHECK_INT(store_sandbox_env(s, "i22222222222222222222", &env, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_NOT_FOUND);
        json_decref(in.layers);
        json_decref(in.env);
}

static int take_snapshot(struct snapshot *sn, void *arg)
{
        struct snapshot *out = arg;

        snapshot_done(out);
        *out = *sn;
        *sn = (struct snapshot){0};
        return 0;
}

static void snapshots_live_through_reopening(void)
{
        AUTO(snapshot_done) struct snapshot out = {0};
        AUTO_STORE struct store *s = NULL;
        struct snapshot in = {.id = "s-1",
                              .template_id = "abcdefghij0123456789",
                              .name = (char *)"mine",
                              .tag = (char *)"v1",
                              .source = "i00000000000000000000",
                              .created_ns = 9,
                              .checkpoint = "c00000000000000000000",
                              .image_of = "i00000000000000000000",
                              .image_secured = true,
                              .cpu_count = 1,
                              .memory_mb = 2,
                              .disk_mb = 3};
        json_t *other = json_pack("[s]", "u-11111111111111111111");
        struct err err;

        begin();
        CHECK_INT(store_open(path, &s, NULL), ==, 0);
        in.layers = json_pack("[s,s]", "l1", "u-00000000000000000000");
        CHECK_INT(store_snapshot_add(s, &in, &err), <, 0); /* no such team */
        CHECK_INT(store_team_add(s, &team, &in.team, NULL), ==, 0);
        CHECK_INT(store_snapshot_add(s, &in, NULL), ==, 0);
        CHECK_INT(store_snapshot_add(s, &in, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_CONFLICT);
        CHECK_INT(store_snapshot_set_layers(s, in.id, other, NULL), ==, 0);
        s = store_close(s);
        CHECK_INT(store_open(path, &s, NULL), ==, 0);
        CHECK_INT(store_snapshot_each(s, take_snapshot, &out, NULL), ==, 0);
        CHECK_STR(out.name, "mine");
        CHECK_STR(out.tag, "v1");
        CHECK_STR(out.source, in.source);
        CHECK_STR(out.checkpoint, in.checkpoint);
        CHECK(out.image_secured && out.created_ns == 9 && out.cpu_count == 1 && out.memory_mb == 2 && out.disk_mb == 3);
        CHECK(json_equal(out.layers, other) && !out.env && out.team == in.team);
        CHECK_INT(store_snapshot_remove(s, in.id, NULL), ==, 0);
        CHECK_INT(store_snapshot_remove(s, in.id, NULL), ==, 0);
        json_decref(in.layers);
        json_decref(other);
}

static void a_newer_store_is_refused_and_left_alone(void)
{
        AUTO_STORE struct store *s = NULL;
        struct err err = {0};
        sqlite3 *db = NULL;

        begin();
        CHECK_INT(sqlite3_open(path, &db), ==, SQLITE_OK);
        (void)sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL);
        sqlite3_close(db);
        CHECK_INT(store_open(path, &s, &err), <, 0);
        CHECK_STR(err.msg, "the store has schema version 99, this program knows up to 8");
}

static void a_file_that_is_no_database_is_refused(void)
{
        AUTO_STORE struct store *s = NULL;
        struct err err = {0};
        FILE *f;

        begin();
        f = fopen(path, "we");
        CHECK(f);
        for (int i = 0; i < 1000; i++)
                (void)fputs("not a database\n", f);
        (void)fclose(f);
        CHECK_INT(store_open(path, &s, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_INVALID);
        CHECK_INT(store_open("/nonexistent/dir/x.db", &s, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_INTERNAL);
}

/* Not a benchmark, but a create must not wait for a disk: 500 of them in a second is far above what it takes. */
static void writes_do_not_wait_for_the_disk(void)
{
        AUTO_STORE struct store *s = NULL;
        uint64_t start;
        int64_t no;

        begin();
        CHECK_INT(store_open(path, &s, NULL), ==, 0);
        CHECK_INT(store_team_add(s, &team, &no, NULL), ==, 0);
        start = clock_mono_us();
        for (int i = 0; i < 500; i++) {
                struct sandbox in = sample("", no);

                sandbox_id_make(in.id);
                CHECK_INT(store_sandbox_add(s, &in, NULL), ==, 0);
                CHECK_INT(store_sandbox_started(s, in.id, i, i, NULL), ==, 0);
                CHECK_INT(store_sandbox_remove(s, in.id, NULL), ==, 0);
        }
        printf("# %llu us for add, start and remove\n", (unsigned long long)(clock_mono_us() - start) / 500);
        CHECK(clock_mono_us() - start < 1000000);
        CHECK(store_wants_tidy(s));
        store_tidy(s);
        CHECK(!store_wants_tidy(s));
}

int main(void)
{
        if (!mkdtemp(dir))
                return 1;
        (void)snprintf(path, sizeof(path), "%s/test.db", dir);
        RUN(a_new_store_is_private_and_has_a_seed_for_good);
        RUN(teams_and_keys_survive);
        RUN(kind_user_and_times_of_a_key_survive);
        RUN(a_rollback_leaves_nothing);
        RUN(a_sandbox_lives_through_reopening);
        RUN(a_second_opener_is_refused);
        RUN(an_older_store_is_brought_up_to_date);
        RUN(sandboxes_of_version_2_are_kept);
        RUN(what_a_pause_needs_lives_through_reopening);
        RUN(snapshots_live_through_reopening);
        RUN(a_newer_store_is_refused_and_left_alone);
        RUN(a_file_that_is_no_database_is_refused);
        RUN(writes_do_not_wait_for_the_disk);
        begin();
        (void)rmdir(dir);
        return tap_done();
}
