/* Patterns for paths: what matches, what is malformed, and that no pattern takes long. */
#include "base/auto.h"
#include "base/err.h"
#include "mcp/tools/search/glob.h"
#include "test/lib/tap.h"

static int matches(const char *pattern, const char *path)
{
        struct err err = {0};
        struct glob g;
        int r = glob_init(&g, pattern, &err);

        if (r == 0)
                r = glob_matches(&g, str_of(path));
        glob_done(&g);
        return r;
}

static void paths_that_match(void)
{
        static const char *const pairs[][2] = {
                {"*.py", "./a/b/x.py"},
                {"*.py", "x.py"},
                {"**/*.py", "x.py"},
                {"**/*.py", "a/b/x.py"},
                {"a/**", "a/b/c"},
                {"a/**/z", "a/z"},
                {"a/**/z", "a/b/c/z"},
                {"**/b/**/z", "b/b/c/z"},
                {"/x", "x"},
                {"./a/x", "a/x"},
                {"*.{ts,tsx}", "a/x.tsx"},
                {"{a,b{c,d}}.x", "bd.x"},
                {"{,a}b", "b"},
                {"[a-c]?[!x].h", "b\xc3\xa9y.h"},
                {"[]]", "]"},
                {"[a", "[a"},
                {"\\*", "*"},
                {"!*.py", "x.c"},
                {"**", "a/b"},
                {"a*b*c", "aXbYbZc"},
                {"[{,}]", ","},
        };

        for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
                if (matches(pairs[i][0], pairs[i][1]) != 1)
                        CHECK_STR(pairs[i][0], pairs[i][1]);
}

static void paths_that_do_not(void)
{
        static const char *const pairs[][2] = {
                {"*.py", "x.pyc"}, {"a/*.py", "a/b/x.py"}, {"a/*", "b/a/x"}, {"?", "ab"},
                {"[!a]", "a"},     {"!*.py", "x.py"},      {"a/**", "a"},    {"**/z", "a/zz"},
                {"\\*", "x"},      {"x", "x/y"},           {"", "x"},
        };

        for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
                if (matches(pairs[i][0], pairs[i][1]) != 0)
                        CHECK_STR(pairs[i][0], pairs[i][1]);
}

static void malformed_patterns_are_refused(void)
{
        char braces[GLOB_BYTES_MAX + 1] = "", stars[GLOB_BYTES_MAX + 1], path[4000];

        CHECK_INT(matches("{a,b", "a"), <, 0);
        CHECK_INT(matches("{a,{b}", "a"), <, 0);
        for (size_t i = 0; i + 6 < 200; i += 5)
                memcpy(braces + i, "{a,b}", 6);
        CHECK_INT(matches(braces, "a"), <, 0);
        for (size_t i = 0; i + 4 < GLOB_BYTES_MAX; i += 3)
                memcpy(braces + i, "{a}", 4);
        CHECK_INT(matches(braces, "a"), ==, 0);
        for (size_t i = 0; i < sizeof(stars) - 1; i++)
                stars[i] = i % 2 ? 'a' : '*';
        stars[sizeof(stars) - 1] = '\0';
        memset(path, 'a', sizeof(path) - 1);
        path[sizeof(path) - 2] = 'b';
        path[sizeof(path) - 1] = '\0';
        CHECK_INT(matches(stars, path), ==, 0); /* at once, as the next one */
        for (size_t i = 0; i + 5 < sizeof(stars); i += 5)
                memcpy(stars + i, "**/a/", 6);
        for (size_t i = 1; i < sizeof(path) - 2; i += 2)
                path[i] = '/';
        CHECK_INT(matches(stars, path), ==, 0);
}

int main(void)
{
        RUN(paths_that_match);
        RUN(paths_that_do_not);
        RUN(malformed_patterns_are_refused);
        return tap_done();
}
