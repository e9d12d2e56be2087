/* hunk.h - lines and hunks in the text of a patch, for those who parse it and apply it. */
#pragma once
#include <stdint.h>

#include "base/str.h"

struct hunk {
        uint32_t line, old_count, new_count;
        struct str body;
};

struct str hunk_next_line(struct str *rest);       /* with its line end; an empty string at the end */
struct str hunk_without_end(struct str line);      /* without "\n" or "\r\n" */
int hunk_take(struct str *rest, struct hunk *ret); /* the one that *rest begins with; -EINVAL: malformed, or cut */
