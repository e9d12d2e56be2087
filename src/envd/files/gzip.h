/* gzip.h - bytes compressed as a gzip stream, piece by piece.  With gunzip.c the only code that knows zlib. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

#define GZIP_PIECE (64u << 10)

struct gzip; /* opaque */

struct gzip *gzip_create(void); /* NULL out of memory */
void gzip_free(struct gzip *g);
/* Compress from *in, which moves on; is_last: nothing follows it.  1: *ret is the next piece, valid until the next call;
 * 0: more input is needed, or that was the end. */
int gzip_next(struct gzip *g, struct str *in, bool is_last, struct str *ret);
