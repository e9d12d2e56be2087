/* text.h - bytes of programs and files as text. */
#pragma once
#include "base/buf.h"
#include "base/str.h"

/* Append `bytes` as UTF-8 to out; what is no UTF-8, and NUL, becomes U+FFFD.  0 or negative errno. */
int text_clean(struct str bytes, struct buf *out);
