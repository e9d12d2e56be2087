#include "envd/build/byte_source.h"

#include <errno.h>
#include <stdlib.h>

static int byte_source_init(struct byte_source *s, int fd)
{
        *s = (struct byte_source){.fd = fd, .mem = malloc(BYTE_SOURCE_PIECE)};
        return s->mem ? 0 : -ENOMEM;
}

int byte_source_body(struct byte_source *s, const struct http_taken *taken)
{
        int r = byte_source_init(s, taken->fd);

        s->is_body = true;
        s->body = taken->body;
        s->rest = taken->read;
        return r;
}

int byte_source_pipe(struct byte_source *s, int fd)
{
        return byte_source_init(s, fd);
}

void byte_source_done(struct byte_source *s)
{
        free(s->mem);
        *s = (struct byte_source){.fd = -1};
}

/* One read into the memory: bytes, 0 at the end, negative errno. */
static ssize_t byte_source_read(struct byte_source *s)
{
        size_t most = BYTE_SOURCE_PIECE;
        ssize_t n;

        /* Bytes behind the body are not ours to read. */
        if (s->is_body && s->body.framing == HTTP1_BODY_LENGTH && s->body.left < most)
                most = (size_t)s->body.left;
        do {
                n = read(s->fd, s->mem, most);
        } while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        s->rest = (struct str){(const char *)s->mem, (size_t)n};
        return n;
}

/* Decode what was read: 1 bytes in *ret; 0 more must be read, or the body is complete; -EPROTO. */
static int byte_source_decode(struct byte_source *s, struct str *ret)
{
        size_t used = 0;
        enum http1_step step = http1_body_feed(&s->body, s->rest.p, s->rest.n, &used, ret);

        s->rest = (struct str){s->rest.p + used, s->rest.n - used};
        if (step == HTTP1_DATA)
                return 1;
        return step == HTTP1_MORE || step == HTTP1_DONE ? 0 : -EPROTO;
}

static int body_next(struct byte_source *s, struct str *ret)
{
        while (!http1_body_is_done(&s->body)) {
                ssize_t n;
                int r = s->rest.n ? byte_source_decode(s, ret) : 0;

                if (r)
                        return r;
                if (http1_body_is_done(&s->body))
                        break;
                n = byte_source_read(s);
                if (n <= 0)
                        return n < 0 && n != -ECONNRESET ? (int)n : -EPIPE;
        }
        return 0;
}

void byte_source_return(struct byte_source *s, struct str piece)
{
        s->again = piece;
}

int byte_source_next(struct byte_source *s, struct str *ret)
{
        ssize_t n;

        if (s->again.n) {
                *ret = s->again;
                s->again = (struct str){0};
                return 1;
        }
        if (s->is_body)
                return body_next(s, ret);
        n = byte_source_read(s);
        *ret = s->rest;
        return n > 0 ? 1 : (int)n;
}

int byte_source_collect(struct byte_source *s, struct buf *out)
{
        struct str piece;
        int r;

        while ((r = byte_source_next(s, &piece)) > 0) {
                r = buf_add(out, piece.p, piece.n);
                if (r < 0)
                        return r;
        }
        return r;
}
