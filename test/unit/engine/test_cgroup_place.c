/* Where the groups of sandboxes are: above the server's own group if that was delegated, else at the top. */
#include <stdio.h>
#include <string.h>
#include <tap.h>

#include "engine/host/cgroup_place.h"

struct host {
        const char *delegated; /* NULL: nothing */
        unsigned asked;
};

static bool is_delegated(const char *path, void *arg)
{
        struct host *h = arg;

        h->asked++;
        return h->delegated && strcmp(path, h->delegated) == 0;
}

static void is_the_delegated_group_above_the_servers_own(void)
{
        struct host h = {.delegated = "system.slice/sandglass.service"};
        char place[CGROUP_PLACE_MAX];

        cgroup_place_choose("/system.slice/sandglass.service/server", is_delegated, &h, place);
        CHECK_STR(place, "system.slice/sandglass.service");
}

static void is_never_the_servers_own_group(void)
{
        struct host h = {.delegated = "system.slice/sandglass.service"};
        char place[CGROUP_PLACE_MAX] = "?";

        cgroup_place_choose("/system.slice/sandglass.service", is_delegated, &h, place);
        CHECK_STR(place, "");
}

static void is_the_top_where_another_manager_is_in_between(void)
{
        struct host h = {.delegated = "user.slice/user@1000.service"};
        char place[CGROUP_PLACE_MAX] = "?";

        cgroup_place_choose("/user.slice/user@1000.service/app.slice/terminal.scope", is_delegated, &h, place);
        CHECK_STR(place, "");
        CHECK_INT(h.asked, ==, 1);
}

static void is_the_top_for_a_server_at_the_top(void)
{
        static const char *const own[] = {"/", "/one", "", "x/y"};

        for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
                struct host h = {.delegated = ""};
                char place[CGROUP_PLACE_MAX] = "?";

                cgroup_place_choose(own[i], is_delegated, &h, place);
                CHECK_STR(place, "");
                CHECK_INT(h.asked, ==, 0);
        }
}

static void is_the_top_for_a_path_that_is_too_long(void)
{
        struct host h = {0};
        char own[CGROUP_PLACE_MAX + 16], place[CGROUP_PLACE_MAX] = "?";

        memset(own, 'a', sizeof(own));
        own[0] = '/';
        memcpy(own + sizeof(own) - 3, "/b", 3);
        cgroup_place_choose(own, is_delegated, &h, place);
        CHECK_STR(place, "");
        CHECK_INT(h.asked, ==, 0);
}

static void reads_the_line_of_v2(void)
{
        char own[CGROUP_PLACE_MAX];

        CHECK(cgroup_place_parse("0::/a/b\n", own));
        CHECK_STR(own, "/a/b");
        CHECK(cgroup_place_parse("4:memory:/m\n1:cpu:/\n0::/\n", own));
        CHECK_STR(own, "/");
        CHECK(cgroup_place_parse("0::/a:b (deleted)", own));
        CHECK_STR(own, "/a:b (deleted)");
}

static void says_when_there_is_no_such_line(void)
{
        char own[CGROUP_PLACE_MAX], text[CGROUP_PLACE_MAX + 16];

        CHECK(!cgroup_place_parse("", own));
        CHECK(!cgroup_place_parse("4:memory:/m\n1:name=systemd:/x\n", own));
        (void)snprintf(text, sizeof(text), "0::/%0*d\n", CGROUP_PLACE_MAX, 0);
        CHECK(!cgroup_place_parse(text, own));
}

int main(void)
{
        RUN(is_the_delegated_group_above_the_servers_own);
        RUN(is_never_the_servers_own_group);
        RUN(is_the_top_where_another_manager_is_in_between);
        RUN(is_the_top_for_a_server_at_the_top);
        RUN(is_the_top_for_a_path_that_is_too_long);
        RUN(reads_the_line_of_v2);
        RUN(says_when_there_is_no_such_line);
        return tap_done();
}
