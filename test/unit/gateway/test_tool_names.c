/* Names of tools: each once, and such that every client takes them. */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/map.h"
#include "gateway/tool_names.h"
#include "test/lib/tap.h"

static void a_name_that_one_server_has_stays(void)
{
        struct named_tool tools[] = {{.server = "github/acme/one", .tool = "echo"},
                                     {.server = "memory", .tool = "read"}};

        CHECK_INT(tool_names_make(tools, 2), ==, 0);
        CHECK_STR(tools[0].name, "echo");
        CHECK_STR(tools[1].name, "read");
}

static void a_name_of_several_has_the_server_before_it(void)
{
        struct named_tool tools[] = {{.server = "github/acme/one", .tool = "echo"},
                                     {.server = "github/other/one", .tool = "echo"},
                                     {.server = "memory", .tool = "echo"},
                                     {.server = "x", .tool = "one_echo_2"}};

        CHECK_INT(tool_names_make(tools, 4), ==, 0);
        CHECK_STR(tools[0].name, "one_echo");
        CHECK_STR(tools[1].name, "one_echo_2");
        CHECK_STR(tools[2].name, "memory_echo");
        CHECK_STR(tools[3].name, "one_echo_2_2");
}

static void names_have_allowed_characters_and_lengths(void)
{
        char tool[400];
        struct named_tool tools[] = {
                {.server = "s", .tool = tool}, {.server = "s", .tool = ""}, {.server = "s", .tool = "a b/\xc3\xa9"}};

        memset(tool, 'x', sizeof(tool) - 1);
        tool[sizeof(tool) - 1] = '\0';
        CHECK_INT(tool_names_make(tools, 3), ==, 0);
        CHECK_INT(strlen(tools[0].name), ==, TOOL_NAME_MAX);
        CHECK_STR(tools[1].name, "tool");
        CHECK_STR(tools[2].name, "a_b___");
}

/* A server may list whatever it likes: 60,000 tools of one name take no longer than 60,000 others. */
static void a_hostile_list_takes_no_time(void)
{
        enum { COUNT = 60000 };
        AUTO_FREE struct named_tool *tools = calloc(COUNT, sizeof(*tools));
        struct map names = {0};

        CHECK(tools != NULL);
        for (size_t i = 0; i < COUNT; i++)
                tools[i] = (struct named_tool){.server = "s", .tool = "same"};
        CHECK_INT(tool_names_make(tools, COUNT), ==, 0);
        for (size_t i = 0; i < COUNT; i++) {
                CHECK(map_get(&names, str_of(tools[i].name)) == NULL);
                CHECK_INT(map_put(&names, str_of(tools[i].name), tools, NULL), ==, 0);
        }
        map_done(&names);
}

int main(void)
{
        RUN(a_name_that_one_server_has_stays);
        RUN(a_name_of_several_has_the_server_before_it);
        RUN(names_have_allowed_characters_and_lengths);
        RUN(a_hostile_list_takes_no_time);
        return tap_done();
}
