/* box.h - what speaks for one sandbox, and requests to its ports.  Nothing in it changes. */
#pragma once
#include <jansson.h>

#include "client/exchange.h"

#define ENVD_PORT_NUMBER 49983u
#define BOX_HEADERS_MAX 20u

struct sg_sandbox {
        struct sg_client *client;                                        /* borrowed */
        char *id, *access_token, *traffic_token, *domain, *envd_version; /* owned; "" if none */
};

/* Out of an answer of the API: of create, connect, get, fork.  SG_INTERNAL: it describes no sandbox. */
int box_from_json(struct sg_client *client, const json_t *obj, struct sg_sandbox **ret, struct sg_error *err);

struct box_headers { /* of a request to one of its ports; zeroed */
        struct http_header list[BOX_HEADERS_MAX + 1];
        size_t count;
        char port[8];
        struct buf basic; /* what names the user */
        char *url;        /* owned: of the server */
};
/* user NULL: none is named.  What it holds is borrowed from box, too. */
int box_headers_fill(struct box_headers *h, const struct sg_sandbox *box, uint16_t port, const char *user,
                     struct sg_error *err);
void box_headers_add(struct box_headers *h, const char *name, const char *value);
void box_headers_done(struct box_headers *h);

/* A call of envd with JSON both ways; body stolen (NULL: no memory); *ret (may be NULL) is the caller's. */
struct envd_call {
        const char *method; /* "/filesystem.Filesystem/Stat" */
        const char *user;
        json_t *body;
        bool repeats;
};
int envd_call(struct sg_sandbox *box, const struct envd_call *call, struct limit *l, json_t **ret,
              struct sg_error *err);

/* Why a request to a sandbox failed, when it is because the sandbox is paused or gone: then *err says so. */
int box_explain(struct sg_sandbox *box, struct limit *l, int r, struct sg_error *err);
