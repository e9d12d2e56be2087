/* http1_chars.h - which bytes may stand where in a message; only for wire. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum {
        HTTP1_CHAR_TOKEN = 1,  /* methods, header names */
        HTTP1_CHAR_TARGET = 2, /* request targets: visible ASCII but '#' */
        HTTP1_CHAR_VALUE = 4,  /* header values, reasons: no controls but the tab */
        HTTP1_CHAR_HOST = 8,   /* Host: name, address or [address], port */
};
extern const uint8_t http1_chars[256];

static inline bool http1_char_is(char c, unsigned kind)
{
        return http1_chars[(uint8_t)c] & kind;
}
bool http1_all(struct str s, unsigned kind); /* every byte is of that kind (true when empty) */
bool http1_is_value(struct str s);           /* http1_all(s, HTTP1_CHAR_VALUE), eight bytes at a time */

/* Is `token` (any case) an element of the comma-separated list? */
bool http1_list_has(struct str list, struct str token);
