#include "base/auto.h"
#include "base/err.h"
#include "image/challenge.h"
#include "image/image_ref.h"
#include "image/registry_url.h"
#include "model/conf.h"

#include "tap.h"

#define SUM "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void names_become_canonical(void)
{
        static const struct {
                const char *text, *name;
        } cases[] = {
                {"python:3.11", "docker.io/library/python:3.11"},
                {"python", "docker.io/library/python:latest"},
                {" node:18 AS build", "docker.io/library/node:18"},
                {"oven/bun:latest", "docker.io/oven/bun:latest"},
                {"index.docker.io/a/b", "docker.io/a/b:latest"},
                {"docker.io/alpine", "docker.io/library/alpine:latest"},
                {"localhost/a", "localhost/a:latest"},
                {"localhost:5000/a/b/c:x", "localhost:5000/a/b/c:x"},
                {"127.0.0.1:5000/a:1", "127.0.0.1:5000/a:1"},
                {"[::1]:5000/a:1", "[::1]:5000/a:1"},
                {"GHCR.io/a/b", "ghcr.io/a/b:latest"},
                {"a/b@sha256:" SUM, "docker.io/a/b@sha256:" SUM},
                {"a/b:t@sha256:" SUM, "docker.io/a/b@sha256:" SUM},
                {"a__b/c--d/e.f:V1_x.y-z", "docker.io/a__b/c--d/e.f:V1_x.y-z"},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                char name[IMAGE_NAME_MAX], again[IMAGE_NAME_MAX];
                struct image_ref ref;
                struct err err = {0};

                CHECK_INT(image_ref_parse(str_of(cases[i].text), &ref, &err), ==, 0);
                image_ref_name(&ref, name);
                CHECK_STR(name, cases[i].name);
                CHECK_INT(image_ref_parse(str_of(name), &ref, &err), ==, 0);
                image_ref_name(&ref, again);
                CHECK_STR(again, name);
        }
}

static void other_text_is_no_name(void)
{
        static const char *const cases[] = {
                "",        " ",      ":1",      "a:",         "a:-x",        "a::b",   "Upper",        "a/",
                "/a",      "a//b",   "a/../b",  "-a",         "a-",          "a___b",  "a._b",         "a@sha256:1",
                "a@md5:1", "a\tb:c", "a.b:x/c", "a.b:0/c",    "a.b:65536/c", "[::1/a", "[zz]:1/a",     "a?b",
                "a#b",     "a\\b",   "a%2fb",   "http://a/b", "user@host/a", "a\nb",   "localhost:/a",
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct image_ref ref;
                struct err err = {0};

                if (image_ref_parse(str_of(cases[i]), &ref, &err) == 0)
                        CHECK_STR(cases[i], "refused");
                CHECK_INT(err.kind, ==, ERR_INVALID);
        }
}

static void challenges_are_read(void)
{
        struct challenge c;

        challenge_parse(STR("Bearer realm=\"https://a/token\",service=\"s\\\"x\",scope=\"repository:a/b:pull\""), &c);
        CHECK_INT(c.kind, ==, CHALLENGE_BEARER);
        CHECK_STR(c.realm, "https://a/token");
        CHECK_STR(c.service, "s\"x");
        CHECK_STR(c.scope, "repository:a/b:pull");
        challenge_parse(STR("Basic realm=x, bearer realm=https://b/t"), &c);
        CHECK_INT(c.kind, ==, CHALLENGE_BEARER);
        CHECK_STR(c.realm, "https://b/t");
        challenge_parse(STR("Basic realm=\"x\""), &c);
        CHECK_INT(c.kind, ==, CHALLENGE_BASIC);
        challenge_parse(STR("Bearer service=\"no realm\""), &c);
        CHECK_INT(c.kind, ==, CHALLENGE_NONE);
        challenge_parse(STR("Bearer realm=\"never ends"), &c);
        CHECK_INT(c.kind, ==, CHALLENGE_NONE);
        challenge_parse(STR("Negotiate"), &c);
        CHECK_INT(c.kind, ==, CHALLENGE_NONE);
}

static struct registry_url url(const char *text)
{
        struct registry_url u = {0};

        (void)registry_url_parse(str_of(text), &u, NULL);
        return u;
}

static void passwords_go_to_their_own_registry_only(void)
{
        static const struct {
                const char *registry, *realm;
                bool may;
        } cases[] = {
                {"https://r.example", "https://r.example/t", true},
                {"https://r.example", "https://r.example:8443/t", true},
                {"https://registry.gitlab.com", "https://gitlab.com/jwt", true},
                {"https://registry-1.docker.io", "https://auth.docker.io/token", true},
                {"https://r.example", "https://auth.docker.io/token", false},
                {"https://a.co.uk", "https://b.co.uk/t", false},
                {"https://gitlab.com", "https://registry.gitlab.com/t", false},
                {"https://xgitlab.com", "https://gitlab.com/t", false},
                {"https://a.example", "https://example/t", false},
                {"https://10.1.2.3", "https://2.3/t", false},
                {"https://r.example", "http://r.example/t", false},
                {"http://127.0.0.1:5000", "http://127.0.0.1:5001/t", true},
                {"http://127.0.0.1:5000", "http://localhost:5001/t", false},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct registry_url registry = url(cases[i].registry), realm = url(cases[i].realm);

                if (registry_may_send_password(&registry, &realm) != cases[i].may)
                        CHECK_STR(cases[i].registry, cases[i].realm);
        }
}

static void strange_urls_are_refused(void)
{
        static const char *const cases[] = {"",
                                            "ftp://a",
                                            "https://",
                                            "https://u@a/",
                                            "https://a b/",
                                            "https://a\\b/",
                                            "https://a/#x",
                                            "https://a:0/",
                                            "https://a:x/",
                                            "https://a:70000/",
                                            "https://[::1/",
                                            "https://a\xc3\xa4/",
                                            "//a/b",
                                            "https:/a"};

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct registry_url u;
                struct err err = {0};

                if (registry_url_parse(str_of(cases[i]), &u, &err) == 0)
                        CHECK_STR(cases[i], "refused");
                CHECK_INT(err.kind, ==, ERR_INVALID);
        }
}

static void redirects_follow_the_rules(void)
{
        static const struct {
                const char *from, *to;
                bool may;
        } cases[] = {
                {"https://a.example", "https://b.example/x", true},
                {"https://a.example", "http://a.example/x", false},
                {"https://a.example", "https://127.0.0.1/x", false},
                {"https://a.example", "https://[::1]/x", false},
                {"http://127.0.0.1:1", "http://127.0.0.1:2/x", true},
                {"http://127.0.0.1:1", "https://b.example/x", true},
                {"http://127.0.0.1:1", "http://b.example/x", false},
                {"http://127.0.0.1:1", "http://plain.example/x", true},
        };
        json_t *obj = json_pack("{s:[s]}", "insecure_registries", "plain.example");
        struct conf c;

        CHECK_INT(conf_defaults(&c, "/d", NULL), ==, 0);
        CHECK_INT(conf_apply_json(&c, obj, NULL), ==, 0);
        json_decref(obj);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct registry_url from = url(cases[i].from), to = url(cases[i].to);
                struct err err = {0};

                if ((registry_may_follow(&c, &from, &to, &err) == 0) != cases[i].may)
                        CHECK_STR(cases[i].from, cases[i].to);
        }
        conf_done(&c);
}

int main(void)
{
        RUN(names_become_canonical);
        RUN(other_text_is_no_name);
        RUN(challenges_are_read);
        RUN(passwords_go_to_their_own_registry_only);
        RUN(strange_urls_are_refused);
        RUN(redirects_follow_the_rules);
        return tap_done();
}
