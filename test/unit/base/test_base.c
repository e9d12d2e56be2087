#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/map.h"
#include "base/str.h"

#include <errno.h>

#include "tap.h"

static void buf_stops_at_its_maximum(void)
{
        AUTO_BUF struct buf b = BUF_INIT(8);

        CHECK_INT(buf_add(&b, "12345", 5), ==, 0);
        CHECK_INT(buf_add(&b, "6789", 4), ==, -E2BIG);
        CHECK_INT(b.len, ==, 5);
        buf_consume(&b, 3);
        CHECK_INT(buf_addf(&b, "%s", "abcdef"), ==, 0);
        CHECK_STR(buf_cstr(&b), "45abcdef");
}

static void buf_keeps_content_while_growing(void)
{
        AUTO_BUF struct buf b = BUF_INIT(1 << 20);

        for (int i = 0; i < 1000; i++) {
                CHECK_INT(buf_addf(&b, "%04d", i), ==, 0);
                if (i % 3 == 0)
                        buf_consume(&b, 4);
        }
        CHECK_INT(b.len, ==, 4 * (1000 - 334));
        CHECK(memcmp(buf_at(&b), "0334", 4) == 0);
}

static void numbers_are_strict(void)
{
        uint32_t v = 7;

        CHECK_INT(parse_u32(STR("65535"), 1, 65535, &v), ==, 0);
        CHECK_INT(v, ==, 65535);
        CHECK_INT(parse_u32(STR("65536"), 1, 65535, &v), ==, -ERANGE);
        CHECK_INT(parse_u32(STR(""), 0, 9, &v), ==, -EINVAL);
        CHECK_INT(parse_u32(STR("+1"), 0, 9, &v), ==, -EINVAL);
        CHECK_INT(parse_u32(STR("1 "), 0, 9, &v), ==, -EINVAL);
        CHECK_INT(parse_u32(STR("99999999999999999999999"), 0, 9, &v), ==, -ERANGE);
        CHECK_INT(v, ==, 65535);
}

static void utf8_is_checked(void)
{
        CHECK(str_is_utf8(STR("abc\xc3\xa9\xf0\x9f\x98\x80")));
        CHECK(!str_is_utf8(STR("\xc0\x80")));
        CHECK(!str_is_utf8(STR("\xed\xa0\x80")));
        CHECK(!str_is_utf8(STR("a\xe2\x82")));
}

static void times_go_there_and_back(void)
{
        char text[CLOCK_TEXT_MAX];
        int64_t ns = 0;

        CHECK_INT(clock_parse(STR("2026-09-21T10:11:12.123456789Z"), &ns), ==, 0);
        clock_format(ns, text);
        CHECK_STR(text, "2026-09-21T10:11:12.123456Z");
        CHECK_INT(clock_parse(STR("2026-09-21T12:11:12.5+02:00"), &ns), ==, 0);
        clock_format(ns, text);
        CHECK_STR(text, "2026-09-21T10:11:12.500000Z");
        CHECK_INT(clock_parse(STR("2026-02-30T00:00:00Z"), &ns), ==, -EINVAL);
        CHECK_INT(clock_parse(STR("2026-02-03T00:00:00"), &ns), ==, -EINVAL);
        CHECK_INT(clock_parse(STR("yesterday"), &ns), ==, -EINVAL);
}

static void errors_gather_context(void)
{
        struct err e = {0};

        CHECK_INT(err_sys(&e, -ENOENT, "open '%s'", "x"), ==, -ENOENT);
        CHECK_INT(err_wrap(&e, "sandbox %d", 1), ==, -ENOENT);
        CHECK_STR(e.msg, "sandbox 1: open 'x': No such file or directory");
        CHECK_INT(e.kind, ==, ERR_INTERNAL); /* whose file it was, and what follows, is not for errno to say */
        err_set(&e, ERR_LIMIT, "%0300d", 1);
        CHECK(strcmp(e.msg + sizeof(e.msg) - 4, "...") == 0);
        CHECK_INT(err_kind_from_name(err_kind_name(ERR_TIMEOUT)), ==, ERR_TIMEOUT);
}

static void a_full_disk_has_a_kind_of_its_own(void)
{
        struct err e = {0};

        CHECK_INT(err_sys(&e, -ENOSPC, "write"), ==, -ENOSPC);
        CHECK_INT(e.kind, ==, ERR_NO_SPACE);
        CHECK_INT(err_sys(&e, -EDQUOT, "write"), ==, -EDQUOT);
        CHECK_INT(e.kind, ==, ERR_NO_SPACE);
        CHECK_INT(err_kind_from_name("no_space"), ==, ERR_NO_SPACE);
}

static void maps_find_what_was_put(void)
{
        struct map m = {0};
        char key[32];
        size_t n;

        for (long i = 1; i <= 2000; i++) {
                n = (size_t)snprintf(key, sizeof(key), "key-%ld", i);
                CHECK_INT(map_put(&m, (struct str){key, n}, (void *)i, NULL), ==, 0);
        }
        for (long i = 1; i <= 2000; i += 2) {
                n = (size_t)snprintf(key, sizeof(key), "key-%ld", i);
                CHECK_INT((long)map_remove(&m, (struct str){key, n}), ==, i);
        }
        for (long i = 1; i <= 2000; i++) {
                n = (size_t)snprintf(key, sizeof(key), "key-%ld", i);
                CHECK_INT((long)map_get(&m, (struct str){key, n}), ==, i % 2 ? 0 : i);
        }
        CHECK_INT(m.used, ==, 1000);
        map_done(&m);
}

static void random_ids_are_lower_case_and_differ(void)
{
        char a[21], b[21];

        random_id(a, 20);
        random_id(b, 20);
        CHECK_INT(strlen(a), ==, 20);
        CHECK_INT(strspn(a, "abcdefghijklmnopqrstuvwxyz0123456789"), ==, 20);
        CHECK(strcmp(a, b) != 0);
}

int main(void)
{
        RUN(buf_stops_at_its_maximum);
        RUN(buf_keeps_content_while_growing);
        RUN(numbers_are_strict);
        RUN(utf8_is_checked);
        RUN(times_go_there_and_back);
        RUN(errors_gather_context);
        RUN(a_full_disk_has_a_kind_of_its_own);
        RUN(maps_find_what_was_put);
        RUN(random_ids_are_lower_case_and_differ);
        return tap_done();
}
