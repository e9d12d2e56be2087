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

#include "edge/message/answer.h"
#include "edge/message/block.h"
#include "edge/message/flow.h"
#include "edge/proxy/proxy_exchange.h"
#include "io/loop.h"

struct edge;
struct edge_client;

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
        void (*tunnel_upstream)(struct edge_client *c,
                                uint32_t events); /* TUNNEL: the upstream is ready; NULL: no such state */
        void (*after)(struct edge_client *c);     /* the answer is out */
        void (*cut)(struct edge_client *c);       /* edge_client_close() follows: nobody may take it for a proper end */
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
/* Answer by ourselves.  The request's head, if any, is done with. */
void edge_client_answer(struct edge_client *c, const struct answer *a);
void edge_client_finish(struct edge_client *c); /* the answer is out: go on, or end */
void edge_client_arm_wait(struct edge_client *c, unsigned ms);
/* End without ceremony: the client left. */
void edge_client_close(struct edge_client *c);
/* End so that nobody can take it for a proper end. */
void edge_client_cut(struct edge_client *c);
