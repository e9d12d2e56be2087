/* gunzip.h - a gzip stream decompressed piece by piece.  With gzip.c the only code that knows zlib. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

#define GUNZIP_PIECE (64u << 10)

struct gunzip; /* opaque */

struct gunzip *gunzip_create(void); /* NULL out of memory */
void gunzip_free(struct gunzip *g);
/* Decompress from *in, which moves on.  1: *ret is the next piece, valid until the next call; 0: more input is needed;
 * -EINVAL: this is no gzip; -ENOMEM. */
int gunzip_next(struct gunzip *g, struct str *in, struct str *ret);
bool gunzip_is_done(const struct gunzip *g); /* the stream is complete */
