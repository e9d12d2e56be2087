#include "engine/net/other_chains.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "engine/host/instance.h"

#define OURS "sandglass-" /* how the tables of all instances are called */

static int read_nft(struct other_chains *all)
{
        struct nft_chain found[NFT_CHAINS_MAX];
        int n = nft_forward_chains(found), r = 0;

        for (int i = 0; i < n && r == 0; i++) {
                struct other_chain *c = &all->at[all->count];

                if (strncmp(found[i].table, OURS, strlen(OURS)) == 0)
                        continue;
                *c = (struct other_chain){.nft = found[i], .policy_drops = found[i].drops};
                r = nft_chain_rules(&c->nft, c->nft.name, &c->rules);
                all->count += r == 0;
        }
        return n < 0 ? n : r;
}

static int read_legacy(struct other_chains *all)
{
        struct other_chain *c = &all->at[all->count];
        struct ip_tables *t;
        int r = ip_tables_read(&t);

        if (r <= 0)
                return r;
        *c = (struct other_chain){.legacy = t, .policy_drops = ip_tables_forward_drops(t)};
        all->count++;
        return ip_tables_rules(t, "FORWARD", &c->rules);
}

int other_chains_read(struct other_chains *ret)
{
        int nft, legacy;

        ret->count = 0;
        nft = read_nft(ret); /* a kernel without one of the two may have the other */
        legacy = read_legacy(ret);
        return ret->count > 0 ? 0 : nft < 0 ? nft : legacy;
}

void other_chains_done(struct other_chains *c)
{
        for (size_t i = 0; i < c->count; i++) {
                c->at[i].legacy = ip_tables_free(c->at[i].legacy);
                filter_rules_done(&c->at[i].rules);
        }
        c->count = 0;
}

static int rules_of(void *arg, const char *chain, struct filter_rules *ret)
{
        const struct other_chain *c = arg;

        return c->legacy ? ip_tables_rules(c->legacy, chain, ret) : nft_chain_rules(&c->nft, chain, ret);
}

bool other_chain_is_firewalld(const struct other_chain *c)
{
        return !c->legacy && strcmp(c->nft.table, "firewalld") == 0;
}

/* Does a chain that this one always calls speak of our links?  firewalld has a rule there for each link of a zone. */
static int look_for_link(const struct other_chain *c, const char *link, bool *ret)
{
        int r = 0;

        *ret = false;
        for (size_t i = 0; i < c->rules.count && r == 0; i++) {
                AUTO(filter_rules_done) struct filter_rules called = {0};

                if (c->rules.at[i].verdict != FILTER_JUMPS || c->rules.at[i].is_conditional)
                        continue;
                r = nft_chain_rules(&c->nft, c->rules.at[i].chain, &called);
                for (size_t k = 0; r == 0 && k < called.count; k++)
                        *ret = *ret || strcmp(called.at[k].from, link) == 0;
        }
        return r;
}

int other_chain_decide(const struct other_chain *c, unsigned number, struct passage_decision *ret)
{
        char comment[INSTANCE_NAME_MAX], link[INSTANCE_LINK_MAX];
        int r;

        (void)snprintf(comment, sizeof(comment), OURS "%u", number);
        (void)snprintf(link, sizeof(link), "sg%u-", number);
        r = passage_decide(&c->rules, c->policy_drops, comment, rules_of, (void *)c, ret);
        if (r == 0 && other_chain_is_firewalld(c))
                r = look_for_link(c, link, &ret->is_in_zone);
        if (r == 0 && ret->is_in_zone && ret->need == PASSAGE_MISSING)
                ret->need = PASSAGE_IN_PLACE;
        return r;
}

void other_chain_name(const struct other_chain *c, char out[OTHER_CHAIN_NAME_MAX])
{
        const char *owner = passage_owner(c->legacy ? "" : c->nft.table, &c->rules);
        int n = owner ? snprintf(out, OTHER_CHAIN_NAME_MAX, "%s, ", owner) : 0;

        if (c->legacy)
                (void)snprintf(out + n, OTHER_CHAIN_NAME_MAX - (size_t)n, "filter FORWARD of iptables-legacy");
        else
                (void)snprintf(out + n, OTHER_CHAIN_NAME_MAX - (size_t)n, "%s %s %s of nftables",
                               nft_family_name(c->nft.family), c->nft.table, c->nft.name);
}
