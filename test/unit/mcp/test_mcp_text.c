/* What the tools share: arguments against schemas, long texts without their middle, patches. */
#include <errno.h>

#include "base/err.h"
#include "mcp/tools/patch/patch.h"
#include "mcp/content/edits.h"
#include "mcp/protocol/schema.h"
#include "mcp/protocol/shorten.h"
#include "test/lib/tap.h"

static struct err err;

/* ---- schemas ---- */

static int check(const char *schema, const char *value)
{
        json_t *s = json_loads(schema, 0, NULL), *v = json_loads(value, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        int r;

        err = (struct err){0};
        r = s && v ? schema_check(s, v, &err) : -99;
        json_decref(s);
        json_decref(v);
        return r;
}

#define SCHEMA                                                                                                         \
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":5},"         \
        "\"n\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":9},\"kind\":{\"type\":\"string\",\"enum\":[\"a\","      \
        "\"b\"]},"                                                                                                     \
        "\"list\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":2,\"items\":{\"type\":\"object\",\"required\":["     \
        "\"x\"]}}},"                                                                                                   \
        "\"required\":[\"name\"],\"additionalProperties\":false}"

static void arguments_that_fit_are_taken(void)
{
        CHECK_INT(check(SCHEMA, "{\"name\":\"abc\"}"), ==, 0);
        CHECK_INT(check(SCHEMA, "{\"name\":\"abc\",\"n\":9,\"kind\":\"b\",\"list\":[{\"x\":1}]}"), ==, 0);
}

static void arguments_that_do_not_fit_are_named(void)
{
        static const struct {
                const char *value, *named;
        } bad[] = {
                {"[]", "arguments"},
                {"{}", "name is missing"},
                {"{\"name\":5}", "name must be of type string"},
                {"{\"name\":\"\"}", "name must not be empty"},
                {"{\"name\":\"abcdef\"}", "longer than 5"},
                {"{\"name\":\"a\\u0000b\"}", "NUL"},
                {"{\"name\":\"a\",\"n\":10}", "n must be from 1 to 9"},
                {"{\"name\":\"a\",\"n\":1.5}", "n must be of type integer"},
                {"{\"name\":\"a\",\"kind\":\"c\"}", "kind has a value"},
                {"{\"name\":\"a\",\"list\":[]}", "list has 0 items"},
                {"{\"name\":\"a\",\"list\":[{\"x\":1},{}]}", "list[1].x is missing"},
                {"{\"name\":\"a\",\"more\":1}", "more is not an argument"},
        };

        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
                CHECK_INT(check(SCHEMA, bad[i].value), <, 0);
                if (!strstr(err.msg, bad[i].named))
                        CHECK_STR(err.msg, bad[i].named);
        }
}

/* ---- texts ---- */

static void bytes_become_text(void)
{
        AUTO_BUF struct buf out = BUF_INIT(100);

        CHECK_INT(text_clean((struct str){"a\0b\xff\xc3\xa9\xe2\x82", 8}, &out), ==, 0);
        CHECK_STR(buf_cstr(&out), "a\xef\xbf\xbd"
                                  "b\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd");
}

static void short_text_stays_whole(void)
{
        AUTO_BUF struct buf out = BUF_INIT(100);
        struct shortened s;

        shortened_init(&s, 10);
        CHECK_INT(shortened_add(&s, STR("1234")), ==, 0);
        CHECK_INT(shortened_add(&s, STR("567890")), ==, 0);
        CHECK(!shortened_is_cut(&s));
        CHECK_INT(shortened_text(&s, &out), ==, 0);
        CHECK_STR(buf_cstr(&out), "1234567890");
        shortened_done(&s);
}

static void long_text_loses_its_middle_however_it_comes(void)
{
        for (size_t piece = 1; piece < 60; piece++) {
                AUTO_BUF struct buf out = BUF_INIT(200);
                struct shortened s;
                char text[100];

                for (size_t i = 0; i < sizeof(text); i++)
                        text[i] = (char)('a' + i % 26);
                shortened_init(&s, 10);
                for (size_t at = 0; at < sizeof(text); at += piece)
                        CHECK_INT(
                                shortened_add(&s, (struct str){text + at,
                                                               at + piece < sizeof(text) ? piece : sizeof(text) - at}),
                                ==, 0);
                CHECK(shortened_is_cut(&s));
                CHECK_INT(shortened_text(&s, &out), ==, 0);
                CHECK_STR(buf_cstr(&out), "abcde\n\n[... 90 bytes left out here ...]\n\nrstuv");
                shortened_done(&s);
        }
}

/* ---- patches ---- */

static int apply(const char *patch, const char *old, struct buf *out)
{
        static struct patch parsed;
        int r;

        err = (struct err){0};
        r = patch_parse(str_of(patch), &parsed, &err);
        return r < 0 ? r : patch_apply(&parsed.files[0], str_of(old), out, &err);
}

static void a_hunk_changes_its_lines(void)
{
        AUTO_BUF struct buf out = BUF_INIT(1000);

        CHECK_INT(apply("--- a/x\n+++ b/x\n@@ -2,2 +2,3 @@\n b\n-c\n+C\n+CC\n", "a\nb\nc\nd\n", &out), ==, 0);
        CHECK_STR(buf_cstr(&out), "a\nb\nC\nCC\nd\n");
}

static void a_hunk_is_found_where_its_lines_have_moved(void)
{
        AUTO_BUF struct buf out = BUF_INIT(1000);

        CHECK_INT(apply("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n b\n-c\n+C\n", "1\n2\nb\nc\nd\n", &out), ==, 0);
        CHECK_STR(buf_cstr(&out), "1\n2\nb\nC\nd\n");
}

static void several_hunks_and_insertions(void)
{
        AUTO_BUF struct buf out = BUF_INIT(1000);

        CHECK_INT(apply("--- x\n+++ x\n@@ -0,0 +1 @@\n+first\n@@ -2,0 +4 @@ section\n+between\n@@ -3 +5 @@\n-c\n+C\n",
                        "a\nb\nc\n", &out),
                  ==, 0);
        CHECK_STR(buf_cstr(&out), "first\na\nb\nbetween\nC\n");
}

static void missing_line_ends_are_kept(void)
{
        AUTO_BUF struct buf out = BUF_INIT(1000);

        CHECK_INT(apply("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at "
                        "end of file\n",
                        "a\nb", &out),
                  ==, 0);
        CHECK_STR(buf_cstr(&out), "a\nc");
}

static void a_hunk_that_does_not_fit_is_an_error(void)
{
        AUTO_BUF struct buf out = BUF_INIT(1000);

        CHECK_INT(apply("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-zzz\n+y\n", "a\nb\n", &out), <, 0);
        CHECK_INT(err.kind, ==, ERR_CONFLICT);
        CHECK_INT(apply("--- a/x\n+++ b/x\n@@ -1,5 +1 @@\n-a\n+y\n", "a\nb\n", &out), <, 0);
        CHECK_INT(err.kind, ==, ERR_INVALID);
        CHECK_INT(apply("nothing here", "a\n", &out), <, 0);
        CHECK_INT(apply("@@ -1 +1 @@\n-a\n+b\n", "a\n", &out), <, 0);
}

/* Each of two million lines could begin a hunk of a thousand such lines. */
static void a_patch_that_could_be_anywhere_is_given_up(void)
{
        AUTO_BUF struct buf patch = BUF_INIT(1 << 20), old = BUF_INIT(8 << 20), out = BUF_INIT(16 << 20);

        for (int i = 0; i < 2000000; i++)
                (void)buf_addc(&old, "x\n");
        (void)buf_addc(&patch, "--- a/f\n+++ b/f\n@@ -1,1001 +1,1000 @@\n");
        for (int i = 0; i < 1000; i++)
                (void)buf_addc(&patch, " x\n");
        (void)buf_addc(&patch, "-y\n");
        CHECK_INT(apply(buf_cstr(&patch), buf_cstr(&old), &out), <, 0);
        CHECK(err.kind == ERR_LIMIT);
}

/* ---- edits ---- */

static void edits_are_all_or_none_and_their_work_is_limited(void)
{
        AUTO_BUF struct buf now = BUF_INIT(16 << 20);
        json_t *edits = json_loads("[{\"old_text\":\"a\",\"new_text\":\"b\"},{\"old_text\":\"c\",\"new_text\":"
                                   "\"\",\"replace_all\":true}]",
                                   0, NULL);
        json_t *many = json_array();
        size_t changes = 0;

        (void)buf_addc(&now, "acc");
        CHECK_INT(edits_apply(edits, &now, &changes, &err), ==, 0);
        CHECK_STR(buf_cstr(&now), "b");
        CHECK_INT(changes, ==, 3);
        CHECK_INT(edits_apply(edits, &now, &changes, &err), <, 0);
        for (int i = 0; i < 1000; i++)
                (void)json_array_append(many, json_array_get(edits, 1));
        for (int i = 0; i < 1 << 20; i++)
                (void)buf_addc(&now, "c");
        CHECK_INT(edits_apply(many, &now, &changes, &err), <, 0);
        CHECK(err.kind == ERR_LIMIT);
        json_decref(many);
        json_decref(edits);
}

static void names_of_a_patch(void)
{
        static struct patch p;

        CHECK_INT(patch_parse(STR("diff --git a/old b/new\nrename from old\n--- a/old\t2026\n+++ b/new\n@@ -1 +1 "
                                  "@@\n-a\n+b\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"),
                              &p, &err),
                  ==, 0);
        CHECK_INT(p.count, ==, 2);
        CHECK(str_is(p.files[0].from, "old") && str_is(p.files[0].to, "new"));
        CHECK(str_is(p.files[1].from, "gone") && p.files[1].to.n == 0);
}

static void gits_own_lines_are_sections_too(void)
{
        static struct patch p;

        CHECK_INT(patch_parse(
                          STR("diff --git a/one name b/one name\nold mode 100644\nnew mode 100755\n"
                              "diff --git a/old b/dir/new\nsimilarity index 100%\nrename from old\nrename to dir/new\n"
                              "diff --git a/empty b/empty\nnew file mode 100644\nindex 0000000..e69de29\n"
                              "diff --git a/none b/none\ndeleted file mode 100644\nindex e69de29..0000000\n"
                              "diff --git a/x b/y\ncopy from x\ncopy to y\n"
                              "diff --git \"a/caf\\303\\251 \\\"\" \"b/caf\\303\\251 \\\"\"\nindex 1..2 100644\n"
                              "--- \"a/caf\\303\\251 \\\"\"\n+++ \"b/caf\\303\\251 \\\"\"\n@@ -1 +1 @@\n-a\n+b\n"),
                          &p, &err),
                  ==, 0);
        CHECK_INT(p.count, ==, 6);
        CHECK(str_is(p.files[0].from, "one name") && str_is(p.files[0].to, "one name"));
        CHECK_INT(p.files[0].mode, ==, PATCH_MODE_PROGRAM);
        CHECK(str_is(p.files[1].from, "old") && str_is(p.files[1].to, "dir/new") && !p.files[1].is_copy);
        CHECK(p.files[2].from.n == 0 && str_is(p.files[2].to, "empty"));
        CHECK(str_is(p.files[3].from, "none") && p.files[3].to.n == 0);
        CHECK(str_is(p.files[4].from, "x") && str_is(p.files[4].to, "y") && p.files[4].is_copy);
        CHECK(str_is(p.files[5].from, "caf\xc3\xa9 \"") && str_is(p.files[5].to, "caf\xc3\xa9 \""));
}

static void what_cannot_be_applied_is_named(void)
{
        static const struct {
                const char *text, *named;
        } bad[] = {
                {"diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 1\n", "binary"},
                {"diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n", "binary"},
                {"diff --git a/l b/l\nnew file mode 120000\n", "symbolic link"},
                {"diff --git a/l b/l\nindex 1..2 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-a\n+b\n", "symbolic link"},
                {"diff --git a/s b/s\nindex 1..2 160000\n", "submodule"},
                {"diff --git a/x b/x\nindex 1..2 100644\n", "no hunk for x"},
                {"--- a/x\n+++ b/x\n", "no hunk for x"},
                {"diff --git a/x b/y\n", "without a name"},
                {"--- \"a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "malformed"},
                {"--- \"a/\\000\"\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "malformed"},
                {"diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b\n", "before the lines"},
        };
        static struct patch p;

        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
                CHECK_INT(patch_parse(str_of(bad[i].text), &p, &err), <, 0);
                if (!strstr(err.msg, bad[i].named))
                        CHECK_STR(err.msg, bad[i].named);
        }
}

int main(void)
{
        RUN(arguments_that_fit_are_taken);
        RUN(arguments_that_do_not_fit_are_named);
        RUN(bytes_become_text);
        RUN(short_text_stays_whole);
        RUN(long_text_loses_its_middle_however_it_comes);
        RUN(a_hunk_changes_its_lines);
        RUN(a_hunk_is_found_where_its_lines_have_moved);
        RUN(several_hunks_and_insertions);
        RUN(missing_line_ends_are_kept);
        RUN(a_hunk_that_does_not_fit_is_an_error);
        RUN(a_patch_that_could_be_anywhere_is_given_up);
        RUN(edits_are_all_or_none_and_their_work_is_limited);
        RUN(names_of_a_patch);
        RUN(gits_own_lines_are_sections_too);
        RUN(what_cannot_be_applied_is_named);
        return tap_done();
}
