/* passage_decide.h - whether a chain of another firewall drops our packets, and where two rules let them through.  Pure.
 *
 * What nftables accepts in one table, another table at the same hook may still drop.  So where another firewall (Docker,
 * ufw, firewalld, rules of the operator's) drops what no rule of it speaks of, accept rules for our links must stand in its
 * own chain: our passage.  The passage comes as late as possible, directly before the rule that drops everything, or at the
 * end of a chain whose policy drops.  So a rule by which the operator forbids something still forbids it to sandboxes. */
#pragma once
#include "sys/filter_chain.h"

/* The rules of another chain of the same table; 0 or negative errno. */
typedef int passage_rules_fn(void *arg, const char *chain, struct filter_rules *ret);

enum passage_need {
        PASSAGE_NOT_NEEDED, /* the chain does not drop everything */
        PASSAGE_IN_PLACE,
        PASSAGE_MISSING, /* or not complete, or behind the rule that drops */
};

#define PASSAGE_RULES 2u /* what comes from our links, what goes to them */

struct passage_decision {
        enum passage_need need;
        uint64_t before; /* handle of the rule that drops everything; 0: the policy does */
        unsigned count;  /* rules with our comment, wherever in the chain */
        bool is_in_zone; /* firewalld only: our links are in one of its zones; other_chains.h sees to it */
};

/* rules: of the base chain, whose policy drops or does not. */
int passage_decide(const struct filter_rules *rules, bool policy_drops, const char *comment, passage_rules_fn *rules_of,
                   void *arg, struct passage_decision *ret);
/* Whose chain it is, by names that the well-known ones use: "Docker", "ufw", "firewalld", "Kubernetes"; NULL: unknown. */
const char *passage_owner(const char *table, const struct filter_rules *rules);
