/* e2b.toml and .dockerignore. */
#include "dockerfile/e2b_toml.h"

#include "base/auto.h"
#include "dockerfile/ignore.h"
#include "dockerfile/path_pattern.h"

#include "tap.h"

/* ---- e2b.toml ---- */

static void reads_a_file_as_the_clients_wrote_it(void)
{
        static const char text[] =
                "# This is a config for E2B sandbox template.\r\n\n"
                "team_id = \"460355b3\" # mine\r\nstart_cmd = \"/compile_page.sh \\\"x\\\" \\u00e4\"\n"
                "dockerfile = 'e2b.Dockerfile'\n\"template_name\"=\"nextjs-developer\"\n"
                "template_id = \"scw\"\ncpu_count = 4\nmemory_mb = 4_096\n"
                "ready_cmd = \"\"\"\ncurl \\\n   -f x\nok\"\"\"";
        AUTO_E2B_TOML struct e2b_toml t = {0};
        AUTO_PROBLEMS struct problems p = {0};

        CHECK_INT(e2b_toml_parse(STR(text), &t, &p), ==, 0);
        CHECK_STR(t.start_cmd, "/compile_page.sh \"x\" \xc3\xa4");
        CHECK_STR(t.dockerfile, "e2b.Dockerfile");
        CHECK_STR(t.template_name, "nextjs-developer");
        CHECK_STR(t.ready_cmd, "curl -f x\nok");
        CHECK_INT(t.cpu_count, ==, 4);
        CHECK_INT(t.memory_mb, ==, 4096);
}

static void every_wrong_line_is_told(void)
{
        static const char text[] = "foo = 1\nstart_cmd = 5\ncpu_count = \"4\"\nmemory_mb = 0\n[table]\ndockerfile\n"
                                   "team_id = \"x\" y\nteam_id = \"x\"\ntemplate_id = \"open\nready_cmd = \"\\q\"\n";
        static const char *const want[] = {"unknown key 'foo'",
                                           "must be a text in quotes",
                                           "must be a whole number from 1",
                                           "must be a whole number from 1",
                                           "tables are not part of this file",
                                           "must be KEY = VALUE",
                                           "something follows the value",
                                           "a key is given twice",
                                           "a text is not closed",
                                           "unknown escape in a text"};
        AUTO_E2B_TOML struct e2b_toml t = {0};
        AUTO_PROBLEMS struct problems p = {0};

        CHECK_INT(e2b_toml_parse(STR(text), &t, &p), <, 0);
        CHECK_INT(p.count, ==, ARRAY_LEN(want));
        for (size_t i = 0; i < ARRAY_LEN(want); i++) {
                CHECK_STR(p.at[i].text, want[i]);
                CHECK_INT(p.at[i].line, ==, i + 1);
        }
}

/* ---- patterns ---- */

static void patterns_match_as_docker_does(void)
{
        static const struct {
                const char *pattern, *path;
                bool has_double, want;
        } cases[] = {
                {"*.txt", "a.txt", true, true},
                {"*.txt", "d/a.txt", true, false},
                {"**/*.txt", "d/e/a.txt", true, true},
                {"**/*.txt", "a.txt", true, true},
                {"**", "a/b", true, true},
                {"a/**", "a/b/c", true, true},
                {"a/**/c", "a/c", true, true},
                {"a/**/c", "a/x/y/c", true, true},
                {"a/**/c", "ab/c", true, false},
                {"a?c", "abc", true, true},
                {"a?c", "a/c", true, false},
                {"[a-c]x", "bx", true, true},
                {"[^a-c]x", "bx", true, false},
                {"[^a-c]x", "dx", true, true},
                {"a\\*", "a*", true, true},
                {"a\\*", "ab", true, false},
                {"[[]0", "[0", false, true},
                {"**", "a/b", false, false},
                {"*/b", "a/b", false, true},
                {"", "", false, true},
                {"a", "", false, false},
                {"**foo", "x/yfoo", true, true},
                {"[]]", "]", false, true},
                {"[a-", "a", false, false},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                CHECK_INT(path_pattern_matches(str_of(cases[i].pattern), str_of(cases[i].path), cases[i].has_double),
                          ==, cases[i].want);
}

static void a_costly_pattern_ends(void)
{
        CHECK(!path_pattern_matches(STR("*a*a*a*a*a*a*a*a*a*a*b"),
                                    STR("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), true));
}

static void paths_are_cleaned(void)
{
        static const struct {
                const char *path, *want;
                bool leaves;
        } cases[] = {{"a/./b//../c/", "a/c", false}, {"", ".", false},  {"/x", "x", false}, {"../x", "x", true},
                     {"a/../..", ".", true},         {"./", ".", false}};

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                bool leaves;
                AUTO_FREE char *got = clean_path(str_of(cases[i].path), &leaves);

                CHECK_STR(got, cases[i].want);
                CHECK_INT(leaves, ==, cases[i].leaves);
        }
}

/* ---- .dockerignore ---- */

static void the_last_match_decides(void)
{
        static const char text[] =
                "# a comment\n\n node_modules \n*.log\n!keep.log\n/top/\n**/deep\n!node_modules/one\r\nx/../y\n";
        AUTO_IGNORE struct ignore i = {0};
        AUTO_PROBLEMS struct problems p = {0};

        CHECK_INT(ignore_parse(STR(text), &i, &p), ==, 0);
        CHECK_INT(i.count, ==, 7);
        CHECK(i.has_keeps);
        CHECK(ignore_matches(&i, STR("node_modules")));
        CHECK(ignore_matches(&i, STR("node_modules/a/b")));
        CHECK(!ignore_matches(&i, STR("node_modules/one")));
        CHECK(!ignore_matches(&i, STR("node_modules/one/two")));
        CHECK(!ignore_matches(&i, STR("sub/node_modules")));
        CHECK(ignore_matches(&i, STR("a.log")) && !ignore_matches(&i, STR("keep.log")));
        CHECK(!ignore_matches(&i, STR("sub/a.log")));
        CHECK(ignore_matches(&i, STR("top")) && ignore_matches(&i, STR("top/x")));
        CHECK(ignore_matches(&i, STR("a/b/deep/x")) && ignore_matches(&i, STR("deep")));
        CHECK(ignore_matches(&i, STR("y")));
}

static void broken_patterns_have_their_line(void)
{
        AUTO_IGNORE struct ignore i = {0};
        AUTO_PROBLEMS struct problems p = {0};

        CHECK_INT(ignore_parse(STR("a\n[x\n!\nb\\"), &i, &p), <, 0);
        CHECK_INT(p.count, ==, 3);
        CHECK_INT(p.at[0].line, ==, 2);
        CHECK_INT(p.at[1].line, ==, 3);
        CHECK_INT(p.at[2].line, ==, 4);
}

int main(void)
{
        RUN(reads_a_file_as_the_clients_wrote_it);
        RUN(every_wrong_line_is_told);
        RUN(patterns_match_as_docker_does);
        RUN(a_costly_pattern_ends);
        RUN(paths_are_cleaned);
        RUN(the_last_match_decides);
        RUN(broken_patterns_have_their_line);
        return tap_done();
}
