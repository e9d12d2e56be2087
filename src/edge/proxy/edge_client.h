/* edge_client.h - who asks: an HTTP/1.1 connection, one request after the other (h1.h), or one HTTP/2 stream (h2_stream.h).
 *
 *   HEAD ──→ ROUTE (asks control) ─┐        every wait leads back to HEAD: the head is still in `in` and is looked at
 *    ↑ ←──────────────────────────┤        again, now with the answer.  So nothing of a head needs to be copied.
 *    ├────→ WAKE (asks control) ─────┘
 *    ├────→ DIAL (asks engine) ──→ HEAD
 *    ├────→ EXCHANGE ──→ HEAD (next request, or once more on a fresh connection) | TUNNEL
 *    └────→ REPLY (our own answer)
 *   EXCHANGE, REPLY ──→ DRAIN (the rest of a body nobody wants) ──→ HEAD | LINGER (wait for the client's end)
 *
 * What becomes of a request is the same for both kinds (request.c, exchange.c); how its bytes come and how an answer is
 * said is in the kind's table.  TUNNEL, DRAIN and LINGER are HTTP/1.1's only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "edge/message/answer.h"
#include "edge/message/block.h"
#include "edge/message/flow.h"
#include "io/loop.h"
#include "model/ids.h"

struct edge_client;
struct edge;
struct owner_lookup;
struct routed_sandbox;
struct upstream;

enum edge_client_state {
        CLIENT_HEAD,
        CLIENT_ROUTE,
        CLIENT_RESUME,
        CLIENT_DIAL,
        CLIENT_EXCHANGE,
        CLIENT_TUNNEL,
        CLIENT_REPLY,
        CLIENT_DRAIN,
        CLIENT_LINGER,
        CLIENT_CLOSED,
};

enum visit_result {
        WAIT_NOTHING,
        WAIT_OVER,
        WAIT_NOT_FOUND,
        WAIT_REFUSED,
        WAIT_DENIED, /* this one and the next three: to wake it */
        WAIT_LIMIT,
        WAIT_NO_SPACE,
        WAIT_BUSY,
        WAIT_FAILED,
        WAIT_UNAVAILABLE,
};

struct proxy_exchange { /* one request and its answer */
        struct flow up, down;
        struct upstream *upstream;        /* owned */
        struct routed_sandbox *sandbox;   /* borrowed; set while hooked into its `live` */
        struct list in_sandbox;           /* in sandbox->live */
        struct list wait;                 /* in sandbox->waiters, edge->dials or an owner_lookup */
        struct routed_sandbox *waits_for; /* while in sandbox->waiters */
        uint64_t resume_key;              /* while in there to wake it: tells credentials apart */
        uint64_t dial_req;                /* while in edge->dials */
        uint64_t dial_since_ms;           /* its first dial; 0: none yet */
        unsigned closed_count;            /* dials that found the port closed */
        uint64_t owner_req;               /* while in owner_lookup */
        struct owner_lookup *owner_lookup;
        enum visit_result route_wait, dial_wait;
        char id[SANDBOX_ID_MAX];
        uint16_t port;
        unsigned client_minor, status, interim_count;
        bool is_api, to_head, is_html, is_upgrade, expects_continue, is_idempotent;
        bool id_is_news;           /* `id` is what control said, just now (owner.h) */
        bool needs_new_connection; /* a kept connection failed once already */
        bool awaits_port;          /* counted in its sandbox's port_waiter_count */
        bool has_asked_again;      /* its sandbox was not there once already, and control was asked again */
        bool persists;             /* the client's connection goes on after it */
        bool request_ended;        /* all of the request was read from the client and passed on */
        bool request_broken;       /* upstream takes no more; its answer may still come */
        bool has_answer;           /* the head of the final answer is on its way */
        bool upstream_persists;
        bool tunnel_up_ended, tunnel_down_ended; /* the end of that direction was passed on */
        uint64_t started_us, wait_until_ms, route_until_ms;
        char method[16]; /* for the log */
};

struct edge_client_kind {                     /* how the two differ */
        const char *name;                     /* for the log */
        void (*step)(struct edge_client *c);  /* HEAD, TUNNEL, REPLY, DRAIN, LINGER: do what can be done now */
        void (*watch)(struct edge_client *c); /* after the steps: say what it waits for */
        /* Pass on what is there of the request's body, after `prefix` (may be NULL; emptied), as flow_pump(). */
        enum flow_step (*push)(struct edge_client *c, struct buf *prefix);
        /* The answer: interim heads, or the one that switches protocols, or the final one and what is there of its body;
         * then more of the body.  `flush` is for interim heads that did not go out whole. */
        enum flow_step (*interim)(struct edge_client *c, const struct http1_head *h);
        void (*switch_over)(struct edge_client *c, const struct http1_head *h);
        enum flow_step (*begin)(struct edge_client *c, const struct http1_head *h);
        enum flow_step (*pull)(struct edge_client *c);
        enum flow_step (*flush)(struct edge_client *c);
        bool (*splice)(struct edge_client *c); /* bytes of the answer went past `in`; NULL: it has none */
        int (*say)(struct edge_client *c, const struct answer *a); /* one of our own, whole; negative: cannot */
        void (*after)(struct edge_client *c);                      /* the answer is out */
        void (*cut)(struct edge_client *c);     /* edge_client_close() follows: nobody may take it for a proper end */
        void (*release)(struct edge_client *c); /* from edge_client_close(): let go of the connection, or the stream */
};

struct edge_client {
        const struct edge_client_kind *kind;
        struct edge *edge;
        enum edge_client_state state;
        struct timer wait;
        bool is_waiting; /* the timer matters: it is left armed when a wait ends early */
        struct block in; /* owned: bytes not dealt with; begins with the current request's head while head_len > 0 */
        size_t head_len;
        bool is_ended;    /* the client sends no more */
        bool must_switch; /* the request is one for a tunnel, and nothing else will do */
        struct proxy_exchange x;
};

void edge_client_setup(struct edge_client *c, struct edge *e, const struct edge_client_kind *kind);
void edge_client_go(struct edge_client *c, enum edge_client_state next); /* the only writer of c->state */
void edge_client_advance(struct edge_client *c); /* run steps until nothing more can be done now */
void edge_client_go_on(struct edge_client *c);   /* what it waited for (ROUTE, WAKE, DIAL) is there */
/* The engine's answer: WAIT_OVER with a socket (taken) and when it was made in the sandbox, or why not. */
void edge_client_dialled(struct edge_client *c, enum visit_result result, int fd, uint64_t made_us);
/* Answer by ourselves.  The request's head, if any, is done with. */
void edge_client_answer(struct edge_client *c, const struct answer *a);
void edge_client_finish(struct edge_client *c); /* the answer is out: go on, or end */
void edge_client_arm_wait(struct edge_client *c, unsigned ms);
/* End without ceremony: the client left. */
void edge_client_close(struct edge_client *c);
/* End so that nobody can take it for a proper end. */
void edge_client_cut(struct edge_client *c);
