/* inflate.h - archives that come compressed: gzip or zstd, found by their first bytes.
 *
 * A process of its own decompresses, so that a second processor has something to do, as with `tar -z`. */
#pragma once
#include <sys/types.h>

#include "base/err.h"
#include "envd/build/byte_source.h"

struct inflate {
        struct byte_source *from; /* borrowed: the bytes as they came */
        struct byte_source plain; /* from the process; unused when nothing is compressed */
        int pipe;                 /* owned; -1: not compressed */
        pid_t pid;                /* 0: none */
};

int inflate_open(struct inflate *z, struct byte_source *from, struct err *err);
/* As byte_source_next(). */
int inflate_next(struct inflate *z, struct str *ret);
/* All bytes were taken: were they whole?  0, or negative with *err. */
int inflate_finish(struct inflate *z, struct err *err);
void inflate_done(struct inflate *z); /* ends the process, if it still runs */
