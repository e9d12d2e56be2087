#include "edge/message/head_scan.h"

#include <string.h>

#include "wire/http1.h"

bool head_scan_is_due(struct head_scan *s, const void *p, size_t n)
{
        size_t from = s->scanned > 3 ? s->scanned - 3 : 0;
        bool is_due = n >= 2 * s->parsed || n >= HTTP1_HEAD_MAX;

        if (!is_due && n > from)
                is_due = memmem((const char *)p + from, n - from, "\n\r\n", 3) != NULL;
        s->scanned = n;
        if (is_due)
                s->parsed = n;
        return is_due;
}
