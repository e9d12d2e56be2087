/* shorten.h - bytes of programs and files as text that a model can read: valid UTF-8, and not too long.
 *
 * Long text loses its middle: the beginning says what began, the end how it ended.  A note stands in the gap. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/text.h" /* bytes that are no text */

/* Keeps the first and the last bytes of what is added. */
struct shortened {
        struct buf head, tail;
        size_t head_max, tail_max;
        uint64_t total;
};
void shortened_init(struct shortened *s, size_t max);
void shortened_done(struct shortened *s);
int shortened_add(struct shortened *s, struct str piece);
bool shortened_is_cut(const struct shortened *s);
/* The text with the note; 0 or negative errno. */
int shortened_text(const struct shortened *s, struct buf *out);
