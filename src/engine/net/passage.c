#include "engine/net/passage.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/host/instance.h"
#include "engine/host/program.h"
#include "engine/net/firewall.h"
#include "engine/net/other_chains.h"
#include "sys/netlink.h"

#define BIT(cap) (1ull << (cap))
#define PROGRAM_CAPS (BIT(CAP_NET_ADMIN) | BIT(CAP_NET_RAW) | BIT(CAP_DAC_OVERRIDE)) /* the last for its lock file */
#define PROGRAM_MS 15000
#define LEGACY_ROUNDS 3 /* remove what is at the wrong place, insert, look */
#define SCRIPT_MAX (64u << 10)

/* ------------------------------------------------------------- reports */

static void report_add(struct passage_report *report, enum passage_outcome outcome, const char *fmt, ...) PRINTF(3, 4);
static void report_add(struct passage_report *report, enum passage_outcome outcome, const char *fmt, ...)
{
        size_t len = strlen(report->text), room = sizeof(report->text) - len;
        va_list ap;
        int n;

        report->outcome = outcome > report->outcome ? outcome : report->outcome;
        n = snprintf(report->text + len, room, "%s", len > 0 ? "; " : "");
        va_start(ap, fmt);
        if (n >= 0 && (size_t)n < room)
                n += vsnprintf(report->text + len + n, room - (size_t)n, fmt, ap);
        va_end(ap);
        if (n >= (int)room && len > 0 && room > 5)
                (void)snprintf(report->text + len, room, " ...");
}

/* ------------------------------------------------------------- nftables */

/* Names go into a script: only those that are one word to it. */
static bool is_word(const char *name)
{
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";

        return name[0] && name[strspn(name, letters)] == '\0' && name[0] != '-';
}

static int add_delete_ours(struct buf *b, const struct other_chain *c, const char *comment)
{
        int r = 0;

        for (size_t i = 0; i < c->rules.count && r == 0; i++)
                if (strcmp(c->rules.at[i].comment, comment) == 0)
                        r = buf_addf(b, "delete rule %s %s %s handle %llu\n", nft_family_name(c->nft.family),
                                     c->nft.table, c->nft.name, (unsigned long long)c->rules.at[i].handle);
        return r;
}

/* With a counter and without `ct`: as iptables-nft writes and understands rules. */
static int add_accept(struct buf *b, const struct other_chain *c, const struct instance *in, uint64_t before,
                      const char *direction)
{
        int r = buf_addf(b, "%s rule %s %s %s ", before ? "insert" : "add", nft_family_name(c->nft.family),
                         c->nft.table, c->nft.name);

        if (r == 0 && before)
                r = buf_addf(b, "handle %llu ", (unsigned long long)before);
        return r < 0 ? r
                     : buf_addf(b, "%s \"sg%u-*\" counter accept comment \"%s\"\n", direction, in->number, in->name);
}

static int nft_change(const struct other_chain *c, const struct instance *in, const struct passage_decision *d,
                      struct err *err)
{
        AUTO_BUF struct buf b = BUF_INIT(SCRIPT_MAX);
        int r;

        if (!is_word(c->nft.table) || !is_word(c->nft.name))
                return err_set(err, ERR_INVALID, "its name is not one that nft can read");
        r = add_delete_ours(&b, c, in->name);
        if (r == 0 && d->need == PASSAGE_MISSING)
                r = add_accept(&b, c, in, d->before, "iifname");
        if (r == 0 && d->need == PASSAGE_MISSING)
                r = add_accept(&b, c, in, d->before, "oifname");
        if (r < 0 || !buf_cstr(&b))
                return err_sys(err, r < 0 ? r : -ENOMEM, "packet filter");
        return b.len > 0 ? firewall_run(buf_cstr(&b), err) : 0;
}

/* ------------------------------------------------------------- iptables-legacy */

static int legacy_run(const char *command, uint64_t number, const char *direction, const struct instance *in,
                      struct err *err)
{
        char link[INSTANCE_LINK_MAX], at[24];
        const char *argv[20] = {
                "xtables-legacy-multi", "iptables-legacy", "-w", "10", "-t", "filter", command, "FORWARD"};
        size_t n = 8;
        int r;

        (void)snprintf(link, sizeof(link), "sg%u-+", in->number);
        (void)snprintf(at, sizeof(at), "%llu", (unsigned long long)number);
        if (number)
                argv[n++] = at;
        for (const char *const *word = (const char *const[]){direction, link, "-m", "comment", "--comment", in->name,
                                                             "-j", "ACCEPT", NULL};
             *word; word++)
                argv[n++] = *word;
        argv[n] = NULL;
        r = program_run(argv + 1, PROGRAM_CAPS, PROGRAM_MS, err);
        if (r < 0 && err->kind == ERR_NOT_FOUND)
                r = program_run(argv, PROGRAM_CAPS, PROGRAM_MS, err);
        return r;
}

static int legacy_insert(const struct instance *in, uint64_t before, struct err *err)
{
        const char *command = before ? "-I" : "-A";
        int r = legacy_run(command, before, "-i", in, err);

        return r < 0 ? r : legacy_run(command, before, "-o", in, err);
}

static int legacy_delete(const struct instance *in, unsigned count, struct err *err)
{
        for (unsigned i = 0; i < count; i++)
                if (legacy_run("-D", 0, "-i", in, err) < 0 && legacy_run("-D", 0, "-o", in, err) < 0)
                        return -EIO;
        return 0;
}

/* Numbers of rules change with each step: one at a time, and look again. */
static int legacy_change(struct other_chain *c, const struct instance *in, const struct passage_decision *first,
                         struct err *err)
{
        struct passage_decision d = *first;
        int r = 0;

        for (int i = 0; i < LEGACY_ROUNDS && r == 0; i++) {
                if (d.need == PASSAGE_IN_PLACE || (d.need == PASSAGE_NOT_NEEDED && d.count == 0))
                        return 0;
                r = d.count > 0 ? legacy_delete(in, d.count, err) : legacy_insert(in, d.before, err);
                if (r < 0)
                        return r;
                c->legacy = ip_tables_free(c->legacy);
                filter_rules_done(&c->rules);
                if (ip_tables_read(&c->legacy) <= 0)
                        return 0; /* the table went away meanwhile */
                c->policy_drops = ip_tables_forward_drops(c->legacy);
                r = ip_tables_rules(c->legacy, "FORWARD", &c->rules);
                if (r == 0)
                        r = other_chain_decide(c, in->number, &d);
        }
        if (r < 0)
                return err_sys(err, r, "look again");
        return d.need == PASSAGE_MISSING ? err_set(err, ERR_UNAVAILABLE, "somebody else keeps changing it") : 0;
}

/* ------------------------------------------------------------- firewalld */

/* Its table may belong to it alone (NftablesTableOwner), then nobody else can change it.  The zone accepts what our links send,
 * to the host too: there our own table refuses. */
static int firewalld_run(const char *verb, const struct instance *in, struct err *err)
{
        char option[48];

        (void)snprintf(option, sizeof(option), "--%s-interface=sg%u-+", verb, in->number);
        return program_run((const char *const[]){"firewall-cmd", "--quiet", "--zone=trusted", option, NULL},
                           PROGRAM_CAPS, PROGRAM_MS, err);
}

/* ------------------------------------------------------------- all of them */

static int add_passage(struct other_chain *c, const struct instance *in, const struct passage_decision *d,
                       struct err *err)
{
        int r = c->legacy ? legacy_change(c, in, d, err) : nft_change(c, in, d, err);

        if (r < 0 && other_chain_is_firewalld(c) && d->need == PASSAGE_MISSING)
                r = firewalld_run("add", in, err);
        return r;
}

static int remove_passage(const struct other_chain *c, const struct instance *in, struct passage_decision *d,
                          struct err *err)
{
        int r = 0;

        d->need = PASSAGE_NOT_NEEDED;
        if (d->is_in_zone)
                r = firewalld_run("remove", in, err);
        if (r == 0 && d->count > 0)
                r = c->legacy ? legacy_delete(in, d->count, err) : nft_change(c, in, d, err);
        return r;
}

static void open_one(struct other_chain *c, const struct instance *in, struct passage_report *report)
{
        char name[OTHER_CHAIN_NAME_MAX];
        struct passage_decision d;
        struct err err = {0};
        int r = other_chain_decide(c, in->number, &d);

        other_chain_name(c, name);
        if (r == 0 && d.need == PASSAGE_NOT_NEEDED && d.count == 0)
                return;
        if (r < 0)
                (void)err_sys(&err, r, "read");
        else if (d.need != PASSAGE_IN_PLACE)
                r = add_passage(c, in, &d, &err);
        if (r < 0)
                report_add(report, PASSAGE_BLOCKED, "%s: %s", name, err.msg);
        else if (d.need != PASSAGE_NOT_NEEDED)
                report_add(report, PASSAGE_OPEN, "%s", name);
}

void passage_open(const struct instance *in, struct passage_report *ret)
{
        AUTO(other_chains_done) struct other_chains all = {0};
        int r = other_chains_read(&all);

        *ret = (struct passage_report){0};
        if (r < 0)
                report_add(ret, PASSAGE_BLOCKED, "the other firewalls of this host cannot be read: %s", strerror(-r));
        for (size_t i = 0; i < all.count; i++)
                open_one(&all.at[i], in, ret);
}

void passage_close(const struct instance *in)
{
        AUTO(other_chains_done) struct other_chains all = {0};

        (void)other_chains_read(&all); /* a host without a packet filter has no rules of ours */
        for (size_t i = 0; i < all.count; i++) {
                struct passage_decision d;
                struct err err = {0};

                if (other_chain_decide(&all.at[i], in->number, &d) < 0 || (d.count == 0 && !d.is_in_zone))
                        continue;
                if (remove_passage(&all.at[i], in, &d, &err) < 0)
                        log_warn("firewall.left", "error=\"%s\"", err.msg);
        }
}

/* ------------------------------------------------------------- for doctor */

static void look_at(const struct other_chain *c, unsigned *seen, struct passage_report *report)
{
        char name[OTHER_CHAIN_NAME_MAX], instance[INSTANCE_NAME_MAX];
        struct passage_decision d;
        unsigned missing = 0, open = 0;

        other_chain_name(c, name);
        if (other_chain_decide(c, INSTANCES_MAX, &d) < 0 || d.need == PASSAGE_NOT_NEEDED)
                return;
        for (unsigned n = 0; n < INSTANCES_MAX; n++) {
                (void)snprintf(instance, sizeof(instance), "sandglass-%u", n);
                if (netlink_table_exists(instance) != 1 || other_chain_decide(c, n, &d) < 0)
                        continue;
                open += d.need == PASSAGE_IN_PLACE;
                missing += d.need == PASSAGE_MISSING;
        }
        *seen += 1;
        if (missing > 0)
                report_add(report, PASSAGE_BLOCKED,
                           "%s: drops what it does not know, and has no rules for %u of %u servers", name, missing,
                           missing + open);
        else if (open > 0)
                report_add(report, PASSAGE_OPEN,
                           "%s: drops what it does not know; %u server%s put rules for sandboxes there", name, open,
                           open == 1 ? "" : "s");
        else
                report_add(report, PASSAGE_OPEN,
                           "%s: drops what it does not know; a server that runs puts rules for its sandboxes there",
                           name);
}

void passage_look(struct passage_report *ret)
{
        AUTO(other_chains_done) struct other_chains all = {0};
        int r = other_chains_read(&all);
        unsigned seen = 0;

        *ret = (struct passage_report){0};
        for (size_t i = 0; i < all.count; i++)
                look_at(&all.at[i], &seen, ret);
        if (r < 0)
                report_add(ret, PASSAGE_FREE, "cannot be read: %s", strerror(-r));
        else if (all.count == 0)
                report_add(ret, PASSAGE_FREE, "none");
        else if (seen == 0)
                report_add(ret, PASSAGE_FREE, "none of %zu drops what sandboxes send", all.count);
}
