/* Users, paths, settings, tokens. */
#include <errno.h>

#include "envd/rpc/auth.h"
#include "envd/rpc/paths.h"
#include "envd/rpc/settings.h"
#include "envd/rpc/users.h"
#include "tap.h"

static void fill(struct users *us, const char *passwd, const char *group)
{
        users_init(us);
        (void)buf_addc(&us->passwd, passwd);
        (void)buf_addc(&us->group, group);
}

static void finds_a_user_with_home_and_groups(void)
{
        AUTO_USERS struct users us;
        AUTO_USER struct user u = {0};

        fill(&us, "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1001:,,,:/home/user:/bin/bash\n",
             "root:x:0:\nsudo:x:27:admin,user\nuser:x:1001:\ndocker:x:999:user,other\nusers:x:100:xuser,user2\n");
        CHECK_INT(users_find(&us, STR("user"), &u), ==, 0);
        CHECK_STR(u.name, "user");
        CHECK_STR(u.home, "/home/user");
        CHECK_INT(u.uid, ==, 1000);
        CHECK_INT(u.gid, ==, 1001);
        CHECK_INT(u.group_count, ==, 3);
        CHECK_INT(u.groups[0], ==, 1001); /* the primary one first */
        CHECK_INT(u.groups[1], ==, 27);
        CHECK_INT(u.groups[2], ==, 999);
}

static void passes_over_lines_that_are_none(void)
{
        AUTO_USERS struct users us;
        AUTO_USER struct user u = {0};

        fill(&us,
             "\n# comment\n+::::::\n:x:5:5::/:\nuser\nuser:x\nuser:x:-1:0::/a:\nuser:x:99999999999:0::/a:\n"
             "user:x:0x10:0::/a:\nuser:x:7:8::/right",
             "");
        CHECK_INT(users_find(&us, STR("user"), &u), ==, 0);
        CHECK_INT(u.uid, ==, 7);
        CHECK_STR(u.home, "/right"); /* no shell, no line end */
        CHECK_INT(users_find(&us, STR(""), &u), ==, -ENOENT);
        CHECK_INT(users_find(&us, STR("use"), &u), ==, -ENOENT);
        CHECK_INT(users_find(&us, (struct str){"user\0", 5}, &u), ==, -ENOENT);
}

static void an_empty_home_is_the_root(void)
{
        AUTO_USERS struct users us;
        AUTO_USER struct user u = {0};

        fill(&us, "x:x:1:1:::/bin/sh\n", "");
        CHECK_INT(users_find(&us, STR("x"), &u), ==, 0);
        CHECK_STR(u.home, "/");
}

static void keeps_to_the_limit_of_groups(void)
{
        AUTO_USERS struct users us;
        AUTO_USER struct user u = {0};

        fill(&us, "u:x:1:1::/:/bin/sh\n", "");
        for (int i = 0; i < 200; i++)
                (void)buf_addf(&us.group, "g%d:x:%d:u\n", i, 1000 + i);
        CHECK_INT(users_find(&us, STR("u"), &u), ==, 0);
        CHECK_INT(u.group_count, ==, USER_GROUPS_MAX);
}

static void names_ids(void)
{
        AUTO_USERS struct users us;

        fill(&us, "root:x:0:0:root:/root:/bin/bash\n", "wheel:x:10:\n");
        CHECK(str_is(users_name(&us, 0), "root"));
        CHECK(str_is(users_group_name(&us, 10), "wheel"));
        CHECK_INT(users_name(&us, 5).n, ==, 0);
}

static void cleans_paths(void)
{
        static const struct {
                const char *in, *out;
        } cases[] = {{"/a/./b//../c/", "/a/c"},
                     {"/..", "/"},
                     {"/../../x", "/x"},
                     {"", "."},
                     {"a/..", "."},
                     {"../a", "../a"},
                     {"a/../../b", "../b"},
                     {"../../a/..", "../.."},
                     {"//a", "/a"},
                     {"/a/b/../..", "/"},
                     {".", "."}};

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_FREE char *got = path_clean(str_of(cases[i].in));

                CHECK_STR(got, cases[i].out);
        }
}

static void names_the_last_component(void)
{
        CHECK(str_is(path_base("/a/b"), "b"));
        CHECK(str_is(path_base("/a/b//"), "b"));
        CHECK(str_is(path_base("/"), "/"));
        CHECK(str_is(path_base("///"), "/"));
        CHECK(str_is(path_base("x"), "x"));
        CHECK(str_is(path_base(""), "."));
}

static void expands_paths_for_a_user(void)
{
        struct user u = {.name = (char *)"user", .home = (char *)"/home/user"};
        static const struct {
                const char *in, *workdir, *out;
        } cases[] = {{NULL, NULL, "/home/user"},
                     {"", NULL, "/home/user"},
                     {"", "/code", "/code"},
                     {"~", "/code", "/home/user"},
                     {"~/a/../b", NULL, "/home/user/b"},
                     {"x/./y", "/code", "/home/user/x/y"},
                     {"/a/../b/", NULL, "/a/../b/"},
                     {"../x", NULL, "/home/x"}};

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_FAULT struct fault f = {0};
                AUTO_FREE char *got = NULL;

                CHECK_INT(path_expand(cases[i].in, &u, cases[i].workdir, &got, &f), ==, 0);
                CHECK_STR(got, cases[i].out);
        }
}

static void refuses_homes_of_others(void)
{
        struct user u = {.name = (char *)"user", .home = (char *)"/home/user"};
        AUTO_FAULT struct fault f = {0};
        char *got = NULL;

        CHECK_INT(path_expand("~bob/x", &u, NULL, &got, &f), ==, -1);
        CHECK_INT(f.code, ==, CONNECT_INVALID_ARGUMENT);
        CHECK_STR(f.text, "failed to expand path '' for user 'user': cannot expand user-specific home dir");
        CHECK(!got);
}

static void signs_as_clients_do(void)
{
        struct auth_signed q = {.path = "hello.txt", .user = "user"};
        char out[SIGNATURE_MAX];

        auth_signature(&q, "read", "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0", out);
        CHECK_STR(out, "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
}

static void checks_signatures_in_order(void)
{
        struct settings s = {.token = (char *)"t"};
        static struct http1_head head;
        struct auth_signed q = {.path = "p", .expiration = "100"};
        char sig[SIGNATURE_MAX];

        CHECK_STR(auth_files(&s, &head, &q, "read", 0), "missing signature query parameter");
        auth_signature(&q, "read", "t", sig);
        q.signature = sig;
        CHECK(auth_files(&s, &head, &q, "read", 100) == NULL); /* the very second is still fine */
        CHECK_STR(auth_files(&s, &head, &q, "read", 101), "signature is already expired");
        CHECK_STR(auth_files(&s, &head, &q, "write", 101), "invalid signature");
        s.token = NULL;
        CHECK(auth_files(&s, &head, &q, "write", 101) == NULL);
}

static void applies_settings_whole_or_not_at_all(void)
{
        AUTO_FAULT struct fault f = {0};
        struct settings s;
        json_t *init = json_pack("{s:s, s:s, s:{s:i}}", "accessToken", "t", "defaultUser", "u", "envVars", "A", 1);
        json_t *good = json_pack("{s:s, s:{s:s}, s:s}", "accessToken", "t", "envVars", "A", "1", "sandboxID", "i1");
        json_t *none = json_object(), *env;

        CHECK_INT(settings_init(&s), ==, 0);
        CHECK_INT(settings_apply(&s, init, &f), ==, -1);
        CHECK(!s.token);
        CHECK_STR(s.default_user, "root");
        CHECK_INT(settings_apply(&s, good, &f), ==, 0);
        CHECK_STR(s.token, "t");
        env = settings_env(&s);
        CHECK_STR(json_string_value(json_object_get(env, "A")), "1");
        CHECK_STR(json_string_value(json_object_get(env, "E2B_SANDBOX_ID")), "i1");
        CHECK_STR(json_string_value(json_object_get(env, "E2B_SANDBOX")), "true");
        CHECK(!json_object_get(env, "E2B_TEMPLATE_ID"));
        json_decref(env);
        CHECK_INT(settings_apply(&s, none, &f), ==, 0); /* no token clears it, no variables keep them */
        CHECK(!s.token);
        CHECK_INT(json_object_size(s.vars), ==, 1);
        settings_done(&s);
        json_decref(init);
        json_decref(good);
        json_decref(none);
}

int main(void)
{
        RUN(finds_a_user_with_home_and_groups);
        RUN(passes_over_lines_that_are_none);
        RUN(an_empty_home_is_the_root);
        RUN(keeps_to_the_limit_of_groups);
        RUN(names_ids);
        RUN(cleans_paths);
        RUN(names_the_last_component);
        RUN(expands_paths_for_a_user);
        RUN(refuses_homes_of_others);
        RUN(signs_as_clients_do);
        RUN(checks_signatures_in_order);
        RUN(applies_settings_whole_or_not_at_all);
        return tap_done();
}
