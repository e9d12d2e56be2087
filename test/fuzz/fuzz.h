/* fuzz.h - what the fuzz programs share.  Each defines LLVMFuzzerTestOneInput, which aborts when a promise is broken.
 *
 * Besides memory errors they look for differences: the same bytes in other pieces must mean the same, and what was
 * parsed and written again must parse to the same. */
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)                                                                                                     \
        do {                                                                                                           \
                if (!(cond)) {                                                                                         \
                        fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #cond);                             \
                        abort();                                                                                       \
                }                                                                                                      \
        } while (0)

/* A copy of exactly that size, so that reading beyond it is caught. */
static inline uint8_t *fuzz_copy(const uint8_t *p, size_t n)
{
        uint8_t *copy = malloc(n ? n : 1);

        MUST(copy);
        if (n)
                memcpy(copy, p, n);
        return copy;
}

/* How an input is cut into pieces: way 0 byte by byte, others by numbers that depend on the input alone. */
struct fuzz_cuts {
        unsigned way;
        uint32_t seed;
};
#define FUZZ_WAYS 4u

static inline struct fuzz_cuts fuzz_cuts_of(const uint8_t *p, size_t n, unsigned way)
{
        uint32_t seed = 2166136261u + way;

        for (size_t i = 0; i < n; i++)
                seed = (seed ^ p[i]) * 16777619u;
        return (struct fuzz_cuts){way, seed};
}

/* Size of the next piece, 1..left. */
static inline size_t fuzz_cut(struct fuzz_cuts *cuts, size_t left)
{
        size_t n;

        if (cuts->way == 0)
                return 1;
        cuts->seed = cuts->seed * 1664525u + 1013904223u;
        n = 1 + (cuts->seed >> 8) % (cuts->way == 1 ? 7 : cuts->way == 2 ? 64 : left);
        return n < left ? n : left;
}
