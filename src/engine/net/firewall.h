/* firewall.h - what sandboxes may reach: one nftables table per instance.
 *
 * Closed for every sandbox, whatever its rules say: the host itself, other sandboxes, private, link-local (metadata
 * services), multicast and reserved networks, IPv6, and any packet whose source is not the sandbox's own address.  After
 * that its own rules: `allow` beats `deny`; without internet everything is denied.  All of it is looked up per packet in
 * sets, so its cost does not grow with the number of sandboxes, and a changed rule holds for open connections too.
 *
 * Runs in the engine: a change is one in-process transaction of about 0.2 ms.  Needs CAP_NET_ADMIN. */
#pragma once
#include <stddef.h>

#include "model/plan.h"

struct err;
struct instance;
struct firewall; /* opaque */

struct firewall_entry {
        unsigned slot;
        const struct plan_net *net;
};

/* Load the whole table in one transaction, with these sandboxes' rules.  ERR_UNAVAILABLE: the host's kernel cannot. */
int firewall_create(const struct instance *in, const struct firewall_entry *entries, size_t n, struct firewall **ret,
                    struct err *err);
/* The same once more, when somebody has removed the table. */
int firewall_load(struct firewall *f, const struct firewall_entry *entries, size_t n, struct err *err);
struct firewall *firewall_free(struct firewall *f); /* the table stays */
/* Rules of a slot: from `old` (NULL: none) to `net` (NULL: none), in one transaction. */
int firewall_replace(struct firewall *f, unsigned slot, const struct plan_net *old, const struct plan_net *net,
                     struct err *err);
int firewall_check(struct err *err);                   /* could the table be loaded?  Changes nothing */
int firewall_run(const char *script, struct err *err); /* any commands of nft, in one transaction */
int firewall_remove_table(const struct instance *in, struct err *err);
