/* url.h - request targets: path segments and query parameters, percent-decoding.  No I/O. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

#define URL_SEGMENTS_MAX 16

struct url {
        struct str path;                       /* raw, as sent, starts with '/' */
        struct str query;                      /* raw, without '?', may be empty */
        struct str segments[URL_SEGMENTS_MAX]; /* raw, between slashes; "/a/b" has two, "/" none, "/a/" "a" and "" */
        size_t segment_count;
};
/* Origin-form ("/a?b") or absolute-form ("http://h/a?b"; the authority is dropped).  -EINVAL otherwise, for '#', control
 * characters, spaces; -E2BIG for too many segments. */
int url_parse(struct str target, struct url *ret);

/* Decode %XX (and '+' as blank when plus_is_space) from s, appended to out.  -EINVAL for a broken escape, -E2BIG. */
int url_decode(struct str s, bool plus_is_space, struct buf *out);
/* The same into a malloc'd C string; a decoded NUL gives -EINVAL.  Never NULL on success. */
int url_decode_dup(struct str s, bool plus_is_space, char **ret);

/* Value of the first parameter `name` in a raw query, decoded ('+' is blank) into a malloc'd string; *ret NULL when
 * the parameter is absent.  0, -EINVAL, -ENOMEM. */
int url_query_get(struct str query, const char *name, char **ret);
/* Append s percent-encoded except [A-Za-z0-9-._~]. */
int url_encode(struct str s, struct buf *out);
