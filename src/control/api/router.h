/* router.h - which handler serves which method and path: one table, matched on raw path segments. */
#pragma once
#include <stddef.h>

#include "control/api/api_exchange.h"

enum endpoint_body {
        BODY_NONE,     /* a body is ignored */
        BODY_OPTIONAL, /* JSON object, or nothing */
        BODY_REQUIRED,
        BODY_SECRET,   /* required; no error repeats any of it, and it is blanked afterwards */
        BODY_STREAMED, /* the handler takes it in pieces */
};

enum endpoint_access {
        ACCESS_OPEN,     /* needs no key */
        ACCESS_GONE,     /* is not served any more, and says so to everybody */
        ACCESS_KEY,      /* any key, for its team */
        ACCESS_OPERATOR, /* the operator's key, for the team that X-Team-ID names, else its own */
};

struct endpoint {
        const char *method;
        const char *pattern; /* "/sandboxes/{sandboxID}/timeout": a segment in braces matches any one segment */
        api_handler handle;
        enum endpoint_body body;
        size_t body_max;
        enum endpoint_access access;
};

const struct endpoint *router_table(size_t *ret_count);
void router_on_request(struct http_request *rq, void *api); /* for http_server_options */
