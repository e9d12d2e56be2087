/* disk_stack.h - a stack of bytes; only its top is in memory, the rest is in a file without a name.
 *
 * For lists of work whose length a sandbox's user decides.  Blocks on the disk. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define DISK_STACK_PIECE_MAX (64u << 10) /* no more is pushed or popped at once */

struct disk_stack {
        int dir;       /* borrowed: where the file is made, when it is needed */
        int fd;        /* the file; -1: not made yet */
        uint8_t *mem;  /* owned */
        size_t len;    /* bytes in mem, the stack's top at the end */
        uint64_t file; /* bytes in the file, below those in mem */
};

int disk_stack_init(struct disk_stack *s, int dir); /* -ENOMEM */
void disk_stack_done(struct disk_stack *s);
int disk_stack_push(struct disk_stack *s, const void *p, size_t n);
int disk_stack_pop(struct disk_stack *s, void *p, size_t n); /* -ENODATA: there are fewer */
static inline uint64_t disk_stack_len(const struct disk_stack *s)
{
        return s->file + s->len;
}
