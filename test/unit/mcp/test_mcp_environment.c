/* The variables of a program that a tool starts: ours, those of the sandbox, those of the tool. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "mcp/tools/program_env.h"
#include "test/lib/tap.h"

static char file[] = "/tmp/test-mcp-environment-XXXXXX";

static void write_file(const char *text, size_t n)
{
        AUTO_CLOSE int fd = open(file, O_WRONLY | O_TRUNC | O_CLOEXEC);

        CHECK_INT(write(fd, text, n), ==, n);
}
#define WRITE(text) write_file(text, sizeof(text) - 1)

/* The value that a program would see; NULL: none.  A name must not be there twice. */
static const char *value_of(const struct program_env *env, const char *name)
{
        const char *found = NULL;
        size_t n = strlen(name);

        for (char **at = env->vars; *at; at++)
                if (strncmp(*at, name, n) == 0 && (*at)[n] == '=')
                        found = found ? "(twice)" : *at + n + 1;
        return found;
}

static void the_file_replaces_ours_and_the_tool_replaces_both(void)
{
        static const char *const more[] = {"TOOL=tool", "ALL=tool", NULL};
        AUTO_PROGRAM_ENV struct program_env env = {0};

        WRITE("SANDBOX=a=b c\nd\0OWN=sandbox\0ALL=sandbox\0SANDBOX=again\0");
        CHECK_INT(program_env_init(&env, file, more), ==, 0);
        CHECK_STR(value_of(&env, "ONLY_OURS"), "ours");
        CHECK_STR(value_of(&env, "OWN"), "sandbox");
        CHECK_STR(value_of(&env, "SANDBOX"), "again");
        CHECK_STR(value_of(&env, "TOOL"), "tool");
        CHECK_STR(value_of(&env, "ALL"), "tool");
}

static void a_value_may_have_any_bytes(void)
{
        AUTO_PROGRAM_ENV struct program_env env = {0};

        WRITE("SANDBOX=a=b c\nd\0EMPTY=\0");
        CHECK_INT(program_env_init(&env, file, NULL), ==, 0);
        CHECK_STR(value_of(&env, "SANDBOX"), "a=b c\nd");
        CHECK_STR(value_of(&env, "EMPTY"), "");
}

static void what_is_no_variable_is_left_out(void)
{
        AUTO_PROGRAM_ENV struct program_env env = {0};

        WRITE("\0\0NAME\0=value\0GOOD=yes\0CUT=no");
        CHECK_INT(program_env_init(&env, file, NULL), ==, 0);
        CHECK_STR(value_of(&env, "GOOD"), "yes");
        CHECK(value_of(&env, "NAME") == NULL && value_of(&env, "") == NULL && value_of(&env, "CUT") == NULL);
}

static void no_file_no_variables_of_the_sandbox(void)
{
        AUTO_PROGRAM_ENV struct program_env env = {0};

        CHECK_INT(program_env_init(&env, "/nowhere/environ", NULL), ==, 0);
        CHECK_STR(value_of(&env, "ONLY_OURS"), "ours");
        CHECK_STR(value_of(&env, "OWN"), "ours");
}

static void a_file_that_is_too_large_counts_as_empty(void)
{
        AUTO_PROGRAM_ENV struct program_env env = {0};
        size_t n = PROGRAM_ENV_FILE_MAX + 1;
        AUTO_FREE char *text = malloc(n);

        CHECK(text != NULL);
        memset(text, 'x', n);
        memcpy(text, "OWN=sandbox", 12);
        write_file(text, n);
        CHECK_INT(program_env_init(&env, file, NULL), ==, 0);
        CHECK_STR(value_of(&env, "OWN"), "ours");
}

int main(void)
{
        int fd = mkostemp(file, O_CLOEXEC);

        if (fd < 0)
                return 1;
        (void)close(fd);
        (void)setenv("ONLY_OURS", "ours", 1);
        (void)setenv("OWN", "ours", 1);
        RUN(the_file_replaces_ours_and_the_tool_replaces_both);
        RUN(a_value_may_have_any_bytes);
        RUN(what_is_no_variable_is_left_out);
        RUN(no_file_no_variables_of_the_sandbox);
        RUN(a_file_that_is_too_large_counts_as_empty);
        (void)unlink(file);
        return tap_done();
}
