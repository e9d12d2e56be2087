/* firewall_watch.h - keeps the packet filter's table in place.
 *
 * Whoever loads the host's own rules (`nft flush ruleset`, a reload of nftables.service) removes ours with theirs, and
 * open to the sandboxes would be all that the host serves.  The kernel tells of every change: then look, put it back. */
#pragma once

struct engine;

/* Load the table with the rules of all sandboxes there are, as e->filter, and watch over it.  What fails: e->filter
 * stays NULL, and e->firewall_why says why. */
void firewall_watch_start(struct engine *e);
void firewall_watch_stop(struct engine *e);
