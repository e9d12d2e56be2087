/* route.h - where a request goes, the API or a port of a sandbox; and what control tells the edges of a sandbox.  Pure. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "model/ids.h"

struct err;

#define ROUTE_PATH_MAX (32u << 10) /* longer paths count as reserved: nothing of ours needs them */
#define AGENT_PATH "/api/v1/agent"
#define ROUTE_TEXT_MAX 512u /* traffic token, masked host */

enum route_kind {
        ROUTE_API,
        ROUTE_AGENT, /* the agent API, which is below AGENT_PATH of the API */
        ROUTE_SANDBOX,
        ROUTE_TOKEN, /* the daemon of the sandbox whose access token the request carries; `port` is the daemon's */
        ROUTE_REFUSED,
};

struct route_request {
        struct str host;     /* the Host header's value */
        struct str id, port; /* the routing headers' values; empty: absent */
        struct str target;   /* path and query */
        bool has_key;        /* a credential for the API: X-API-Key, or Authorization with a bearer */
        bool has_token;      /* X-Access-Token: a credential for a sandbox's daemon */
};

struct route_target {
        enum route_kind kind;
        /* ROUTE_SANDBOX: the id is [a-z0-9]+ (a slice of the request), not necessarily of a form we make */
        struct str id;
        uint16_t port;
        /* ROUTE_REFUSED */
        unsigned status;
        const char *message;
};

/* A path of the API, of those we serve or of the same families: /sandboxes, /snapshots, /templates, with or without a
 * version in front, /sandglass, /api-keys, and what is below them.  Neither /health, which the API and the daemon both have, nor any other path
 * of the daemon is one. */
bool route_is_api_path(struct str target);

/* AGENT_PATH, or a path below it. */
bool route_is_agent_path(struct str target);

/* `domain` is the configured one, with or without a port.
 *
 * The name of a sandbox in the host wins over everything.  On an address that the API and the sandboxes share, the routing
 * headers decide, with one exception: an API path with an API key, sent to the daemon's port, is for the API.  (Some
 * clients send the routing headers with every call of a sandbox object.)  The daemon has no such path; a user's server
 * may have one, so the other ports have no exception.  Without routing headers, what carries an access token and no API
 * key, and is no API path, is for a daemon. */
void route_decide(const struct route_request *rq, struct str domain, struct route_target *ret);

/* The reserved path ("/init") that a raw request path means to envd once decoded and cleaned, or NULL.  The query must
 * be cut off already. */
const char *route_reserved_path(struct str path);

struct route { /* what an edge must know to forward; sent by control */
        char id[SANDBOX_ID_MAX];
        bool is_running;
        bool resumes; /* paused, and a request may resume it */
        /* When control said so, on the machine's monotonic clock; 0: not known.  Paused: connections that were made before
         * are of what ran then, later ones of what runs again by now. */
        uint64_t at_us;
        char *traffic_token; /* owned; NULL: traffic is public */
        char *mask_host;     /* owned; NULL: Host passes unchanged; may hold ${PORT} */
};
json_t *route_encode(const struct route *r, const char *state); /* new reference; NULL out of memory */
/* ERR_INVALID names the field.  On success *ret is the caller's, to be released with route_done(). */
int route_decode(const json_t *msg, struct route *ret, struct err *err);
void route_done(struct route *r);
