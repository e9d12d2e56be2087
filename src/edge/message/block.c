#include "edge/message/block.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void block_pool_done(struct block_pool *p)
{
        while (p->spare_count)
                free(p->spare[--p->spare_count]);
}

int block_need(struct block_pool *p, struct block *b)
{
        if (b->mem)
                return 0;
        b->mem = p->spare_count ? p->spare[--p->spare_count] : malloc(BLOCK_SIZE);
        b->start = b->len = 0;
        return b->mem ? 0 : -ENOMEM;
}

void block_drop(struct block_pool *p, struct block *b)
{
        if (b->mem && p->spare_count < BLOCKS_SPARE_MAX)
                p->spare[p->spare_count++] = b->mem;
        else
                free(b->mem);
        *b = (struct block){0};
}

void block_tidy(struct block_pool *p, struct block *b)
{
        if (b->mem && b->len == 0)
                block_drop(p, b);
}

void block_consume(struct block *b, size_t n)
{
        assert(n <= b->len);
        b->len -= n;
        b->start = b->len ? b->start + n : 0;
}

size_t block_space(struct block *b, uint8_t **ret)
{
        size_t behind = BLOCK_SIZE - b->start - b->len;

        if (b->start && behind < BLOCK_READ_MIN) {
                memmove(b->mem, b->mem + b->start, b->len);
                b->start = 0;
                behind = BLOCK_SIZE - b->len;
        }
        *ret = b->mem + b->start + b->len;
        return behind;
}
