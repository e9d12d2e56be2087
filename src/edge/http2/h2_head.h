/* h2_head.h - the fields of an HTTP/2 request, collected one by one and written down as the head of an HTTP/1.1 request.
 *
 * That text then goes through the strict parser like any other head, so all later steps are the same for HTTP/1.1 and HTTP/2.
 * Pure.  What the HTTP/2 library already refuses (order of pseudo headers, connection-specific ones, bad characters) is
 * refused here as well. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

enum h2_pseudo { H2_METHOD, H2_SCHEME, H2_AUTHORITY, H2_PATH, H2_PROTOCOL, H2_PSEUDO_COUNT };

struct h2_head {
        struct buf pseudo; /* values of the pseudo headers, one behind the other */
        struct buf lines;  /* the other fields as lines */
        struct buf cookie; /* its crumbs, joined */
        struct buf host;   /* the Host field's value */
        struct {
                size_t at, n;
                bool is_there;
        } at[H2_PSEUDO_COUNT];
        size_t count, bytes;   /* of all fields, also those not kept */
        bool has_length;       /* Content-Length */
        unsigned refused_with; /* the status of the refusal; further fields are only counted */
        const char *why;       /* static */
};

void h2_head_init(struct h2_head *h);
void h2_head_done(struct h2_head *h);
void h2_head_reset(struct h2_head *h); /* for the next request; gives large buffers back */

/* 0 (also when the field is refused: see refused_with), or -ENOMEM. */
int h2_head_add(struct h2_head *h, struct str name, struct str value);
bool h2_head_is_connect(const struct h2_head *h); /* extended CONNECT: wants a tunnel */
/* Write the head to out.  `has_body`: more than the head comes.  0; -EINVAL: refused_with and why tell the reason; -ENOMEM. */
int h2_head_write(struct h2_head *h, bool has_body, struct buf *out);
