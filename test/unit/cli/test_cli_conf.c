/* Which server, and which key: the environment, a file, or the server's word. */
#include "cli/conf.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/member.h"

#include "tap.h"

static void forget_environment(void)
{
        static const char *const all[] = {"E2B_API_URL", "E2B_API_KEY", "E2B_SANDBOX_URL",
                                          "E2B_DOMAIN",  "HOME",        "XDG_CONFIG_HOME"};

        for (size_t i = 0; i < ARRAY_LEN(all); i++)
                (void)unsetenv(all[i]);
}

static void addresses_follow_from_a_domain(void)
{
        AUTO(envfile_done) struct envfile e = {0};
        struct err err = {0};

        forget_environment();
        (void)setenv("E2B_DOMAIN", "box.example.com:8443", 1);
        (void)setenv("E2B_API_KEY", "e2b_1", 1);
        CHECK_INT(cli_conf(NULL, &e, &err), ==, 0);
        CHECK_STR(e.api_url, "https://api.box.example.com:8443");
        CHECK_STR(e.sandbox_url, "https://sandbox.box.example.com:8443");
        CHECK_STR(e.api_key, "e2b_1");
}

static void an_address_that_is_given_wins(void)
{
        AUTO(envfile_done) struct envfile e = {0}, own = {0}, of_domain = {0};
        struct err err = {0};

        forget_environment();
        (void)setenv("E2B_API_URL", "http://127.0.0.1:3000", 1);
        CHECK_INT(cli_conf(NULL, &e, &err), <, 0);
        CHECK_STR(err.msg, "E2B_API_URL is set, but E2B_API_KEY is not");
        (void)setenv("E2B_API_KEY", "e2b_1", 1);
        (void)setenv("E2B_DOMAIN", "localhost:3443", 1);
        CHECK_INT(cli_conf(NULL, &e, &err), ==, 0);
        CHECK_STR(e.api_url, "http://127.0.0.1:3000");
        CHECK_STR(e.sandbox_url, "http://127.0.0.1:3000");
        (void)setenv("E2B_SANDBOX_URL", "http://127.0.0.1:4000", 1);
        CHECK_INT(cli_conf(NULL, &own, &err), ==, 0);
        CHECK_STR(own.sandbox_url, "http://127.0.0.1:4000");
        (void)unsetenv("E2B_SANDBOX_URL");
        (void)setenv("E2B_API_URL", "https://api.localhost:3443", 1); /* what the domain would give */
        CHECK_INT(cli_conf(NULL, &of_domain, &err), ==, 0);
        CHECK_STR(of_domain.sandbox_url, "https://sandbox.localhost:3443");
}

static void the_place_of_a_users_file(void)
{
        AUTO_FREE char *none = NULL, *home = NULL, *own = NULL;

        forget_environment();
        none = cli_config_dir();
        CHECK(!none);
        (void)setenv("HOME", "/home/alice", 1);
        (void)setenv("XDG_CONFIG_HOME", "relative", 1);
        home = cli_config_dir();
        CHECK_STR(home, "/home/alice/.config");
        (void)setenv("XDG_CONFIG_HOME", "/elsewhere", 1);
        own = cli_config_dir();
        CHECK_STR(own, "/elsewhere");
}

static void a_directory_without_a_server_is_named(void)
{
        struct envfile e = {0};
        struct err err = {0};

        forget_environment();
        CHECK_INT(cli_conf("/nonexistent", &e, &err), <, 0);
        CHECK(strstr(err.msg, "no server at '/nonexistent'"));
        CHECK_INT(member_exports("/nonexistent", &e, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_DENIED);
        CHECK(strstr(err.msg, "set E2B_API_URL and E2B_API_KEY")); /* to its end */
}

int main(void)
{
        RUN(addresses_follow_from_a_domain);
        RUN(an_address_that_is_given_wins);
        RUN(the_place_of_a_users_file);
        RUN(a_directory_without_a_server_is_named);
        return tap_done();
}
