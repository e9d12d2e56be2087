#include "model/plan.h"

#include <tap.h>

#include "base/err.h"

#define ID "i0123456789abcdefghij"

static json_t *plan_json(void)
{
        return json_pack("{s:s,s:[s,s],s:{s:i,s:i,s:i},s:{s:b,s:[s],s:[s]},s:{s:s}}", "id", ID, "layers", "base-1",
                         "top", "limits", "memory_bytes", 512 << 20, "cpu_count", 2, "pids", 256, "net", "internet", 1,
                         "allow", "203.0.113.7", "deny", "0.0.0.0/0", "init", "sandboxID", ID);
}

static void decodes_what_it_encodes(void)
{
        json_t *first = plan_json(), *again;
        struct plan_create p;
        struct err err = {0};

        CHECK_INT(plan_decode(first, &p, &err), ==, 0);
        CHECK_STR(p.id, ID);
        CHECK_INT(p.layer_count, ==, 2);
        CHECK_STR(p.layers[0], "base-1");
        CHECK_INT(p.limits.memory_bytes, ==, 512 << 20);
        CHECK_INT(p.limits.cpu_count, ==, 2);
        CHECK_INT(p.limits.pids, ==, 256);
        CHECK(p.net.internet);
        CHECK_INT(p.net.allow[0].prefix, ==, 32);
        CHECK_INT(p.net.deny[0].addr, ==, 0);
        again = plan_encode(&p);
        (void)json_array_set_new(json_object_get(json_object_get(first, "net"), "allow"), 0,
                                 json_string("203.0.113.7/32"));
        CHECK(json_equal(first, again));
        json_decref(first);
        json_decref(again);
        plan_done(&p);
        plan_done(&p); /* harmless twice */
}

#define CHECKPOINT "c0123456789abcdefghij"
#define SEALED "u-0123456789abcdefghij"

static void decodes_how_a_sandbox_comes_back(void)
{
        json_t *first = plan_json(), *again;
        struct plan_create p;
        struct err err = {0};

        CHECK_INT(plan_decode(first, &p, &err), ==, 0);
        CHECK_STR(p.checkpoint, "");
        CHECK(!p.is_upper_kept);
        CHECK(!p.token_before);
        plan_done(&p);
        (void)json_object_set_new(first, "checkpoint", json_string(CHECKPOINT));
        (void)json_object_set_new(first, "upper", json_string("kept"));
        (void)json_object_set_new(first, "token_before", json_string("ea_0"));
        (void)json_array_append_new(json_object_get(first, "layers"), json_string(SEALED));
        CHECK_INT(plan_decode(first, &p, &err), ==, 0);
        CHECK_STR(p.checkpoint, CHECKPOINT);
        CHECK(p.is_upper_kept);
        CHECK_STR(p.token_before, "ea_0");
        CHECK(layer_id_is_sealed(p.layers[2]));
        CHECK(!layer_id_is_sealed(p.layers[1]));
        again = plan_encode(&p);
        (void)json_array_set_new(json_object_get(json_object_get(first, "net"), "allow"), 0,
                                 json_string("203.0.113.7/32"));
        CHECK(json_equal(first, again));
        json_decref(first);
        json_decref(again);
        plan_done(&p);
}

static void makes_ids_it_accepts(void)
{
        char checkpoint[CHECKPOINT_ID_MAX], sealed[SEALED_ID_MAX];

        checkpoint_id_make(checkpoint);
        sealed_id_make(sealed);
        CHECK(checkpoint_id_is_valid(str_of(checkpoint)));
        CHECK(sealed_id_is_valid(str_of(sealed)));
        CHECK(layer_id_is_valid(str_of(sealed)));
        CHECK(!checkpoint_id_is_valid(str_of(ID)));
        CHECK(!checkpoint_id_is_valid(str_of("c0123456789ABCDEFGHIJ")));
        CHECK(!sealed_id_is_valid(str_of("u-0123456789abcdefghi")));
        CHECK(!sealed_id_is_valid(str_of("u_0123456789abcdefghij")));
        CHECK(!layer_id_is_valid(str_of("u-short")));
}

static void cidr_reads_networks_and_bare_addresses(void)
{
        struct plan_cidr c;

        CHECK_INT(plan_cidr_parse("10.0.0.0/8", &c), ==, 0);
        CHECK_INT(c.addr, ==, 10u << 24);
        CHECK_INT(c.prefix, ==, 8);
        CHECK_INT(plan_cidr_parse("0.0.0.0/0", &c), ==, 0);
        CHECK_INT(c.prefix, ==, 0);
        CHECK_INT(plan_cidr_parse("255.255.255.255", &c), ==, 0);
        CHECK_INT(c.addr, ==, 0xffffffffu);
        CHECK_INT(c.prefix, ==, 32);
}

static void cidr_refuses_everything_else(void)
{
        static const char *const bad[] = {
                "",           "10",          "10.0.0",      "10.0.0.0.0", "10.0.0.0/", "10.0.0.0/33",
                "10.0.0.1/8", "010.0.0.0/8", "256.0.0.1",   "1.2.3.4/08", " 1.2.3.4",  "1.2.3.4 ",
                "1.2.3.-4",   "::1",         "example.org", "1.2.3.4/-1", "1..2.3",    "1.2.3.4/8/8"};
        struct plan_cidr c = {99, 99};

        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                CHECK(plan_cidr_parse(bad[i], &c) < 0);
        CHECK_INT(c.addr, ==, 99); /* untouched */
}

/* Replace one value (path "a.b") and expect a refusal that names the field. */
static const char *refusal(const char *path, json_t *value)
{
        static struct err err;
        json_t *plan = plan_json(), *at = plan;
        struct str rest = str_of(path), head;
        struct plan_create p;
        int r;

        while (str_cut(&rest, '.', &head)) {
                char key[32];

                (void)snprintf(key, sizeof(key), "%.*s", STR_ARG(head));
                at = json_object_get(at, key);
        }
        if (value)
                (void)json_object_set_new(at, path + (head.p - path), value);
        else
                (void)json_object_del(at, path + (head.p - path));
        err = (struct err){0};
        r = plan_decode(plan, &p, &err);
        json_decref(plan);
        if (r == 0) {
                plan_done(&p);
                return "accepted";
        }
        return err.kind == ERR_INVALID ? err.msg : "another kind of error";
}

static void refuses_names_that_could_become_other_paths(void)
{
        CHECK_STR(refusal("id", json_string("../../etc/passwd-----")), "id: not a sandbox id");
        CHECK_STR(refusal("id", json_stringn("i0123456789abcdefghi\0", 21)), "id: not a sandbox id");
        CHECK_STR(refusal("id", json_integer(1)), "id: not a sandbox id");
        CHECK_STR(refusal("id", NULL), "id: not a sandbox id");
        CHECK_STR(refusal("layers", json_pack("[s]", "..")), "layers[0]: not a layer id");
        CHECK_STR(refusal("layers", json_pack("[s,s]", "ok", "a/b")), "layers[1]: not a layer id");
        CHECK_STR(refusal("layers", json_pack("[o]", json_stringn("a\0b", 3))), "layers[0]: not a layer id");
        CHECK_STR(refusal("layers", json_pack("[i]", 7)), "layers[0]: not a layer id");
}

static void refuses_wrong_types_and_ranges(void)
{
        CHECK_STR(refusal("layers", json_array()), "layers: not a list of 1 to 64");
        CHECK_STR(refusal("layers", NULL), "layers: not a list of 1 to 64");
        CHECK_STR(refusal("limits", json_true()), "limits: not an object");
        CHECK_STR(refusal("limits.pids", json_integer(-1)), "limits: pids: -1 is out of range");
        CHECK_STR(refusal("limits.pids", json_real(100.0)), "limits: pids: not an integer");
        CHECK_STR(refusal("limits.cpu_count", json_integer(0)), "limits: cpu_count: 0 is out of range");
        CHECK_STR(refusal("limits.memory_bytes", json_integer(4096)), "limits: memory_bytes: 4096 is out of range");
        CHECK_STR(refusal("net.internet", json_integer(1)), "net: internet: not a boolean");
        CHECK_STR(refusal("net.allow", json_pack("[s]", "fe80::/10")), "net: allow[0]: not an IPv4 network");
        CHECK_STR(refusal("net.deny", NULL), "net: deny: not a list");
        CHECK_STR(refusal("init", json_array()), "init: not an object");
        CHECK_STR(refusal("net.denyy", json_array()), "net: unknown key 'denyy'");
        CHECK_STR(refusal("checkpoint", json_string("../../../../etc/passw")), "checkpoint: not a checkpoint id");
        CHECK_STR(refusal("checkpoint", json_null()), "checkpoint: not a checkpoint id");
        CHECK_STR(refusal("checkpoint", json_string(SEALED)), "checkpoint: not a checkpoint id");
        CHECK_STR(refusal("upper", json_string("old")), "upper: neither 'new' nor 'kept'");
        CHECK_STR(refusal("upper", json_true()), "upper: neither 'new' nor 'kept'");
        CHECK_STR(refusal("upper", json_string("new")), "accepted");
        CHECK_STR(refusal("token_before", json_string("")), "token_before: not a token");
        CHECK_STR(refusal("token_before", json_string("a\r\nb: c")), "token_before: not a token");
        CHECK_STR(refusal("token_before", json_integer(1)), "token_before: not a token");
        CHECK_STR(refusal("extra", json_true()), "plan: unknown key 'extra'");
}

static void refuses_what_is_too_much(void)
{
        json_t *many = json_array(), *long_init = json_object();
        char *text = calloc(1, PLAN_INIT_MAX + 1);

        for (int i = 0; i <= PLAN_CIDRS_MAX; i++)
                (void)json_array_append_new(many, json_string("198.51.100.1"));
        CHECK_STR(refusal("net.allow", many), "net: allow: more than 256 networks");
        many = json_array();
        for (int i = 0; i <= PLAN_LAYERS_MAX; i++)
                (void)json_array_append_new(many, json_string("l"));
        CHECK_STR(refusal("layers", many), "layers: not a list of 1 to 64");
        memset(text, 'x', PLAN_INIT_MAX);
        (void)json_object_set_new(long_init, "accessToken", json_string(text));
        free(text);
        CHECK(strncmp(refusal("init", long_init), "init: ", 6) == 0);
}

#define STANDBY "s0123456789abcdefghij"

static json_t *standby_json(void)
{
        json_t *j = plan_json();

        (void)json_object_set_new(j, "id", json_string(STANDBY));
        (void)json_object_set_new(j, "checkpoint", json_string(CHECKPOINT));
        (void)json_object_set_new(j, "token_before", json_string("ea_0"));
        return j;
}

static void a_plan_of_a_standby_is_none_of_a_sandbox(void)
{
        json_t *j = standby_json(), *sandbox = plan_json();
        struct plan_create p;
        struct err err = {0};

        CHECK_INT(plan_decode_standby(j, &p, &err), ==, 0);
        CHECK_STR(p.id, STANDBY);
        plan_done(&p);
        CHECK_INT(plan_decode(j, &p, &err), <, 0);
        CHECK_INT(plan_decode_standby(sandbox, &p, &err), <, 0);
        (void)json_object_set_new(j, "upper", json_string("kept"));
        CHECK_INT(plan_decode_standby(j, &p, &err), <, 0);
        CHECK_INT(err.kind, ==, ERR_INVALID);
        (void)json_object_del(j, "upper");
        (void)json_object_del(j, "checkpoint");
        CHECK_INT(plan_decode_standby(j, &p, &err), <, 0);
        json_decref(j);
        json_decref(sandbox);
}

/* With the member changed (value is taken), would a standby still do? */
static bool still_fits(const char *member, json_t *value)
{
        json_t *a = standby_json(), *b = standby_json();
        struct plan_create standby, create;
        struct err err = {0};
        bool fits;

        (void)json_object_set_new(b, "id", json_string(ID));
        if (member && value)
                (void)json_object_set_new(b, member, value);
        else if (member)
                (void)json_object_del(b, member);
        if (plan_decode_standby(a, &standby, &err) < 0 || plan_decode(b, &create, &err) < 0) {
                printf("# %s\n", err.msg);
                return false;
        }
        fits = plan_begins_alike(&standby, &create) && plan_begins_alike(&create, &standby);
        plan_done(&standby);
        plan_done(&create);
        json_decref(a);
        json_decref(b);
        return fits;
}

static void a_standby_fits_what_begins_alike(void)
{
        CHECK(still_fits(NULL, NULL));
        CHECK(still_fits("init", json_pack("{s:s}", "accessToken", "other")));
        CHECK(still_fits("net", json_pack("{s:b,s:[],s:[]}", "internet", 0, "allow", "deny")));
        CHECK(!still_fits("checkpoint", json_string("c0123456789abcdefghik")));
        CHECK(!still_fits("checkpoint", NULL));
        CHECK(!still_fits("token_before", json_string("ea_1")));
        CHECK(!still_fits("token_before", NULL));
        CHECK(!still_fits("upper", json_string("kept")));
        CHECK(!still_fits("layers", json_pack("[s]", "base-1")));
        CHECK(!still_fits("layers", json_pack("[s,s]", "top", "base-1")));
        CHECK(!still_fits("limits",
                          json_pack("{s:i,s:i,s:i}", "memory_bytes", 256 << 20, "cpu_count", 2, "pids", 256)));
        CHECK(!still_fits("limits",
                          json_pack("{s:i,s:i,s:i}", "memory_bytes", 512 << 20, "cpu_count", 1, "pids", 256)));
}

int main(void)
{
        RUN(a_plan_of_a_standby_is_none_of_a_sandbox);
        RUN(a_standby_fits_what_begins_alike);
        RUN(decodes_what_it_encodes);
        RUN(decodes_how_a_sandbox_comes_back);
        RUN(makes_ids_it_accepts);
        RUN(cidr_reads_networks_and_bare_addresses);
        RUN(cidr_refuses_everything_else);
        RUN(refuses_names_that_could_become_other_paths);
        RUN(refuses_wrong_types_and_ranges);
        RUN(refuses_what_is_too_much);
        return tap_done();
}
