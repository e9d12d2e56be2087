#include "client/block.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

#include "sandglass.h"

#define CHUNK_BYTES 4096u

struct chunk {
        struct chunk *next; /* owned; of the first one: the newest one */
        size_t used, cap;
        alignas(max_align_t) uint8_t bytes[];
};

static struct chunk *first_of(void *block)
{
        return (struct chunk *)(void *)((uint8_t *)block - offsetof(struct chunk, bytes));
}

static struct chunk *chunk_create(size_t n)
{
        struct chunk *c = n < SIZE_MAX / 2 ? calloc(1, sizeof(*c) + n) : NULL;

        if (c)
                c->cap = n;
        return c;
}

static void *chunk_take(struct chunk *c, size_t n)
{
        size_t align = alignof(max_align_t), at = (c->used + align - 1) / align * align;

        if (at > c->cap || n > c->cap - at)
                return NULL;
        c->used = at + n;
        return c->bytes + at;
}

void *block_create(size_t n)
{
        struct chunk *c = chunk_create(n > CHUNK_BYTES / 4 ? n : CHUNK_BYTES / 4);

        return c ? chunk_take(c, n) : NULL;
}

void *block_add(void *block, size_t n)
{
        struct chunk *first, *newest;
        void *p;

        if (!block)
                return NULL;
        first = first_of(block);
        newest = first->next ? first->next : first;
        p = chunk_take(newest, n);
        if (p)
                return p;
        newest = chunk_create(n > CHUNK_BYTES ? n : CHUNK_BYTES);
        if (!newest)
                return NULL;
        newest->next = first->next;
        first->next = newest;
        return chunk_take(newest, n);
}

char *block_text(void *block, struct str text)
{
        char *p = text.n < SIZE_MAX ? block_add(block, text.n + 1) : NULL;

        if (p && text.n)
                memcpy(p, text.p, text.n);
        return p;
}

void sg_free(const void *block)
{
        struct chunk *first, *c;

        if (!block)
                return;
        first = first_of((void *)(uintptr_t)block);
        while ((c = first->next)) {
                first->next = c->next;
                free(c);
        }
        free(first);
}

void block_free_p(void *p)
{
        sg_free(*(void **)p);
}
