/* passage_keeper.h - the helper process that keeps our passage through other firewalls open (passage.h).
 *
 * Another firewall is reloaded, started or stopped at any time, and our rules in it go with its own.  The kernel tells of
 * changes of nftables; iptables-legacy is looked at every few seconds.  A helper, since the programs that change some of them
 * take their time. */
#pragma once
#include "engine/host/helper.h"
#include "engine/net/passage.h"

struct err;

struct passage_keeper {
        struct helper helper;
        const struct instance *instance; /* borrowed */
        struct passage_report last;      /* what the helper said last; the log has each change of it */
};

/* Open the passage and keep it open; another helper follows one that died. */
int passage_keeper_start(struct passage_keeper *k, struct loop *l, const struct instance *in, struct err *err);
void passage_keeper_stop(
        struct passage_keeper *k); /* waits for the helper's end; the rules stay.  Fine when not started */
