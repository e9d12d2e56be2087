/* buf.h - bytes that grow at the end and are consumed at the front, never beyond a given maximum. */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"

struct buf {
        uint8_t *mem; /* owned */
        size_t start; /* first unread byte */
        size_t len;   /* unread bytes */
        size_t cap;
        size_t max;     /* len never exceeds it */
        bool is_secret; /* memory is blanked before it is released */
};

#define BUF_INIT(limit) ((struct buf){.max = (limit)})
#define BUF_SECRET(limit) ((struct buf){.max = (limit), .is_secret = true})
#define AUTO_BUF AUTO(buf_done)

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b);  /* releases the memory; the buf may be used again */
void buf_reset(struct buf *b); /* empties, keeps the memory */

static inline uint8_t *buf_at(const struct buf *b) /* NULL as long as nothing was added */
{
        return b->mem ? b->mem + b->start : NULL;
}
static inline size_t buf_room(const struct buf *b)
{
        return b->max - b->len;
}

/* All of these: 0, -E2BIG past the maximum (nothing is added then), -ENOMEM. */
int buf_add(struct buf *b, const void *p, size_t n);
int buf_addc(struct buf *b, const char *s); /* a C string, without its NUL */
int buf_addf(struct buf *b, const char *fmt, ...) PRINTF(2, 3);
int buf_vaddf(struct buf *b, const char *fmt, va_list ap) PRINTF(2, 0);

/* Make at least n bytes of room behind the content and point *ret at it; buf_commit() then adds what was filled in. */
int buf_reserve(struct buf *b, size_t n, uint8_t **ret);
void buf_commit(struct buf *b, size_t n);
void buf_consume(struct buf *b, size_t n); /* drop n bytes (<= len) at the front */

/* One read(2) of at most `most` bytes (and at most buf_room()) from fd.
 * > 0 bytes read, 0 end of file, -E2BIG no room, other negative errno (-EAGAIN when there is nothing). */
ssize_t buf_fill(struct buf *b, int fd, size_t most);
/* Write as much as fd takes and consume it: bytes written (may be short), or negative errno (-EAGAIN: nothing taken). */
ssize_t buf_drain(struct buf *b, int fd);

/* The content as a NUL-terminated C string (the NUL is not counted), or NULL out of memory. */
const char *buf_cstr(struct buf *b);
