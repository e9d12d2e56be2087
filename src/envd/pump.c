#include "envd/pump.h"

#include <errno.h>

#include "http/server.h"

#define CHUNK (64u << 10)
#define TEXT_MAX 4096

struct pump *pump_create(int fd)
{
        struct pump *p = calloc(1, sizeof(*p));

        if (!p) {
                (void)close(fd);
                return NULL;
        }
        p->fd = fd;
        return p;
}

void pump_free(struct pump *p)
{
        if (!p)
                return;
        close_fd(&p->fd);
        for (size_t i = 0; i < p->count; i++)
                buf_done(&p->segments[i].text);
        free(p);
}

struct segment *pump_add(struct pump *p, uint64_t offset, uint64_t length)
{
        struct segment *s;

        if (p->count == PUMP_SEGMENTS_MAX)
                return NULL;
        s = &p->segments[p->count++];
        *s = (struct segment){.text = BUF_INIT(TEXT_MAX), .offset = offset, .length = length};
        return s;
}

uint64_t pump_length(const struct pump *p)
{
        uint64_t n = 0;

        for (size_t i = 0; i < p->count; i++)
                n += p->segments[i].text.len + p->segments[i].length;
        return n;
}

/* One write of the segment: 1 it has more; 0 it is done; negative errno. */
static int pump_one(struct pump *p, struct http_request *rq, struct segment *s)
{
        static uint8_t chunk[CHUNK];
        ssize_t n;
        int r;

        if (s->text.len) {
                r = http_write(rq, buf_at(&s->text), s->text.len);
                buf_reset(&s->text);
                return r < 0 ? r : 1;
        }
        if (s->length == 0)
                return 0;
        n = pread(p->fd, chunk, s->length < CHUNK ? s->length : CHUNK, (off_t)s->offset);
        if (n <= 0 && s->length == PUMP_TO_END)
                return 0; /* the end, or as far as it could be read: its length was not promised */
        if (n <= 0)
                return n < 0 ? -errno : -ENODATA; /* the file has shrunk */
        s->offset += (uint64_t)n;
        if (s->length != PUMP_TO_END)
                s->length -= (uint64_t)n;
        r = http_write(rq, chunk, (size_t)n);
        return r < 0 ? r : 1;
}

static void advance(struct http_request *rq)
{
        struct pump *p = rq->user;
        int r;

        while (p->at < p->count && !http_is_full(rq)) {
                r = pump_one(p, rq, &p->segments[p->at]);
                if (r < 0) {
                        http_abort(rq); /* the client must not take it for the whole */
                        return;
                }
                if (r == 0)
                        p->at++;
        }
        if (p->at == p->count) {
                rq->on_drain = NULL;
                http_end(rq);
        }
}

static void on_close(struct http_request *rq, bool is_complete)
{
        (void)is_complete;
        pump_free(rq->user);
}

void pump_start(struct pump *p, struct http_request *rq)
{
        rq->user = p;
        rq->on_close = on_close;
        rq->on_drain = advance;
        advance(rq);
}
