/* other_chains.h - the chains of other firewalls that see what sandboxes send: of nftables, and of iptables-legacy. */
#pragma once
#include "engine/net/passage_decide.h"
#include "sys/ip_tables.h"
#include "sys/nft_chains.h"

#define OTHER_CHAINS_MAX (NFT_CHAINS_MAX + 1)

struct other_chain {
        struct ip_tables *legacy; /* owned; NULL: of nftables */
        struct nft_chain nft;
        struct filter_rules rules; /* owned */
        bool policy_drops;
};

struct other_chains {
        struct other_chain at[OTHER_CHAINS_MAX];
        size_t count;
};

/* 0 or negative errno; other_chains_done() in either case. */
int other_chains_read(struct other_chains *ret);
void other_chains_done(struct other_chains *c);
/* For the instance of that number; INSTANCES_MAX: for one that has no rules anywhere. */
int other_chain_decide(const struct other_chain *c, unsigned number, struct passage_decision *ret);
bool other_chain_is_firewalld(const struct other_chain *c);
#define OTHER_CHAIN_NAME_MAX 320
void other_chain_name(const struct other_chain *c, char out[OTHER_CHAIN_NAME_MAX]); /* for people */
