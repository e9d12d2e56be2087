/* namespaces.h - the engine of the kind "namespace": sandboxes are processes in namespaces of their own.
 *
 * What it needs of the host is here, what it has of each sandbox is in struct namespace_guest.  namespace_ops is its row of
 * engine_ops.h.
 *
 *   cell.h, cell_maker.h, pool.h   processes made ahead, which become sandboxes
 *   start.h                        a sandbox made from a cell
 *   rules.h, firewall_watch.h      what sandboxes may reach
 *   dial.h                         sockets into them
 *   leftovers.h                    slots that nobody owns any more
 *   probe.h                        what the host must have */
#pragma once
#include "engine/guest/guest.h"
#include "engine/host/cgroups.h"
#include "engine/host/instance.h"
#include "engine/namespace/pool.h"
#include "engine/net/dns_forwarder.h"
#include "engine/net/passage_keeper.h"

struct firewall;
struct start;

struct namespaces {
        struct engine *engine;
        struct instance instance;
        struct cgroups cgroups;
        int host_netns;
        struct mount_ways ways;
        struct firewall *firewall;            /* NULL: this host has none, sandboxes have loopback only */
        char firewall_why[200];               /* then: why */
        struct io table_events;               /* firewall_watch.h */
        struct passage_keeper passage_keeper; /* runs while there is a firewall */
        struct dns_forwarder dns_forwarder;   /* likewise */
        struct pool pool;
};

struct namespace_guest {
        struct guest guest;  /* the first member: engine_ops.guest_bytes */
        int netns;           /* -1: none */
        int mntns;           /* held while its processes end for good; -1: not */
        bool has_rules;      /* in the firewall */
        struct start *start; /* owned; while WAITING or STARTING */
};

extern const struct engine_ops namespace_ops;

static inline struct namespace_guest *namespace_of(struct guest *g)
{
        return CONTAINER_OF(g, struct namespace_guest, guest);
}

static inline unsigned guest_slot(const struct guest *g) /* 0: none */
{
        return g->record.facts.namespace.slot;
}

/* Made before anything else of the engine; NULL: out of memory. */
struct namespaces *namespaces_create(struct engine *e);
struct namespaces *namespaces_free(struct namespaces *n); /* always NULL */
