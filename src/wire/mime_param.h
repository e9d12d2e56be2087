/* mime_param.h - the parameters of Content-Type and Content-Disposition (`; name="value"`); only for wire. */
#pragma once
#include "base/buf.h"
#include "base/str.h"

/* Cut the next parameter off *rest (which begins at its semicolon or is blank); *ret_name is a slice, the value without
 * quotes replaces what is in `value`.  1; 0 there is none; -EINVAL malformed; -E2BIG, -ENOMEM. */
int mime_param_next(struct str *rest, struct str *ret_name, struct buf *value);

/* RFC 8187: charset'language'percent-encoded, in place.  1; 0 for a charset other than UTF-8 and US-ASCII; -EINVAL. */
int mime_param_decode_ext(struct buf *value);
