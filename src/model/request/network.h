/* network.h - a sandbox's network configuration as a client writes it: checked, and turned into the engine's rules.  Pure.
 *
 * Sandboxes have no IPv6 beyond themselves: an IPv6 network in denyOut is accepted (it is denied already), one in
 * allowOut is refused, since it could not be kept. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "model/plan.h"
#include "model/sandbox.h"

struct err;

struct network {
        json_t *shown;        /* owned; what clients see of it; NULL: nothing was configured */
        struct plan_net plan; /* owned */
        bool is_public;       /* traffic needs no token */
};

/* `config` is the request's "network" object or NULL.  ERR_INVALID with the contract's texts.
 * On success *ret is the caller's, to be released with network_done(). */
int network_decode(const json_t *config, enum choice internet, struct network *ret, struct err *err);
void network_done(struct network *n);
