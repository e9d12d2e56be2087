/* json_text.h - JSON as the text it is: checked once, then walked and quoted piece by piece.  Pure.
 *
 * For documents whose numbers, order of keys and spelling must stay as they are (notebooks), and for lines with strings of many
 * megabytes (pictures): nothing is copied but what a caller asks for.  Values are borrowed parts of the checked text.
 * Strict RFC 8259: UTF-8, no NaN, no comments.  A half surrogate pair in a string stands for U+FFFD. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define JSON_TEXT_DEPTH_MAX 256u

static inline struct str buf_text(const struct buf *b) /* the content; never NULL */
{
        return (struct str){b->len ? (const char *)buf_at(b) : "", b->len};
}

enum json_text_kind {
        JSON_TEXT_NONE,
        JSON_TEXT_NULL,
        JSON_TEXT_BOOL,
        JSON_TEXT_NUMBER,
        JSON_TEXT_STRING,
        JSON_TEXT_ARRAY,
        JSON_TEXT_OBJECT
};

/* Is `text` one JSON value with nothing but white space around it?  *ret_value: the value.  -EINVAL: no, and *ret_bad (may be
 * NULL) is where it ends to be one; -E2BIG: nested too deeply. */
int json_text_check(struct str text, struct str *ret_value, size_t *ret_bad);

/* All of these take values of checked text. */
enum json_text_kind json_text_kind(struct str value); /* JSON_TEXT_NONE: the empty str, which stands for "not there" */

struct json_walk { /* over the members of an object, or the items of an array */
        struct str rest;
        bool is_object;
};
struct json_walk json_text_walk(struct str value); /* of anything else: over nothing */
/* The next one; false: there is none.  *ret_key (may be NULL for arrays): its key, a string. */
bool json_text_next(struct json_walk *w, struct str *ret_key, struct str *ret_value);
struct str json_text_get(struct str object, const char *key); /* the last one of that name; empty: none */

/* The text that a string stands for, behind what `out` holds.  -E2BIG, -ENOMEM. */
int json_text_unquote(struct str string, struct buf *out);
bool json_text_is(struct str string, const char *text); /* false also for what is no string */
/* A string that holds no escapes, without its quotes; false: it holds some, or is no string. */
bool json_text_plain(struct str string, struct str *ret);
int json_text_integer(struct str number, int64_t *ret); /* -EINVAL: no integer in this range */

/* ---- writing ---- */

struct json_style {
        const char *indent; /* of one level; NULL: everything on one line */
        bool has_spaces;    /* after a colon; on one line also after a comma */
};
/* A string with its quotes; `text` is UTF-8.  Escapes what must be escaped, nothing else. */
int json_text_quote(struct str text, struct buf *out);
int json_text_newline(const struct json_style *style, unsigned depth, struct buf *out); /* line end and indentation */
/* A value in this style, at this depth, its keys sorted. */
int json_text_format(struct str value, const struct json_style *style, unsigned depth, struct buf *out);
