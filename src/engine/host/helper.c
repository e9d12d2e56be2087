#include "engine/host/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "sys/proc.h"
#include "sys/scm.h"

#define KEEP_MAX 32u
#define RETRY_MIN_MS 100u
#define RETRY_MAX_MS 5000u

struct queued {
        struct list node;
        size_t n, nfds;
        int fds[HELPER_FDS_MAX]; /* owned */
        uint8_t bytes[];
};

static void settle(const char *name, pid_t parent, const int *keep, size_t nkeep, int sock)
{
        int fds[KEEP_MAX + 1];

        (void)prctl(PR_SET_NAME, name);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(0); /* it died before we asked to be told */
        (void)sys_signals_default();
        (void)signal(SIGCHLD, SIG_IGN); /* children are reaped by the kernel; pidfds tell of their end */
        (void)signal(SIGPIPE, SIG_IGN);
        (void)signal(SIGINT, SIG_IGN); /* of a terminal: the engine decides */
        memcpy(fds, keep, nkeep * sizeof(int));
        fds[nkeep] = sock;
        (void)sys_close_except(fds, nkeep + 1);
}

pid_t helper_fork(const char *name, const int *keep, size_t nkeep, int *ret_sock)
{
        pid_t parent = getpid(), pid;
        int pair[2];

        if (nkeep > KEEP_MAX)
                return -EINVAL;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        pid = fork();
        if (pid < 0) {
                int r = -errno;

                (void)close(pair[0]);
                (void)close(pair[1]);
                return r;
        }
        if (pid == 0)
                settle(name, parent, keep, nkeep, pair[1]);
        else
                (void)close(pair[1]);
        *ret_sock = pid == 0 ? pair[1] : pair[0];
        return pid;
}

static void drop_queue(struct helper *h)
{
        struct list *node;

        while ((node = list_pop_front(&h->out))) {
                struct queued *q = LIST_ENTRY(node, struct queued, node);

                for (size_t i = 0; i < q->nfds; i++)
                        close_fd(&q->fds[i]);
                free(q);
        }
        h->queued = 0;
}

void helper_stop(struct helper *h)
{
        timer_clear(&h->retry);
        if (!h->loop)
                return;
        loop_del(&h->io);
        close_fd(&h->io.fd);
        drop_queue(h);
        h->loop = NULL;
}

void helper_finish(struct helper *h, int timeout_ms)
{
        uint64_t end = clock_mono_ms() + (uint64_t)timeout_ms, now;

        if (!h->loop)
                return;
        (void)shutdown(h->io.fd, SHUT_WR);
        while ((now = clock_mono_ms()) < end) {
                struct pollfd p = {.fd = h->io.fd, .events = POLLIN};
                uint8_t bytes[HELPER_MESSAGE_MAX];
                int fds[HELPER_FDS_MAX];
                size_t nfds = 0;

                if (poll(&p, 1, (int)(end - now)) != 1 ||
                    scm_recv(h->io.fd, bytes, sizeof(bytes), fds, HELPER_FDS_MAX, &nfds) <= 0)
                        break;
                while (nfds > 0)
                        (void)close(fds[--nfds]);
        }
        helper_stop(h);
}

/* The first at once, the next ones after a while: one that cannot live must not keep the engine busy. */
static void start_again_later(struct helper *h)
{
        uint64_t ms = (uint64_t)RETRY_MIN_MS << (h->failures < 8 ? h->failures : 8);

        timer_set(h->home, &h->retry, h->failures == 0 ? 0 : ms > RETRY_MAX_MS ? RETRY_MAX_MS : ms);
        h->failures++;
}

static void on_retry(struct timer *t)
{
        struct helper *h = CONTAINER_OF(t, struct helper, retry);
        struct err err = {0};

        if (h->again(h, &err) == 0)
                return;
        log_error("helper.failed", "name=%s error=\"%s\", trying again", h->name, err.msg);
        start_again_later(h);
}

static void gone(struct helper *h)
{
        helper_stop(h);
        if (h->on_gone)
                h->on_gone(h);
        if (!h->again)
                return;
        if (clock_mono_ms() - h->started_ms > RETRY_MAX_MS)
                h->failures = 0; /* it had lived */
        log_error("helper.died", "name=%s, starting another", h->name);
        h->retry.on = on_retry;
        start_again_later(h);
}

void helper_end(struct helper *h)
{
        gone(h);
}

static void flush(struct helper *h)
{
        while (!list_is_empty(&h->out)) {
                struct queued *q = LIST_ENTRY(h->out.next, struct queued, node);
                ssize_t n = scm_send(h->io.fd, q->bytes, q->n, q->fds, q->nfds);

                if (n == -EAGAIN)
                        break;
                list_remove(&q->node); /* any other failure shows as end of file */
                h->queued--;
                for (size_t i = 0; i < q->nfds; i++)
                        close_fd(&q->fds[i]);
                free(q);
        }
        loop_want(&h->io, list_is_empty(&h->out) ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

static void on_io(struct io *io, uint32_t events)
{
        struct helper *h = CONTAINER_OF(io, struct helper, io);
        uint8_t bytes[HELPER_MESSAGE_MAX];
        int fds[HELPER_FDS_MAX];
        size_t nfds = 0;
        ssize_t n;

        if (events & EPOLLOUT)
                flush(h);
        if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
                return;
        n = scm_recv(io->fd, bytes, sizeof(bytes), fds, HELPER_FDS_MAX, &nfds);
        if (n > 0)
                h->on_message(h, bytes, (size_t)n, fds, nfds);
        else if (n != -EAGAIN)
                gone(h);
}

int helper_start(struct helper *h, struct loop *l, int sock)
{
        int r = fcntl(sock, F_SETFL, O_RDWR | O_NONBLOCK) < 0 ? -errno : 0;

        h->io = (struct io){.fd = sock, .on = on_io};
        list_init(&h->out);
        h->queued = 0;
        if (r == 0)
                r = loop_add(l, &h->io, EPOLLIN);
        if (r < 0) {
                close_fd(&h->io.fd); /* it ends */
                return r;
        }
        h->loop = h->home = l;
        h->started_ms = clock_mono_ms();
        return 0;
}

static int enqueue(struct helper *h, const void *p, size_t n, const int *fds, size_t nfds)
{
        struct queued *q;

        if (h->queued >= HELPER_QUEUE_MAX)
                return -ENOBUFS;
        q = calloc(1, sizeof(*q) + n);
        if (!q)
                return -ENOMEM;
        memcpy(q->bytes, p, n);
        q->n = n;
        for (size_t i = 0; i < nfds; i++) {
                q->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
                if (q->fds[i] < 0) {
                        while (i-- > 0)
                                close_fd(&q->fds[i]);
                        free(q);
                        return -EMFILE;
                }
        }
        q->nfds = nfds;
        list_push_back(&h->out, &q->node);
        h->queued++;
        loop_want(&h->io, EPOLLIN | EPOLLOUT);
        return 0;
}

int helper_send(struct helper *h, const void *p, size_t n, const int *fds, size_t nfds)
{
        ssize_t r;

        if (!h->loop)
                return -EPIPE;
        if (n > HELPER_SEND_MAX || nfds > HELPER_FDS_MAX)
                return -EINVAL;
        if (!list_is_empty(&h->out))
                return enqueue(h, p, n, fds, nfds);
        r = scm_send(h->io.fd, p, n, fds, nfds);
        if (r == -EAGAIN)
                return enqueue(h, p, n, fds, nfds);
        if (r == -ECONNRESET) /* what the kernel says once, when it died with unread messages */
                r = -EPIPE;
        return r < 0 ? (int)r : 0;
}
