/* ip_tables.h - the table "filter" of iptables-legacy, as the kernel has it; such tables filter beside nftables.
 *
 * Reads only, and only where somebody uses that table already: to ask for it would make it.  Needs CAP_NET_ADMIN. */
#pragma once
#include "sys/filter_chain.h"

struct ip_tables; /* opaque: a copy of the table */

/* 1: *ret is the caller's; 0: this network namespace has no such table, *ret is NULL; negative errno. */
int ip_tables_read(struct ip_tables **ret);
struct ip_tables *ip_tables_free(struct ip_tables *t);   /* always NULL */
bool ip_tables_forward_drops(const struct ip_tables *t); /* the policy of FORWARD */
/* The rules of a chain that somebody made, or of FORWARD; *ret is the caller's, empty when there is no such chain. */
int ip_tables_rules(const struct ip_tables *t, const char *chain, struct filter_rules *ret);
