/* json_text.h - JSON as text that passes through: find members without building a tree, write values as plain ASCII.
 *
 * What kernels send is checked and passed on, number by number as the kernel wrote it.  Accepted beyond RFC 8259, because
 * kernels send it: NaN, Infinity, -Infinity (written as null), bytes that are not UTF-8 and halves of surrogate pairs
 * (written as \ufffd), control characters in strings (written as escapes).  Everything else is refused.
 * No I/O, no allocation but in the caller's buf. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/str.h"

#define JSON_TEXT_DEPTH_MAX 256 /* of what is copied; what is deeper is passed over, and not looked at closely */

/* Is all of `text` one value, blanks around it allowed? */
bool json_text_is_valid(struct str text);

struct json_member {
        struct str key;   /* between the quotes, with escapes as they are */
        struct str value; /* the whole value: quotes, braces and all */
};
struct json_cursor {
        struct str left; /* what was not looked at yet */
        bool is_begun;
};
/* The members of an object, one after the other; start with {.left = text}.
 * 1: *ret is the next; 0: there is none; -EINVAL: not an object, or malformed. */
int json_text_next(struct json_cursor *c, struct json_member *ret);
/* The value of the first member `key` (plain ASCII); an empty str: there is none. */
struct str json_text_get(struct str object, const char *key);
/* Likewise, for a string: what is between the quotes, escapes as they are; empty when it is no string. */
struct str json_text_get_raw(struct str object, const char *key);
/* An integer in [0, INT64_MAX], or -1. */
int64_t json_text_get_int(struct str object, const char *key);

/* Append one value, ASCII only and without blanks outside of strings.  -EINVAL: malformed; -ELOOP: nested
 * too deeply (out may hold a part then). */
int json_text_copy(struct str value, struct buf *out);
/* Likewise for a string value, but only what is between the quotes.  -EINVAL also when it is no string. */
int json_text_copy_inner(struct str value, struct buf *out);
/* Append text (UTF-8, or nearly) as a JSON string with its quotes, ASCII only. */
int json_text_quote(struct str text, struct buf *out);
/* The elements of an array, as json_text_next(): start with {.left = text}. */
int json_text_next_element(struct json_cursor *c, struct str *ret);
