#include "envd/files/file_stream.h"

#include <errno.h>

#include "envd/files/gzip.h"
#include "http/server.h"

#define CHUNK (64u << 10)
#define TEXT_MAX 4096
#define STEPS_PER_TURN 4 /* then others get their turn */

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
        gzip_free(p->gzip);
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

static int emit(const struct pump *p, const void *bytes, size_t n, bool is_last)
{
        struct str in = {bytes, n}, out;
        int r = 0;

        if (!p->gzip)
                return http_write(p->rq, bytes, n);
        while (r == 0 && gzip_next(p->gzip, &in, is_last, &out) > 0)
                r = http_write(p->rq, out.p, out.n);
        return r;
}

/* One write of the segment: 1 it has more; 0 it is done; negative errno. */
static int pump_one(struct pump *p, struct segment *s)
{
        static uint8_t chunk[CHUNK];
        ssize_t n;
        int r;

        if (s->text.len) {
                r = emit(p, buf_at(&s->text), s->text.len, false);
                buf_reset(&s->text);
                return r < 0 ? r : 1;
        }
        if (s->length == 0)
                return 0;
        n = pread(p->fd, chunk, s->length < CHUNK ? s->length : CHUNK, (off_t)s->offset);
        if (n == 0 && s->length == PUMP_TO_END)
                return 0;
        if (n < 0 && errno == EAGAIN && s->length == PUMP_TO_END)
                return 0; /* a file of the kernel that has no more for now */
        if (n <= 0)
                return n < 0 ? -errno : -ENODATA; /* the file has shrunk */
        s->offset += (uint64_t)n;
        if (s->length != PUMP_TO_END)
                s->length -= (uint64_t)n;
        r = emit(p, chunk, (size_t)n, false);
        return r < 0 ? r : 1;
}

static void advance(struct pump *p)
{
        int r = 0;

        loop_unpost(&p->turn);
        for (int i = 0; i < STEPS_PER_TURN && r >= 0 && p->at < p->count && !http_is_full(p->rq); i++) {
                r = pump_one(p, &p->segments[p->at]);
                if (r == 0)
                        p->at++;
        }
        if (r >= 0 && p->at == p->count)
                r = emit(p, "", 0, true);
        if (r < 0) {
                http_abort(p->rq); /* the client must not take it for the whole */
        } else if (p->at == p->count) {
                p->rq->on_drain = NULL;
                http_end(p->rq);
        } else if (!http_is_full(p->rq)) {
                loop_post(p->loop, &p->turn);
        }
}

static void on_turn(struct task *t)
{
        advance(CONTAINER_OF(t, struct pump, turn));
}

static void on_drain(struct http_request *rq)
{
        advance(rq->user);
}

static void on_close(struct http_request *rq, bool is_complete)
{
        struct pump *p = rq->user;

        (void)is_complete;
        loop_unpost(&p->turn);
        pump_free(p);
}

void pump_start(struct pump *p, struct loop *loop, struct http_request *rq)
{
        p->loop = loop;
        p->rq = rq;
        p->turn.run = on_turn;
        rq->user = p;
        rq->on_close = on_close;
        rq->on_drain = on_drain;
        advance(p);
}
