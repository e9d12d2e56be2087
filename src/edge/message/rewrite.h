/* rewrite.h - heads as they leave the edge: hop-by-hop and forwarding headers removed, framing and Connection written anew.
 * Pure.
 *
 * Headers that stay are copied as they came, in runs; the strict parser has already refused what could break a head. */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"
#include "wire/http1.h"

struct rewrite_request {
        const struct http1_head *head;
        struct str target;    /* origin-form, or "*" */
        struct str host;      /* sent as Host */
        struct str orig_host; /* sent as X-Forwarded-Host when not empty */
        struct str scheme;    /* sent as X-Forwarded-Proto when not empty */
        bool is_upgrade;      /* pass Connection: Upgrade and Upgrade on */
};
/* 0, -E2BIG, -ENOMEM. */
int rewrite_request(const struct rewrite_request *rq, struct buf *out);

struct rewrite_response {
        const struct http1_head *head;
        bool is_chunked;   /* the body is framed anew in chunks */
        bool is_upgrade;   /* 101: pass Connection: Upgrade and Upgrade on */
        bool says_close;   /* Connection: close */
        bool says_persist; /* Connection: keep-alive, for a 1.0 client */
};
int rewrite_response(const struct rewrite_response *rs, struct buf *out);

/* Is this header of an answer about the connection to upstream or about framing, and so not passed on? */
bool rewrite_is_dropped(const struct http1_head *h, struct str name);

/* "http://host/path" becomes "/path" when the authority is `host`.  false: the target cannot be forwarded. */
bool rewrite_target(struct str method, struct str target, struct str host, struct str *ret);
/* `text` with every ${PORT} replaced. */
int rewrite_mask(struct str text, unsigned port, struct buf *out);
