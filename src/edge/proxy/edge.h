/* edge.h - one edge process: what its parts share.
 *
 * proxy/   client_conn.h     a client's connection: http1/h1_conn.h or http2/h2_session.h
 *          edge_client.h     the machine of a request: an HTTP/1.1 connection or an HTTP/2 stream
 *          request.h         where a request goes          proxy_exchange.h  one request and its answer
 * route/   routes.h          which sandboxes there are     resume.h          paused ones
 *          owner.h           whose a request is that names no sandbox: signed_url.h, token.h
 *          dial.h            sockets into sandboxes        upstream.h        connections kept for reuse
 * http1/   tunnel.h          after 101 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "edge/limits/limits.h"
#include "edge/message/block.h"
#include "edge/message/splice.h"
#include "edge/route/dial.h"
#include "edge/route/routes.h"
#include "edge/route/upstream.h"
#include "io/listener.h"
#include "io/loop.h"
#include "model/conf.h"
#include "wire/http1.h"

struct h2_setup;
struct tls_context;

struct edge {
        const struct conf *conf;          /* borrowed */
        const struct edge_limits *limits; /* borrowed */
        struct loop *loop;
        struct tls_context *tls; /* owned; for new connections */
        struct io renewals;      /* certificate.h */
        struct h2_setup *h2;     /* owned; http2/h2_session.h */
        struct listener http, https, clients;
        bool is_stopping, is_logging; /* is_logging: a line per exchange */
        struct timer stop_timer;
        struct task last;

        struct list conns; /* struct client_conn */
        size_t client_count, clients_max;
        size_t h2_waiting; /* bytes of bodies in all HTTP/2 streams */

        struct route_table routes;
        struct dialler dialler;
        char *api_path, *agent_path; /* owned */
        struct upstream_pool upstreams;

        struct block_pool blocks;
        struct splice_pool splices;
        struct http1_head head; /* the head being looked at: good until the callback returns */
        struct buf out;         /* the head or answer being written */
};

/* The loop may end when the edge is stopping and no client is left. */
void edge_check_stopped(struct edge *e);
