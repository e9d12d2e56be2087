#include "model/request/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "model/json_field.h"

#define MASK_HOST_MAX 255
#define DOMAIN_MAX 253

enum dest_kind { DEST_V4, DEST_V6, DEST_OTHER };

struct dest {
        enum dest_kind kind;
        struct plan_cidr v4;
        bool is_all;      /* exactly 0.0.0.0/0 */
        bool is_unusable; /* 0.0.0.0, ::, or another spelling of everything */
};

static uint32_t v4_mask(unsigned prefix)
{
        return prefix ? UINT32_MAX << (32 - prefix) : 0;
}

/* "1.2.3.4", "10.0.0.0/8", "fd00::/8"; everything else is DEST_OTHER.  Host bits are cleared. */
static struct dest dest_parse(const char *text)
{
        struct dest d = {.kind = DEST_OTHER};
        char addr[INET6_ADDRSTRLEN + 1];
        struct str rest = str_of(text), head;
        struct in6_addr six;
        struct in_addr four;
        uint32_t prefix = UINT32_MAX;
        bool has_prefix;

        has_prefix = str_cut(&rest, '/', &head);
        if (head.n >= sizeof(addr) || (has_prefix && parse_u32(rest, 0, 128, &prefix) < 0))
                return d;
        memcpy(addr, head.p, head.n);
        addr[head.n] = 0;
        if (inet_pton(AF_INET, addr, &four) == 1 && (!has_prefix || prefix <= 32)) {
                d.kind = DEST_V4;
                d.v4.prefix = has_prefix ? (uint8_t)prefix : 32;
                d.v4.addr = ntohl(four.s_addr) & v4_mask(d.v4.prefix);
                d.is_all = strcmp(text, "0.0.0.0/0") == 0;
                d.is_unusable = !d.is_all && (four.s_addr == 0 || d.v4.prefix == 0);
        } else if (inet_pton(AF_INET6, addr, &six) == 1) {
                d.kind = DEST_V6;
                d.is_unusable = prefix == 0 || IN6_IS_ADDR_UNSPECIFIED(&six);
        }
        return d;
}

/* A host name of at least two labels, or "*." before one; "*" alone is none. */
static bool is_domain(const char *text)
{
        struct str rest = str_of(text), label;
        size_t labels = 0;
        bool more = true;

        if (str_starts(rest, "*."))
                rest = (struct str){rest.p + 2, rest.n - 2};
        if (rest.n == 0 || rest.n > DOMAIN_MAX)
                return false;
        for (; more; labels++) {
                more = str_cut(&rest, '.', &label);
                if (label.n < 1 || label.n > 63 || label.p[0] == '-' || label.p[label.n - 1] == '-')
                        return false;
                for (size_t i = 0; i < label.n; i++)
                        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", label.p[i]))
                                return false;
        }
        return labels >= 1;
}

static int add_cidr(struct plan_cidr **list, size_t *count, struct plan_cidr c, struct err *err)
{
        struct plan_cidr *more = reallocarray(*list, *count + 1, sizeof(*more));

        if (!more)
                return err_sys(err, -ENOMEM, "network");
        *list = more;
        more[(*count)++] = c;
        return 0;
}

static int decode_deny(const json_t *list, struct plan_net *net, bool *ret_all, struct err *err)
{
        json_t *v;
        size_t i;

        json_array_foreach (list, i, v) {
                const char *text = json_string_value(v);
                struct dest d = dest_parse(text);

                if (d.kind == DEST_OTHER || d.is_unusable)
                        return err_set(err, ERR_INVALID, "invalid denied CIDR %s", text);
                if (d.is_all)
                        *ret_all = true;
                else if (d.kind == DEST_V4 && add_cidr(&net->deny, &net->deny_count, d.v4, err) < 0)
                        return err_wrap(err, "denyOut");
        }
        return 0;
}

static int decode_allow(const json_t *list, bool is_all_denied, struct plan_net *net, struct err *err)
{
        json_t *v;
        size_t i;

        json_array_foreach (list, i, v) {
                const char *text = json_string_value(v);
                struct dest d = dest_parse(text);

                if (d.is_unusable || (d.kind == DEST_OTHER && !is_domain(text)))
                        return err_set(err, ERR_INVALID, "invalid allowed address %s", text);
                if (d.kind == DEST_V6)
                        return err_set(err, ERR_INVALID,
                                       "IPv6 address '%s' in allowOut is not supported: sandboxes have no IPv6", text);
                if (d.kind == DEST_OTHER && !is_all_denied)
                        return err_set(
                                err, ERR_INVALID,
                                "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in "
                                "deny out to block all other traffic.");
                if (d.kind == DEST_OTHER)
                        return err_set(err, ERR_INVALID,
                                       "domain '%s' in allowOut is not supported by this server version: give IP "
                                       "addresses or CIDRs",
                                       text);
                if (add_cidr(&net->allow, &net->allow_count, d.v4, err) < 0)
                        return err_wrap(err, "allowOut");
        }
        return 0;
}

/* host[:port] in ASCII, where ${PORT} stands for a port number. */
static int check_mask_host(const char *text, struct err *err)
{
        struct str rest = str_of(text);
        bool in_port = false;
        size_t host = 0, port = 0;

        if (rest.n > MASK_HOST_MAX)
                return err_set(err, ERR_INVALID, "maskRequestHost is longer than %d characters", MASK_HOST_MAX);
        while (rest.n) {
                size_t step = str_starts(rest, "${PORT}") ? 7 : 1;
                char c = step == 7 ? '0' : rest.p[0];

                if (c == ':' && !in_port)
                        in_port = true;
                else if (in_port ? !strchr("0123456789", c)
                                 : !strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._", c))
                        return err_set(err, ERR_INVALID, "maskRequestHost '%s' is not host[:port]", text);
                else
                        *(in_port ? &port : &host) += 1;
                rest = (struct str){rest.p + step, rest.n - step};
        }
        if (host == 0 || (in_port && (port == 0 || port > 5)))
                return err_set(err, ERR_INVALID, "maskRequestHost '%s' is not host[:port]", text);
        return 0;
}

static int network_check_unsupported(const json_t *config, struct err *err)
{
        json_t *ports = NULL, *rules = NULL, *proxy = NULL;

        if (json_field_array(config, "httpsPorts", &ports, err) < 0 ||
            json_field_object(config, "rules", &rules, err) < 0 ||
            json_field_object(config, "egressProxy", &proxy, err) < 0)
                return err_wrap(err, "network");
        if (json_array_size(ports) > 0)
                return err_set(err, ERR_INVALID, "network.httpsPorts is not supported by this server version");
        if (json_object_size(rules) > 0)
                return err_set(err, ERR_INVALID, "network.rules is not supported by this server version");
        if (proxy)
                return err_set(err, ERR_INVALID, "network.egressProxy is not supported by this server version");
        return 0;
}

/* Keep what was configured, as it was written, and nothing unknown. */
static int show(const json_t *config, struct network *n, struct err *err)
{
        static const char *const known[] = {"allowOut", "denyOut", "allowPublicTraffic", "maskRequestHost"};

        n->shown = json_object();
        for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
                const json_t *v = json_object_get(config, known[i]);

                /* Copied: the request's own tree is not to be kept alive by ours. */
                if (json_field_is_set(config, known[i]) &&
                    json_object_set_new(n->shown, known[i], json_deep_copy(v)) < 0)
                        return err_sys(err, -ENOMEM, "network");
        }
        if (json_object_size(n->shown) == 0) {
                json_decref(n->shown);
                n->shown = NULL;
        }
        return 0;
}

static int decode_config(const json_t *config, struct network *n, struct err *err)
{
        json_t *allow = NULL, *deny = NULL;
        const char *mask = NULL;
        bool is_all_denied = !n->plan.internet;
        int r;

        if (json_field_text_list(config, "allowOut", PLAN_CIDRS_MAX, &allow, err) < 0 ||
            json_field_text_list(config, "denyOut", PLAN_CIDRS_MAX, &deny, err) < 0 ||
            json_field_text(config, "maskRequestHost", &mask, err) < 0 ||
            json_field_bool(config, "allowPublicTraffic", &n->is_public, err) < 0)
                return -EINVAL;
        r = decode_deny(deny, &n->plan, &is_all_denied, err);
        if (r == 0)
                r = decode_allow(allow, is_all_denied, &n->plan, err);
        if (r == 0 && mask)
                r = check_mask_host(mask, err);
        if (r == 0)
                r = network_check_unsupported(config, err);
        n->plan.internet = !is_all_denied;
        return r < 0 ? r : show(config, n, err);
}

int network_decode(const json_t *config, enum choice internet, struct network *ret, struct err *err)
{
        struct network n = {.is_public = true, .plan.internet = internet != CHOICE_NO};
        int r = 0;

        if (config)
                r = decode_config(config, &n, err);
        if (r < 0) {
                network_done(&n);
                return r;
        }
        *ret = n;
        return 0;
}

void network_done(struct network *n)
{
        json_decref(n->shown);
        free(n->plan.allow);
        free(n->plan.deny);
        *n = (struct network){0};
}
