/* routes.h - the sandboxes this edge knows of: asked from control when first needed, kept until control says otherwise.
 *
 * A sandbox that is gone, or at rest, loses its route first; then its connections are cut.  After the channel to control
 * was lost, what was remembered counts for nothing: it is asked for again before it is used. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/str.h"
#include "edge/proxy/edge_client.h"
#include "model/route.h"

struct edge;

enum routed_sandbox_asks { ASKS_NOTHING, ASKS_ROUTE, ASKS_RESUME };

struct routed_sandbox {
        char id[SANDBOX_ID_MAX];
        bool is_known; /* `route` is what control says; otherwise it is being asked for */
        struct route route;
        uint64_t stopped_us;           /* when it stopped the last time (route.at_us); 0: not known */
        enum routed_sandbox_asks asks; /* what control is asked just now */
        uint64_t req;                  /* of the question, while asking */
        struct list asking;            /* in edge->asking or edge->resuming */
        uint64_t resume_key;           /* ASKS_RESUME: whose credential it was asked with (wake.c) */
        struct list waiters;           /* clients that wait for the answer (client.wait) */
        size_t waiter_count;
        struct list live;                     /* clients with an exchange under way (client.in_sandbox) */
        size_t live_count, port_waiter_count; /* of them: those whose port is closed, yet */
        struct list idle;                     /* upstream connections ready for reuse */
        size_t idle_count;
        struct list lru;
};

enum routes_result {
        ROUTES_FOUND,
        ROUTES_RESUMABLE,
        ROUTES_PAUSED,
        ROUTES_WAIT,
        ROUTES_NOT_FOUND,
        ROUTES_CROWDED,
        ROUTES_FULL
};

int routes_start(struct edge *e); /* 0, -ENOMEM */
void routes_done(struct edge *e);
/* FOUND: *ret is borrowed until the callback returns; routes_hook() to hear of its end.
 * ASLEEP: so it is, and may be woken (wake.h).  PAUSED: so it is, and may not.
 * WAIT: c is resumed (edge_client_go_on) when control has answered; c leaves by routes_forget(). */
enum routes_result routes_get(struct edge *e, struct str id, struct edge_client *c, struct routed_sandbox **ret);
void routes_forget(struct edge_client *c);
/* The engine has none running that s could be: what we know may be old by a moment, so ask before it is used again. */
void routes_doubt(struct edge *e, struct routed_sandbox *s);
/* c's exchange is in s from here on: it hears of its end (edge_client_cut). */
void routes_hook(struct edge_client *c, struct routed_sandbox *s);
void routes_unhook(struct edge_client *c);
/* Its port is closed and it waits for it to open; false: too many do.  Until routes_port_opened(), or it is unhooked. */
bool routes_await_port(struct edge_client *c);
void routes_port_opened(struct edge_client *c);

/* For wake.c. */
void routes_wait(struct edge_client *c, struct routed_sandbox *s); /* until routes_release_waiters() */
void routes_asking(struct edge *e, struct routed_sandbox *s,
                   enum routed_sandbox_asks question); /* a new one has its own req */
/* These may free s. */
void routes_learn(struct edge *e, struct routed_sandbox *s, const json_t *route);
void routes_release_waiters(struct edge *e, struct routed_sandbox *s, enum visit_result result);
void routes_gone(struct edge *e, struct routed_sandbox *s);
