/* passage.h - lets our links through the other firewalls of this host.
 *
 * passage_decide.h says where two accept rules must stand and why; here is which firewalls there are, and how the rules get
 * into them:
 *
 *   nftables, iptables-nft   rules as iptables-nft writes them, so that iptables still understands its table
 *   iptables-legacy          the program of that name
 *   firewalld                the same; where its table belongs to it alone, our links in its zone "trusted", by firewall-cmd
 *
 * The rules name our links only, and carry the name of the instance as their comment.  They let everything of these links
 * through: what sandboxes may reach is decided in our own table (firewall.h), which drops the rest whatever others accept.
 * Blocks; needs CAP_NET_ADMIN. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct instance;

#define PASSAGE_TEXT_MAX 400

enum passage_outcome {
        PASSAGE_FREE,    /* no other firewall drops what sandboxes send */
        PASSAGE_OPEN,    /* one does, and our rules are in it */
        PASSAGE_BLOCKED, /* one does, and our rules are not: sandboxes do not get out */
};

struct passage_report {
        enum passage_outcome outcome;
        char text[PASSAGE_TEXT_MAX]; /* which firewalls, and what was done or could not be done */
};

/* Put the rules where they are needed, and take them away where they no longer are. */
void passage_open(const struct instance *in, struct passage_report *ret);
/* Take all of them away. */
void passage_close(const struct instance *in);
/* The same for every instance of this machine whose table is loaded, without a change; for `doctor`. */
void passage_look(struct passage_report *ret);
