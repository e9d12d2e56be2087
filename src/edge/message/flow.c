#include "edge/message/flow.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "edge/message/splice.h"

#define PIECES_MAX 20u
#define FRAMING_MAX (HTTP1_CHUNK_HEAD_MAX + 2 + 5) /* around a chunk, and the end behind it */

struct gathered { /* what one writev will write */
        struct iovec iov[PIECES_MAX * 3 + 2];
        int count;
        size_t total;
        size_t used; /* source bytes behind the kept ones */
        char heads[PIECES_MAX][HTTP1_CHUNK_HEAD_MAX];
};

void flow_init(struct flow *f, const struct http1_head *head, bool is_chunked)
{
        assert(!flow_waits(f));
        http1_body_init(&f->body, head);
        f->is_chunked = is_chunked;
        f->is_ended = false;
        f->sent_bytes = 0;
}

void flow_done(struct flow *f, struct block_pool *pool)
{
        block_drop(pool, &f->out);
        splice_drop(f);
}

static void gather_add(struct gathered *g, const void *p, size_t n)
{
        g->iov[g->count++] = (struct iovec){.iov_base = (void *)(uintptr_t)p, .iov_len = n};
        g->total += n;
}

static void gather_piece(struct gathered *g, bool is_chunked, unsigned index, struct str data)
{
        if (is_chunked)
                gather_add(g, g->heads[index], http1_chunk_head(g->heads[index], data.n));
        gather_add(g, data.p, data.n);
        if (is_chunked)
                gather_add(g, "\r\n", 2);
}

/* Collect pieces of the body for one write, never more than fits into `out` if the sink takes nothing. */
static enum flow_step flow_gather_body(struct flow *f, const uint8_t *p, size_t n, struct gathered *g)
{
        for (unsigned i = 0; i < PIECES_MAX; i++) {
                size_t room = g->total + FRAMING_MAX < BLOCK_SIZE ? BLOCK_SIZE - g->total - FRAMING_MAX : 0;
                size_t most = n - g->used < room ? n - g->used : room, used = 0;
                struct str data;
                enum http1_step step;

                if (http1_body_is_done(&f->body))
                        return FLOW_DONE;
                if (most == 0)
                        return FLOW_MORE;
                step = http1_body_feed(&f->body, p + g->used, most, &used, &data);
                g->used += used;
                if (step == HTTP1_DATA)
                        gather_piece(g, f->is_chunked, i, data);
                else if (step == HTTP1_DONE)
                        return FLOW_DONE;
                else if (step != HTTP1_MORE)
                        return FLOW_BAD;
        }
        return FLOW_MORE;
}

/* What the sink did not take goes into `out`. */
static int flow_keep_rest(struct flow *f, struct block_pool *pool, const struct gathered *g, size_t taken)
{
        int r;

        if (taken == g->total)
                return 0;
        r = block_need(pool, &f->out);
        if (r < 0)
                return r;
        if (f->out.start) {
                memmove(f->out.mem, block_at(&f->out), f->out.len);
                f->out.start = 0;
        }
        for (int i = 0; i < g->count; i++) {
                const struct iovec *v = &g->iov[i];
                size_t skip = taken < v->iov_len ? taken : v->iov_len;

                memcpy(f->out.mem + f->out.len, (const uint8_t *)v->iov_base + skip, v->iov_len - skip);
                f->out.len += v->iov_len - skip;
                taken -= skip;
        }
        return 0;
}

static int flow_write_gathered(struct flow *f, struct block_pool *pool, const struct gathered *g, struct stream *sink)
{
        ssize_t n = 0;

        if (g->count == 0)
                return 0;
        n = stream_writev(sink, g->iov, g->count);
        if (n == -EAGAIN)
                n = 0;
        if (n < 0)
                return (int)n;
        f->sent_bytes += (uint64_t)n;
        return flow_keep_rest(f, pool, g, (size_t)n);
}

enum flow_step flow_flush(struct flow *f, struct block_pool *pool, struct stream *sink)
{
        while (f->out.len) {
                ssize_t n = stream_write(sink, block_at(&f->out), f->out.len);

                if (n == -EAGAIN || n == 0)
                        return FLOW_FULL;
                if (n < 0)
                        return FLOW_DEAD;
                f->sent_bytes += (uint64_t)n;
                block_consume(&f->out, (size_t)n);
        }
        block_tidy(pool, &f->out);
        if (f->pipe) {
                int r = splice_flush(f, sink->io.fd);

                if (r < 0)
                        return r == -EAGAIN ? FLOW_FULL : FLOW_DEAD;
        }
        return f->is_ended ? FLOW_DONE : FLOW_MORE;
}

enum flow_step flow_pump(struct flow *f, struct block_pool *pool, struct block *src, size_t *keep, struct buf *prefix,
                         struct stream *sink)
{
        enum flow_step step = flow_flush(f, pool, sink);

        if (step == FLOW_FULL || step == FLOW_DEAD || f->is_ended)
                return step;
        for (;;) {
                struct gathered g;
                size_t have = src->len - *keep;

                g.count = 0;
                g.total = g.used = 0;
                if (prefix && prefix->len)
                        gather_add(&g, buf_at(prefix), prefix->len);
                step = flow_gather_body(f, have ? block_at(src) + *keep : NULL, have, &g);
                if (step == FLOW_BAD)
                        return FLOW_BAD;
                if (step == FLOW_DONE && f->is_chunked)
                        gather_add(&g, "0\r\n\r\n", 5);
                if (flow_write_gathered(f, pool, &g, sink) < 0)
                        return FLOW_DEAD;
                f->is_ended = step == FLOW_DONE;
                if (prefix)
                        buf_reset(prefix);
                if (g.used) {
                        block_consume(src, *keep + g.used);
                        *keep = 0;
                }
                if (f->out.len)
                        return FLOW_FULL;
                if (f->is_ended || src->len == *keep || g.used == 0)
                        return step;
        }
}

enum flow_step flow_finish(struct flow *f, struct block_pool *pool, struct stream *sink)
{
        struct gathered g;

        assert(f->body.framing == HTTP1_BODY_EOF && !f->is_ended && !flow_waits(f));
        g.count = 0;
        g.total = g.used = 0;
        if (f->is_chunked)
                gather_add(&g, "0\r\n\r\n", 5);
        if (flow_write_gathered(f, pool, &g, sink) < 0)
                return FLOW_DEAD;
        f->is_ended = true;
        return f->out.len ? FLOW_FULL : FLOW_DONE;
}

enum flow_step flow_say(struct flow *f, struct block_pool *pool, struct buf *bytes, struct stream *sink)
{
        struct gathered g;

        g.count = 0;
        g.total = g.used = 0;
        if (bytes->len > BLOCK_SIZE - f->out.len)
                return FLOW_DEAD;
        gather_add(&g, buf_at(bytes), bytes->len);
        if (f->out.len ? flow_keep_rest(f, pool, &g, 0) < 0 : flow_write_gathered(f, pool, &g, sink) < 0)
                return FLOW_DEAD;
        buf_reset(bytes);
        return f->out.len ? FLOW_FULL : FLOW_DONE;
}
