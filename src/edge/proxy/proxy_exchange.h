/* proxy_exchange.h - a request that was sent on its way (request.h) and its answer: both bodies at once, until both end.
 *
 *                   the request        upstream takes      nothing more
 *                   goes up            no more of it       to send
 *   no answer yet   SENDING ────────→  REFUSED ─────────→  SENT                 SENDING also ──→ SENT
 *                     ↓                  ↓                   ↓
 *   answer begun    ANSWERED_SENDING → ANSWERED_REFUSED →  ANSWERED_SENT        ANSWERED_SENDING also ──→ ANSWERED_SENT
 *
 *   NONE ──→ SENDING  a head is complete
 *   NONE ──→ SENT     a head cannot be used: nothing behind it is read as a request
 *   SENT ──→ ANSWERED_SENDING  an HTTP/2 stream becomes a tunnel: its upward half opens again
 *   SENT, ANSWERED_SENT ──→ NONE  the next request; SENDING, REFUSED, SENT ──→ NONE  the same request once more */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "edge/message/flow.h"
#include "edge/route/visit.h"

struct edge_client;

enum exchange_state {
        EXCHANGE_NONE,
        EXCHANGE_SENDING,
        EXCHANGE_REFUSED, /* upstream takes no more of the request; its answer may still come */
        EXCHANGE_SENT,    /* all of the request was passed on, or what is left of it is not wanted */
        EXCHANGE_ANSWERED_SENDING,
        EXCHANGE_ANSWERED_REFUSED,
        EXCHANGE_ANSWERED_SENT,
};

struct proxy_exchange { /* one request and its answer */
        enum exchange_state state;
        struct flow up, down;
        struct visit visit;     /* where the request goes, and the connection it goes on */
        uint64_t dial_since_ms; /* the first dial; 0: none yet */
        unsigned closed_count;  /* dials that found the port closed */
        unsigned client_minor, status, interim_count;
        bool is_api, to_head, is_html, is_upgrade, expects_continue, is_idempotent; /* what the request is */
        bool is_agent;                                                              /* is_api, of the role agent */
        bool persists;             /* the client's connection goes on after the exchange */
        bool upstream_persists;    /* the upstream's connection goes on after it: the answer says so */
        bool needs_new_connection; /* a kept connection failed once already */
        bool has_asked_again;      /* the sandbox was not there once already, and control was asked again */
        uint64_t started_us, wait_until_ms, route_until_ms;
        char method[16]; /* for the log */
};

/* What happens to x->state; these are its only writers. */
void exchange_reset(struct proxy_exchange *x);           /* wait for a head */
void exchange_begin(struct proxy_exchange *x);           /* a head is complete (once more, after each wait) */
void exchange_request_ended(struct proxy_exchange *x);   /* nothing more of the request is to be read */
void exchange_request_refused(struct proxy_exchange *x); /* upstream takes no more, if there was more */
void exchange_answer_began(struct proxy_exchange *x);    /* the head of the final answer is there */
void exchange_tunnel_began(struct proxy_exchange *x);    /* HTTP/2: the stream is a tunnel, both halves are open */

static inline bool exchange_is_sending(const struct proxy_exchange *x)
{
        return x->state == EXCHANGE_SENDING || x->state == EXCHANGE_ANSWERED_SENDING;
}
static inline bool exchange_is_sent(const struct proxy_exchange *x)
{
        return x->state == EXCHANGE_SENT || x->state == EXCHANGE_ANSWERED_SENT;
}
static inline bool exchange_is_refused(const struct proxy_exchange *x)
{
        return x->state == EXCHANGE_REFUSED || x->state == EXCHANGE_ANSWERED_REFUSED;
}
static inline bool exchange_is_answered(const struct proxy_exchange *x)
{
        return x->state >= EXCHANGE_ANSWERED_SENDING;
}

void proxy_exchange_step(struct edge_client *c); /* move bytes both ways as far as they go now */
void proxy_exchange_on_upstream(struct edge_client *c,
                                uint32_t events); /* the upstream can be read or written, or failed */
/* The connection is to a sandbox that stopped.  true: the client is as before the request was sent (CLIENT_HEAD); false:
 * upstream may have acted on the request. */
bool proxy_exchange_repeats(struct edge_client *c);
/* The exchange is over in whatever way: lets go of the upstream connection and of the sandbox; logs. */
void proxy_exchange_done(struct edge_client *c);
