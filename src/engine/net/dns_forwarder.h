/* dns_forwarder.h - the helper process that asks the host's name servers for sandboxes that do not reach them.
 *
 * Sandboxes ask INSTANCE_GATEWAY, port 53 (model/network/resolvers.h says which do).  The packet filter sends that to an address of a
 * network namespace that has a link like a sandbox's and nothing in it but the forwarder's two sockets (UDP, TCP): so it is
 * forwarded traffic like all of a sandbox's, the same rules hold for it, and the host has no port open.  The forwarder itself
 * is in the host's network, without any right: its own user, no capability.
 *
 * It passes queries and answers on as they are.  It refuses what is not a plain query: changes, transfers of zones.  It has
 * limits for all sandboxes and for each of them, and answers "server failure" when no server answers. */
#pragma once
#include <jansson.h>

#include "engine/host/helper.h"
#include "engine/host/instance.h"

struct err;

#define DNS_FORWARDER_SLOT 2u /* no sandbox has it: SLOT_FIRST */
#define DNS_FORWARDER_PORT 53u

struct dns_forwarder {
        struct helper helper;
        const struct instance *instance; /* borrowed */
        const json_t *servers;           /* borrowed: the setting sandbox_dns; NULL: those of the host's resolv.conf */
        int proc_dir;                    /* borrowed */
};

/* Another helper follows one that died. */
int dns_forwarder_start(struct dns_forwarder *f, struct loop *l, const struct instance *in, const json_t *servers,
                        int proc_dir, struct err *err);
void dns_forwarder_stop(struct dns_forwarder *f); /* fine when not started */

/* ------------------------------------------------------------- the helper itself, for tests too */

struct dns_service_conf {
        int udp, tcp;            /* bound; tcp listens.  Taken */
        uint32_t first_address;  /* of the slots: who asks is told by it */
        const char *resolv_conf; /* looked at again when it changes */
        const json_t *servers;   /* instead of those in it; NULL: none */
        uint16_t server_port;    /* 53, but for tests */
        int engine;              /* its end is ours; -1: none */
};
/* Serve until `engine` closes.  Negative errno: it could not begin. */
int dns_forwarder_serve(const struct dns_service_conf *c);
