/* visit.h - a request on its way into a sandbox: what routes, owners, dials and upstream connections know of the request.
 *
 *   FREE ←─┬─→ ROUTE   waits for control: the sandbox's route (routes.h), or that the sandbox runs again (resume.h)
 *          ├─→ OWNER   waits for control: which sandbox the request belongs to (owner.h)
 *          └─→ SOCKET  waits for the engine: a socket into the sandbox (dial.h)
 *
 * Each wait ends in FREE: the answer came (ops->go_on, ops->dialled), or the request left (visit_leave). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "model/ids.h"

struct dialler;
struct owner_lookup;
struct route_table;
struct routed_sandbox;
struct upstream;
struct visit;

enum visit_state { VISIT_FREE, VISIT_ROUTE, VISIT_OWNER, VISIT_SOCKET };

/* How the last wait ended. */
enum wait_result {
        WAIT_NOTHING,
        WAIT_OVER,
        WAIT_NOT_FOUND,
        WAIT_REFUSED,
        WAIT_DENIED, /* this one and the next four: the sandbox is paused and was not resumed */
        WAIT_LIMIT,
        WAIT_NO_SPACE,
        WAIT_BUSY,
        WAIT_FAILED,
        WAIT_UNAVAILABLE,
};

/* What a question about a sandbox leads to. */
enum routes_result {
        ROUTES_FOUND,
        ROUTES_RESUMABLE,
        ROUTES_PAUSED,
        ROUTES_WAIT,
        ROUTES_NOT_FOUND,
        ROUTES_CROWDED, /* too many ask the same */
        ROUTES_FULL,    /* too many ask at all, or out of memory */
};

struct visit_ops {
        void (*go_on)(struct visit *v); /* the answer that the visit waited for is there */
        /* The engine's answer: WAIT_OVER with a socket (taken) and when it was made in the sandbox, or why not. */
        void (*dialled)(struct visit *v, enum wait_result result, int fd, uint64_t made_us);
        /* The sandbox stopped.  true: the request may be repeated, and is ready to wait for the next route. */
        bool (*repeat)(struct visit *v);
        void (*cut)(struct visit *v);                          /* the sandbox is gone: end, but not like a proper end */
        void (*on_upstream)(struct visit *v, uint32_t events); /* v->upstream can be read or written, or failed */
};

struct visit {
        const struct visit_ops *ops;
        struct route_table *table; /* borrowed, like the dialler */
        struct dialler *dialler;
        enum visit_state state;
        struct list wait;                  /* in waits_for->waiters, owner_lookup->waiting or dialler->waiting */
        struct routed_sandbox *waits_for;  /* ROUTE; borrowed */
        struct owner_lookup *owner_lookup; /* OWNER; borrowed */
        uint64_t req;                      /* OWNER, SOCKET: the number of the question */
        uint64_t resume_key;               /* ROUTE, for a resume: tells credentials apart */
        enum wait_result route_result, dial_result;
        char id[SANDBOX_ID_MAX];
        uint16_t port;
        bool id_is_news;                /* `id` is control's answer, not yet remembered (owner.h, token.h) */
        struct routed_sandbox *sandbox; /* borrowed; set while hooked into its `live` */
        struct list in_sandbox;         /* in sandbox->live */
        bool awaits_port;               /* counted in sandbox->port_waiter_count */
        struct upstream *upstream;      /* owned; NULL: none yet */
};

void visit_go(struct visit *v, enum visit_state next); /* the only writer of v->state */
void visit_leave(struct visit *v);                     /* the answer is not wanted any more */
