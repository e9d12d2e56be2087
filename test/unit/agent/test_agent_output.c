/* Output of commands as text, and in bounded memory. */
#include <stdlib.h>

#include "agent/output/command_output.h"
#include "agent/output/text.h"
#include "tap.h"

#define R "\xef\xbf\xbd"

/* The bytes in pieces of `step`, as text. */
static const char *decode(const char *bytes, size_t n, size_t step, struct buf *out)
{
        struct text_decoder d = {0};

        buf_reset(out);
        for (size_t at = 0; at < n; at += step)
                (void)text_add(&d, (struct str){bytes + at, n - at < step ? n - at : step}, out);
        (void)text_end(&d, out);
        return buf_cstr(out);
}

static void text_is_the_same_however_it_is_cut(void)
{
        static const struct {
                const char *bytes, *text;
        } cases[] = {
                {"plain", "plain"},
                {"h\xc3\xa9llo", "h\xc3\xa9llo"},
                {"\xe2\x82\xac\xf0\x9f\x98\x80", "\xe2\x82\xac\xf0\x9f\x98\x80"},
                {"a\xff"
                 "b",
                 "a" R "b"},
                {"a\xc3", "a" R},
                {"\xc3(", R "("},
                {"\xe2\x82(", R R "("},
                {"\xc0\xaf", R R},             /* overlong */
                {"\xed\xa0\x80", R R R},       /* half of a surrogate pair */
                {"\xf4\x90\x80\x80", R R R R}, /* beyond Unicode */
                {"\x80\x80", R R},
        };
        AUTO_BUF struct buf out = BUF_INIT(4096);

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_BUF struct buf cut = BUF_INIT(4096);
                const char *whole = decode(cases[i].bytes, strlen(cases[i].bytes), 100, &out);

                printf("# case %zu\n", i);
                CHECK(str_is_utf8(str_of(whole)));
                CHECK_STR(decode(cases[i].bytes, strlen(cases[i].bytes), 1, &cut), cut.len ? buf_cstr(&cut) : "");
                CHECK(str_is_utf8(str_of(buf_cstr(&cut))));
        }
        CHECK_STR(decode("h\xc3\xa9", 3, 1, &out), "h\xc3\xa9");
        CHECK_STR(decode("\xf0\x9f\x98\x80", 4, 3, &out), "\xf0\x9f\x98\x80");
        CHECK_STR(decode("a\xc3", 2, 1, &out), "a" R);
        CHECK_STR(decode("\xc3(", 2, 1, &out), R "(");
}

static void add(struct command_output *o, const char *text)
{
        command_output_add(o, str_of(text));
}

static bool take(void *left, size_t bytes) /* of a budget */
{
        size_t *all = left;

        if (bytes > *all)
                return false;
        *all -= bytes;
        return true;
}

static void short_output_is_kept_whole(void)
{
        size_t left = 1u << 20;
        struct command_output o;
        json_t *text;

        command_output_init(&o, take, &left);
        add(&o, "one ");
        add(&o, "two");
        command_output_fit(&o, 100);
        text = command_output_text(&o);
        CHECK_STR(json_string_value(text), "one two");
        CHECK_INT(command_output_omitted(&o), ==, 0);
        json_decref(text);
        command_output_done(&o);
        CHECK_INT(left, ==, (1u << 20) - (64u << 10));
}

/* Numbered lines, more than are kept. */
static void the_middle_of_long_output_is_left_out(void)
{
        size_t left = 512u << 20, lines = 2u << 20, n;
        struct command_output o;
        const char *text;
        char line[16];
        json_t *v;

        command_output_init(&o, take, &left);
        for (size_t i = 0; i < lines; i++) {
                (void)snprintf(line, sizeof(line), "%09zu\n", i);
                add(&o, line);
        }
        command_output_fit(&o, 24u << 20);
        v = command_output_text(&o);
        text = json_string_value(v);
        n = json_string_length(v);
        CHECK_INT(command_output_omitted(&o), ==, lines * 10 - OUTPUT_FIRST - OUTPUT_LAST);
        CHECK(n > OUTPUT_FIRST + OUTPUT_LAST && n < OUTPUT_FIRST + OUTPUT_LAST + 100);
        CHECK(strncmp(text, "000000000\n000000001\n", 20) == 0);
        CHECK_STR(text + n - 10, "002097151\n");
        CHECK(strstr(text + OUTPUT_FIRST - 20, "bytes left out ...]\n"));
        CHECK((512u << 20) - left <= OUTPUT_FIRST + OUTPUT_LAST + (128u << 10));
        json_decref(v);
        command_output_done(&o);
}

static void a_used_up_budget_leaves_the_end(void)
{
        size_t left = 64u << 10;
        AUTO_FREE char *piece = malloc(1u << 20);
        struct command_output o;
        json_t *v;

        memset(piece, 'x', 1u << 20);
        command_output_init(&o, take, &left);
        command_output_add(&o, (struct str){piece, 1u << 20});
        add(&o, "the end");
        v = command_output_text(&o);
        CHECK(json_string_length(v) < (100u << 10));
        CHECK_STR(json_string_value(v) + json_string_length(v) - 7, "the end");
        json_decref(v);
        command_output_done(&o);
}

/* Output of `bytes` bytes c, between "<" and ">", that must fit into so many bytes of JSON. */
static json_t *fitted(char c, size_t bytes, size_t json_max, uint64_t *ret_omitted)
{
        size_t left = 512u << 20;
        AUTO_FREE char *piece = malloc(bytes);
        struct command_output o;
        json_t *v;

        memset(piece, c, bytes);
        command_output_init(&o, take, &left);
        add(&o, "<");
        command_output_add(&o, (struct str){piece, bytes});
        add(&o, ">");
        command_output_fit(&o, json_max);
        v = command_output_text(&o);
        *ret_omitted = command_output_omitted(&o);
        command_output_done(&o);
        return v;
}

static void the_text_is_not_larger_in_json_than_it_may_be(void)
{
        static const struct {
                char c;
                size_t bytes;
        } cases[] = {
                {0, 8u << 20}, {0, 100u << 20}, {1, 10000}, {'\x1b', 3u << 20}, {'"', 7u << 20}, {'\xff', 20u << 20},
        };
        const size_t max = 60000;

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                uint64_t omitted;
                json_t *v = fitted(cases[i].c, cases[i].bytes, max, &omitted);
                const char *text = json_string_value(v);
                size_t n = json_dumpb(v, NULL, 0, JSON_ENCODE_ANY);

                printf("# case %zu: %zu bytes\n", i, n);
                CHECK(n > max * 9 / 10 && n <= max + 64);
                CHECK_INT(text[0], ==, '<');
                CHECK_INT(text[json_string_length(v) - 1], ==, '>');
                CHECK(omitted > 0 && omitted < cases[i].bytes);
                json_decref(v);
        }
}

static void text_without_control_characters_always_fits(void)
{
        uint64_t omitted;
        json_t *v = fitted('\xff', 8000000, 3 * (OUTPUT_FIRST + OUTPUT_LAST), &omitted);

        CHECK_INT(omitted, ==, 0);
        CHECK_INT(json_string_length(v), ==, 3 * 8000000 + 2);
        json_decref(v);
}

int main(void)
{
        RUN(text_is_the_same_however_it_is_cut);
        RUN(short_output_is_kept_whole);
        RUN(the_middle_of_long_output_is_left_out);
        RUN(a_used_up_budget_leaves_the_end);
        RUN(the_text_is_not_larger_in_json_than_it_may_be);
        RUN(text_without_control_characters_always_fits);
        return tap_done();
}
