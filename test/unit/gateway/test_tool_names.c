/* Names of tools: each once, such that every client takes them, and the same for good. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gateway/tool_names.h"
#include "test/lib/tap.h"

static struct tool_names names;

static void add(const char *server, const char *own)
{
        CHECK_INT(tool_names_add(&names, server, own), ==, 0);
}

static const char *name_of(const char *server, const char *own)
{
        return tool_names_give(&names) == 0 ? tool_names_of(&names, server, own) : NULL;
}

static void begin(void)
{
        tool_names_done(&names);
        tool_names_init(&names);
}

static void a_name_that_one_server_has_stays(void)
{
        begin();
        add("github/acme/one", "echo");
        add("memory", "read");
        CHECK_STR(name_of("github/acme/one", "echo"), "echo");
        CHECK_STR(name_of("memory", "read"), "read");
        CHECK(!name_of("memory", "echo"));
}

static void a_name_of_several_has_the_server_before_it(void)
{
        begin();
        add("github/acme/one", "echo");
        add("github/other/one", "echo");
        add("memory", "echo");
        add("x", "one_echo_2");
        CHECK_STR(name_of("github/acme/one", "echo"), "one_echo");
        CHECK_STR(name_of("github/other/one", "echo"), "one_echo_2");
        CHECK_STR(name_of("memory", "echo"), "memory_echo");
        CHECK_STR(name_of("x", "one_echo_2"), "one_echo_2_2");
        CHECK_STR(tool_names_find(&names, "one_echo_2")->server, "github/other/one");
        CHECK_STR(tool_names_find(&names, "one_echo_2")->own, "echo");
        CHECK(!tool_names_find(&names, "echo"));
}

static void a_name_that_was_given_stays(void)
{
        begin();
        add("one", "echo");
        CHECK_STR(name_of("one", "echo"), "echo");
        add("two", "echo");
        add("one", "echo");
        CHECK_STR(name_of("one", "echo"), "echo");
        CHECK_STR(name_of("two", "echo"), "two_echo");
        CHECK_STR(tool_names_find(&names, "echo")->server, "one");
}

static void names_have_allowed_characters_and_lengths(void)
{
        char tool[400];

        memset(tool, 'x', sizeof(tool) - 1);
        tool[sizeof(tool) - 1] = '\0';
        begin();
        add("s", tool);
        add("s", "");
        add("s", "a b/\xc3\xa9");
        CHECK_INT(strlen(name_of("s", tool)), ==, TOOL_NAME_MAX);
        CHECK_STR(name_of("s", ""), "tool");
        CHECK_STR(name_of("s", "a b/\xc3\xa9"), "a_b___");
}

/* Servers may list whatever they like: 60,000 tools that want the same names take no longer than 60,000 others. */
static void hostile_lists_take_no_time(void)
{
        begin();
        for (unsigned i = 0; i < 60000; i++) {
                char server[32], own[64];

                (void)snprintf(server, sizeof(server), "s%u", i / TOOL_NAMES_OF_SERVER_MAX);
                memset(own, '_', sizeof(own));
                for (unsigned bit = 0; bit < 16; bit++)
                        own[bit] = i >> bit & 1 ? '.' : '/';
                own[63] = '\0';
                CHECK_INT(tool_names_add(&names, server, own), ==, 0);
        }
        CHECK_INT(tool_names_give(&names), ==, 0);
        CHECK_INT(names.of_name.used, ==, 60000);
}

static void a_server_has_so_many_names_and_no_more(void)
{
        char own[32];

        begin();
        for (unsigned i = 0; i < TOOL_NAMES_OF_SERVER_MAX; i++) {
                (void)snprintf(own, sizeof(own), "t%u", i);
                CHECK_INT(tool_names_add(&names, "s", own), ==, 0);
        }
        CHECK_INT(tool_names_add(&names, "s", "one more"), ==, -E2BIG);
        CHECK_INT(tool_names_add(&names, "s", "t0"), ==, 0);
        CHECK_INT(tool_names_add(&names, "other", "one more"), ==, 0);
}

int main(void)
{
        RUN(a_name_that_one_server_has_stays);
        RUN(a_name_of_several_has_the_server_before_it);
        RUN(names_have_allowed_characters_and_lengths);
        RUN(a_name_that_was_given_stays);
        RUN(hostile_lists_take_no_time);
        RUN(a_server_has_so_many_names_and_no_more);
        tool_names_done(&names);
        return tap_done();
}
