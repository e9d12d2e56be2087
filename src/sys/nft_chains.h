/* nft_chains.h - which chains of nftables see forwarded packets, and the rules of a chain, by netlink.
 *
 * iptables of today (iptables-nft) keeps its rules there too, in tables of family ip.  Reads only.  Needs CAP_NET_ADMIN.
 * Negative errno on failure; -EINTR: somebody changed the rules meanwhile, again and again. */
#pragma once
#include "sys/filter_chain.h"

struct nft_chain {
        uint8_t family; /* NFPROTO_IPV4 or NFPROTO_INET */
        char table[FILTER_NAME_MAX];
        char name[FILTER_NAME_MAX];
        uint64_t handle; /* another one after the table was removed and made again */
        bool drops;      /* its policy */
};

#define NFT_CHAINS_MAX 32
/* Base chains of type filter at the forward hook of IPv4.  The number of them; more than NFT_CHAINS_MAX are left out. */
int nft_forward_chains(struct nft_chain out[NFT_CHAINS_MAX]);
/* The rules of a chain of the same table; *ret is the caller's, empty when there is no such chain. */
int nft_chain_rules(const struct nft_chain *of, const char *chain, struct filter_rules *ret);
const char *nft_family_name(uint8_t family); /* "ip", "inet" */
