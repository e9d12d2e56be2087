/* base64.h - RFC 4648.  Out: standard alphabet.  In: standard or URL-safe, padding optional. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

#define BASE64_LEN(n) (((n) + 2) / 3 * 4)                           /* with padding */
size_t base64_encode(const void *p, size_t n, bool pad, char *out); /* returns the length; no NUL */
int base64_add(struct buf *out, const void *p, size_t n, bool pad);
int base64_decode(struct str s, struct buf *out); /* -EINVAL, -E2BIG, -ENOMEM */
