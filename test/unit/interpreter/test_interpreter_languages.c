#include <errno.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "interpreter/jupyter/kernelspec.h"
#include "interpreter/jupyter/language.h"
#include "tap.h"

/* ---- names ---- */

static void names_are_normalised(void)
{
        static const struct {
                const char *given, *name;
        } rows[] = {{"", "python"},          {"  ", "python"},     {"Python", "python"},         {"js", "javascript"},
                    {" JS\n", "javascript"}, {"ts", "typescript"}, {"TypeScript", "typescript"}, {"R", "r"},
                    {"Ruby", "ruby"}};
        char out[LANGUAGE_NAME_MAX], longest[LANGUAGE_NAME_MAX + 1];

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                CHECK_INT(language_normalise(str_of(rows[i].given), out), ==, 0);
                CHECK_STR(out, rows[i].name);
        }
        memset(longest, 'x', sizeof(longest));
        CHECK_INT(language_normalise((struct str){longest, LANGUAGE_NAME_MAX}, out), ==, -E2BIG);
        CHECK_STR(language_kernel("typescript"), "javascript");
        CHECK_STR(language_kernel("r"), "r");
        CHECK(language_find("R") == language_find("r"));
        CHECK(language_find("TypeScript") == language_find("javascript"));
        CHECK(!language_find("ruby"));
}

/* ---- statements ---- */

static const char *set(struct buf *out, const char *language, const char *name, const char *value)
{
        buf_reset(out);
        return language_set(language_find(language), str_of(name), str_of(value), out) < 0 ? NULL : buf_cstr(out);
}

static void values_are_escaped_for_each_language(void)
{
        AUTO_BUF struct buf out = BUF_INIT(65536);
        static const char value[] = "a'b\"c\\d\ne\x01\x7f";

        CHECK_STR(set(&out, "python", "K", value),
                  "__import__('os').environ.__setitem__(\"K\", \"a'b\\\"c\\\\d\\ne\\001\\177\")\n");
        CHECK_STR(set(&out, "javascript", "K", value), "process.env[\"K\"] = \"a'b\\\"c\\\\d\\ne\\u0001\x7f\";\n");
        CHECK_STR(set(&out, "R", "K", value),
                  "base::do.call(base::Sys.setenv, base::structure(base::list(\"a'b\\\"c\\\\d\\ne\\001\\177\"), names "
                  "= \"K\"))\n");
        CHECK_STR(set(&out, "java", "K", value), "{ System.setProperty(\"K\", \"a'b\\\"c\\\\d\\ne\\001\\177\"); }\n");
        CHECK_STR(set(&out, "bash", "K", value), "export K=$'a\\'b\"c\\\\d\\012e\\001\\177'\n");
        CHECK_STR(set(&out, "bash", "K", "it's $x `y`"), "export K='it'\\''s $x `y`'\n");
        CHECK_STR(set(&out, "ruby", "K", "v"), "");
}

/* javac refuses a constant of more than 65535 bytes, in its own form of UTF-8. */
static void long_values_of_java_are_pieces(void)
{
        AUTO_BUF struct buf out = BUF_INIT(1 << 20), value = BUF_INIT(1 << 20);
        const char *text;
        size_t pieces = 0, longest = 0;

        for (int i = 0; i < 30000; i++)
                CHECK_INT(buf_addc(&value, i % 2 ? "x" : "\xf0\x9f\x98\x80"), ==, 0);
        text = set(&out, "java", "A", buf_cstr(&value));
        CHECK(text);
        CHECK(str_starts(str_of(text), "{ System.setProperty(\"A\", String.join(\"\", \"\xf0\x9f\x98\x80x"));
        CHECK(str_ends(str_of(text), "x\")); }\n"));
        for (const char *at = strstr(text, ", \"") + 1; at; at = strstr(at, ", \""), pieces++) {
                const char *end = strchr(at += 3, '"');

                CHECK(at[0] == 'x' || (unsigned char)at[0] == 0xf0 || pieces == 0); /* a whole character */
                longest = end && (size_t)(end - at) > longest ? (size_t)(end - at) : longest;
        }
        CHECK_INT(pieces, >=, 3);
        CHECK_INT(longest, <=, 40000);
}

static void names_are_escaped_too(void)
{
        AUTO_BUF struct buf out = BUF_INIT(65536);

        CHECK_STR(set(&out, "python", "a\"b", "v"), "__import__('os').environ.__setitem__(\"a\\\"b\", \"v\")\n");
        CHECK_STR(set(&out, "bash", "a b;rm -rf", "v"), ""); /* bash cannot have such a variable */
        CHECK_STR(set(&out, "bash", "1a", "v"), "");
        CHECK_STR(set(&out, "bash", "_A1", "v"), "export _A1='v'\n");
}

static void variables_are_removed(void)
{
        AUTO_BUF struct buf out = BUF_INIT(65536);

        CHECK_INT(language_unset(language_find("python"), STR("K"), &out), ==, 0);
        CHECK_INT(language_unset(language_find("javascript"), STR("K"), &out), ==, 0);
        CHECK_INT(language_unset(language_find("r"), STR("K"), &out), ==, 0);
        CHECK_INT(language_unset(language_find("java"), STR("K"), &out), ==, 0);
        CHECK_INT(language_unset(language_find("bash"), STR("K"), &out), ==, 0);
        CHECK_STR(buf_cstr(&out), "__import__('os').environ.pop(\"K\", None)\ndelete process.env[\"K\"];\n"
                                  "base::Sys.unsetenv(\"K\")\n{ System.clearProperty(\"K\"); }\nunset K\n");
}

static void seeds_are_numbers_that_fit(void)
{
        AUTO_BUF struct buf out = BUF_INIT(65536);

        CHECK_INT(language_reseed(language_find("r"), 0xffffffff, &out), ==, 0);
        CHECK_INT(language_reseed(language_find("bash"), 5, &out), ==, 0);
        CHECK_INT(language_reseed(language_find("java"), 5, &out), ==, 0);
        CHECK_INT(language_reseed(NULL, 5, &out), ==, 0);
        CHECK_STR(buf_cstr(&out), "base::set.seed(2147483647L)\nRANDOM=5\n");
}

static void what_no_process_can_have_is_not_valid(void)
{
        CHECK(variable_is_valid(STR("A"), STR("")));
        CHECK(!variable_is_valid(STR(""), STR("v")));
        CHECK(!variable_is_valid(STR("A=B"), STR("v")));
        CHECK(!variable_is_valid((struct str){"A\0B", 3}, STR("v")));
        CHECK(!variable_is_valid(STR("A"), (struct str){"a\0b", 3}));
}

/* ---- kernelspecs ---- */

static void a_kernel_json_is_read(void)
{
        AUTO_KERNELSPEC struct kernelspec s = {0};
        struct err err = {0};
        char **argv;

        CHECK_INT(kernelspec_decode(
                          STR("{\"argv\":[\"run\",\"-f={connection_file}\",\"{resource_dir}/x\"],\"language\":\"Go\","
                              "\"interrupt_mode\":\"message\",\"env\":{\"A\":\"1\"},\"metadata\":{\"x\":1}}"),
                          &s, &err),
                  ==, 0);
        CHECK_STR(s.language, "Go");
        CHECK_STR(s.env[0], "A=1");
        CHECK(s.interrupts_by_message && !s.env[1]);
        s.dir = strdup("/dir");
        argv = kernelspec_argv(&s, "/c.json");
        CHECK(argv);
        CHECK_STR(argv[1], "-f=/c.json");
        CHECK_STR(argv[2], "/dir/x");
        CHECK(!argv[3]);
        string_list_free(argv);
}

static void variables_of_a_kernel_json_are_filled_in(void)
{
        AUTO_KERNELSPEC struct kernelspec s = {0};
        struct err err = {0};
        static const char *const wanted[] = {"A=/opt/x:/usr/bin", "B=/opt/x and $OF_NOBODY, ${OF_NOBODY}, $, ${, $5",
                                             "C=$SPEC_TEST_DIR", "D=${SPEC_TEST_DIR", "E=$A"};

        CHECK_INT(setenv("SPEC_TEST_DIR", "/opt/x", 1), ==, 0);
        CHECK_INT(unsetenv("OF_NOBODY"), ==, 0);
        CHECK_INT(unsetenv("A"), ==, 0);
        CHECK_INT(kernelspec_decode(STR("{\"argv\":[\"a\"],\"env\":{\"A\":\"${SPEC_TEST_DIR}:/usr/bin\","
                                        "\"B\":\"$SPEC_TEST_DIR and $OF_NOBODY, ${OF_NOBODY}, $, ${, $5\","
                                        "\"C\":\"$$SPEC_TEST_DIR\",\"D\":\"${SPEC_TEST_DIR\",\"E\":\"$A\"}}"),
                                    &s, &err),
                  ==, 0);
        for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
                CHECK_STR(s.env[i], wanted[i]);
}

static const char *filled_in(const char *dir, const char *argument, char **ret)
{
        struct kernelspec s = {.dir = (char *)dir, .argv = (char *[]){(char *)argument, NULL}};
        char **argv = kernelspec_argv(&s, "/c.json");

        *ret = argv ? strdup(argv[0]) : NULL;
        string_list_free(argv);
        return *ret ? *ret : "";
}

static void the_prefix_is_where_a_kernel_was_installed(void)
{
        static const struct {
                const char *dir, *argument, *wanted;
        } rows[] = {{"/usr/local/share/jupyter/kernels/x", "{prefix}/bin/x", "/usr/local/bin/x"},
                    {"/opt/conda/share/jupyter/kernels/x", "--at={prefix}", "--at=/opt/conda"},
                    {"/root/.local/share/jupyter/kernels/x", "{prefix}{prefix}", "/root/.local/root/.local"},
                    {"/srv/kernels/x", "{prefix}/bin/x", "/usr/bin/x"},
                    {"/srv/kernels/x", "{other} {prefix {resource_dir}", "{other} {prefix /srv/kernels/x"},
                    {NULL, "{prefix}", "/usr"}};

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_FREE char *text = NULL;

                CHECK_STR(filled_in(rows[i].dir, rows[i].argument, &text), rows[i].wanted);
        }
}

static void a_wrong_kernel_json_is_explained(void)
{
        static const struct {
                const char *text, *why;
        } rows[] = {{"", "not JSON"},
                    {"[]", "not JSON"},
                    {"{}", "\"argv\""},
                    {"{\"argv\":[]}", "\"argv\""},
                    {"{\"argv\":[\"\"]}", "empty"},
                    {"{\"argv\":[1]}", "\"argv\""},
                    {"{\"argv\":[\"a\"],\"env\":[]}", "\"env\""},
                    {"{\"argv\":[\"a\"],\"env\":{\"A\":1}}", "\"env\""},
                    {"{\"argv\":[\"a\"],\"env\":{\"A=B\":\"\"}}", "\"env\""}};

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct kernelspec s = {0};
                struct err err = {0};

                CHECK_INT(kernelspec_decode(str_of(rows[i].text), &s, &err), <, 0);
                CHECK_INT(err.kind, ==, ERR_INVALID);
                if (!strstr(err.msg, rows[i].why) && i != 1)
                        CHECK_STR(err.msg, rows[i].why);
                CHECK(!s.argv && !s.language);
        }
}

static void install(const char *dir, const char *name, const char *text)
{
        char path[300];
        FILE *f;

        (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
        (void)mkdir(path, 0700);
        (void)snprintf(path, sizeof(path), "%s/%s/kernel.json", dir, name);
        f = fopen(path, "we");
        if (f) {
                (void)fputs(text, f);
                (void)fclose(f);
        }
}

static void check_found(const char *const *dirs, const char *language, const char *name)
{
        AUTO_KERNELSPEC struct kernelspec s = {0};
        struct err err = {0};
        int r = kernelspec_find(dirs, language, &s, &err);

        if (!name) {
                CHECK_INT(r, <, 0);
                CHECK_INT(err.kind, ==, ERR_NOT_FOUND);
                return;
        }
        CHECK_INT(r, ==, 0);
        CHECK_STR(s.name, name);
}

static void kernels_are_found_by_name_then_by_language(void)
{
        char first[] = "/tmp/test-kernels-XXXXXX", second[] = "/tmp/test-kernels-XXXXXX", command[200];
        const char *const dirs[] = {"/nonexistent", mkdtemp(first), mkdtemp(second), NULL};

        install(first, "aaa", "{\"argv\":[\"a\"],\"language\":\"python\"}");
        install(first, "broken", "{");
        install(second, "python3", "{\"argv\":[\"b\"],\"language\":\"python\"}");
        install(second, "ir", "{\"argv\":[\"c\"],\"language\":\"R\"}");
        install(second, "zig", "{\"argv\":[\"d\"],\"language\":\"Zig\"}");
        install(second, "aaa", "{\"argv\":[\"e\"],\"language\":\"other\"}");
        check_found(dirs, "python", "python3"); /* the usual name wins */
        check_found(dirs, "r", "ir");
        check_found(dirs, "zig", "zig");
        check_found(dirs, "other", "aaa"); /* only the second one has this language */
        check_found(dirs, "aaa", "aaa");
        check_found(dirs, "ruby", NULL);
        check_found(dirs, "../aaa", NULL);
        check_found(dirs, "", NULL);
        check_found(dirs, ".", NULL);
        {
                AUTO_KERNELSPEC struct kernelspec s = {0};
                struct err err = {0};

                CHECK_INT(kernelspec_find(dirs, "broken", &s, &err), <, 0);
                CHECK_INT(err.kind, ==, ERR_INVALID);
        }
        (void)snprintf(command, sizeof(command), "rm -r %s %s", first, second);
        CHECK_INT(system(command), ==, 0);
}

static void a_late_interrupt_has_something_to_hit(void)
{
        AUTO_BUF struct buf out = BUF_INIT(1000);

        CHECK_INT(language_fence(language_find("python"), &out), ==, 0);
        CHECK_INT(language_fence(NULL, &out), ==, 0);
        CHECK_INT(out.len, ==, 0);
        CHECK_INT(language_fence(language_find("R"), &out), ==, 0); /* an empty cell of R looks for no interrupt */
        CHECK_INT(out.len, >, 0);
}

int main(void)
{
        RUN(names_are_normalised);
        RUN(values_are_escaped_for_each_language);
        RUN(long_values_of_java_are_pieces);
        RUN(names_are_escaped_too);
        RUN(variables_are_removed);
        RUN(seeds_are_numbers_that_fit);
        RUN(what_no_process_can_have_is_not_valid);
        RUN(a_kernel_json_is_read);
        RUN(variables_of_a_kernel_json_are_filled_in);
        RUN(the_prefix_is_where_a_kernel_was_installed);
        RUN(a_wrong_kernel_json_is_explained);
        RUN(kernels_are_found_by_name_then_by_language);
        RUN(a_late_interrupt_has_something_to_hit);
        return tap_done();
}
