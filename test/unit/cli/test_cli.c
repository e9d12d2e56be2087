#include "cli/options.h"
#include "cli/trust.h"

#include "base/auto.h"
#include "base/err.h"

#include "tap.h"

#define ALL (CLI_DATA | CLI_JSON | CLI_TEMPLATE | CLI_TIMEOUT | CLI_ENV | CLI_CWD | CLI_USER)
#define PARSE(takes, o, e, ...)                                                                                        \
        ({                                                                                                             \
                static char *argv_[] = {"run", __VA_ARGS__, NULL};                                                     \
                cli_options_parse((int)ARRAY_LEN(argv_) - 1, argv_, (takes), (o), (e));                                \
        })

static void options_end_where_the_command_begins(void)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err e = {0};

        CHECK_INT(PARSE(ALL, &o, &e, "-t", "tpl", "--timeout", "60", "-e", "A=1", "-e", "B=x=y", "ls", "-l", "--json"),
                  ==, 0);
        CHECK_STR(o.template, "tpl");
        CHECK_INT(o.timeout_s, ==, 60);
        CHECK_STR(json_string_value(json_object_get(o.env, "A")), "1");
        CHECK_STR(json_string_value(json_object_get(o.env, "B")), "x=y");
        CHECK_INT(o.arg_count, ==, 3);
        CHECK_STR(o.args[0], "ls");
        CHECK(!o.json);
}

static void two_dashes_end_them_too(void)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err e = {0};

        CHECK_INT(PARSE(ALL, &o, &e, "--data=/d", "--", "--json"), ==, 0);
        CHECK_STR(o.data, "/d");
        CHECK_INT(o.arg_count, ==, 1);
        CHECK_STR(o.args[0], "--json");
}

static void wrong_use_is_refused(void)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err e = {0};

        CHECK_INT(PARSE(CLI_DATA, &o, &e, "--json"), <, 0);
        CHECK_STR(e.msg, "--json: unknown option");
        CHECK_INT(PARSE(ALL, &o, &e, "--timeout", "0"), <, 0);
        CHECK_INT(PARSE(ALL, &o, &e, "--timeout", "1h"), <, 0);
        CHECK_INT(PARSE(ALL, &o, &e, "-e", "=x"), <, 0);
        CHECK_INT(PARSE(ALL, &o, &e, "-e", "x"), <, 0);
        CHECK_STR(e.msg, "-e x: must be NAME=VALUE");
        CHECK_INT(PARSE(ALL, &o, &e, "-e"), <, 0);
        CHECK_INT(PARSE(ALL, &o, &e, "-xh", "true"), <, 0);
        CHECK_STR(e.msg, "-x: unknown option");
}

static void help_has_a_short_form(void)
{
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err e = {0};

        CHECK_INT(PARSE(CLI_DATA, &o, &e, "-h"), ==, 0);
        CHECK(o.help);
}

static void copies_names_and_files(void)
{
        const unsigned takes = CLI_COUNT | CLI_NAME | CLI_FILES_ONLY | CLI_DELETE;
        AUTO(cli_options_done) struct cli_options o = {0};
        struct err e = {0};

        CHECK_INT(PARSE(takes, &o, &e, "--count", "100", "--name=a:b", "--files-only", "--delete", "x"), ==, 0);
        CHECK_INT(o.count, ==, 100);
        CHECK_STR(o.name, "a:b");
        CHECK(o.files_only && o.deletes);
        CHECK_STR(o.args[0], "x");
        CHECK_INT(PARSE(takes, &o, &e, "--count", "101"), <, 0);
        CHECK_STR(e.msg, "--count 101: must be from 1 to 100");
        CHECK_INT(PARSE(takes, &o, &e, "--count", "0"), <, 0);
        CHECK_INT(PARSE(CLI_DATA, &o, &e, "--files-only"), <, 0);
}

static void a_data_directory_keeps_its_name_in_the_store(void)
{
        char first[TRUST_NAME_MAX], same[TRUST_NAME_MAX], other[TRUST_NAME_MAX];

        trust_name("/proc/self/../", first);
        trust_name("/proc", same);
        trust_name("/nonexistent/sandglass", other);
        CHECK_STR(first, same); /* however it is spelled */
        CHECK(strcmp(first, other) != 0);
        CHECK(strncmp(other, "sandglass-", 10) == 0);
        CHECK_INT(strlen(other), ==, 18);
}

static void what_is_not_there_is_not_trusted(void)
{
        char long_path[5000];

        memset(long_path, 'x', sizeof(long_path) - 1);
        long_path[sizeof(long_path) - 1] = 0;
        CHECK(!trust_is_installed("/nonexistent/sandglass"));
        CHECK(!trust_is_installed(long_path));
}

int main(void)
{
        RUN(options_end_where_the_command_begins);
        RUN(two_dashes_end_them_too);
        RUN(wrong_use_is_refused);
        RUN(help_has_a_short_form);
        RUN(copies_names_and_files);
        RUN(a_data_directory_keeps_its_name_in_the_store);
        RUN(what_is_not_there_is_not_trusted);
        return tap_done();
}
