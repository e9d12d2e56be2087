/* The ring of a process's output. */
#include <errno.h>
#include <stdlib.h>

#include "envd/process/replay.h"
#include "tap.h"

static uint8_t piece[OUTPUT_READ_MAX];

/* Everything from an offset on, as one text. */
static struct str all_from(struct replay *r, uint64_t offset, uint64_t *ret_dropped)
{
        static char text[2 * REPLAY_MAX];
        struct replay_cursor c;
        enum output_kind kind;
        uint64_t dropped;
        size_t n, len = 0;

        *ret_dropped = 0;
        if (replay_seek(r, offset, &c) < 0)
                return (struct str){"refused", 7};
        while ((n = replay_next(r, &c, piece, &kind, &dropped))) {
                *ret_dropped += dropped;
                memcpy(text + len, piece, n);
                len += n;
        }
        return (struct str){text, len};
}

static void add_text(struct replay *r, enum output_kind kind, const char *text)
{
        replay_add(r, kind, text, strlen(text));
}

static void nothing_is_allocated_before_there_is_output(void)
{
        struct replay_pool pool;
        struct replay *r;
        uint64_t dropped;

        replay_pool_init(&pool, REPLAY_POOL_MAX);
        r = replay_create(&pool);
        CHECK_INT(pool.used, ==, 0);
        CHECK_INT(all_from(r, 0, &dropped).n, ==, 0);
        add_text(r, OUTPUT_STDOUT, "x");
        CHECK_INT(pool.used, <=, 4096);
        replay_finish(r);
        CHECK_INT(pool.used, <=, 16);
        CHECK(str_is(all_from(r, 0, &dropped), "x"));
        replay_unref(r);
        CHECK_INT(pool.used, ==, 0);
}

static void any_offset_can_be_asked_for(void)
{
        struct replay_pool pool;
        struct replay_cursor c;
        struct replay *r;
        uint64_t dropped;

        replay_pool_init(&pool, REPLAY_POOL_MAX);
        r = replay_create(&pool);
        add_text(r, OUTPUT_STDOUT, "one ");
        add_text(r, OUTPUT_STDERR, "two ");
        add_text(r, OUTPUT_STDOUT, "three");
        CHECK(str_is(all_from(r, 0, &dropped), "one two three"));
        CHECK(str_is(all_from(r, 2, &dropped), "e two three"));
        CHECK(str_is(all_from(r, 4, &dropped), "two three"));
        CHECK(str_is(all_from(r, 13, &dropped), ""));
        CHECK_INT(dropped, ==, 0);
        CHECK_INT(replay_seek(r, 14, &c), ==, -ERANGE);
        replay_unref(r);
}

static void pieces_keep_their_kind_and_small_ones_of_a_kind_join(void)
{
        struct replay_pool pool;
        struct replay_cursor c;
        enum output_kind kind;
        struct replay *r;
        uint64_t dropped;

        replay_pool_init(&pool, REPLAY_POOL_MAX);
        r = replay_create(&pool);
        add_text(r, OUTPUT_STDOUT, "a");
        CHECK_INT(replay_seek(r, 0, &c), ==, 0);
        CHECK_INT(replay_next(r, &c, piece, &kind, &dropped), ==, 1);
        CHECK_INT(replay_next(r, &c, piece, &kind, &dropped), ==, 0);
        add_text(r, OUTPUT_STDOUT, "b");
        add_text(r, OUTPUT_STDOUT, "c");
        CHECK_INT(replay_next(r, &c, piece, &kind, &dropped), ==, 2);
        CHECK_INT(c.offset, ==, 3);
        add_text(r, OUTPUT_STDERR, "d");
        CHECK_INT(replay_next(r, &c, piece, &kind, &dropped), ==, 1);
        CHECK_INT(kind, ==, OUTPUT_STDERR);
        CHECK_INT(replay_next(r, &c, piece, &kind, &dropped), ==, 0);
        replay_unref(r);
}

static void the_oldest_goes_and_is_counted(void)
{
        static char line[1000];
        struct replay_pool pool;
        struct replay *r;
        uint64_t dropped;
        struct str got;

        replay_pool_init(&pool, REPLAY_POOL_MAX);
        r = replay_create(&pool);
        for (int i = 0; i < 3000; i++) {
                memset(line, 'a' + i % 26, sizeof(line));
                replay_add(r, i % 7 ? OUTPUT_STDOUT : OUTPUT_STDERR, line, sizeof(line));
        }
        CHECK_INT(pool.used, ==, REPLAY_MAX);
        CHECK_INT(r->offset, ==, 3000000);
        got = all_from(r, 5, &dropped);
        CHECK_INT(got.n + dropped + 5, ==, 3000000);
        CHECK_INT(got.n, >, REPLAY_MAX - 2 * OUTPUT_READ_MAX);
        for (size_t i = 0; i < got.n; i++) /* every byte at its offset */
                CHECK_INT(got.p[i], ==, 'a' + (i + dropped + 5) / 1000 % 26);
        replay_unref(r);
}

static void a_reader_that_was_overtaken_learns_how_much_it_lost(void)
{
        struct replay_pool pool;
        struct replay_cursor c;
        enum output_kind kind;
        struct replay *r;
        uint64_t dropped;
        size_t n;

        replay_pool_init(&pool, REPLAY_POOL_MAX);
        r = replay_create(&pool);
        add_text(r, OUTPUT_STDOUT, "begin");
        CHECK_INT(replay_seek(r, 0, &c), ==, 0);
        CHECK_INT(replay_next(r, &c, piece, &kind, &dropped), ==, 5);
        for (int i = 0; i < 100; i++)
                replay_add(r, OUTPUT_STDERR, piece, OUTPUT_READ_MAX);
        n = replay_next(r, &c, piece, &kind, &dropped);
        CHECK_INT(n, ==, OUTPUT_READ_MAX);
        CHECK_INT(dropped, >, 0);
        CHECK_INT(c.offset, ==, 5 + dropped + n);
        replay_unref(r);
}

static void the_pool_is_never_exceeded(void)
{
        enum { COUNT = 40 };
        struct replay_pool pool;
        struct replay *r[COUNT];
        uint64_t dropped;

        replay_pool_init(&pool, 4u << 20);
        for (int i = 0; i < COUNT; i++) {
                r[i] = replay_create(&pool);
                for (int k = 0; k < 64; k++) {
                        replay_add(r[i], OUTPUT_STDOUT, piece, OUTPUT_READ_MAX);
                        CHECK_INT(pool.used, <=, pool.max);
                }
                CHECK_INT(all_from(r[i], 0, &dropped).n, >, 0); /* everybody gets a share */
        }
        for (int i = 0; i < COUNT; i++)
                replay_unref(r[i]);
        CHECK_INT(pool.used, ==, 0);
}

static void the_output_of_ended_processes_goes_first_unless_it_is_being_read(void)
{
        struct replay_pool pool;
        struct replay *old, *read, *live;
        uint64_t dropped;

        replay_pool_init(&pool, REPLAY_MAX);
        old = replay_create(&pool);
        read = replay_create(&pool);
        live = replay_create(&pool);
        replay_add(old, OUTPUT_STDOUT, piece, OUTPUT_READ_MAX);
        replay_add(read, OUTPUT_STDOUT, piece, OUTPUT_READ_MAX);
        replay_finish(replay_ref(read));
        replay_finish(old);
        for (int i = 0; i < 100; i++)
                replay_add(live, OUTPUT_STDOUT, piece, OUTPUT_READ_MAX);
        CHECK_INT(all_from(old, 0, &dropped).n, ==, 0);
        CHECK_INT(old->offset, ==, OUTPUT_READ_MAX);
        CHECK_INT(all_from(read, 0, &dropped).n, ==, OUTPUT_READ_MAX);
        CHECK_INT(pool.used, <=, pool.max);
        replay_unref(read);
        replay_unref(read);
        replay_unref(old);
        replay_unref(live);
}

static void without_any_room_output_is_counted_only(void)
{
        struct replay_pool pool;
        struct replay *r;
        uint64_t dropped;

        replay_pool_init(&pool, REPLAY_POOL_MAX);
        replay_pool_limit(&pool, 32 * 100);
        r = replay_create(&pool);
        add_text(r, OUTPUT_PTY, "lost");
        CHECK_INT(pool.used, ==, 0);
        CHECK_INT(r->offset, ==, 4);
        CHECK_INT(all_from(r, 0, &dropped).n, ==, 0);
        replay_unref(r);
}

int main(void)
{
        RUN(nothing_is_allocated_before_there_is_output);
        RUN(any_offset_can_be_asked_for);
        RUN(pieces_keep_their_kind_and_small_ones_of_a_kind_join);
        RUN(the_oldest_goes_and_is_counted);
        RUN(a_reader_that_was_overtaken_learns_how_much_it_lost);
        RUN(the_pool_is_never_exceeded);
        RUN(the_output_of_ended_processes_goes_first_unless_it_is_being_read);
        RUN(without_any_room_output_is_counted_only);
        return tap_done();
}
