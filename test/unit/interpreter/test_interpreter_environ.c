#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpreter/caller_environ.h"
#include "tap.h"

static void merge(const char *text, size_t n)
{
        caller_environ_merge((struct str){text, n});
}
#define MERGE(text) merge(text, sizeof(text) - 1)

static void variables_of_a_template_are_taken(void)
{
        MERGE("JUPYTER_PATH=/opt/jupyter\0EMPTY=\0EQUALS=a=b\0LD_LIBRARY_PATH=/opt/lib\0");
        CHECK_STR(getenv("JUPYTER_PATH"), "/opt/jupyter");
        CHECK_STR(getenv("EMPTY"), "");
        CHECK_STR(getenv("EQUALS"), "a=b");
        CHECK_STR(getenv("LD_LIBRARY_PATH"), "/opt/lib");
}

static void those_of_a_user_or_of_one_sandbox_are_not(void)
{
        CHECK_INT(setenv("HOME", "/root", 1), ==, 0);
        CHECK_INT(setenv("USER", "root", 1), ==, 0);
        CHECK_INT(unsetenv("E2B_SANDBOX_ID"), ==, 0);
        CHECK_INT(unsetenv("SUDO_UID"), ==, 0);
        MERGE("HOME=/home/user\0USER=user\0E2B_SANDBOX_ID=x\0SUDO_UID=1000\0=none\0noise\0\0LAST=1");
        CHECK_STR(getenv("HOME"), "/root");
        CHECK_STR(getenv("USER"), "root");
        CHECK(!getenv("E2B_SANDBOX_ID"));
        CHECK(!getenv("SUDO_UID"));
        CHECK_STR(getenv("LAST"), "1");
}

static void the_path_has_the_directories_of_both(void)
{
        CHECK_INT(setenv("PATH", "/usr/sbin:/usr/bin:/sbin", 1), ==, 0);
        MERGE("PATH=/opt/x/bin:/usr/bin\0");
        CHECK_STR(getenv("PATH"), "/opt/x/bin:/usr/bin:/usr/sbin:/sbin");
        CHECK_INT(unsetenv("PATH"), ==, 0);
        MERGE("PATH=/a\0");
        CHECK_STR(getenv("PATH"), "/a");
}

static void variables_of_the_loader_are_put_aside_and_come_back(void)
{
        char *name;

        CHECK_INT(setenv("LD_PRELOAD", "x=y", 1), ==, 0);
        CHECK_INT(setenv("LD_LIBRARY_PATH", "/opt/lib", 1), ==, 0);
        caller_environ_put_aside();
        CHECK(!getenv("LD_PRELOAD") && !getenv("LD_LIBRARY_PATH"));
        name = caller_environ_aside_name(STR("LD_PRELOAD"));
        CHECK(name && strcmp(getenv(name), "x=y") == 0);
        free(name);
        name = caller_environ_aside_name(STR("PATH"));
        CHECK(name && strcmp(name, "PATH") == 0);
        free(name);
        caller_environ_take();
        CHECK_STR(getenv("LD_PRELOAD"), "x=y");
        CHECK_STR(getenv("LD_LIBRARY_PATH"), "/opt/lib");
        for (char **at = environ; *at; at++)
                CHECK(!strstr(*at, "ASIDE"));
}

int main(void)
{
        RUN(variables_of_a_template_are_taken);
        RUN(those_of_a_user_or_of_one_sandbox_are_not);
        RUN(the_path_has_the_directories_of_both);
        RUN(variables_of_the_loader_are_put_aside_and_come_back);
        return tap_done();
}
