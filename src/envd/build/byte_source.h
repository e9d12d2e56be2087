/* byte_source.h - where the process of a build call gets its bytes from: the body of its request, or a pipe.  Blocking. */
#pragma once
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"
#include "http/server.h"

#define BYTE_SOURCE_PIECE (1u << 20)

struct byte_source {
        int fd;                 /* borrowed */
        bool is_body;           /* in the framing of HTTP, else all bytes until the end of fd */
        struct http1_body body; /* of the request */
        struct str again;       /* given back; NULL: nothing */
        struct str rest;        /* read, not yet given; in mem, or where http_take() found it */
        uint8_t *mem;           /* owned */
};

/* -ENOMEM. */
int byte_source_body(struct byte_source *s, const struct http_taken *taken);
int byte_source_pipe(struct byte_source *s, int fd);
void byte_source_done(struct byte_source *s);
#define AUTO_BYTE_SOURCE AUTO(byte_source_done)

/* The next bytes: 1, valid until the next call; 0 that was all; -EPIPE the request was cut off; -EPROTO its framing is
 * broken; other negative errno. */
int byte_source_next(struct byte_source *s, struct str *ret);
/* The piece that came last comes again next. */
void byte_source_return(struct byte_source *s, struct str piece);
/* All of it; -E2BIG over the maximum of out. */
int byte_source_collect(struct byte_source *s, struct buf *out);
