/* content_headers.h - headers that describe a file's bytes: Content-Type, Content-Disposition, dates, ranges.  Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/buf.h"
#include "base/str.h"

/* By the name's extension; NULL: unknown. */
const char *content_type_of_name(struct str name);
#define CONTENT_SNIFF_MAX 512
/* By the first bytes; never NULL. */
const char *content_type_of_bytes(const void *p, size_t n);

/* "inline; filename=a.txt", quoted or in RFC 5987 form where needed.  -ENOMEM. */
int content_disposition(struct str name, struct buf *out);

#define HTTP_DATE_MAX 32
void http_date_format(time_t t, char out[HTTP_DATE_MAX]); /* "Mon, 02 Jan 2006 15:04:05 GMT" */
int http_date_parse(struct str s, time_t *ret);           /* only the form above; -EINVAL */

#define BYTE_RANGES_MAX 32
struct byte_range {
        uint64_t from, length;
};
/* The ranges that a Range header asks for, of a file with `size` bytes.  Returns their number (0: send the whole
 * file); -EINVAL: malformed or too many; -ERANGE: none of them lies in the file. */
int byte_ranges_parse(struct str value, uint64_t size, struct byte_range out[BYTE_RANGES_MAX]);
