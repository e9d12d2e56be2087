/* firewall_watch.h - keeps the packet filter's table in place, and our passage through other firewalls (passage_keeper.h).
 *
 * Whoever loads the host's own rules (`nft flush ruleset`, a reload of nftables.service) removes ours with theirs, and
 * open to the sandboxes would be all that the host serves.  The kernel tells of every change: then look, put it back. */
#pragma once

struct namespaces;

/* Load the table with the rules of all sandboxes there are, as ns->firewall, and watch over it.  Where that fails,
 * ns->firewall stays NULL and ns->firewall_why says why. */
void firewall_watch_start(struct namespaces *ns);
void firewall_watch_stop(struct namespaces *ns);
