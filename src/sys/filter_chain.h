/* filter_chain.h - the rules of a packet filter's chain, as far as they say what becomes of every packet.
 *
 * The same for nftables (nft_chains.h) and for the older tables of iptables-legacy (ip_tables.h). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILTER_NAME_MAX 128
#define FILTER_COMMENT_MAX 32
#define FILTER_LINK_MAX 20

enum filter_verdict {
        FILTER_GOES_ON, /* to the next rule: it counts, logs, marks */
        FILTER_ACCEPTS,
        FILTER_DROPS,   /* or refuses with an answer */
        FILTER_JUMPS,   /* to another chain, and back */
        FILTER_GOES_TO, /* another chain, and from there to what called this one */
        FILTER_RETURNS,
};

struct filter_rule {
        uint64_t handle; /* nftables: the kernel's name for it; iptables-legacy: its number in the chain, from 1 */
        enum filter_verdict verdict;
        bool is_conditional;              /* the verdict is for some packets only */
        char chain[FILTER_NAME_MAX];      /* FILTER_JUMPS, FILTER_GOES_TO: where to; "": a longer name */
        char comment[FILTER_COMMENT_MAX]; /* "": none, or a longer one */
        char from[FILTER_LINK_MAX]; /* nftables: for packets from this link, or links whose names begin so; "": any */
};

struct filter_rules {
        struct filter_rule *at; /* owned */
        size_t count, room;
};

/* One more, empty; NULL: out of memory. */
struct filter_rule *filter_rules_add(struct filter_rules *rules);
void filter_rules_done(struct filter_rules *rules); /* may be used again */
