/* spill.h - a stack of bytes of which only the top is in memory; the rest lies in a file without a name.
 *
 * For work lists as long as a sandbox's user likes to make them.  Blocks on the disk. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define SPILL_PIECE_MAX (64u << 10) /* most that is pushed or popped at once */

struct spill {
        int dir;       /* borrowed: where the file is made when it is needed */
        int fd;        /* the file; -1: not needed so far */
        uint8_t *mem;  /* owned */
        size_t len;    /* bytes in mem, the stack's top at the end */
        uint64_t file; /* bytes below those, in the file */
};

int spill_init(struct spill *s, int dir); /* -ENOMEM */
void spill_done(struct spill *s);
int spill_push(struct spill *s, const void *p, size_t n);
int spill_pop(struct spill *s, void *p, size_t n); /* -ENODATA: fewer are there */
static inline uint64_t spill_len(const struct spill *s)
{
        return s->file + s->len;
}
