/* replay.h - the newest output of a process, kept so that a client that lost its connection can get what it missed.
 *
 * A ring of records (kind, bytes) that grows with the output up to REPLAY_MAX; then the oldest record goes.  Every byte
 * of output has an offset, counted from the start of the process over stdout and stderr together.
 * All rings of the daemon share a pool: when it is used up, the oldest ones of ended processes are emptied, then the
 * largest of the others halved.  Nothing is allocated before there is output. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "envd/process/process_event.h"

#define REPLAY_MAX (1u << 20)       /* of one process, a few bytes for each record included */
#define REPLAY_POOL_MAX (16u << 20) /* of all processes */
#define REPLAY_HEADER "Sandglass-Replay-From"

struct replay_pool {
        size_t used, max;
        struct list live, ended; /* struct replay; ended: oldest first */
};

struct replay {
        struct list node; /* of one of the pool's lists */
        struct replay_pool *pool;
        unsigned refs;
        uint8_t *mem; /* owned; NULL: empty */
        size_t cap;
        /* Places in the ring count on for ever: the byte at place i is mem[i % cap]. */
        uint64_t head, tail, last;    /* the first record, the end, the newest record (valid if head < tail) */
        uint64_t head_offset, offset; /* of the first byte that is kept; of the next one to come */
};

struct replay_cursor {
        uint64_t offset;              /* the next byte that is wanted */
        uint64_t place, place_offset; /* a record at or before it, and the offset of its first byte */
};

void replay_pool_init(struct replay_pool *pool, size_t max);
/* Limit the pool to a small part of the memory of the sandbox (0: unknown, no change). */
void replay_pool_limit(struct replay_pool *pool, uint64_t memory_bytes);

struct replay *replay_create(struct replay_pool *pool); /* one reference; NULL out of memory */
struct replay *replay_ref(struct replay *r);
void replay_unref(struct replay *r); /* NULL is fine */
/* Append output; bytes that cannot be kept are dropped, but counted. */
void replay_add(struct replay *r, enum output_kind kind, const void *p, size_t n);
/* No more output comes: release memory that is not needed.  From now on this ring is among the first to be emptied. */
void replay_finish(struct replay *r);

/* Begin at that offset, or at the oldest byte kept after it.  -ERANGE: the offset is beyond the output. */
int replay_seek(const struct replay *r, uint64_t offset, struct replay_cursor *c);
/* The next piece into out (OUTPUT_READ_MAX bytes): its size, 0 when there is no more.  The bytes begin at
 * c->offset - size; *ret_dropped bytes before them are lost. */
size_t replay_next(const struct replay *r, struct replay_cursor *c, uint8_t *out, enum output_kind *ret_kind,
                   uint64_t *ret_dropped);
