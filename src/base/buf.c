#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void buf_init(struct buf *b, size_t max)
{
        *b = BUF_INIT(max);
}

static void buf_release(struct buf *b)
{
        if (b->is_secret && b->mem)
                explicit_bzero(b->mem, b->cap);
        free(b->mem);
}

void buf_done(struct buf *b)
{
        buf_release(b);
        *b = (struct buf){.max = b->max, .is_secret = b->is_secret};
}

void buf_reset(struct buf *b)
{
        b->start = b->len = 0;
}

static int buf_grow(struct buf *b, size_t n) /* room for n more bytes in memory, whatever max says */
{
        size_t cap = b->cap ? b->cap : 256;
        uint8_t *mem;

        if (b->start + b->len + n <= b->cap)
                return 0;
        if (b->start && b->len + n <= b->cap) {
                memmove(b->mem, b->mem + b->start, b->len);
                b->start = 0;
                return 0;
        }
        while (cap < b->len + n)
                cap *= 2;
        mem = malloc(cap);
        if (!mem)
                return -ENOMEM;
        if (b->len)
                memcpy(mem, b->mem + b->start, b->len);
        buf_release(b);
        b->mem = mem;
        b->cap = cap;
        b->start = 0;
        return 0;
}

int buf_reserve(struct buf *b, size_t n, uint8_t **ret)
{
        int r;

        if (n > buf_room(b))
                return -E2BIG;
        r = buf_grow(b, n);
        if (r < 0)
                return r;
        *ret = b->mem ? b->mem + b->start + b->len : NULL;
        return 0;
}

void buf_commit(struct buf *b, size_t n)
{
        bool fits = b->start + b->len + n <= b->cap && n <= buf_room(b);

        assert(fits);
        b->len += fits ? n : 0; /* libsandglass has no asserts: no other memory is reached then */
}

void buf_consume(struct buf *b, size_t n)
{
        size_t used = n < b->len ? n : b->len;

        assert(used == n);
        b->len -= used;
        b->start = b->len ? b->start + used : 0;
}

int buf_add(struct buf *b, const void *p, size_t n)
{
        uint8_t *at;
        int r;

        if (n == 0)
                return 0;
        r = buf_reserve(b, n, &at);
        if (r < 0)
                return r;
        memcpy(at, p, n);
        buf_commit(b, n);
        return 0;
}

int buf_addc(struct buf *b, const char *s)
{
        return buf_add(b, s, strlen(s));
}

int buf_vaddf(struct buf *b, const char *fmt, va_list ap)
{
        va_list again;
        uint8_t *at;
        int n, r;

        va_copy(again, ap);
        n = vsnprintf(NULL, 0, fmt, again);
        va_end(again);
        if (n < 0)
                return -EINVAL;
        if ((size_t)n > buf_room(b))
                return -E2BIG;
        r = buf_grow(b, (size_t)n + 1); /* vsnprintf writes a NUL as well */
        if (r < 0)
                return r;
        at = b->mem + b->start + b->len;
        (void)vsnprintf((char *)at, (size_t)n + 1, fmt, ap);
        b->len += (size_t)n;
        return 0;
}

int buf_addf(struct buf *b, const char *fmt, ...)
{
        va_list ap;
        int r;

        va_start(ap, fmt);
        r = buf_vaddf(b, fmt, ap);
        va_end(ap);
        return r;
}

ssize_t buf_fill(struct buf *b, int fd, size_t most)
{
        uint8_t *at;
        ssize_t n;
        int r;

        if (most > buf_room(b))
                most = buf_room(b);
        if (most == 0)
                return -E2BIG;
        r = buf_reserve(b, most, &at);
        if (r < 0)
                return r;
        do {
                n = read(fd, at, most);
        } while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        buf_commit(b, (size_t)n);
        return n;
}

ssize_t buf_drain(struct buf *b, int fd)
{
        ssize_t n;

        if (b->len == 0)
                return 0;
        do {
                n = write(fd, buf_at(b), b->len);
        } while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        buf_consume(b, (size_t)n);
        return n;
}

const char *buf_cstr(struct buf *b)
{
        if (buf_grow(b, 1) < 0)
                return NULL;
        b->mem[b->start + b->len] = 0;
        return (const char *)buf_at(b);
}
