#include "engine/net/passage_decide.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"

#define DEPTH_MAX 16u /* of chains that call chains; the kernel allows as many */

enum chain_end { CHAIN_LEAVES_OPEN, CHAIN_ACCEPTS, CHAIN_DROPS }; /* what it does to every packet that comes so far */

struct tables {
        passage_rules_fn *rules_of;
        void *arg;
};

static int rule_end(const struct tables *t, const struct filter_rule *rule, unsigned depth, enum chain_end *ret);

/* What becomes of packets that no conditional rule of the chain has decided on. */
static int chain_end_of(const struct tables *t, const char *chain, unsigned depth, enum chain_end *ret)
{
        AUTO(filter_rules_done) struct filter_rules rules = {0};
        enum chain_end end = CHAIN_LEAVES_OPEN;
        int r = depth > DEPTH_MAX || !chain[0] ? 0 : t->rules_of(t->arg, chain, &rules);

        for (size_t i = 0; r == 0 && i < rules.count && end == CHAIN_LEAVES_OPEN; i++) {
                const struct filter_rule *rule = &rules.at[i];

                r = rule_end(t, rule, depth, &end);
                if (!rule->is_conditional && (rule->verdict == FILTER_RETURNS || rule->verdict == FILTER_GOES_TO))
                        break;
        }
        *ret = end;
        return r;
}

static int rule_end(const struct tables *t, const struct filter_rule *rule, unsigned depth, enum chain_end *ret)
{
        *ret = CHAIN_LEAVES_OPEN;
        if (rule->is_conditional)
                return 0;
        switch (rule->verdict) {
        case FILTER_ACCEPTS: *ret = CHAIN_ACCEPTS; break;
        case FILTER_DROPS: *ret = CHAIN_DROPS; break;
        case FILTER_JUMPS:
        case FILTER_GOES_TO: return chain_end_of(t, rule->chain, depth + 1, ret);
        case FILTER_GOES_ON:
        case FILTER_RETURNS: break;
        }
        return 0;
}

/* ufw writes to the log that it blocks a packet before its policy does so: whoever comes after that is in the log. */
static bool announces_a_drop(const struct filter_rule *rule)
{
        return !rule->is_conditional && rule->verdict == FILTER_JUMPS &&
               strcmp(rule->chain, "ufw-after-logging-forward") == 0;
}

static unsigned count_ours(const struct filter_rules *rules, size_t n, const char *comment)
{
        unsigned count = 0;

        for (size_t i = 0; i < n; i++)
                count += strcmp(rules->at[i].comment, comment) == 0;
        return count;
}

int passage_decide(const struct filter_rules *rules, bool policy_drops, const char *comment, passage_rules_fn *rules_of,
                   void *arg, struct passage_decision *ret)
{
        const struct tables t = {rules_of, arg};
        enum chain_end end = CHAIN_LEAVES_OPEN;
        size_t i, last = rules->count; /* the passage is before this rule */
        bool ends = false;
        int r = 0;

        for (i = 0; r == 0 && i < rules->count && !ends; i++) {
                const struct filter_rule *rule = &rules->at[i];

                r = rule_end(&t, rule, 0, &end);
                ends = end != CHAIN_LEAVES_OPEN ||
                       (!rule->is_conditional && (rule->verdict == FILTER_RETURNS || rule->verdict == FILTER_GOES_TO));
                if (last == rules->count && (announces_a_drop(rule) || ends))
                        last = i;
        }
        if (r < 0)
                return r;
        *ret = (struct passage_decision){.before = last < rules->count ? rules->at[last].handle : 0,
                                         .count = count_ours(rules, rules->count, comment)};
        if (end == CHAIN_ACCEPTS || (end == CHAIN_LEAVES_OPEN && !policy_drops))
                ret->need = PASSAGE_NOT_NEEDED;
        else if (ret->count == PASSAGE_RULES && count_ours(rules, last, comment) == PASSAGE_RULES)
                ret->need = PASSAGE_IN_PLACE;
        else
                ret->need = PASSAGE_MISSING;
        return 0;
}

const char *passage_owner(const char *table, const struct filter_rules *rules)
{
        static const struct {
                const char *prefix, *owner;
        } known[] = {{"ufw-", "ufw"},
                     {"DOCKER", "Docker"},
                     {"KUBE-", "Kubernetes"},
                     {"cali-", "Calico"},
                     {"LIBVIRT_", "libvirt"}};

        if (strcmp(table, "firewalld") == 0)
                return "firewalld";
        for (size_t k = 0; k < ARRAY_LEN(known); k++)
                for (size_t i = 0; i < rules->count; i++)
                        if (strncmp(rules->at[i].chain, known[k].prefix, strlen(known[k].prefix)) == 0)
                                return known[k].owner;
        return NULL;
}
