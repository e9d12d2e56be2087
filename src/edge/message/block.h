/* block.h - fixed-size byte buffers lent from a free list.
 *
 * A connection holds memory only while bytes wait in it: block_need() attaches a block, block_tidy() gives an empty one back.
 * So an idle connection costs its struct, and a stalled one at most a block per direction. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define BLOCK_SIZE (64u << 10)
#define BLOCK_READ_MIN (16u << 10) /* reading goes on while at least this much room is left */
#define BLOCKS_SPARE_MAX 64u

struct block_pool {
        uint8_t *spare[BLOCKS_SPARE_MAX]; /* owned */
        size_t spare_count;
};

struct block {        /* zeroed: empty, no memory */
        uint8_t *mem; /* owned, BLOCK_SIZE bytes; NULL: none attached */
        size_t start, len;
};

void block_pool_done(struct block_pool *p);

int block_need(struct block_pool *p, struct block *b);  /* 0, -ENOMEM */
void block_tidy(struct block_pool *p, struct block *b); /* gives the memory back if no bytes are left */
void block_drop(struct block_pool *p, struct block *b); /* gives the memory back with whatever is in it */

static inline uint8_t *block_at(const struct block *b)
{
        return b->mem + b->start;
}
static inline size_t block_room(const struct block *b)
{
        return BLOCK_SIZE - b->len;
}
void block_consume(struct block *b, size_t n);
/* Room behind the content, made contiguous; the block must have memory.  Returns the size of the room. */
size_t block_space(struct block *b, uint8_t **ret);
