#include "client/caller_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

static void fd_came(struct io *io, uint32_t events)
{
        struct caller_fd *c = CONTAINER_OF(io, struct caller_fd, io);

        (void)events;
        loop_del(io); /* else the end of a pipe would be told again and again */
        http_call_resume(c->call);
}

void caller_fd_init(struct caller_fd *c, int fd)
{
        *c = (struct caller_fd){.io = {.fd = fd, .on = fd_came}};
}

void caller_fd_done(struct caller_fd *c)
{
        loop_del(&c->io);
}

/* Files always are. */
static bool is_ready(const struct caller_fd *c, short events)
{
        struct pollfd p = {.fd = c->io.fd, .events = events};

        return poll(&p, 1, 0) > 0;
}

/* The wrong end of a pipe is never ready: reading and writing say so, waiting does not. */
static bool is_open_for(int fd, uint32_t want)
{
        int mode = fcntl(fd, F_GETFL) & O_ACCMODE;

        return mode == O_RDWR || mode == (want == EPOLLIN ? O_RDONLY : O_WRONLY);
}

static int wait_for(struct caller_fd *c, struct loop *loop, struct http_call *call, uint32_t want)
{
        c->call = call;
        c->r = !is_open_for(c->io.fd, want) ? -EBADF : c->io.loop ? 0 : loop_add(loop, &c->io, want);
        return c->r < 0 ? c->r : -EAGAIN;
}

ssize_t caller_fd_read(struct caller_fd *c, struct loop *loop, struct http_call *call, void *p, size_t n)
{
        if (is_ready(c, POLLIN)) {
                ssize_t got = read(c->io.fd, p, n);

                if (got >= 0)
                        return got;
                if (errno != EAGAIN && errno != EINTR)
                        return c->r = -errno;
        }
        return wait_for(c, loop, call, EPOLLIN);
}

/* A pipe that is ready takes this much at once; more could block. */
static size_t most_at_once(int fd, size_t n)
{
        struct stat st;

        return n <= PIPE_BUF || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) ? n : PIPE_BUF;
}

size_t caller_fd_write(struct caller_fd *c, struct loop *loop, struct http_call *call, struct str piece)
{
        size_t done = 0;

        while (done < piece.n && is_ready(c, POLLOUT)) {
                ssize_t n = write(c->io.fd, piece.p + done, most_at_once(c->io.fd, piece.n - done));

                if (n < 0 && errno == EAGAIN)
                        break;
                if (n < 0 && errno != EINTR) {
                        c->r = -errno;
                        return done;
                }
                done += n > 0 ? (size_t)n : 0;
        }
        if (done < piece.n)
                (void)wait_for(c, loop, call, EPOLLOUT);
        return done;
}
