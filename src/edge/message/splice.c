#include "edge/message/splice.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "edge/message/flow.h"

#define TURN_BYTES (1u << 20)     /* then other connections have their turn */
#define LEFT_MIN (4 * BLOCK_SIZE) /* shorter bodies are not worth it */

/* ---- pipes ---- */

static void splice_pipe_free(struct splice_pipe *p)
{
        close_fd(&p->fd[0]);
        close_fd(&p->fd[1]);
        free(p);
}

static struct splice_pipe *splice_pipe_create(struct splice_pool *s)
{
        struct splice_pipe *p = calloc(1, sizeof(*p));
        int size;

        if (!p)
                return NULL;
        p->home = s;
        if (pipe2(p->fd, O_CLOEXEC | O_NONBLOCK) < 0) {
                free(p);
                return NULL;
        }
        size = fcntl(p->fd[1], F_SETPIPE_SZ, PIPE_BYTES);
        if (size < 0) /* the user has too many pipes for that */
                size = fcntl(p->fd[1], F_GETPIPE_SZ);
        p->size = size > 0 ? (size_t)size : BLOCK_SIZE;
        return p;
}

static struct splice_pipe *splice_lend_pipe(struct splice_pool *s)
{
        struct splice_pipe *p = NULL;

        if (s->spare_count)
                p = s->spare[--s->spare_count];
        else if (s->lent_count < PIPES_MAX)
                p = splice_pipe_create(s);
        if (p)
                s->lent_count++;
        return p;
}

static void splice_return_pipe(struct splice_pipe *p)
{
        struct splice_pool *s = p->home;

        s->lent_count--;
        if (p->held == 0 && s->spare_count < PIPES_SPARE_MAX)
                s->spare[s->spare_count++] = p;
        else
                splice_pipe_free(p);
}

void splice_pool_done(struct splice_pool *s)
{
        assert(s->lent_count == 0);
        while (s->spare_count)
                splice_pipe_free(s->spare[--s->spare_count]);
}

/* ---- bytes ---- */

bool splice_fits(const struct flow *f)
{
        return f->body.framing == HTTP1_BODY_LENGTH && !f->is_chunked && f->body.left > LEFT_MIN && !flow_waits(f);
}

static ssize_t splice_move(int from, int to, size_t n)
{
        ssize_t r;

        do {
                r = splice(from, NULL, to, NULL, n, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        } while (r < 0 && errno == EINTR);
        return r < 0 ? -errno : r;
}

static int splice_drain_pipe(struct flow *f, struct splice_pipe *p, int sink)
{
        while (p->held) {
                ssize_t n = splice_move(p->fd[0], sink, p->held);

                if (n <= 0)
                        return n == -EAGAIN ? -EAGAIN : -EPIPE;
                p->held -= (size_t)n;
                f->sent_bytes += (uint64_t)n;
        }
        return 0;
}

bool splice_take(struct splice_pool *s, struct flow *f, int source, int sink)
{
        struct splice_pipe *p = splice_lend_pipe(s);
        size_t turn = 0;

        if (!p)
                return false;
        while (turn < TURN_BYTES && f->body.left > LEFT_MIN) {
                size_t most = f->body.left < p->size ? (size_t)f->body.left - 1 : p->size;
                ssize_t n = splice_move(source, p->fd[1], most);

                if (n <= 0) /* flow_pump() finds out why */
                        break;
                turn += (size_t)n;
                p->held = (size_t)n;
                f->body.left -= (uint64_t)n;
                if (splice_drain_pipe(f, p, sink) < 0)
                        break;
        }
        if (p->held)
                f->pipe = p;
        else
                splice_return_pipe(p);
        return turn > 0;
}

int splice_flush(struct flow *f, int sink)
{
        int r = f->pipe ? splice_drain_pipe(f, f->pipe, sink) : 0;

        if (r == 0)
                splice_drop(f);
        return r;
}

void splice_drop(struct flow *f)
{
        if (f->pipe)
                splice_return_pipe(TAKE_PTR(f->pipe));
}
