/* edge_client.h - the sender of a request: an HTTP/1.1 connection with one request after the other (http1/h1_conn.h), or one
 * HTTP/2 stream (http2/h2_stream.h).
 *
 *   HEAD ──→ ROUTE   asks control for the sandbox's route or owner ─┐  Every wait leads back to HEAD: the head is still in
 *    ↑ ├───→ RESUME  asks control to resume the sandbox ────────────┤  `in` and is looked at again, now with the answer.  So
 *    │ ├───→ DIAL    asks the engine for a socket ──────────────────┤  nothing of a head needs to be copied.
 *    ├─│────────────────────────────────────────────────────────────┘
 *    │ ├───→ EXCHANGE ──→ HEAD (the next request, or the same once more on a new connection) | TUNNEL
 *    │ └───→ REPLY   the edge's own answer
 *    └── DRAIN (the rest of a body that nobody wants) ←── EXCHANGE, REPLY
 *   EXCHANGE, REPLY, DRAIN ──→ LINGER (wait for the client's end) ──→ CLOSED; CLOSED also from every other state
 *
 * A request takes the same way for both kinds (request.h, proxy_exchange.h).  How its bytes come and how an answer is written
 * is in the table of the kind.  Only HTTP/1.1 has TUNNEL, DRAIN and LINGER. */
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

struct edge_client_kind {                     /* how HTTP/1.1 and HTTP/2 differ */
        const char *name;                     /* for the log */
        void (*step)(struct edge_client *c);  /* HEAD, TUNNEL, REPLY, DRAIN, LINGER: do what can be done now */
        void (*watch)(struct edge_client *c); /* after the steps: watch the connection for what the client waits for */
        /* Pass on the bytes of the request's body that are there, after `prefix` (may be NULL; emptied), as flow_pump(). */
        enum flow_step (*push)(struct edge_client *c, struct buf *prefix);
        /* The answer: interim heads, or the one that switches protocols, or the final one and what is there of its body;
         * then more of the body.  `flush` is for interim heads that did not go out whole. */
        enum flow_step (*interim)(struct edge_client *c, const struct http1_head *h);
        void (*switch_over)(struct edge_client *c, const struct http1_head *h);
        enum flow_step (*begin)(struct edge_client *c, const struct http1_head *h);
        enum flow_step (*pull)(struct edge_client *c);
        enum flow_step (*flush)(struct edge_client *c);
        bool (*splice)(struct edge_client *c); /* bytes of the answer went past `in`; NULL: never */
        int (*say)(struct edge_client *c,
                   const struct answer *a); /* the edge's own answer, whole; negative: impossible */
        void (*tunnel_upstream)(struct edge_client *c,
                                uint32_t events); /* TUNNEL: the upstream is ready; NULL: no such state */
        void (*after)(struct edge_client *c);     /* the answer is sent */
        void (*cut)(struct edge_client *c);       /* edge_client_close() follows: not to be taken for a proper end */
        void (*release)(struct edge_client *c); /* from edge_client_close(): let go of the connection, or the stream */
};

struct edge_client {
        const struct edge_client_kind *kind;
        struct edge *edge;
        enum edge_client_state state;
        struct timer wait;
        bool is_waiting; /* the timer matters; the timer is left armed when a wait ends early */
        struct block in; /* owned: bytes not dealt with; begins with the current request's head while head_len > 0 */
        size_t head_len;
        bool is_tls;      /* the connection is encrypted */
        bool is_local;    /* the connection came over clients.sock: the role agent's */
        bool is_ended;    /* the client sends no more */
        bool must_switch; /* the request asks for a tunnel, and no other answer will do */
        struct proxy_exchange x;
};

void edge_client_setup(struct edge_client *c, struct edge *e, const struct edge_client_kind *kind);
void edge_client_go(struct edge_client *c, enum edge_client_state next); /* the only writer of c->state */
void edge_client_advance(struct edge_client *c); /* run steps until nothing more can be done now */
void edge_client_go_on(struct edge_client *c);   /* what the client waited for (ROUTE, RESUME, DIAL) is there */
/* Send the edge's own answer.  The request's head, if any, is not needed any more. */
void edge_client_answer(struct edge_client *c, const struct answer *a);
void edge_client_finish(struct edge_client *c); /* the answer is sent: go on with the next request, or end */
void edge_client_arm_wait(struct edge_client *c, unsigned ms);
/* End without ceremony: the client left. */
void edge_client_close(struct edge_client *c);
/* End so that the client cannot take it for a proper end. */
void edge_client_cut(struct edge_client *c);
