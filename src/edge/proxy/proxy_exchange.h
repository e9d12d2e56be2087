/* proxy_exchange.h - a request that was sent on its way (request.h) and its answer: both bodies at once, until both end. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "edge/message/flow.h"
#include "edge/route/visit.h"

struct edge_client;

struct proxy_exchange { /* one request and its answer */
        struct flow up, down;
        struct visit visit;     /* where the request goes, and the connection it goes on */
        uint64_t dial_since_ms; /* the first dial; 0: none yet */
        unsigned closed_count;  /* dials that found the port closed */
        unsigned client_minor, status, interim_count;
        bool is_api, to_head, is_html, is_upgrade, expects_continue, is_idempotent;
        bool needs_new_connection; /* a kept connection failed once already */
        bool has_asked_again;      /* the sandbox was not there once already, and control was asked again */
        bool persists;             /* the client's connection goes on after the exchange */
        bool request_ended;        /* all of the request was read from the client and passed on */
        bool request_broken;       /* upstream takes no more; its answer may still come */
        bool has_answer;           /* the head of the final answer is on its way */
        bool upstream_persists;
        bool tunnel_up_ended, tunnel_down_ended; /* the end of that direction was passed on */
        uint64_t started_us, wait_until_ms, route_until_ms;
        char method[16]; /* for the log */
};

void proxy_exchange_step(struct edge_client *c); /* move bytes both ways as far as they go now */
void proxy_exchange_on_upstream(struct edge_client *c,
                                uint32_t events); /* the upstream can be read or written, or failed */
/* The connection is to a sandbox that stopped.  true: the client is as before the request was sent (CLIENT_HEAD); false:
 * upstream may have acted on the request. */
bool proxy_exchange_repeats(struct edge_client *c);
/* The exchange is over in whatever way: lets go of the upstream connection and of the sandbox; logs. */
void proxy_exchange_done(struct edge_client *c);
