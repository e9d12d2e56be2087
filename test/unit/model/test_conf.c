#include "base/auto.h"
#include "base/err.h"
#include "model/conf.h"

#include "tap.h"

static void conf_done_p(struct conf *c)
{
        conf_done(c);
}
static void json_p(json_t **j)
{
        json_decref(*j);
}
#define AUTO_CONF AUTO(conf_done_p)
#define AUTO_JSON AUTO(json_p)

static int apply(struct conf *c, const char *text, struct err *err)
{
        AUTO_JSON json_t *obj = json_loads(text, JSON_DECODE_ANY, NULL);

        return conf_apply_json(c, obj, err);
}

static void defaults_pass_their_own_check(void)
{
        AUTO_CONF struct conf c = {0};
        struct err e = {0};
        AUTO_FREE char *path = NULL;

        CHECK_INT(conf_defaults(&c, "/d", &e), ==, 0);
        CHECK_INT(conf_check(&c, &e), ==, 0);
        CHECK_STR(c.images_dir, "/d/images");
        CHECK_INT(c.fds.http, ==, -1);
        path = conf_path(&c, "run/api.sock");
        CHECK_STR(path, "/d/run/api.sock");
}

static void a_relative_data_directory_is_refused(void)
{
        struct conf c = {0};
        struct err e = {0};

        CHECK_INT(conf_defaults(&c, "data", &e), <, 0);
        CHECK_INT(e.kind, ==, ERR_INVALID);
}

static void a_file_overrides_defaults(void)
{
        AUTO_CONF struct conf c = {0};
        struct err e = {0};

        CHECK_INT(conf_defaults(&c, "/d", &e), ==, 0);
        CHECK_INT(apply(&c, "{\"listen\":\"[::1]:80\",\"pool_size\":0,\"stop_sandboxes\":true}", &e), ==, 0);
        CHECK_STR(c.listen, "[::1]:80");
        CHECK_INT(c.pool_size, ==, 0);
        CHECK(c.stop_sandboxes);
        CHECK_INT(conf_check(&c, &e), ==, 0);
}

static void bad_keys_and_values_are_named(void)
{
        static const struct {
                const char *json, *message;
        } cases[] = {
                {"{\"lisen\":\"x\"}", "lisen: unknown key"},
                {"{\"data_dir\":\"/x\"}", "data_dir: unknown key"},
                {"{\"fds\":{}}", "fds: unknown key"},
                {"{\"listen\":3000}", "listen: must be text"},
                {"{\"listen\":\"\"}", "listen: must not be empty or hold a NUL"},
                {"{\"listen\":\"a\\u0000b\"}", "configuration: must be a JSON object"}, /* the parser refuses it */
                {"{\"edge_count\":257}", "edge_count: must be from 0 to 256"},
                {"{\"edge_count\":-1}", "edge_count: must be from 0 to 256"},
                {"{\"edge_count\":1.5}", "edge_count: must be a whole number"},
                {"{\"control_uid\":0}", "control_uid: must be from 1 to 4294967294"},
                {"{\"stop_sandboxes\":1}", "stop_sandboxes: must be true or false"},
                {"{\"registries\":[]}", "registries: must be an object"},
                {"{\"sandbox_env\":[]}", "sandbox_env: must be an object"},
                {"{\"sandbox_env\":{\"A\":1}}", "sandbox_env: 'A' must be text, not empty and without NUL"},
                {"{\"sandbox_dns\":\"9.9.9.9\"}", "sandbox_dns: must be a list"},
                {"{\"registries\":{\"a\":1}}", "registries: 'a' must be text, not empty and without NUL"},
                {"{\"insecure_registries\":{}}", "insecure_registries: must be a list"},
                {"{\"insecure_registries\":[\"a\",\"\"]}",
                 "insecure_registries: item 2 must be text, not empty and without NUL"},
                {"[]", "configuration: must be a JSON object"},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_CONF struct conf c = {0};
                struct err e = {0};

                CHECK_INT(conf_defaults(&c, "/d", &e), ==, 0);
                CHECK_INT(apply(&c, cases[i].json, &e), <, 0);
                CHECK_INT(e.kind, ==, ERR_INVALID);
                CHECK_STR(e.msg, cases[i].message);
        }
}

static void the_whole_is_checked(void)
{
        static const char *const bad[] = {
                "{\"listen\":\"127.0.0.1\"}",
                "{\"tls_listen\":\"127.0.0.1:70000\"}",
                "{\"domain\":\"UPPER.example\"}",
                "{\"domain\":\"a..b\"}",
                "{\"domain\":\"a.b:0\"}",
                "{\"domain\":\"-a.b\"}",
                "{\"domain\":\"a b\"}",
                "{\"domain\":\"a:b:1\"}",
                "{\"tls_cert\":\"/c.pem\"}",
                "{\"tls_cert\":\"c.pem\",\"tls_key\":\"/k\"}",
                "{\"log_level\":\"loud\"}",
                "{\"sandbox_ca\":\"company.crt\"}",
                "{\"sandbox_env\":{\"A=B\":\"x\"}}",
                "{\"sandbox_dns\":[]}",
                "{\"sandbox_dns\":[\"dns.example\"]}",
                "{\"sandbox_dns\":[\"1.1.1.1\",\"1.1.1.2\",\"1.1.1.3\",\"1.1.1.4\"]}",
                "{\"images_dir\":\"images\"}",
                "{\"control_uid\":5,\"edge_uid\":5}",
                "{\"puller_uid\":5,\"builder_uid\":5}",
                "{\"registries\":{\"docker.io\":\"http://mirror.example\"}}",
                "{\"registries\":{\"docker.io\":\"mirror.example\"}}",
                "{\"registries\":{\"docker.io\":\"https://u:p@mirror.example\"}}",
                "{\"registries\":{\"docker.io\":\"https://mirror.example/x\"}}",
                "{\"registries\":{\"docker/io\":\"https://mirror.example\"}}",
                "{\"insecure_registries\":[\"http://a\"]}",
                "{\"registry_proxy\":\"proxy\"}",
                "{\"registry_aws_url\":\"http://a.example\"}",
        };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                AUTO_CONF struct conf c = {0};
                struct err e = {0};

                CHECK_INT(conf_defaults(&c, "/d", &e), ==, 0);
                CHECK_INT(apply(&c, bad[i], &e), ==, 0);
                if (conf_check(&c, &e) == 0)
                        CHECK_STR(bad[i], "refused");
                CHECK_INT(e.kind, ==, ERR_INVALID);
        }
}

static void plain_http_for_other_machines_must_be_insisted_on(void)
{
        static const struct {
                const char *listen;
                bool is_local;
        } cases[] = {
                {"127.0.0.1:3000", true}, {"127.1.2.3:0", true},     {"[::1]:80", true},   {"0.0.0.0:3000", false},
                {":3000", false},         {"192.168.1.2:80", false}, {"[::]:3000", false}, {"[fe80::1]:80", false},
                {"1270.0.0.1:1", false},  {"128.0.0.1:3000", false},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_CONF struct conf c = {0};
                char json[120];
                struct err e = {0};

                CHECK_INT(conf_is_loopback(cases[i].listen), ==, cases[i].is_local);
                CHECK_INT(conf_defaults(&c, "/d", &e), ==, 0);
                (void)snprintf(json, sizeof(json), "{\"listen\":\"%s\",\"tls_listen\":\"%s\"}", cases[i].listen,
                               cases[i].listen);
                CHECK_INT(apply(&c, json, &e), ==, 0);
                CHECK_INT(conf_check(&c, &e) == 0, ==, cases[i].is_local);
                if (cases[i].is_local)
                        continue;
                CHECK(strstr(e.msg, "plain HTTP") && strstr(e.msg, "--insecure-listen)")); /* not cut */
                CHECK_INT(apply(&c, "{\"insecure_listen\":true}", &e), ==, 0);
                CHECK_INT(conf_check(&c, &e), ==, 0);
        }
}

static void a_role_gets_what_was_encoded(void)
{
        AUTO_CONF struct conf c = {0}, back = {0};
        AUTO_JSON json_t *j = NULL, *k = NULL;
        struct err e = {0};

        CHECK_INT(conf_defaults(&c, "/d", &e), ==, 0);
        CHECK_INT(apply(&c,
                        "{\"domain\":\"sbx.example.com:8443\",\"sandboxes_max\":7,\"sandbox_env\":{\"A\":\"b\"},"
                        "\"sandbox_dns\":[\"10.0.0.1\",\"::1\"]}",
                        &e),
                  ==, 0);
        c.fds.api = 4;
        c.fds.tls_key = 9;
        j = conf_encode(&c);
        CHECK_INT(conf_decode(j, &back, &e), ==, 0);
        k = conf_encode(&back);
        CHECK(json_equal(j, k));
        CHECK_INT(back.fds.api, ==, 4);
        CHECK_INT(back.fds.dial, ==, -1);
        CHECK_STR(back.domain, "sbx.example.com:8443");
        CHECK(!back.tls_cert);
}

static void a_role_refuses_what_it_does_not_know(void)
{
        AUTO_CONF struct conf c = {0};
        AUTO_JSON json_t *j = NULL;
        struct conf back;
        struct err e = {0};

        CHECK_INT(conf_defaults(&c, "/d", &e), ==, 0);
        j = conf_encode(&c);
        (void)json_object_set_new(json_object_get(j, "fds"), "door", json_integer(4));
        CHECK_INT(conf_decode(j, &back, &e), <, 0);
        CHECK_STR(e.msg, "fds.door: unknown key");
        (void)json_object_del(j, "data_dir");
        CHECK_INT(conf_decode(j, &back, &e), <, 0);
}

static void addresses_are_split(void)
{
        struct str host;
        uint16_t port = 1;

        CHECK_INT(conf_split_address(STR("[::1]:3000"), &host, &port), ==, 0);
        CHECK(str_is(host, "[::1]"));
        CHECK_INT(port, ==, 3000);
        CHECK_INT(conf_split_address(STR(":0"), &host, &port), ==, 0);
        CHECK_INT(host.n, ==, 0);
        CHECK_INT(port, ==, 0);
        CHECK_INT(conf_split_address(STR("localhost"), &host, &port), <, 0);
        CHECK_INT(conf_split_address(STR("a:65536"), &host, &port), <, 0);
        CHECK_INT(conf_split_address(STR("a:"), &host, &port), <, 0);
}

int main(void)
{
        RUN(defaults_pass_their_own_check);
        RUN(a_relative_data_directory_is_refused);
        RUN(a_file_overrides_defaults);
        RUN(bad_keys_and_values_are_named);
        RUN(the_whole_is_checked);
        RUN(plain_http_for_other_machines_must_be_insisted_on);
        RUN(a_role_gets_what_was_encoded);
        RUN(a_role_refuses_what_it_does_not_know);
        RUN(addresses_are_split);
        return tap_done();
}
