#include "engine/net/firewall.h"

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "engine/host/instance.h"
#include "engine/net/dns_forwarder.h"
#include "engine/net/nft_library.h"
#include "model/network/closed_networks.h"

#define SCRIPT_MAX (8u << 20)

struct firewall {
        const struct instance *instance; /* borrowed; NULL: for firewall_run() */
        struct nft_library library;
        struct nft_ctx *nft; /* owned; NULL until the first command */
        bool is_dry;         /* commands are checked and change nothing */
        struct buf script;   /* of the command being made */
};

/* A connection of a sandbox has an entry in the host's table of connections, as everyone's has: no sandbox may fill it,
 * neither with open ones nor by opening and closing. */
#define FLOWS_MAX "4096"
#define NEW_FLOWS "500/second burst 2000 packets"

/* %1$s: table, %2$u: instance number, %3$s: its addresses, %4$s: closed networks, %5$s: the gateway, %6$s: the DNS forwarder,
 * %7$u: its slot.  Nobody connects from the host to a sandbox's link: the engine dials inside, and a local user would get past
 * the tokens.  Queries to the gateway go to the DNS forwarder, under the same rules as all that a sandbox sends. */
static const char table_text[] = "add table inet %1$s\n"
                                 "delete table inet %1$s\n"
                                 "table inet %1$s {\n"
                                 "  set closed { type ipv4_addr; }\n"
                                 "  set allow { type ipv4_addr . ipv4_addr; flags interval; }\n"
                                 "  set deny { type ipv4_addr . ipv4_addr; flags interval; }\n"
                                 "  set flows { type ipv4_addr; size 65535; flags dynamic; }\n"
                                 "  set rates { type ipv4_addr; size 65535; flags dynamic,timeout; timeout 1m; }\n"
                                 "  chain input {\n"
                                 "    type filter hook input priority filter; policy accept;\n"
                                 "    iifname \"sg%2$u-*\" ct state established,related accept\n"
                                 "    iifname \"sg%2$u-*\" drop\n"
                                 "  }\n"
                                 "  chain output {\n"
                                 "    type filter hook output priority filter; policy accept;\n"
                                 "    oifname \"sg%2$u-*\" ct state established,related accept\n"
                                 "    oifname \"sg%2$u-*\" drop\n"
                                 "  }\n"
                                 "  chain forward {\n"
                                 "    type filter hook forward priority filter; policy accept;\n"
                                 "    iifname \"sg%2$u-%7$u\" ct state established,related accept\n"
                                 "    iifname \"sg%2$u-%7$u\" drop\n"
                                 "    iifname \"sg%2$u-*\" goto egress\n"
                                 "    oifname \"sg%2$u-*\" ct state established,related accept\n"
                                 "    oifname \"sg%2$u-*\" drop\n"
                                 "  }\n"
                                 "  chain never {\n"
                                 "    ip daddr %6$s meta l4proto { tcp, udp } th dport 53 return\n"
                                 "    drop\n"
                                 "  }\n"
                                 "  chain egress {\n"
                                 "    meta nfproto != ipv4 drop\n"
                                 "    fib saddr . iif oif missing drop\n"
                                 "    ct state invalid drop\n"
                                 "    ip daddr { %4$s } jump never\n"
                                 "    ct state new update @rates { ip saddr limit rate over " NEW_FLOWS " } drop\n"
                                 "    ct state new add @flows { ip saddr ct count over " FLOWS_MAX " } drop\n"
                                 "    ip saddr . ip daddr @allow accept\n"
                                 "    ip saddr @closed drop\n"
                                 "    ip saddr . ip daddr @deny drop\n"
                                 "    accept\n"
                                 "  }\n"
                                 "  chain resolve {\n"
                                 "    type nat hook prerouting priority dstnat; policy accept;\n"
                                 "    iifname \"sg%2$u-*\" ip daddr %5$s meta l4proto { tcp, udp } th dport 53 "
                                 "dnat ip to %6$s\n"
                                 "  }\n"
                                 "  chain leave {\n"
                                 "    type nat hook postrouting priority srcnat; policy accept;\n"
                                 "    ip saddr %3$s oifname != \"sg%2$u-*\" masquerade\n"
                                 "  }\n"
                                 "}\n";

/* ------------------------------------------------------------- making commands */

static int add_addr(struct buf *b, uint32_t a)
{
        return buf_addf(b, "%u.%u.%u.%u", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255);
}

static bool contains(const struct plan_cidr *outer, const struct plan_cidr *inner)
{
        uint32_t mask = outer->prefix == 0 ? 0 : UINT32_MAX << (32 - outer->prefix);

        return outer->prefix <= inner->prefix && (inner->addr & mask) == outer->addr;
}

/* The kernel refuses overlapping intervals: what another of the list holds (the first of equals stays) is left out. */
static bool is_redundant(const struct plan_cidr *list, size_t n, size_t i)
{
        for (size_t k = 0; k < n; k++)
                if (k != i && contains(&list[k], &list[i]) && (list[k].prefix < list[i].prefix || k < i))
                        return true;
        return false;
}

static int add_set(struct firewall *f, const char *verb, const char *set, unsigned slot, const struct plan_cidr *list,
                   size_t n)
{
        struct buf *b = &f->script;
        int r = 0;

        for (size_t i = 0; i < n && r == 0; i++) {
                if (is_redundant(list, n, i))
                        continue;
                r = buf_addf(b, "%s element inet %s %s { ", verb, f->instance->name, set);
                if (r == 0)
                        r = add_addr(b, instance_address(f->instance, slot));
                if (r == 0)
                        r = buf_addc(b, " . ");
                if (r == 0)
                        r = add_addr(b, list[i].addr);
                if (r == 0)
                        r = buf_addf(b, "/%u }\n", list[i].prefix);
        }
        return r;
}

static int add_rules(struct firewall *f, const char *verb, unsigned slot, const struct plan_net *n)
{
        int r = 0;

        if (!n)
                return 0;
        if (!n->internet) {
                r = buf_addf(&f->script, "%s element inet %s closed { ", verb, f->instance->name);
                if (r == 0)
                        r = add_addr(&f->script, instance_address(f->instance, slot));
                if (r == 0)
                        r = buf_addc(&f->script, " }\n");
        }
        if (r == 0)
                r = add_set(f, verb, "allow", slot, n->allow, n->allow_count);
        if (r == 0)
                r = add_set(f, verb, "deny", slot, n->deny, n->deny_count);
        return r;
}

static int open_nft(struct firewall *f, struct err *err)
{
        if (f->nft)
                return 0;
        f->nft = f->library.ctx_new(NFT_CTX_DEFAULT);
        if (!f->nft)
                return err_set(err, ERR_UNAVAILABLE, "packet filter: the library does not start");
        (void)f->library.ctx_buffer_output(f->nft);
        (void)f->library.ctx_buffer_error(f->nft);
        f->library.ctx_set_dry_run(f->nft, f->is_dry);
        return 0;
}

static void close_nft(struct firewall *f)
{
        if (f->nft)
                f->library.ctx_free(f->nft);
        f->nft = NULL;
}

/* One transaction; the message of a failure is the first line the library has. */
static int run(struct firewall *f, struct err *err)
{
        const char *text = buf_cstr(&f->script);
        int r = text ? open_nft(f, err) : err_sys(err, -ENOMEM, "packet filter");

        if (r == 0 && f->script.len > 0 && f->library.run_cmd_from_buffer(f->nft, text) != 0) {
                const char *why = f->library.ctx_get_error_buffer(f->nft);

                r = err_set(err, ERR_UNAVAILABLE, "packet filter: %.*s", why ? (int)strcspn(why, "\n") : 0,
                            why ? why : "");
        } else if (r == 0)
                (void)f->library.ctx_get_error_buffer(f->nft); /* empties it */
        buf_done(&f->script);
        return r;
}

/* ------------------------------------------------------------- the table */

static int add_closed(struct buf *b)
{
        int r = 0;

        for (unsigned i = 0; i < CLOSED_NETWORKS && r == 0; i++) {
                r = i > 0 ? buf_addc(b, ", ") : 0;
                if (r == 0)
                        r = add_addr(b, closed_networks[i].addr);
                if (r == 0)
                        r = buf_addf(b, "/%u", closed_networks[i].prefix);
        }
        return r;
}

static int add_table(struct firewall *f)
{
        AUTO_BUF struct buf ours = BUF_INIT(32), closed = BUF_INIT(512), gateway = BUF_INIT(32), dns = BUF_INIT(32);
        const struct instance *in = f->instance;
        int r;

        if ((r = add_addr(&ours, instance_address(in, 0))) < 0 || (r = buf_addc(&ours, "/20")) < 0 ||
            (r = add_closed(&closed)) < 0 || (r = add_addr(&gateway, INSTANCE_GATEWAY)) < 0 ||
            (r = add_addr(&dns, instance_address(in, DNS_FORWARDER_SLOT))) < 0)
                return r;
        if (!buf_cstr(&ours) || !buf_cstr(&closed) || !buf_cstr(&gateway) || !buf_cstr(&dns))
                return -ENOMEM;
        return buf_addf(&f->script, table_text, in->name, in->number, buf_cstr(&ours), buf_cstr(&closed),
                        buf_cstr(&gateway), buf_cstr(&dns), DNS_FORWARDER_SLOT);
}

int firewall_load(struct firewall *f, const struct firewall_entry *entries, size_t n, struct err *err)
{
        int r = add_table(f);

        for (size_t i = 0; i < n && r == 0; i++)
                r = add_rules(f, "add", entries[i].slot, entries[i].net);
        r = r < 0 ? err_sys(err, r, "packet filter") : run(f, err);
        close_nft(f); /* it remembers what it loaded: 1.2 MiB, and more while it works */
        (void)malloc_trim(0);
        return r;
}

static int open_firewall(const struct instance *in, struct firewall **ret, struct err *err)
{
        struct firewall *f = calloc(1, sizeof(*f));
        int r;

        if (!f)
                return err_sys(err, -ENOMEM, "packet filter");
        f->instance = in;
        f->script = BUF_INIT(SCRIPT_MAX);
        r = nft_library_open(NFT_LIBRARY_NAME, &f->library, err);
        if (r < 0)
                f = firewall_free(f);
        *ret = f;
        return r;
}

int firewall_create(const struct instance *in, const struct firewall_entry *entries, size_t n, struct firewall **ret,
                    struct err *err)
{
        struct firewall *f;
        int r = open_firewall(in, &f, err);

        if (r < 0)
                return r;
        r = firewall_load(f, entries, n, err);
        if (r < 0) {
                f = firewall_free(f);
                return r;
        }
        *ret = f;
        return 0;
}

int firewall_check(struct err *err)
{
        const struct instance in = {.name = "sandglass-probe", .number = INSTANCES_MAX};
        struct firewall *f;
        int r = open_firewall(&in, &f, err);

        if (r < 0)
                return r;
        f->is_dry = true;
        r = firewall_load(f, NULL, 0, err);
        f = firewall_free(f);
        return r;
}

struct firewall *firewall_free(struct firewall *f)
{
        if (!f)
                return NULL;
        close_nft(f);
        buf_done(&f->script);
        free(f);
        return NULL;
}

int firewall_replace(struct firewall *f, unsigned slot, const struct plan_net *old, const struct plan_net *net,
                     struct err *err)
{
        int r = add_rules(f, "delete", slot, old);

        if (r == 0)
                r = add_rules(f, "add", slot, net);
        if (r < 0) {
                buf_done(&f->script);
                return err_sys(err, r, "packet filter");
        }
        return run(f, err);
}

int firewall_run(const char *script, struct err *err)
{
        struct firewall *f;
        int r = open_firewall(NULL, &f, err);

        if (r < 0)
                return r;
        r = buf_addc(&f->script, script);
        r = r < 0 ? err_sys(err, r, "packet filter") : run(f, err);
        f = firewall_free(f);
        return r;
}

int firewall_remove_table(const struct instance *in, struct err *err)
{
        char script[96];

        (void)snprintf(script, sizeof(script), "add table inet %s\ndelete table inet %s\n", in->name, in->name);
        return firewall_run(script, err);
}
