#include "edge/shortcut.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "edge/edge.h"
#include "edge/flow.h"

#define TURN_MAX 8u               /* pieces, then others have their turn */
#define LEFT_MIN (4 * BLOCK_SIZE) /* shorter bodies are not worth it */

void shortcut_done(struct shortcut *s)
{
        if (s->is_open) {
                close_fd(&s->pipe[0]);
                close_fd(&s->pipe[1]);
        }
        s->is_open = false;
}

static bool is_ready(struct shortcut *s)
{
        if (!s->is_open)
                s->is_open = pipe2(s->pipe, O_CLOEXEC | O_NONBLOCK) == 0;
        return s->is_open;
}

bool shortcut_fits(const struct flow *f)
{
        return f->body.framing == HTTP1_BODY_LENGTH && !f->is_chunked && f->body.left > LEFT_MIN && f->out.len == 0;
}

/* The rest of a piece, out of the pipe.  It fits: a piece is never larger than a block. */
static bool keep_rest(struct edge *e, struct flow *f, size_t n)
{
        if (block_need(&e->blocks, &f->out) == 0)
                while (n) {
                        ssize_t r = read(e->shortcut.pipe[0], f->out.mem + f->out.len, n);

                        if (r <= 0)
                                break;
                        f->out.len += (size_t)r;
                        n -= (size_t)r;
                }
        return n == 0;
}

/* One piece: 1 went through; 0 there is none, or the sink is full; -1 bytes are lost. */
static int pass(struct edge *e, struct flow *f, int source, int sink, bool *ret_moved)
{
        ssize_t n = splice(source, NULL, e->shortcut.pipe[1], NULL, BLOCK_SIZE, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        size_t left;

        if (n <= 0)
                return 0;
        *ret_moved = true;
        f->body.left -= (uint64_t)n;
        left = (size_t)n;
        while (left) {
                n = splice(e->shortcut.pipe[0], NULL, sink, NULL, left, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
                if (n <= 0)
                        return keep_rest(e, f, left) ? 0 : -1;
                left -= (size_t)n;
                f->sent_bytes += (uint64_t)n;
        }
        return 1;
}

bool shortcut_take(struct edge *e, struct flow *f, int source, int sink)
{
        bool has_moved = false;
        int r = 1;

        if (!is_ready(&e->shortcut))
                return false;
        for (unsigned i = 0; i < TURN_MAX && r > 0 && shortcut_fits(f); i++)
                r = pass(e, f, source, sink, &has_moved);
        if (r < 0) {
                shortcut_done(&e->shortcut);
                f->is_broken = true;
        }
        return has_moved;
}
