#include "wire/json/json_text.h"

#include <errno.h>

#include "tap.h"

#define TEXT(literal) ((struct str){(literal), sizeof(literal) - 1})

static void takes_json_and_nothing_else(void)
{
        static const char *const good[] = {"0",    "-0.5e+10", "\"\\u00e9\\n\"",   "[]", "{}", " [1, {\"a\": null}] \n",
                                           "true", "1e5",      "{\"a\":1,\"a\":2}"};
        static const struct {
                const char *text;
                size_t bad;
        } bad[] = {{"", 0},       {"[1,]", 3},    {"{\"a\"}", 4}, {"NaN", 0}, {"01", 1},         {"1 2", 2},
                   {"\"\n\"", 1}, {"\"\\x\"", 2}, {"[1", 2},      {"tru", 0}, {"{a:1}", 1},      {"-", 1},
                   {"1.", 2},     {"[}", 1},      {"\"a", 2},     {"'a'", 0}, {"\"\\u12g4\"", 5}};
        struct str value;

        for (size_t i = 0; i < ARRAY_LEN(good); i++)
                CHECK_INT(json_text_check(str_of(good[i]), &value, NULL), ==, 0);
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                size_t at = 99;

                CHECK_INT(json_text_check(str_of(bad[i].text), &value, &at), ==, -EINVAL);
                CHECK_INT(at, ==, bad[i].bad);
        }
        CHECK_INT(json_text_check(TEXT("\"\xff\""), &value, NULL), ==, -EINVAL);
}

static void nesting_has_a_limit(void)
{
        char text[2 * JSON_TEXT_DEPTH_MAX + 2];
        struct str value;

        memset(text, '[', sizeof(text) / 2);
        memset(text + sizeof(text) / 2, ']', sizeof(text) / 2);
        CHECK_INT(json_text_check((struct str){text, sizeof(text)}, &value, NULL), ==, -E2BIG);
        CHECK_INT(json_text_check((struct str){text + 1, sizeof(text) - 2}, &value, NULL), ==, 0);
}

static void members_are_found_as_they_are_written(void)
{
        struct str doc = STR(" {\"a\" : [1, \"}\", {}] ,\"b\":-1.50e3,\"\\u0063\": true, \"a\":\"last\" } "), value,
                   item, key;
        struct json_walk w;
        int64_t n = 0;

        CHECK_INT(json_text_check(doc, &value, NULL), ==, 0);
        w = json_text_walk(value);
        CHECK(json_text_next(&w, &key, &item) && str_is(item, "[1, \"}\", {}]"));
        CHECK(json_text_next(&w, &key, &item) && str_is(item, "-1.50e3"));
        CHECK(json_text_is(json_text_get(value, "a"), "last"));
        CHECK_INT(json_text_kind(json_text_get(value, "c")), ==, JSON_TEXT_BOOL);
        CHECK_INT(json_text_kind(json_text_get(value, "d")), ==, JSON_TEXT_NONE);
        CHECK_INT(json_text_kind(json_text_get(json_text_get(value, "b"), "x")), ==, JSON_TEXT_NONE);
        CHECK_INT(json_text_integer(STR("-12"), &n), ==, 0);
        CHECK_INT(n, ==, -12);
        CHECK_INT(json_text_integer(STR("1.0"), &n), ==, -EINVAL);
        CHECK_INT(json_text_integer(STR("99999999999999999999"), &n), ==, -EINVAL);
}

static void strings_are_unquoted(void)
{
        AUTO_BUF struct buf out = BUF_INIT(100);

        CHECK_INT(json_text_unquote(STR("\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\u00e9\\u20ac\\ud83d\\ude00\""), &out),
                  ==, 0);
        CHECK(str_eq(buf_text(&out), TEXT("a\"\\/\b\f\n\r\t\0\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80")));
        buf_reset(&out);
        CHECK_INT(json_text_unquote(STR("\"\\ud800 \\udc00\\ud800\\u0041\""), &out), ==, 0);
        CHECK(str_is(buf_text(&out), "\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd"
                                     "A"));
        CHECK_INT(json_text_unquote(STR("12"), &out), ==, -EINVAL);
        CHECK(json_text_is(STR("\"a\\u00e9\\n\""), "a\xc3\xa9\n") && json_text_is(STR("\"\""), ""));
        CHECK(!json_text_is(STR("\"a\""), "ab") && !json_text_is(STR("\"ab\""), "a") && !json_text_is(STR("1"), "1"));
        CHECK(!json_text_is(STR("\"a\\u0000\""), "a"));
}

static void written_as_python_does(void)
{
        const struct json_style jupyter = {.indent = " ", .has_spaces = true}, compact = {0},
                                spaced = {.has_spaces = true};
        struct str value = STR(
                "{\"b\": [1.0, {}, [], \"\\u00e9\\u0001\\u2028\\/\"], \"a\": {\"z\": null, \"\\u00e9\": 1, \"y\": 2}}");
        AUTO_BUF struct buf out = BUF_INIT(1000);

        CHECK_INT(json_text_format(value, &jupyter, 0, &out), ==, 0);
        CHECK_STR(buf_cstr(&out),
                  "{\n \"a\": {\n  \"y\": 2,\n  \"z\": null,\n  \"\xc3\xa9\": 1\n },\n \"b\": [\n  1.0,\n  {},\n  "
                  "[],\n  \"\xc3\xa9\\u0001\xe2\x80\xa8/\"\n ]\n}");
        buf_reset(&out);
        CHECK_INT(json_text_format(value, &compact, 0, &out), ==, 0);
        CHECK_STR(buf_cstr(&out),
                  "{\"a\":{\"y\":2,\"z\":null,\"\xc3\xa9\":1},\"b\":[1.0,{},[],\"\xc3\xa9\\u0001\xe2\x80\xa8/\"]}");
        buf_reset(&out);
        CHECK_INT(json_text_format(STR("[1,2]"), &spaced, 0, &out), ==, 0);
        CHECK_STR(buf_cstr(&out), "[1, 2]");
        out.max = out.len + 1;
        CHECK_INT(json_text_format(value, &jupyter, 0, &out), ==, -E2BIG);
}

int main(void)
{
        RUN(takes_json_and_nothing_else);
        RUN(nesting_has_a_limit);
        RUN(members_are_found_as_they_are_written);
        RUN(strings_are_unquoted);
        RUN(written_as_python_does);
        return tap_done();
}
