/* head_scan.h - when an incomplete head is worth parsing again.
 *
 * The parser's state is large and not kept per connection, so a head that comes in pieces is parsed from its start each time.
 * To keep the effort linear, a head is parsed only when its end is there, when it doubled, or when it is over the limit. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct head_scan { /* zeroed at the start of each head */
        size_t scanned, parsed;
};

bool head_scan_is_due(struct head_scan *s, const void *p, size_t n);
