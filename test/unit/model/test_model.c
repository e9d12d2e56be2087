#include "base/err.h"
#include "model/request/create_request.h"
#include "model/deadlines.h"
#include "model/lifetime.h"
#include "model/request/listing.h"
#include "model/request/network.h"
#include "model/template.h"
#include "model/template_ref.h"

#include "tap.h"

#define S_NS INT64_C(1000000000)

static void free_json(json_t **v)
{
        json_decref(*v);
}
#define AUTO_JSON AUTO(free_json)

static json_t *parse(const char *text)
{
        return json_loads(text, 0, NULL);
}

/* ---- template references ---- */

static void a_reference_may_have_namespace_and_tag(void)
{
        struct template_ref ref;

        CHECK_INT(template_ref_parse(STR(" Acme/My-App_2:v1.0 "), &ref, NULL), ==, 0);
        CHECK_STR(ref.ns, "acme");
        CHECK_STR(ref.name, "my-app_2");
        CHECK_STR(ref.tag, "v1.0");
        CHECK(!template_ref_is_newest(&ref));
        CHECK_INT(template_ref_parse(STR("base"), &ref, NULL), ==, 0);
        CHECK_STR(ref.ns, "");
        CHECK_STR(ref.tag, "");
        CHECK(template_ref_is_newest(&ref));
        CHECK_INT(template_ref_parse(STR("base:default"), &ref, NULL), ==, 0);
        CHECK(template_ref_is_newest(&ref));
        CHECK_INT(template_ref_parse(STR("base:latest"), &ref, NULL), ==, 0);
        CHECK(template_ref_is_newest(&ref));
}

static void a_bad_reference_says_which_part(void)
{
        static const struct {
                const char *text, *says;
        } bad[] = {
                {"", "invalid template ID: "},
                {"base:", "invalid tag: "},
                {":tag", "invalid template ID: "},
                {"/base", "invalid namespace: "},
                {"a b", "invalid template ID: a b"},
                {"x/", "invalid template ID: "},
                {"a/b/c", "invalid template ID: b/c"},
                {"base:a:b", "invalid tag: a:b"},
                {"ba\xc3\xa9", "invalid template ID: ba\xc3\xa9"},
                {"../etc", "invalid namespace: .."},
                {"a!/b", "invalid namespace: a!"},
        };
        struct template_ref ref;
        struct err err;
        char long_name[200];

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                CHECK_INT(template_ref_parse(str_of(bad[i].text), &ref, &err), <, 0);
                CHECK_STR(err.msg, bad[i].says);
        }
        CHECK_INT(template_ref_parse((struct str){"a\0b", 3}, &ref, &err), <, 0);
        memset(long_name, 'a', sizeof(long_name));
        CHECK_INT(template_ref_parse((struct str){long_name, 128}, &ref, &err), ==, 0);
        CHECK_INT(template_ref_parse((struct str){long_name, 129}, &ref, &err), <, 0);
}

/* ---- manifests ---- */

static const struct template_defaults defaults = {.cpu_count = 2, .memory_mb = 512, .disk_mb = 1024};

static void a_manifest_gives_a_template(void)
{
        AUTO_JSON json_t *m =
                parse("{\"alias\":\"base\",\"templateID\":\"abcdefghij0123456789\",\"layers\":[\"l1\",\"l2\"],"
                      "\"cpuCount\":4,\"defaultUser\":\"user\",\"builtAt\":\"2026-01-01T00:00:00Z\"}");
        struct template *t = NULL;

        CHECK_INT(template_decode(m, &defaults, &t, NULL), ==, 0);
        CHECK_STR(t->alias, "base");
        CHECK_STR(t->id, "abcdefghij0123456789");
        CHECK_INT(t->layer_count, ==, 2);
        CHECK_STR(t->layers[1], "l2");
        CHECK_INT(t->cpu_count, ==, 4);
        CHECK_INT(t->memory_mb, ==, 512);
        CHECK_STR(t->default_user, "user");
        CHECK(!t->default_workdir);
        t = template_free(t);
}

static void a_broken_manifest_is_refused(void)
{
        static const char *const bad[] = {
                "[]",
                "{}",
                "{\"alias\":\"base\",\"templateID\":\"short\",\"layers\":[\"l1\"]}",
                "{\"alias\":\"base\",\"templateID\":\"abcdefghij012345678/\",\"layers\":[\"l1\"]}",
                "{\"alias\":\"a/b\",\"templateID\":\"abcdefghij0123456789\",\"layers\":[\"l1\"]}",
                "{\"templateID\":\"abcdefghij0123456789\",\"layers\":[\"l1\"]}",
                "{\"alias\":\"base\",\"templateID\":\"abcdefghij0123456789\",\"layers\":[]}",
                "{\"alias\":\"base\",\"templateID\":\"abcdefghij0123456789\",\"layers\":[\"../x\"]}",
                "{\"alias\":\"base\",\"templateID\":\"abcdefghij0123456789\",\"layers\":[1]}",
                "{\"alias\":\"base\",\"templateID\":\"abcdefghij0123456789\",\"layers\":[\"a\"],\"cpuCount\":0}",
                "{\"alias\":\"base\",\"templateID\":\"abcdefghij0123456789\",\"layers\":[\"a\"],\"memoryMB\":\"x\"}",
        };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                AUTO_JSON json_t *m = parse(bad[i]);
                struct template *t = NULL;
                struct err err = {0};

                CHECK(m);
                CHECK_INT(template_decode(m, &defaults, &t, &err), <, 0);
                CHECK(!t && err.kind == ERR_INVALID && err.msg[0]);
        }
}

/* ---- lifetimes ---- */

static void a_timeout_sets_the_end_within_the_longest_life(void)
{
        struct lifetime l = {.started_ns = 0, .end_ns = 100 * S_NS, .max_s = 1000};
        struct err err;
        int64_t end = 0;

        CHECK_INT(lifetime_set(&l, 10 * S_NS, 20, &end, NULL), ==, 0);
        CHECK_INT(end, ==, 30 * S_NS);
        CHECK_INT(lifetime_set(&l, 10 * S_NS, 0, &end, NULL), ==, 0);
        CHECK_INT(end, ==, 10 * S_NS);
        CHECK_INT(lifetime_set(&l, 10 * S_NS, INT32_MAX, &end, NULL), ==, 0);
        CHECK_INT(end, ==, 1000 * S_NS);
        CHECK_INT(lifetime_set(&l, 1000 * S_NS, 5, &end, &err), <, 0);
        CHECK_STR(err.msg, "Max instance length exceeded");
}

static void extending_never_shortens(void)
{
        struct lifetime l = {.started_ns = 0, .end_ns = 100 * S_NS, .max_s = 1000};

        CHECK_INT(lifetime_extend(&l, 10 * S_NS, 20), ==, 100 * S_NS);
        CHECK_INT(lifetime_extend(&l, 90 * S_NS, 20), ==, 110 * S_NS);
        CHECK_INT(lifetime_extend(&l, 90 * S_NS, 2000), ==, 1000 * S_NS);
}

static void the_longest_life_is_named_in_its_unit(void)
{
        struct err err;

        CHECK_INT(lifetime_check_max(86400, 86400, &err), ==, 0);
        CHECK_INT(lifetime_check_max(86401, 86400, &err), <, 0);
        CHECK_STR(err.msg, "Timeout cannot be greater than 24 hours");
        CHECK_INT(lifetime_check_max(86401, 120, &err), <, 0);
        CHECK_STR(err.msg, "Timeout cannot be greater than 2 minutes");
        CHECK_INT(lifetime_check_max(86401, 61, &err), <, 0);
        CHECK_STR(err.msg, "Timeout cannot be greater than 61 seconds");
}

static void the_first_deadline_comes_first(void)
{
        struct deadline nodes[200] = {0};
        struct deadlines d = {0};
        int64_t last = -1;
        size_t left = 0;

        for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
                CHECK_INT(deadlines_set(&d, &nodes[i], (int64_t)(i * 7919 % 1000)), ==, 0);
        for (size_t i = 0; i < ARRAY_LEN(nodes); i += 3)
                CHECK_INT(deadlines_set(&d, &nodes[i], (int64_t)(i * 104729 % 1000)), ==, 0);
        for (size_t i = 1; i < ARRAY_LEN(nodes); i += 5)
                deadlines_remove(&d, &nodes[i]);
        deadlines_remove(&d, &nodes[1]); /* again: nothing happens */
        for (struct deadline *n; (n = deadlines_first(&d)); left++) {
                CHECK(n->at_ns >= last);
                last = n->at_ns;
                deadlines_remove(&d, n);
        }
        CHECK_INT(left, ==, 160);
        deadlines_done(&d);
}

/* ---- network ---- */

static void no_network_means_the_internet(void)
{
        struct network n;

        CHECK_INT(network_decode(NULL, CHOICE_UNSET, &n, NULL), ==, 0);
        CHECK(n.plan.internet && n.is_public && !n.shown);
        network_done(&n);
        CHECK_INT(network_decode(NULL, CHOICE_NO, &n, NULL), ==, 0);
        CHECK(!n.plan.internet);
        network_done(&n);
}

static void networks_become_rules(void)
{
        AUTO_JSON json_t *config = parse("{\"allowOut\":[\"1.1.1.1\",\"8.8.8.9/24\"],"
                                         "\"denyOut\":[\"0.0.0.0/0\",\"9.0.0.0/8\",\"2001:db8::/32\"],"
                                         "\"allowPublicTraffic\":false,\"maskRequestHost\":\"a.example.com:${PORT}\","
                                         "\"egressProxy\":null,\"unknown\":1}");
        struct network n;

        CHECK_INT(network_decode(config, CHOICE_YES, &n, NULL), ==, 0);
        CHECK(!n.plan.internet && !n.is_public);
        CHECK_INT(n.plan.allow_count, ==, 2);
        CHECK_INT(n.plan.allow[0].addr, ==, 0x01010101);
        CHECK_INT(n.plan.allow[0].prefix, ==, 32);
        CHECK_INT(n.plan.allow[1].addr, ==, 0x08080800);
        CHECK_INT(n.plan.deny_count, ==, 1);
        CHECK_INT(n.plan.deny[0].addr, ==, 0x09000000);
        CHECK_INT(json_object_size(n.shown), ==, 4);
        network_done(&n);
}

static void bad_networks_are_refused_with_the_contracts_words(void)
{
        static const struct {
                const char *config, *says;
        } bad[] = {
                {"{\"denyOut\":[\"example.com\"]}", "invalid denied CIDR example.com"},
                {"{\"denyOut\":[\"0.0.0.0\"]}", "invalid denied CIDR 0.0.0.0"},
                {"{\"denyOut\":[\"::\"]}", "invalid denied CIDR ::"},
                {"{\"denyOut\":[\"::/0\"]}", "invalid denied CIDR ::/0"},
                {"{\"denyOut\":[\"1.2.3.4/0\"]}", "invalid denied CIDR 1.2.3.4/0"},
                {"{\"denyOut\":[\"1.2.3.4/33\"]}", "invalid denied CIDR 1.2.3.4/33"},
                {"{\"denyOut\":[\"1.2.3\"]}", "invalid denied CIDR 1.2.3"},
                {"{\"allowOut\":[\"0.0.0.0\"]}", "invalid allowed address 0.0.0.0"},
                {"{\"allowOut\":[\"a b\"]}", "invalid allowed address a b"},
                {"{\"allowOut\":[\"*\"]}", "invalid allowed address *"},
                {"{\"allowOut\":[\"\"]}", "invalid allowed address "},
                {"{\"allowOut\":[\"example.com\"]}", "When specifying allowed domains in allow out, you must include "
                                                     "'ALL_TRAFFIC' in deny out to block all "
                                                     "other traffic."},
                {"{\"allowOut\":[\"*.example.com\"],\"denyOut\":[\"0.0.0.0/0\"]}",
                 "domain '*.example.com' in allowOut is not supported by this server version: give IP addresses or "
                 "CIDRs"},
                {"{\"allowOut\":[\"2001:db8::1\"]}",
                 "IPv6 address '2001:db8::1' in allowOut is not supported: sandboxes have no IPv6"},
                {"{\"allowOut\":\"1.1.1.1\"}", "validation error: field 'allowOut' must be an array"},
                {"{\"allowOut\":[1]}", "validation error: field 'allowOut[0]' must be a string"},
                {"{\"maskRequestHost\":\"a b\"}", "maskRequestHost 'a b' is not host[:port]"},
                {"{\"maskRequestHost\":\"a:b\"}", "maskRequestHost 'a:b' is not host[:port]"},
                {"{\"maskRequestHost\":\"a\\r\\nX: y\"}", "maskRequestHost 'a\r\nX: y' is not host[:port]"},
                {"{\"maskRequestHost\":\"\"}", "maskRequestHost '' is not host[:port]"},
                {"{\"maskRequestHost\":\"a:\"}", "maskRequestHost 'a:' is not host[:port]"},
                {"{\"httpsPorts\":[443]}", "network.httpsPorts is not supported by this server version"},
                {"{\"rules\":{\"a.com\":[]}}", "network.rules is not supported by this server version"},
                {"{\"egressProxy\":{\"address\":\"a:1\"}}",
                 "network.egressProxy is not supported by this server version"},
        };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                AUTO_JSON json_t *config = parse(bad[i].config);
                struct network n;
                struct err err = {0};

                CHECK(config);
                CHECK_INT(network_decode(config, CHOICE_UNSET, &n, &err), <, 0);
                CHECK_STR(err.msg, bad[i].says);
                CHECK_INT(err.kind, ==, ERR_INVALID);
        }
}

/* ---- create requests ---- */

static void the_two_versions_have_their_defaults(void)
{
        AUTO_JSON json_t *body = parse("{\"templateID\":\"base\"}");
        struct create_request c;

        CHECK_INT(create_request_decode(body, CREATE_V1, 86400, &c, NULL), ==, 0);
        CHECK_INT(c.timeout_s, ==, 15);
        CHECK(!c.is_secured && c.internet == CHOICE_UNSET && !c.metadata && !c.env && !c.mcp);
        create_request_done(&c);
        CHECK_INT(create_request_decode(body, CREATE_V2, 86400, &c, NULL), ==, 0);
        CHECK_INT(c.timeout_s, ==, 300);
        CHECK(c.is_secured);
        create_request_done(&c);
        CHECK_INT(create_request_decode(body, CREATE_V2, 60, &c, NULL), ==, 0);
        CHECK_INT(c.timeout_s, ==, 60);
        create_request_done(&c);
}

static void a_full_request_is_taken(void)
{
        AUTO_JSON json_t *body =
                parse("{\"templateID\":\"base:default\",\"timeout\":60,\"secure\":true,\"autoPause\":false,"
                      "\"autoPauseMemory\":true,\"autoResume\":{\"enabled\":false},\"allow_internet_access\":false,"
                      "\"network\":{\"allowOut\":[\"1.1.1.1\"]},\"metadata\":{\"a\":\"b\"},\"envVars\":{\"X\":\"=y\"},"
                      "\"mcp\":{\"s\":{}},\"iam\":{},\"volumeMounts\":[],\"unknown\":[1,2]}");
        struct create_request c;

        CHECK_INT(create_request_decode(body, CREATE_V1, 86400, &c, NULL), ==, 0);
        CHECK(c.is_secured && c.internet == CHOICE_NO && !c.network.plan.internet);
        CHECK_STR(json_string_value(json_object_get(c.metadata, "a")), "b");
        CHECK_STR(json_string_value(json_object_get(c.env, "X")), "=y");
        CHECK(c.mcp);
        create_request_done(&c);
}

static void null_counts_as_absent(void)
{
        AUTO_JSON json_t *body = parse("{\"templateID\":\"base\",\"timeout\":null,\"mcp\":null,\"metadata\":null,"
                                       "\"network\":null,\"allow_internet_access\":null,\"autoResume\":null}");
        struct create_request c;

        CHECK_INT(create_request_decode(body, CREATE_V1, 86400, &c, NULL), ==, 0);
        CHECK(c.timeout_s == 15 && c.internet == CHOICE_UNSET);
        create_request_done(&c);
}

static void bad_requests_are_refused_with_the_contracts_words(void)
{
        static const struct {
                const char *body, *says;
        } bad[] = {
                {"[]", "validation error: the body must be an object"},
                {"{}", "validation error: field 'templateID' is required"},
                {"{\"templateID\":\"\"}", "validation error: field 'templateID' is required"},
                {"{\"templateID\":7}", "validation error: field 'templateID' must be a string"},
                {"{\"templateID\":\"a b\"}", "Invalid template reference: invalid template ID: a b"},
                {"{\"templateID\":\"b\",\"timeout\":0}", "Timeout must be greater than 0"},
                {"{\"templateID\":\"b\",\"timeout\":-5}", "Timeout must be greater than 0"},
                {"{\"templateID\":\"b\",\"timeout\":86401}", "Timeout cannot be greater than 24 hours"},
                {"{\"templateID\":\"b\",\"timeout\":1.5}", "validation error: field 'timeout' must be an integer"},
                {"{\"templateID\":\"b\",\"timeout\":99999999999}",
                 "validation error: field 'timeout' must be from -2147483648 to 2147483647"},
                {"{\"templateID\":\"b\",\"secure\":\"yes\"}", "validation error: field 'secure' must be true or false"},
                {"{\"templateID\":\"b\",\"autoPauseMemory\":false}",
                 "autoPauseMemory=false only applies when autoPause is true."},
                {"{\"templateID\":\"b\",\"autoPause\":true,\"autoPauseMemory\":false,\"autoResume\":{\"enabled\":true}"
                 "}",
                 "autoPauseMemory=false (filesystem-only auto-pause) cannot be combined with autoResume: waking on "
                 "traffic needs the memory."},
                {"{\"templateID\":\"b\",\"autoPause\":1}", "validation error: field 'autoPause' must be true or false"},
                {"{\"templateID\":\"b\",\"autoResume\":{\"enabled\":1}}",
                 "validation error: field 'enabled' must be true or false"},
                {"{\"templateID\":\"b\",\"autoResume\":true}",
                 "validation error: field 'autoResume' must be an object"},
                {"{\"templateID\":\"b\",\"metadata\":{\"a\":1}}",
                 "validation error: field 'metadata.a' must be a string"},
                {"{\"templateID\":\"b\",\"metadata\":[]}", "validation error: field 'metadata' must be an object"},
                {"{\"templateID\":\"b\",\"envVars\":{\"A=B\":\"\"}}",
                 "validation error: field 'envVars' has the name 'A=B': names are not empty and have no '='"},
                {"{\"templateID\":\"b\",\"volumeMounts\":[{\"name\":\"a\",\"path\":\"/a\"}]}",
                 "volumeMounts is not supported by this server version"},
                {"{\"templateID\":\"b\",\"iam\":{\"tokens\":[]}}", "iam is not supported by this server version"},
                {"{\"templateID\":\"b\",\"network\":{\"allowPublicTraffic\":false}}",
                 "network.allowPublicTraffic=false needs a secured sandbox: set 'secure' to true"},
                {"{\"templateID\":\"b\",\"network\":{\"denyOut\":[\"x\"]}}", "invalid denied CIDR x"},
                {"{\"templateID\":\"b\",\"mcp\":[]}", "validation error: field 'mcp' must be an object"},
        };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                AUTO_JSON json_t *body = parse(bad[i].body);
                struct create_request c;
                struct err err = {0};

                CHECK(body);
                CHECK_INT(create_request_decode(body, CREATE_V1, 86400, &c, &err), <, 0);
                CHECK_STR(err.msg, bad[i].says);
                CHECK_INT(err.kind, ==, ERR_INVALID);
        }
}

static void large_maps_are_refused(void)
{
        AUTO_JSON json_t *body = parse("{\"templateID\":\"base\",\"metadata\":{}}");
        char *big = calloc(1, CREATE_METADATA_MAX + 1);
        struct create_request c;

        memset(big, 'x', CREATE_METADATA_MAX);
        (void)json_object_set_new(json_object_get(body, "metadata"), "k", json_string(big));
        free(big);
        CHECK_INT(create_request_decode(body, CREATE_V1, 86400, &c, NULL), <, 0);
}

/* ---- lists ---- */

static struct sandbox sample(const char *id, int64_t started_s)
{
        struct sandbox s = {.state = SANDBOX_RUNNING, .started_ns = started_s * S_NS, .alias = (char *)"base"};

        (void)snprintf(s.id, sizeof(s.id), "%s", id);
        (void)snprintf(s.template_id, sizeof(s.template_id), "abcdefghij0123456789");
        return s;
}

static void filters_select(void)
{
        AUTO_JSON json_t *meta = parse("{\"a\":\"1\",\"b\":\"2\"}");
        AUTO_JSON json_t *wanted = parse("{\"a\":\"1\"}");
        AUTO_JSON json_t *unwanted = parse("{\"a\":\"1\",\"b\":\"3\"}");
        struct listing all = {.wants_running = true}, l;
        struct sandbox s = sample("ia", 100);

        s.metadata = meta;
        CHECK(listing_matches(&all, &s));
        l = all, l.metadata = wanted;
        CHECK(listing_matches(&l, &s));
        l.metadata = unwanted;
        CHECK(!listing_matches(&l, &s));
        l = all, l.has_started_after = true, l.started_after_ns = 100 * S_NS;
        CHECK(listing_matches(&l, &s));
        l.started_after_ns++;
        CHECK(!listing_matches(&l, &s));
        l = all, l.has_template = true;
        CHECK(!listing_matches(&l, &s));
        (void)snprintf(l.template.name, sizeof(l.template.name), "base");
        CHECK(listing_matches(&l, &s));
        (void)snprintf(l.template.name, sizeof(l.template.name), "abcdefghij0123456789");
        CHECK(listing_matches(&l, &s));
        l = (struct listing){.wants_paused = true};
        CHECK(!listing_matches(&l, &s));
        s.state = SANDBOX_STARTING;
        CHECK(!listing_matches(&all, &s));
        s.state = SANDBOX_KILLING;
        CHECK(!listing_matches(&all, &s));
}

static void pages_follow_each_other_in_both_orders(void)
{
        struct sandbox a = sample("ia", 1), b = sample("ib", 2), c = sample("ic", 2), d = sample("id", 3);
        const struct sandbox *want[] = {&d, &b, &c, &a};

        for (int asc = 0; asc < 2; asc++) {
                struct listing l = {.limit = 1, .is_ascending = asc};
                const struct sandbox *all[] = {&a, &d, &c, &b};

                for (size_t i = 0; i <= 4; i++) {
                        size_t first, count;

                        listing_page(&l, all, 4, &first, &count);
                        CHECK_INT(count, ==, i < 4);
                        if (i == 4)
                                break;
                        CHECK(all[first] == want[asc ? 3 - i : i]);
                        l.after.is_set = true;
                        l.after.started_ns = all[first]->started_ns;
                        memcpy(l.after.id, all[first]->id, sizeof(l.after.id));
                }
        }
}

int main(void)
{
        RUN(a_reference_may_have_namespace_and_tag);
        RUN(a_bad_reference_says_which_part);
        RUN(a_manifest_gives_a_template);
        RUN(a_broken_manifest_is_refused);
        RUN(a_timeout_sets_the_end_within_the_longest_life);
        RUN(extending_never_shortens);
        RUN(the_longest_life_is_named_in_its_unit);
        RUN(the_first_deadline_comes_first);
        RUN(no_network_means_the_internet);
        RUN(networks_become_rules);
        RUN(bad_networks_are_refused_with_the_contracts_words);
        RUN(the_two_versions_have_their_defaults);
        RUN(a_full_request_is_taken);
        RUN(null_counts_as_absent);
        RUN(bad_requests_are_refused_with_the_contracts_words);
        RUN(large_maps_are_refused);
        RUN(filters_select);
        RUN(pages_follow_each_other_in_both_orders);
        return tap_done();
}
