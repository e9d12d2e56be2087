#include "model/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "model/json_field.h"

#define MEMORY_BYTES_MIN (16ull << 20)
#define MEMORY_BYTES_MAX (1ull << 40)
#define CPU_COUNT_MAX 1024
#define PIDS_MIN 16
#define PIDS_MAX (1u << 22)

static uint32_t prefix_mask(uint8_t prefix)
{
        return prefix == 0 ? 0 : UINT32_MAX << (32 - prefix);
}

static int parse_addr(struct str s, uint32_t *ret)
{
        uint32_t addr = 0;

        for (int i = 0; i < 4; i++) {
                struct str part;
                uint32_t byte;

                if (str_cut(&s, '.', &part) != (i < 3))
                        return -EINVAL;
                if ((part.n > 1 && part.p[0] == '0') || parse_u32(part, 0, 255, &byte) < 0)
                        return -EINVAL; /* "010" is 8 to some and 10 to others */
                addr = addr << 8 | byte;
        }
        *ret = addr;
        return 0;
}

int plan_cidr_parse(const char *text, struct plan_cidr *ret)
{
        struct str rest = str_of(text), head;
        bool has_prefix = str_cut(&rest, '/', &head);
        uint32_t addr, prefix = 32;

        if (parse_addr(head, &addr) < 0)
                return -EINVAL;
        if (has_prefix && ((rest.n > 1 && rest.p[0] == '0') || parse_u32(rest, 0, 32, &prefix) < 0))
                return -EINVAL;
        if (addr & ~prefix_mask((uint8_t)prefix))
                return -EINVAL;
        *ret = (struct plan_cidr){addr, (uint8_t)prefix};
        return 0;
}

/* ------------------------------------------------------------- encoding */

static json_t *cidrs_encode(const struct plan_cidr *list, size_t count)
{
        json_t *out = json_array();

        for (size_t i = 0; out && i < count; i++) {
                uint32_t a = list[i].addr;

                (void)json_array_append_new(out, json_sprintf("%u.%u.%u.%u/%u", a >> 24, a >> 16 & 255, a >> 8 & 255,
                                                              a & 255, list[i].prefix));
        }
        if (out && json_array_size(out) != count) {
                json_decref(out);
                return NULL;
        }
        return out;
}

json_t *plan_net_encode(const struct plan_net *n)
{
        return json_pack("{s:b,s:o,s:o}", "internet", n->internet, "allow", cidrs_encode(n->allow, n->allow_count),
                         "deny", cidrs_encode(n->deny, n->deny_count));
}

static json_t *limits_encode(const struct plan_limits *l)
{
        return json_pack("{s:I,s:I,s:I}", "memory_bytes", (json_int_t)l->memory_bytes, "cpu_count",
                         (json_int_t)l->cpu_count, "pids", (json_int_t)l->pids);
}

json_t *plan_encode(const struct plan_create *p)
{
        json_t *layers = json_array(), *plan;

        for (size_t i = 0; layers && i < p->layer_count; i++)
                if (json_array_append_new(layers, json_string(p->layers[i])) < 0) {
                        json_decref(layers);
                        return NULL;
                }
        /* Not as json_pack()'s optional fields: those are left out when memory is short, and "kept" must not be. */
        plan = json_pack("{s:s,s:o,s:o,s:o,s:O}", "id", p->id, "layers", layers, "limits", limits_encode(&p->limits),
                         "net", plan_net_encode(&p->net), "init", p->init);
        plan = json_with_text(plan, "checkpoint", p->checkpoint[0] ? p->checkpoint : NULL);
        plan = json_with_text(plan, "upper", p->is_upper_kept ? "kept" : NULL);
        plan = json_with_ref(plan, "origin", p->origin);
        return json_with_text(plan, "token_before", p->token_before);
}

/* ------------------------------------------------------------- decoding */

/* Only these keys, so that a misspelt one is not silently a default. */
static int check_keys(const json_t *obj, const char *where, const char *const *known, struct err *err)
{
        const char *key;
        json_t *value;

        if (!json_is_object(obj))
                return err_set(err, ERR_INVALID, "%s: not an object", where);
        json_object_foreach ((json_t *)(size_t)obj, key, value) {
                size_t i = 0;

                while (known[i] && strcmp(known[i], key) != 0)
                        i++;
                if (!known[i])
                        return err_set(err, ERR_INVALID, "%s: unknown key '%.40s'", where, key);
        }
        return 0;
}

static int get_number(const json_t *obj, const char *key, uint64_t min, uint64_t max, uint64_t *ret, struct err *err)
{
        const json_t *v = json_object_get(obj, key);
        json_int_t n;

        if (!json_is_integer(v))
                return err_set(err, ERR_INVALID, "%s: not an integer", key);
        n = json_integer_value(v);
        if (n < 0 || (uint64_t)n < min || (uint64_t)n > max)
                return err_set(err, ERR_INVALID, "%s: %lld is out of range", key, (long long)n);
        *ret = (uint64_t)n;
        return 0;
}

static int limits_decode(const json_t *msg, struct plan_limits *ret, struct err *err)
{
        static const char *const known[] = {"memory_bytes", "cpu_count", "pids", NULL};
        uint64_t cpus, pids;
        int r;

        r = check_keys(msg, "limits", known, err);
        if (r < 0)
                return r;
        if ((r = get_number(msg, "memory_bytes", MEMORY_BYTES_MIN, MEMORY_BYTES_MAX, &ret->memory_bytes, err)) < 0 ||
            (r = get_number(msg, "cpu_count", 1, CPU_COUNT_MAX, &cpus, err)) < 0 ||
            (r = get_number(msg, "pids", PIDS_MIN, PIDS_MAX, &pids, err)) < 0)
                return err_wrap(err, "limits");
        ret->cpu_count = (uint32_t)cpus;
        ret->pids = (uint32_t)pids;
        return 0;
}

static int cidrs_decode(const json_t *arr, const char *key, struct plan_cidr **ret, size_t *ret_count, struct err *err)
{
        AUTO_FREE struct plan_cidr *list = NULL;
        size_t count = json_array_size(arr);

        if (!json_is_array(arr))
                return err_set(err, ERR_INVALID, "%s: not a list", key);
        if (count > PLAN_CIDRS_MAX)
                return err_set(err, ERR_INVALID, "%s: more than %d networks", key, PLAN_CIDRS_MAX);
        list = calloc(count ? count : 1, sizeof(*list));
        if (!list)
                return err_sys(err, -ENOMEM, "%s", key);
        for (size_t i = 0; i < count; i++) {
                const json_t *item = json_array_get(arr, i);

                if (!json_is_string(item) || json_string_length(item) != strlen(json_string_value(item)) ||
                    plan_cidr_parse(json_string_value(item), &list[i]) < 0)
                        return err_set(err, ERR_INVALID, "%s[%zu]: not an IPv4 network", key, i);
        }
        *ret = TAKE_PTR(list);
        *ret_count = count;
        return 0;
}

int plan_net_decode(const json_t *msg, struct plan_net *ret, struct err *err)
{
        static const char *const known[] = {"internet", "allow", "deny", NULL};
        struct plan_net n = {0};
        int r;

        r = check_keys(msg, "net", known, err);
        if (r < 0)
                return r;
        if (!json_is_boolean(json_object_get(msg, "internet")))
                return err_set(err, ERR_INVALID, "net: internet: not a boolean");
        n.internet = json_is_true(json_object_get(msg, "internet"));
        r = cidrs_decode(json_object_get(msg, "allow"), "allow", &n.allow, &n.allow_count, err);
        if (r == 0)
                r = cidrs_decode(json_object_get(msg, "deny"), "deny", &n.deny, &n.deny_count, err);
        if (r < 0) {
                plan_net_done(&n);
                return err_wrap(err, "net");
        }
        *ret = n;
        return 0;
}

static int layers_decode(const json_t *arr, struct plan_create *p, struct err *err)
{
        size_t count = json_array_size(arr);

        if (!json_is_array(arr) || count < 1 || count > PLAN_LAYERS_MAX)
                return err_set(err, ERR_INVALID, "layers: not a list of 1 to %d", PLAN_LAYERS_MAX);
        for (size_t i = 0; i < count; i++) {
                const json_t *item = json_array_get(arr, i);
                struct str id = {json_string_value(item), json_string_length(item)};

                if (!json_is_string(item) || !layer_id_is_valid(id))
                        return err_set(err, ERR_INVALID, "layers[%zu]: not a layer id", i);
                p->layers[i] = str_dup(id);
                if (!p->layers[i])
                        return err_sys(err, -ENOMEM, "layers");
                p->layer_count = i + 1;
        }
        return 0;
}

static int init_decode(json_t *init, struct plan_create *p, struct err *err)
{
        size_t len;

        if (!json_is_object(init))
                return err_set(err, ERR_INVALID, "init: not an object");
        len = json_dumpb(init, NULL, 0, JSON_COMPACT);
        if (len == 0 || len > PLAN_INIT_MAX)
                return err_set(err, ERR_INVALID, "init: %zu bytes, more than %u", len, PLAN_INIT_MAX);
        p->init = json_incref(init);
        return 0;
}

static int checkpoint_decode(const json_t *v, struct plan_create *p, struct err *err)
{
        struct str id = {json_string_value(v), json_string_length(v)};

        if (!v)
                return 0;
        if (!json_is_string(v) || !checkpoint_id_is_valid(id))
                return err_set(err, ERR_INVALID, "checkpoint: not a checkpoint id");
        memcpy(p->checkpoint, id.p, id.n + 1);
        return 0;
}

static int upper_decode(const json_t *v, struct plan_create *p, struct err *err)
{
        const char *text = json_string_value(v);

        if (!v)
                return 0;
        p->is_upper_kept = text && strcmp(text, "kept") == 0;
        if (!p->is_upper_kept && (!text || strcmp(text, "new") != 0))
                return err_set(err, ERR_INVALID, "upper: neither 'new' nor 'kept'");
        return 0;
}

/* It becomes a header's value. */
static bool is_token(struct str s)
{
        if (s.n < 1 || s.n > PLAN_TOKEN_MAX)
                return false;
        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] <= ' ' || s.p[i] > '~')
                        return false;
        return true;
}

static int token_decode(const json_t *v, struct plan_create *p, struct err *err)
{
        struct str token = {json_string_value(v), json_string_length(v)};

        if (!v)
                return 0;
        if (!json_is_string(v) || !is_token(token))
                return err_set(err, ERR_INVALID, "token_before: not a token");
        p->token_before = str_dup(token);
        return p->token_before ? 0 : err_sys(err, -ENOMEM, "token_before");
}

int plan_origin_decode(const json_t *origin, const json_t **ret, struct err *err)
{
        size_t len = origin ? json_dumpb(origin, NULL, 0, JSON_COMPACT) : 0;

        if (origin && !json_is_object(origin))
                return err_set(err, ERR_INVALID, "origin: not an object");
        if (len > PLAN_ORIGIN_MAX)
                return err_set(err, ERR_INVALID, "origin: %zu bytes, more than %u", len, PLAN_ORIGIN_MAX);
        *ret = origin;
        return 0;
}

static int origin_decode(json_t *origin, struct plan_create *p, struct err *err)
{
        const json_t *checked;
        int r = plan_origin_decode(origin, &checked, err);

        if (r == 0)
                p->origin = json_incref(origin);
        return r;
}

static int decode_fields(const json_t *msg, bool (*is_id)(struct str), struct plan_create *p, struct err *err)
{
        static const char *const known[] = {"id",         "layers", "limits",       "net",    "init",
                                            "checkpoint", "upper",  "token_before", "origin", NULL};
        const json_t *id = json_object_get(msg, "id");
        struct str s = {json_string_value(id), json_string_length(id)};
        int r;

        r = check_keys(msg, "plan", known, err);
        if (r < 0)
                return r;
        if (!json_is_string(id) || !is_id(s))
                return err_set(err, ERR_INVALID, "id: not a sandbox id");
        memcpy(p->id, s.p, s.n + 1);
        r = layers_decode(json_object_get(msg, "layers"), p, err);
        if (r == 0)
                r = limits_decode(json_object_get(msg, "limits"), &p->limits, err);
        if (r == 0)
                r = plan_net_decode(json_object_get(msg, "net"), &p->net, err);
        if (r == 0)
                r = init_decode(json_object_get(msg, "init"), p, err);
        if (r == 0)
                r = checkpoint_decode(json_object_get(msg, "checkpoint"), p, err);
        if (r == 0)
                r = upper_decode(json_object_get(msg, "upper"), p, err);
        if (r == 0)
                r = token_decode(json_object_get(msg, "token_before"), p, err);
        if (r == 0)
                r = origin_decode(json_object_get(msg, "origin"), p, err);
        return r;
}

static int decode_whole(const json_t *msg, bool (*is_id)(struct str), struct plan_create *ret, struct err *err)
{
        struct plan_create p = {0};
        int r = decode_fields(msg, is_id, &p, err);

        if (r < 0) {
                plan_done(&p);
                return r;
        }
        *ret = p;
        return 0;
}

int plan_decode(const json_t *msg, struct plan_create *ret, struct err *err)
{
        return decode_whole(msg, sandbox_id_is_valid, ret, err);
}

int plan_decode_standby(const json_t *msg, struct plan_create *ret, struct err *err)
{
        struct plan_create p;
        int r = decode_whole(msg, standby_id_is_valid, &p, err);

        if (r < 0)
                return r;
        if (!p.checkpoint[0] || p.is_upper_kept) {
                plan_done(&p);
                return err_set(err, ERR_INVALID, "checkpoint, upper: not those of a standby");
        }
        *ret = p;
        return 0;
}

static bool is_same_text(const char *a, const char *b) /* NULL: none */
{
        return a && b ? strcmp(a, b) == 0 : a == b;
}

bool plan_begins_alike(const struct plan_create *a, const struct plan_create *b)
{
        if (a->is_upper_kept || b->is_upper_kept || !a->checkpoint[0] || strcmp(a->checkpoint, b->checkpoint) != 0 ||
            a->layer_count != b->layer_count || a->limits.memory_bytes != b->limits.memory_bytes ||
            a->limits.cpu_count != b->limits.cpu_count || a->limits.pids != b->limits.pids ||
            !is_same_text(a->token_before, b->token_before))
                return false;
        for (size_t i = 0; i < a->layer_count; i++)
                if (strcmp(a->layers[i], b->layers[i]) != 0)
                        return false;
        return true;
}

void plan_net_done(struct plan_net *n)
{
        free(n->allow);
        free(n->deny);
        *n = (struct plan_net){0};
}

void plan_done(struct plan_create *p)
{
        for (size_t i = 0; i < p->layer_count; i++)
                free(p->layers[i]);
        plan_net_done(&p->net);
        json_decref(p->init);
        json_decref(p->origin);
        free(p->token_before);
        *p = (struct plan_create){0};
}
