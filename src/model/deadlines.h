/* deadlines.h - which of many ends comes first: a heap of nodes embedded in their owners.  Pure. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct deadline { /* zeroed: in no heap */
        int64_t at_ns;
        size_t slot; /* place in the heap + 1 */
};

struct deadlines {              /* zeroed: empty */
        struct deadline **heap; /* owned array of borrowed nodes */
        size_t used, cap;
};

void deadlines_done(struct deadlines *d);
int deadlines_set(struct deadlines *d, struct deadline *n, int64_t at_ns); /* adds or moves; -ENOMEM only when adding */
void deadlines_remove(struct deadlines *d, struct deadline *n);            /* fine when not in it */
struct deadline *deadlines_first(const struct deadlines *d);               /* NULL: empty */
