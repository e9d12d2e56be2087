#include "cli/code/input.h"

#include "base/auto.h"

#include "tap.h"

static void languages_of_files(void)
{
        CHECK_STR(language_of_file("a/b.py"), "python");
        CHECK_STR(language_of_file("x.R"), "r");
        CHECK_STR(language_of_file("x.mjs"), "javascript");
        CHECK(!language_of_file("py"));
        CHECK(!language_of_file("x.txt"));
        CHECK_STR(language_name("JS"), "javascript");
        CHECK_STR(language_name("klingon"), "klingon");
}

static void what_was_typed_is_complete_or_not(void)
{
        static const struct {
                const char *language, *text;
                enum input_state state;
        } cases[] = {
                {"python", "1 + 1\n", INPUT_COMPLETE},
                {"python", "f(1,\n", INPUT_OPEN},
                {"python", "f(1,\n2)\n", INPUT_COMPLETE},
                {"python", "x = '('\n", INPUT_COMPLETE},
                {"python", "x = 1 # (\n", INPUT_COMPLETE},
                {"python", "x = 'a\\'('\n", INPUT_COMPLETE},
                {"python", "x = \"\"\"a\n", INPUT_OPEN},
                {"python", "x = \"\"\"a\n\"\"\"\n", INPUT_COMPLETE},
                {"python", "x = 1 + \\\n", INPUT_OPEN},
                {"python", "if x:\n", INPUT_BLOCK},
                {"python", "if x:\n  y\n", INPUT_BLOCK},
                {"python", "if x:\n  y\n\n", INPUT_COMPLETE},
                {"python", "@wraps\n", INPUT_BLOCK},
                {"python", "x = {1: 2}\n", INPUT_COMPLETE},
                {"python", "'unclosed\n", INPUT_COMPLETE}, /* the kernel says what is wrong */
                {"python", ")\n", INPUT_COMPLETE},
                {"javascript", "function f() {\n", INPUT_OPEN},
                {"javascript", "function f() {\n}\n", INPUT_COMPLETE},
                {"js", "`a\n", INPUT_OPEN},
                {"ts", "/* {\n", INPUT_OPEN},
                {"ts", "x // {\n", INPUT_COMPLETE},
                {"java", "class A {\n", INPUT_OPEN},
                {"r", "x <- c(1,\n", INPUT_OPEN},
                {"r", "'a\n", INPUT_OPEN},
                {"r", "x <- 1 # (\n", INPUT_COMPLETE},
                {"bash", "for i in 1; do\n", INPUT_OPEN},
                {"bash", "for i in 1; do echo $i; done\n", INPUT_COMPLETE},
                {"bash", "if true; then echo done; fi\n", INPUT_COMPLETE},
                {"bash", "if true\n", INPUT_OPEN},
                {"bash", "echo if\n", INPUT_COMPLETE},
                {"bash", "echo 'a\n", INPUT_OPEN},
                {"bash", "echo $# \n", INPUT_COMPLETE},
                {"bash", "while true; do if x; then y; fi; done\n", INPUT_COMPLETE},
                {"bash", "f() {\n", INPUT_OPEN},
                {"bash", "a \\\n", INPUT_OPEN},
                {"bash", "# if (\n", INPUT_COMPLETE},
                {"python", "", INPUT_COMPLETE},
                {"python", "\n", INPUT_COMPLETE},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                enum input_state state = input_state_of(cases[i].language, str_of(cases[i].text));

                if (state != cases[i].state)
                        printf("# case %zu: %s %s\n", i, cases[i].language, cases[i].text);
                CHECK_INT(state, ==, cases[i].state);
        }
}

int main(void)
{
        RUN(languages_of_files);
        RUN(what_was_typed_is_complete_or_not);
        return tap_done();
}
