/* rules.h - what one sandbox may reach: its rules in the firewall (net/firewall.h). */
#pragma once

struct err;
struct guest;
struct plan_net;

/* These rules (taken on success) replace those of the guest.  ERR_UNAVAILABLE: this host cannot enforce them. */
int rules_set(struct guest *g, struct plan_net *net, struct err *err);
void rules_remove(struct guest *g); /* the guest ends; what fails is logged */
