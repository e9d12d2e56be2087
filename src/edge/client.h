/* client.h - a client's connection: a machine that reads heads, runs one exchange at a time, and ends properly.
 *
 *   HEAD ──→ ROUTE (asks control) ─┐        every wait leads back to HEAD: the head is still in `in` and is looked at
 *    ↑ ←──────────────────────────┘        again, now with the answer.  So nothing of a head needs to be copied.
 *    ├────→ DIAL (asks engine) ──→ HEAD
 *    ├────→ EXCHANGE ──→ HEAD (next request, or once more on a fresh connection) | TUNNEL
 *    └────→ REPLY (our own answer)
 *   EXCHANGE, REPLY ──→ DRAIN (the rest of a body nobody wants) ──→ HEAD | LINGER (wait for the client's end) */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "edge/answer.h"
#include "edge/block.h"
#include "edge/flow.h"
#include "edge/headscan.h"
#include "io/loop.h"
#include "io/stream.h"
#include "model/ids.h"

struct edge;
struct sandbox;
struct tls_context;
struct upstream;

enum client_state {
        CLIENT_HEAD,
        CLIENT_ROUTE,
        CLIENT_DIAL,
        CLIENT_EXCHANGE,
        CLIENT_TUNNEL,
        CLIENT_REPLY,
        CLIENT_DRAIN,
        CLIENT_LINGER,
        CLIENT_CLOSED,
};

enum wait_result { WAIT_NOTHING, WAIT_OVER, WAIT_NOT_FOUND, WAIT_REFUSED, WAIT_UNAVAILABLE };

struct exchange { /* one request and its answer */
        struct flow up, down;
        struct upstream *upstream; /* owned */
        struct sandbox *sandbox;   /* borrowed; set while hooked into its `live` */
        struct list in_sandbox;    /* in sandbox->live */
        struct list wait;          /* in sandbox->waiters or edge->dials */
        struct sandbox *waits_for; /* while in sandbox->waiters */
        uint64_t dial_req;         /* while in edge->dials */
        enum wait_result route_wait, dial_wait;
        char id[SANDBOX_ID_MAX];
        uint16_t port;
        unsigned client_minor, status, interim_count;
        bool is_api, to_head, is_html, is_upgrade, expects_continue, is_idempotent;
        bool must_be_fresh;  /* a kept connection failed once already */
        bool persists;       /* the client's connection goes on after it */
        bool request_ended;  /* all of the request was read from the client and passed on */
        bool request_broken; /* upstream takes no more; its answer may still come */
        bool has_answer;     /* the head of the final answer is on its way */
        bool upstream_persists;
        bool tunnel_up_ended, tunnel_down_ended; /* the end of that direction was passed on */
        uint64_t started_us, wait_until_ms;
        char method[16]; /* for the log */
};

struct client {
        struct stream stream;
        struct edge *edge;
        struct list node;
        struct task gone;
        enum client_state state;
        struct timer timer;
        enum { TIMER_NONE, TIMER_FIRST, TIMER_HEAD, TIMER_IDLE, TIMER_WAIT, TIMER_END } timer_for;
        uint64_t idle_since_ms;
        struct block in; /* owned: bytes not dealt with; begins with the current request's head while head_len > 0 */
        size_t head_len;
        struct head_scan scan; /* of an incomplete head */
        uint64_t drained_bytes;
        bool is_ended;  /* the client sends no more */
        bool is_parked; /* hung up while nobody wants its bytes (tunnel) */
        struct exchange x;
};

void client_accept(struct edge *e, int fd, struct tls_context *tls);
void client_go(struct client *c, enum client_state next); /* the only writer of c->state */
void client_advance(struct client *c);                    /* run steps until nothing more can be done now */
void client_resume(struct client *c);                     /* what it waited for (ROUTE, DIAL) is there */
/* The engine's answer: WAIT_OVER with a socket (taken), or why not. */
void client_dialled(struct client *c, enum wait_result result, int fd);
/* Answer by ourselves.  The request's head, if any, is done with. */
void client_answer(struct client *c, const struct answer *a);
void client_finish(struct client *c);  /* the answer is out: go on with the connection, or end it */
ssize_t client_fill(struct client *c); /* one read: > 0 bytes; 0 ended; -EAGAIN; other negative errno */
void client_want(struct client *c, uint32_t want);
void client_park(struct client *c); /* hung up while nobody wants its bytes: out of the loop until client_want() */
void client_arm_wait(struct client *c, unsigned ms);
/* End without ceremony: the client left. */
void client_close(struct client *c);
/* End so that nobody can take it for a proper end. */
void client_cut(struct client *c);
/* The role ends: close what idles, let the others finish. */
void client_stop(struct client *c);
