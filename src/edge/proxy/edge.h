/* edge.h - one edge process: what its parts share.
 *
 * conn.h     a client's connection, h1.h or h2.h                           client.h    who asks: the machine of a request
 * request.h  where a request goes                                          exchange.h  one request and its answer
 * routes.h   which sandboxes there are                                     wake.h      those at rest
 * owner.h    whose a request is that names no sandbox: signed.h, token.h
 * dial.h     sockets into sandboxes                                        upstream.h  connections kept for reuse
 * tunnel.h   after 101 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "edge/message/block.h"
#include "edge/limits/limits.h"
#include "edge/route/process_link.h"
#include "edge/route/owner.h"
#include "edge/message/splice.h"
#include "io/listener.h"
#include "io/loop.h"
#include "model/conf.h"
#include "wire/http1.h"

struct h2_setup;
struct known_token;
struct tls_context;

struct edge {
        const struct conf *conf;          /* borrowed */
        const struct edge_limits *limits; /* borrowed */
        struct loop *loop;
        struct tls_context *tls;
        struct h2_setup *h2; /* h2.h */
        struct listener http, https;
        bool is_stopping, is_logging; /* is_logging: a line per exchange */
        struct timer stop_timer;
        struct task last;

        struct list conns; /* struct client_conn */
        size_t client_count, clients_max;
        size_t h2_waiting; /* bytes of bodies in all h2_streams */

        struct process_link routes_link; /* routes.h */
        struct map sandboxes;            /* id -> struct routed_sandbox */
        struct list sandbox_lru;         /* oldest first */
        struct list asking;              /* sandboxes whose route is asked for */
        struct list resuming;            /* sandboxes that are to wake */
        size_t asking_count, resuming_count;
        size_t waiter_count; /* clients that wait for one of either */
        const char *refusal; /* what control said, while those it concerns are told */
        uint64_t last_req;

        struct owner_lookup by_signature, by_token; /* owner.h */
        struct known_token *tokens;                 /* TOKENS_KEPT of them, owned; token.h */

        struct process_link dial_link; /* dial.h */
        struct list dials;             /* waiting clients */
        size_t dial_count;

        char *api_path;
        struct list api_idle; /* struct upstream */
        size_t api_idle_count;
        struct list idle_lru; /* all idle upstreams, oldest first */
        size_t idle_count;
        struct timer idle_timer;
        uint64_t idle_sweep_ms; /* when it fires */

        struct block_pool blocks;
        struct splice_pool splices;
        struct http1_head head; /* the head being looked at: good until the callback returns */
        struct buf out;         /* the head or answer being written */
};

/* No client is left and the edge is stopping: the loop may end. */
void edge_check_stopped(struct edge *e);
