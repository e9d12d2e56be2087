#include "wire/url.h"

#include <errno.h>

#include "tap.h"

static void targets_are_taken_apart(void)
{
        static const struct {
                const char *target, *path, *query, *segments[4];
        } cases[] = {
                {"/", "/", "", {NULL}},
                {"/?", "/", "", {NULL}},
                {"/a", "/a", "", {"a"}},
                {"/a/b?c=d?e/f", "/a/b", "c=d?e/f", {"a", "b"}},
                {"/a/", "/a/", "", {"a", ""}},
                {"//", "//", "", {"", ""}},
                {"//a", "//a", "", {"", "a"}},
                {"/a/../b", "/a/../b", "", {"a", "..", "b"}}, /* nothing is resolved */
                {"/%2f%00", "/%2f%00", "", {"%2f%00"}},
                {"http://h/a?b", "/a", "b", {"a"}},
                {"HTTPS://h:1/a", "/a", "", {"a"}},
                {"http://h", "/", "", {NULL}},
                {"http://h?x=y", "/", "x=y", {NULL}},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct url u;
                size_t n = 0;

                CHECK_INT(url_parse(str_of(cases[i].target), &u), ==, 0);
                CHECK(str_is(u.path, cases[i].path));
                CHECK(str_is(u.query, cases[i].query));
                for (; n < 4 && cases[i].segments[n]; n++)
                        CHECK(n < u.segment_count && str_is(u.segments[n], cases[i].segments[n]));
                CHECK_INT(u.segment_count, ==, n);
        }
}

static void other_targets_are_refused(void)
{
        static const struct str cases[] = {
                {"", 0},         {"*", 1},        {"a", 1},       {"a/b", 3},       {"?a", 2},        {"host:80", 7},
                {"ftp://h/", 8}, {"http:/h/", 8}, {"http://", 7}, {"http:///a", 9}, {"http://?a", 9}, {"/a#b", 4},
                {"/a b", 4},     {"/a\tb", 4},    {"/a\0b", 4},   {"/a\x7f", 3},    {"/\xc3\xa9", 3}, {"/a\r\n", 4},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct url u = {.segment_count = 77};

                CHECK_INT(url_parse(cases[i], &u), ==, -EINVAL);
                CHECK_INT(u.segment_count, ==, 77);
        }
}

static void segments_have_a_limit(void)
{
        char target[2 * (URL_SEGMENTS_MAX + 1)];
        struct url u = {.segment_count = 77};

        for (size_t i = 0; i < sizeof(target); i++)
                target[i] = i % 2 ? 'a' : '/';
        CHECK_INT(url_parse((struct str){target, 2 * URL_SEGMENTS_MAX}, &u), ==, 0);
        CHECK_INT(u.segment_count, ==, URL_SEGMENTS_MAX);
        u.segment_count = 77;
        CHECK_INT(url_parse((struct str){target, sizeof(target)}, &u), ==, -E2BIG);
        CHECK_INT(u.segment_count, ==, 77);
}

static void escapes_are_decoded(void)
{
        static const struct {
                const char *text;
                bool plus_is_space;
                const char *plain;
        } cases[] = {
                {"", false, ""},         {"abc", false, "abc"},         {"a+b", false, "a+b"},
                {"a+b", true, "a b"},    {"a%20b%2B", true, "a b+"},    {"%41%4a%4A", false, "AJJ"},
                {"%25%32", false, "%2"}, {"%c3%a9", false, "\xc3\xa9"}, {"%252e", false, "%2e"}, /* once only */
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_BUF struct buf b = BUF_INIT(100);
                AUTO_FREE char *text = NULL;

                CHECK_INT(url_decode(str_of(cases[i].text), cases[i].plus_is_space, &b), ==, 0);
                CHECK_STR(buf_cstr(&b), cases[i].plain);
                CHECK_INT(url_decode_dup(str_of(cases[i].text), cases[i].plus_is_space, &text), ==, 0);
                CHECK_STR(text, cases[i].plain);
        }
}

static void broken_escapes_are_refused(void)
{
        static const char *const cases[] = {"%", "a%", "%2", "%2g", "%g2", "%%41", "% 41", "%-1", "ab%4"};

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_BUF struct buf b = BUF_INIT(100);
                AUTO_FREE char *text = NULL;

                CHECK_INT(url_decode(str_of(cases[i]), true, &b), ==, -EINVAL);
                CHECK_INT(b.len, ==, 0);
                CHECK_INT(url_decode_dup(str_of(cases[i]), true, &text), ==, -EINVAL);
                CHECK(!text);
        }
}

static void nul_is_data_in_a_buf_and_refused_in_a_c_string(void)
{
        AUTO_BUF struct buf b = BUF_INIT(100);
        AUTO_FREE char *text = NULL;

        CHECK_INT(url_decode(STR("a%00b"), false, &b), ==, 0);
        CHECK_INT(b.len, ==, 3);
        CHECK_INT(url_decode_dup(STR("a%00b"), false, &text), ==, -EINVAL);
        CHECK_INT(url_decode_dup(STR("a\0b"), false, &text), ==, -EINVAL);
        CHECK_INT(url_query_get(STR("p=a%00b"), "p", &text), ==, -EINVAL);
        CHECK(!text);
}

static void decoding_stops_at_the_buffers_maximum(void)
{
        AUTO_BUF struct buf b = BUF_INIT(3);

        CHECK_INT(url_decode(STR("abcd"), false, &b), ==, -E2BIG);
        CHECK_INT(url_decode(STR("%41%42%43"), false, &b), ==, 0); /* fits once decoded */
        CHECK_STR(buf_cstr(&b), "ABC");
}

static void parameters_are_found(void)
{
        static const struct {
                const char *query, *name, *value;
        } cases[] = {
                {"", "a", NULL},
                {"a=1", "a", "1"},
                {"a=1", "b", NULL},
                {"a=1", "", NULL},
                {"a=1", "aa", NULL},
                {"aa=1", "a", NULL},
                {"a=1&a=2", "a", "1"},
                {"b=1&a=2&c=3", "a", "2"},
                {"a", "a", ""},
                {"a&b", "b", ""},
                {"a=", "a", ""},
                {"=1", "", "1"},
                {"&&a=1&", "a", "1"},
                {"path=a+b.txt&x", "path", "a b.txt"},
                {"path=a%20b%2Bc", "path", "a b+c"},
                {"p%61th=1", "path", "1"},
                {"a=b=c", "a", "b=c"},
                {"%zz=1&a=2", "a", "2"}, /* a broken name is nobody's */
                {"signature=v1_gUtH%2Fs9Y%2B", "signature", "v1_gUtH/s9Y+"},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_FREE char *value = NULL;

                CHECK_INT(url_query_get(str_of(cases[i].query), cases[i].name, &value), ==, 0);
                if (cases[i].value)
                        CHECK_STR(value, cases[i].value);
                else
                        CHECK(!value);
        }
}

static void broken_values_are_refused_only_when_asked_for(void)
{
        AUTO_FREE char *value = NULL;

        CHECK_INT(url_query_get(STR("a=%zz&b=1"), "a", &value), ==, -EINVAL);
        CHECK(!value);
        CHECK_INT(url_query_get(STR("a=%zz&b=1"), "b", &value), ==, 0);
        CHECK_STR(value, "1");
}

static void encoding_comes_back_whole(void)
{
        AUTO_BUF struct buf text = BUF_INIT(1000), back = BUF_INIT(1000);
        char all[256];

        CHECK_INT(url_encode(STR(""), &text), ==, 0);
        CHECK_INT(url_encode(STR("aZ09-._~ /+%\xff"), &text), ==, 0);
        CHECK_STR(buf_cstr(&text), "aZ09-._~%20%2F%2B%25%FF");
        buf_reset(&text);
        for (size_t i = 0; i < sizeof(all); i++)
                all[i] = (char)i;
        CHECK_INT(url_encode((struct str){all, sizeof(all)}, &text), ==, 0);
        CHECK_INT(url_decode((struct str){(char *)text.mem, text.len}, true, &back), ==, 0);
        CHECK_INT(back.len, ==, sizeof(all));
        CHECK(memcmp(back.mem, all, sizeof(all)) == 0);
}

int main(void)
{
        RUN(targets_are_taken_apart);
        RUN(other_targets_are_refused);
        RUN(segments_have_a_limit);
        RUN(escapes_are_decoded);
        RUN(broken_escapes_are_refused);
        RUN(nul_is_data_in_a_buf_and_refused_in_a_c_string);
        RUN(decoding_stops_at_the_buffers_maximum);
        RUN(parameters_are_found);
        RUN(broken_values_are_refused_only_when_asked_for);
        RUN(encoding_comes_back_whole);
        return tap_done();
}
