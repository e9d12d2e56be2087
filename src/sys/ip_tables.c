#include "sys/ip_tables.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netfilter/x_tables.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "sys/fs.h"

#define TRIES 5
#define BYTES_MAX (64u << 20)

struct ip_tables {
        struct ipt_getinfo info;
        struct ipt_get_entries *table; /* owned */
};

/* ------------------------------------------------------------- reading */

static bool table_exists(void)
{
        char names[256];

        if (sys_read_at(AT_FDCWD, "/proc/net/ip_tables_names", names, sizeof(names)) < 0)
                return false;
        return strncmp(names, "filter\n", 7) == 0 || strstr(names, "\nfilter\n");
}

/* -EAGAIN: the table changed in between. */
static int table_read(int fd, struct ip_tables *t)
{
        socklen_t len = sizeof(t->info);

        t->info = (struct ipt_getinfo){.name = "filter"};
        if (getsockopt(fd, IPPROTO_IP, IPT_SO_GET_INFO, &t->info, &len) < 0)
                return -errno;
        if (t->info.size > BYTES_MAX)
                return -E2BIG;
        free(t->table);
        len = (socklen_t)(sizeof(*t->table) + t->info.size);
        t->table = calloc(1, len);
        if (!t->table)
                return -ENOMEM;
        *t->table = (struct ipt_get_entries){.name = "filter", .size = t->info.size};
        return getsockopt(fd, IPPROTO_IP, IPT_SO_GET_ENTRIES, t->table, &len) < 0 ? -errno : 0;
}

int ip_tables_read(struct ip_tables **ret)
{
        AUTO_CLOSE int fd = -1;
        struct ip_tables *t;
        int r = -EAGAIN;

        *ret = NULL;
        if (!table_exists())
                return 0;
        fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        t = calloc(1, sizeof(*t));
        if (!t)
                return -ENOMEM;
        for (int i = 0; r == -EAGAIN && i < TRIES; i++)
                r = table_read(fd, t);
        if (r < 0) {
                t = ip_tables_free(t);
                return r;
        }
        *ret = t;
        return 1;
}

struct ip_tables *ip_tables_free(struct ip_tables *t)
{
        if (t)
                free(t->table);
        free(t);
        return NULL;
}

/* ------------------------------------------------------------- entries */

/* The entry at an offset; NULL: past the end, or not all of it. */
static const struct ipt_entry *entry_at(const struct ip_tables *t, size_t at)
{
        const struct ipt_entry *e = (const void *)((const uint8_t *)t->table->entrytable + at);
        size_t left = at < t->info.size ? t->info.size - at : 0;

        if (left < sizeof(*e) + sizeof(struct xt_entry_target) || at % _Alignof(struct ipt_entry) ||
            e->next_offset > left || e->target_offset < sizeof(*e) ||
            e->next_offset < e->target_offset + sizeof(struct xt_entry_target))
                return NULL;
        return e;
}

static const struct xt_entry_target *entry_target(const struct ipt_entry *e)
{
        return (const void *)((const uint8_t *)e + e->target_offset);
}

/* The name of the chain that begins behind this entry; NULL: it is an ordinary rule. */
static const char *entry_heads(const struct ipt_entry *e)
{
        const struct xt_error_target *head = (const void *)entry_target(e);

        if (strncmp(head->target.u.user.name, XT_ERROR_TARGET, sizeof(head->target.u.user.name)) != 0 ||
            e->next_offset < e->target_offset + sizeof(*head) ||
            strnlen(head->errorname, sizeof(head->errorname)) == sizeof(head->errorname))
                return NULL;
        return head->errorname;
}

static int entry_verdict(const struct ipt_entry *e) /* INT_MIN: its target decides by itself */
{
        const struct xt_standard_target *std = (const void *)entry_target(e);

        if (std->target.u.user.name[0] != '\0' || e->next_offset < e->target_offset + sizeof(*std))
                return INT_MIN;
        return std->verdict;
}

/* Where the rules of a chain begin; -1: there is no such chain. */
static ssize_t chain_start(const struct ip_tables *t, const char *chain)
{
        const struct ipt_entry *e;

        if (strcmp(chain, "FORWARD") == 0)
                return t->info.hook_entry[NF_INET_FORWARD];
        for (size_t at = 0; (e = entry_at(t, at)); at += e->next_offset) {
                const char *name = entry_heads(e);

                if (name && strcmp(name, chain) == 0)
                        return (ssize_t)(at + e->next_offset);
        }
        return -1;
}

static void chain_name(const struct ip_tables *t, size_t start, char out[FILTER_NAME_MAX])
{
        const struct ipt_entry *e;

        for (size_t at = 0; at < start && (e = entry_at(t, at)); at += e->next_offset)
                if (at + e->next_offset == start && entry_heads(e))
                        memcpy(out, entry_heads(e), strlen(entry_heads(e)) + 1);
}

/* ------------------------------------------------------------- rules */

static bool is_for_every_packet(const struct ipt_ip *ip)
{
        static const struct ipt_ip any;
        struct ipt_ip rest = *ip;

        rest.flags = 0; /* what is left of it says only how a verdict is meant */
        return !(ip->flags & IPT_F_FRAG) && memcmp(&rest, &any, sizeof(rest)) == 0;
}

static void rule_take_matches(const struct ipt_entry *e, struct filter_rule *rule)
{
        size_t at = sizeof(*e);

        while (at + sizeof(struct xt_entry_match) <= e->target_offset) {
                const struct xt_entry_match *m = (const void *)((const uint8_t *)e + at);
                size_t n = m->u.match_size, text;

                if (n < sizeof(*m) || n > e->target_offset - at)
                        break;
                if (strncmp(m->u.user.name, "comment", sizeof(m->u.user.name)) == 0) {
                        text = strnlen((const char *)m->data, n - sizeof(*m));
                        if (text < sizeof(rule->comment))
                                memcpy(rule->comment, m->data, text); /* was empty */
                } else
                        rule->is_conditional = true;
                at += n;
        }
}

static void rule_take_target(const struct ip_tables *t, const struct ipt_entry *e, size_t at, struct filter_rule *rule)
{
        int verdict = entry_verdict(e);

        if (verdict == INT_MIN)
                rule->verdict = strcmp(entry_target(e)->u.user.name, "REJECT") == 0 ? FILTER_DROPS : FILTER_GOES_ON;
        else if (verdict == -NF_DROP - 1)
                rule->verdict = FILTER_DROPS;
        else if (verdict == -NF_ACCEPT - 1)
                rule->verdict = FILTER_ACCEPTS;
        else if (verdict == XT_RETURN)
                rule->verdict = FILTER_RETURNS;
        else if (verdict >= 0 && (size_t)verdict != at + e->next_offset) {
                rule->verdict = e->ip.flags & IPT_F_GOTO ? FILTER_GOES_TO : FILTER_JUMPS;
                chain_name(t, (size_t)verdict, rule->chain);
        }
}

int ip_tables_rules(const struct ip_tables *t, const char *chain, struct filter_rules *ret)
{
        const size_t policy = t->info.underflow[NF_INET_FORWARD]; /* the last entry of the chain */
        struct filter_rules rules = {0};
        const struct ipt_entry *e;
        ssize_t start = chain_start(t, chain);

        for (size_t at = (size_t)start; start >= 0 && (e = entry_at(t, at)); at += e->next_offset) {
                struct filter_rule *rule;

                if (entry_heads(e) || at == policy)
                        break;
                rule = filter_rules_add(&rules);
                if (!rule) {
                        filter_rules_done(&rules);
                        return -ENOMEM;
                }
                rule->handle = rules.count;
                rule->is_conditional = !is_for_every_packet(&e->ip);
                rule_take_matches(e, rule);
                rule_take_target(t, e, at, rule);
        }
        *ret = rules;
        return 0;
}

bool ip_tables_forward_drops(const struct ip_tables *t)
{
        const struct ipt_entry *policy = entry_at(t, t->info.underflow[NF_INET_FORWARD]);

        return policy && entry_verdict(policy) == -NF_DROP - 1;
}
