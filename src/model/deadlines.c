#include "model/deadlines.h"

#include <errno.h>
#include <stdlib.h>

void deadlines_done(struct deadlines *d)
{
        for (size_t i = 0; i < d->used; i++)
                d->heap[i]->slot = 0;
        free(d->heap);
        *d = (struct deadlines){0};
}

static void place(struct deadlines *d, size_t i, struct deadline *n)
{
        d->heap[i] = n;
        n->slot = i + 1;
}

static void rise(struct deadlines *d, size_t i)
{
        struct deadline *n = d->heap[i];

        for (; i > 0 && d->heap[(i - 1) / 2]->at_ns > n->at_ns; i = (i - 1) / 2)
                place(d, i, d->heap[(i - 1) / 2]);
        place(d, i, n);
}

static void sink(struct deadlines *d, size_t i)
{
        struct deadline *n = d->heap[i];

        for (;;) {
                size_t child = 2 * i + 1;

                if (child + 1 < d->used && d->heap[child + 1]->at_ns < d->heap[child]->at_ns)
                        child++;
                if (child >= d->used || d->heap[child]->at_ns >= n->at_ns)
                        break;
                place(d, i, d->heap[child]);
                i = child;
        }
        place(d, i, n);
}

static int deadlines_grow(struct deadlines *d)
{
        size_t cap = d->cap ? d->cap * 2 : 64;
        struct deadline **heap = reallocarray(d->heap, cap, sizeof(*heap));

        if (!heap)
                return -ENOMEM;
        d->heap = heap;
        d->cap = cap;
        return 0;
}

int deadlines_set(struct deadlines *d, struct deadline *n, int64_t at_ns)
{
        if (!n->slot) {
                if (d->used == d->cap && deadlines_grow(d) < 0)
                        return -ENOMEM;
                place(d, d->used++, n);
        }
        n->at_ns = at_ns;
        rise(d, n->slot - 1);
        sink(d, n->slot - 1);
        return 0;
}

void deadlines_remove(struct deadlines *d, struct deadline *n)
{
        size_t i = n->slot - 1;

        if (!n->slot)
                return;
        n->slot = 0;
        if (i == --d->used)
                return;
        place(d, i, d->heap[d->used]);
        rise(d, i);
        sink(d, i); /* one of the two moves it, or none */
}

struct deadline *deadlines_first(const struct deadlines *d)
{
        return d->used ? d->heap[0] : NULL;
}
