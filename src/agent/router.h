/* router.h - which handler serves which method and path below /api/v1/agent: one table, matched on raw path segments. */
#pragma once
#include <stddef.h>

#include "agent/exchange/exchange.h"

enum endpoint_body {
        BODY_NONE,     /* a body is ignored */
        BODY_OPTIONAL, /* JSON object, or nothing */
        BODY_REQUIRED,
        BODY_SECRET,   /* required; blanked before it is released */
        BODY_STREAMED, /* the handler takes it in pieces */
};

enum endpoint_access {
        ACCESS_OPEN, /* needs no token */
        ACCESS_KEY,
};

struct endpoint {
        const char *method;
        const char *pattern; /* "/sandboxes/{sandbox_id}/commands": a segment in braces matches any one segment */
        exchange_handler handle;
        enum endpoint_body body;
        size_t body_max;
        enum endpoint_access access;
};

const struct endpoint *agent_endpoints(size_t *ret_count);
void agent_on_request(struct http_request *rq, void *agent); /* for http_server_options */
