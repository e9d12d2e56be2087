/* text.h - output of commands as text: UTF-8, whatever the bytes are.  Pure.
 *
 * What is no UTF-8 becomes U+FFFD.  A character that is cut between two pieces is kept until the rest of it comes. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct text_decoder { /* zeroed at the start */
        unsigned char held[4];
        size_t held_len; /* of a character whose end did not come yet */
};

/* Append the piece as text.  -E2BIG, -ENOMEM as buf_add(). */
int text_add(struct text_decoder *d, struct str piece, struct buf *out);
int text_end(struct text_decoder *d, struct buf *out); /* nothing more comes */
