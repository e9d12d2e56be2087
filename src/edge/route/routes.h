/* routes.h - the sandboxes this edge knows: control is asked when one is first needed, and the answer is kept until control
 * says otherwise.
 *
 * A sandbox that is gone or paused loses its route first; then its connections are cut.  After the channel to control was
 * lost, the remembered routes count for nothing: each is asked for again before it is used. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "base/str.h"
#include "edge/limits/limits.h"
#include "edge/route/owner.h"
#include "edge/route/process_link.h"
#include "edge/route/visit.h"
#include "model/route.h"

struct conf;
struct known_token;

enum routed_sandbox_asks { ASKS_NOTHING, ASKS_ROUTE, ASKS_RESUME };

struct routed_sandbox {
        char id[SANDBOX_ID_MAX];
        bool is_known; /* `route` is what control says; otherwise control is being asked for it */
        struct route route;
        uint64_t stopped_us;           /* when the sandbox stopped the last time (route.at_us); 0: not known */
        enum routed_sandbox_asks asks; /* what control is asked just now */
        uint64_t req;                  /* of the question, while asking */
        struct list asking;            /* in table->asking or table->resuming */
        uint64_t resume_key;           /* ASKS_RESUME: the credential that the question was asked with (resume.c) */
        struct list waiters;           /* visits that wait for the answer (visit.wait) */
        size_t waiter_count;
        struct list live;         /* visits with a request under way (visit.in_sandbox) */
        size_t live_count;        /* ... how many */
        size_t port_waiter_count; /* ... how many of them wait for their port to open */
        struct list idle;         /* upstream connections ready for reuse */
        size_t idle_count;
        struct list lru;
};

struct route_table {
        const struct edge_limits *limits; /* borrowed */
        struct process_link link;         /* to control */
        struct map sandboxes;             /* id -> struct routed_sandbox */
        struct list lru;                  /* the same sandboxes, the one not used for longest first */
        struct list asking;               /* sandboxes whose route is asked for */
        struct list resuming;             /* sandboxes that control is asked to resume */
        size_t asking_count, resuming_count;
        size_t waiter_count; /* visits that wait for a sandbox of either list */
        const char *refusal; /* control's message, while the visits that it concerns are told */
        uint64_t last_req;
        struct owner_lookup by_signature, by_token;
        struct known_token *tokens; /* TOKENS_KEPT of them, owned; token.h */
};

/* 0, -ENOMEM. */
int routes_start(struct route_table *t, struct loop *loop, const struct conf *conf, const struct edge_limits *limits);
void routes_done(struct route_table *t);
/* FOUND: *ret is borrowed until the callback returns; routes_hook() to hear of the sandbox's end.
 * RESUMABLE: the sandbox is paused, and a request may resume it (resume.h).  PAUSED: paused, and a request may not.
 * WAIT: the visit goes on (ops->go_on) when control has answered, or leaves by visit_leave(). */
enum routes_result routes_get(struct route_table *t, struct str id, struct visit *v, struct routed_sandbox **ret);
void routes_forget(struct visit *v); /* for visit_leave() */
/* The engine says that this sandbox does not run.  The route may be outdated by a moment, so control is asked before the
 * route is used again. */
void routes_doubt(struct route_table *t, struct routed_sandbox *s);
/* The visit's request is in s from here on: it is cut (ops->cut) when s ends. */
void routes_hook(struct visit *v, struct routed_sandbox *s);
void routes_unhook(struct visit *v);
/* The visit's port is closed, and the visit waits for it to open, until routes_port_opened() or routes_unhook().
 * false: too many wait. */
bool routes_await_port(struct visit *v);
void routes_port_opened(struct visit *v);

/* For resume.c. */
void routes_wait(struct visit *v, struct routed_sandbox *s); /* until routes_release_waiters() */
/* Note what control is asked about s; a new question has its own req. */
void routes_asking(struct route_table *t, struct routed_sandbox *s, enum routed_sandbox_asks question);
/* These may free s. */
void routes_learn(struct route_table *t, struct routed_sandbox *s, const json_t *route);
void routes_release_waiters(struct routed_sandbox *s, enum wait_result result);
void routes_gone(struct route_table *t, struct routed_sandbox *s);
