/* A frame is read in exact pieces, first its head, then its text, never beyond its end: the kernel hands over the fds of
 * a message with the read that takes its first byte, so fds can only belong to the frame being read, and fds that come
 * at any other place are a fault of the peer. */
#include "io/channel.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/buf.h"

#define HEAD_BYTES 5u
#define PIECE_BYTES (64u << 10) /* the buffer grows by what arrives, not by what is announced */
#define KEEP_BYTES (16u << 10)  /* a larger buffer is given back after its message */
#define MESSAGES_PER_EVENT 64u  /* then the others in the loop have their turn */
#define QUEUED_FDS_MAX 512u
#define JSON_FLAGS_IN (JSON_REJECT_DUPLICATES)

struct frame { /* one message on its way out */
        struct list node;
        uint8_t head[HEAD_BYTES];
        char *text; /* owned */
        size_t text_len;
        size_t sent;              /* of head and text together */
        int fds[CHANNEL_FDS_MAX]; /* owned once queued */
        size_t nfds;              /* 0 again once they left */
};

struct channel {
        struct io io;
        struct loop *loop;
        const struct channel_ops *ops; /* borrowed */
        void *arg;
        struct buf in; /* of the frame being read: head, then text */
        int fds[CHANNEL_FDS_MAX];
        size_t nfds; /* received with it */
        struct list out;
        size_t queued_bytes, queued_fds;
        struct task close_task;
        const char *close_reason; /* set: no more sending, on_close follows or was called */
        bool is_in_callback, is_freed;
};

static size_t frame_bytes(const struct frame *f)
{
        return HEAD_BYTES + f->text_len;
}

static struct frame *frame_free(struct frame *f)
{
        if (!f)
                return NULL;
        free(f->text);
        free(f);
        return NULL;
}

static void close_all(int *fds, size_t n)
{
        for (size_t i = 0; i < n; i++)
                close_fd(&fds[i]);
}

static void drop_queue(struct channel *ch)
{
        struct list *node;

        while ((node = list_pop_front(&ch->out))) {
                struct frame *f = LIST_ENTRY(node, struct frame, node);

                close_all(f->fds, f->nfds);
                f = frame_free(f);
        }
        ch->queued_bytes = ch->queued_fds = 0;
}

/* Out of the loop and empty; the memory stays for whoever is on the stack. */
static void shut(struct channel *ch)
{
        loop_unpost(&ch->close_task);
        loop_del(&ch->io);
        close_fd(&ch->io.fd);
        close_all(ch->fds, ch->nfds);
        ch->nfds = 0;
        drop_queue(ch);
        buf_done(&ch->in);
}

struct channel *channel_free(struct channel *ch)
{
        if (!ch)
                return NULL;
        shut(ch);
        ch->is_freed = true;
        if (!ch->is_in_callback)
                free(ch);
        return NULL;
}

/* After this ch may be gone. */
static void leave_callback(struct channel *ch)
{
        ch->is_in_callback = false;
        if (ch->is_freed)
                free(ch);
}

/* The end: whoever calls it is in the loop and in a callback of ch. */
static void channel_finish(struct channel *ch, const char *reason)
{
        if (!ch->close_reason)
                ch->close_reason = reason;
        loop_unpost(&ch->close_task);
        loop_del(&ch->io);
        ch->ops->on_close(ch, ch->close_reason, ch->arg);
}

/* ---- receiving ---- */

/* Move the fds of a received message into ch->fds.  All of them are ours from here on, also on failure. */
static int take_fds(struct channel *ch, struct msghdr *msg, size_t had)
{
        int r = msg->msg_flags & MSG_CTRUNC ? -EBADMSG : 0;

        for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
                size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                for (size_t i = 0; i < n; i++) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
                        if (had == 0 && ch->nfds < CHANNEL_FDS_MAX) {
                                ch->fds[ch->nfds++] = fd;
                        } else {
                                r = -EBADMSG;
                                close_fd(&fd);
                        }
                }
        }
        return r;
}

/* Bytes read, 0 end, negative errno; at most `most`. */
static ssize_t receive(struct channel *ch, size_t most)
{
        union {
                char space[CMSG_SPACE(CHANNEL_FDS_MAX * sizeof(int))];
                struct cmsghdr align;
        } control;
        struct msghdr msg = {.msg_control = &control, .msg_controllen = sizeof(control)};
        struct iovec iov = {.iov_len = most};
        size_t had = ch->in.len;
        uint8_t *at;
        ssize_t n;
        int r;

        r = buf_reserve(&ch->in, most, &at);
        if (r < 0)
                return r;
        iov.iov_base = at;
        msg.msg_iov = &iov;
        msg.msg_iovlen = 1;
        do {
                n = recvmsg(ch->io.fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        } while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        buf_commit(&ch->in, (size_t)n);
        r = take_fds(ch, &msg, had);
        return r < 0 ? r : n;
}

static size_t announced(const struct channel *ch)
{
        const uint8_t *h = buf_at(&ch->in);

        return (size_t)h[0] << 24 | (size_t)h[1] << 16 | (size_t)h[2] << 8 | h[3];
}

/* NULL, or why the head that was just completed is refused. */
static const char *check_head(const struct channel *ch)
{
        size_t len = announced(ch), nfds = buf_at(&ch->in)[4];

        if (len < 2 || len > CHANNEL_MESSAGE_MAX)
                return "frame of a wrong size";
        if (nfds != ch->nfds)
                return "fds announced and fds received differ";
        return NULL;
}

/* Hand the complete frame over and be ready for the next.  NULL, or why it is refused. */
static const char *deliver(struct channel *ch)
{
        int fds[CHANNEL_FDS_MAX];
        size_t nfds = ch->nfds;
        json_t *msg;

        msg = json_loadb((const char *)buf_at(&ch->in) + HEAD_BYTES, ch->in.len - HEAD_BYTES, JSON_FLAGS_IN, NULL);
        if (!json_is_object(msg)) {
                json_decref(msg);
                return "frame that is not a JSON object";
        }
        memcpy(fds, ch->fds, sizeof(fds));
        ch->nfds = 0;
        if (ch->in.cap > KEEP_BYTES)
                buf_done(&ch->in);
        else
                buf_reset(&ch->in);
        ch->ops->on_message(ch, msg, fds, nfds, ch->arg);
        close_all(fds, nfds);
        json_decref(msg);
        return NULL;
}

/* One read, and what follows from it.  1 go on, 0 nothing more now, -1 over (*ret_reason). */
static int read_step(struct channel *ch, const char **ret_reason)
{
        size_t want = HEAD_BYTES;
        ssize_t n;

        *ret_reason = NULL;
        if (ch->in.len >= HEAD_BYTES)
                want += announced(ch);
        n = receive(ch, want - ch->in.len < PIECE_BYTES ? want - ch->in.len : PIECE_BYTES);
        if (n == -EAGAIN)
                return 0;
        if (n == -EBADMSG)
                *ret_reason = "fds in the wrong place or too many";
        else if (n < 0)
                *ret_reason = n == -ENOMEM ? "out of memory" : "receiving failed";
        else if (n == 0)
                *ret_reason = ch->in.len ? "peer left in the middle of a frame" : "peer left";
        else if (ch->in.len == HEAD_BYTES && want == HEAD_BYTES)
                *ret_reason = check_head(ch);
        else if (ch->in.len == want && want > HEAD_BYTES)
                *ret_reason = deliver(ch);
        return *ret_reason ? -1 : 1;
}

static void read_messages(struct channel *ch)
{
        const char *reason = NULL;
        int r = 1;

        for (unsigned i = 0; r > 0 && i < 2 * MESSAGES_PER_EVENT && !ch->is_freed; i++)
                r = read_step(ch, &reason);
        if (r < 0 && !ch->is_freed)
                channel_finish(ch, reason);
}

/* ---- sending ---- */

static ssize_t send_frame(struct channel *ch, struct frame *f)
{
        union {
                char space[CMSG_SPACE(CHANNEL_FDS_MAX * sizeof(int))];
                struct cmsghdr align;
        } control = {0};
        size_t head_left = f->sent < HEAD_BYTES ? HEAD_BYTES - f->sent : 0;
        size_t text_at = f->sent < HEAD_BYTES ? 0 : f->sent - HEAD_BYTES;
        struct iovec iov[2] = {
                {f->head + HEAD_BYTES - head_left, head_left},
                {f->text + text_at, f->text_len - text_at},
        };
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
        ssize_t n;

        if (f->nfds) {
                struct cmsghdr *c = &control.align;

                msg.msg_control = &control;
                msg.msg_controllen = CMSG_SPACE(f->nfds * sizeof(int));
                *c = (struct cmsghdr){CMSG_LEN(f->nfds * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
                memcpy(CMSG_DATA(c), f->fds, f->nfds * sizeof(int));
        }
        do {
                n = sendmsg(ch->io.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        } while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        f->sent += (size_t)n;
        return n;
}

static void fail_later(struct channel *ch, const char *reason)
{
        if (ch->close_reason)
                return;
        ch->close_reason = reason;
        drop_queue(ch);
        loop_want(&ch->io, 0);
        loop_post(ch->loop, &ch->close_task);
}

static void on_close_task(struct task *t)
{
        struct channel *ch = CONTAINER_OF(t, struct channel, close_task);

        ch->is_in_callback = true;
        read_messages(ch); /* what the peer said before it left */
        if (!ch->is_freed && ch->io.loop)
                channel_finish(ch, NULL);
        leave_callback(ch);
}

static void flush(struct channel *ch)
{
        while (!list_is_empty(&ch->out)) {
                struct frame *f = LIST_ENTRY(ch->out.next, struct frame, node);
                ssize_t n = send_frame(ch, f);

                if (n == -EAGAIN)
                        return;
                if (n < 0) {
                        fail_later(ch, n == -EPIPE || n == -ECONNRESET ? "peer left" : "sending failed");
                        return;
                }
                close_all(f->fds, f->nfds); /* they left with the first byte */
                ch->queued_fds -= f->nfds;
                f->nfds = 0;
                if (f->sent < frame_bytes(f))
                        continue;
                list_remove(&f->node);
                ch->queued_bytes -= sizeof(*f) + frame_bytes(f);
                f = frame_free(f);
        }
        loop_want(&ch->io, EPOLLIN);
}

static int frame_make(json_t *msg, const int *fds, size_t nfds, struct frame **ret)
{
        struct frame *f;

        f = calloc(1, sizeof(*f));
        if (!f)
                return -ENOMEM;
        f->text = json_dumps(msg, JSON_COMPACT);
        f->text_len = f->text ? strlen(f->text) : 0;
        if (!f->text || f->text_len > CHANNEL_MESSAGE_MAX) {
                int r = f->text ? -E2BIG : -ENOMEM;

                f = frame_free(f);
                return r;
        }
        f->head[0] = (uint8_t)(f->text_len >> 24);
        f->head[1] = (uint8_t)(f->text_len >> 16);
        f->head[2] = (uint8_t)(f->text_len >> 8);
        f->head[3] = (uint8_t)f->text_len;
        f->head[4] = (uint8_t)nfds;
        f->nfds = nfds;
        if (nfds)
                memcpy(f->fds, fds, nfds * sizeof(*fds));
        *ret = f;
        return 0;
}

/* Put the frame, of which nothing or a part was sent, at the end of the queue.  On failure it is still the caller's. */
static int enqueue(struct channel *ch, struct frame *f)
{
        size_t bytes = sizeof(*f) + frame_bytes(f);
        int copies[CHANNEL_FDS_MAX];

        if (f->sent)
                f->nfds = 0; /* gone with the first byte; the caller's own were used */
        else if (bytes > CHANNEL_QUEUE_MAX - ch->queued_bytes || f->nfds > QUEUED_FDS_MAX - ch->queued_fds)
                return -ENOBUFS;
        for (size_t i = 0; i < f->nfds; i++) {
                copies[i] = fcntl(f->fds[i], F_DUPFD_CLOEXEC, 3);
                if (copies[i] < 0) {
                        int r = -errno;

                        close_all(copies, i);
                        return r;
                }
        }
        if (f->nfds)
                memcpy(f->fds, copies, f->nfds * sizeof(*copies));
        list_push_back(&ch->out, &f->node);
        ch->queued_bytes += bytes;
        ch->queued_fds += f->nfds;
        loop_want(&ch->io, EPOLLIN | EPOLLOUT);
        return 0;
}

static int send_or_queue(struct channel *ch, struct frame *f)
{
        bool is_first = list_is_empty(&ch->out);
        ssize_t n = is_first ? send_frame(ch, f) : -EAGAIN;

        if (n >= 0 && f->sent == frame_bytes(f)) {
                f = frame_free(f);
                return 0;
        }
        if (n >= 0 || n == -EAGAIN) {
                n = enqueue(ch, f);
                if (n == 0)
                        return 0;
        } else if (n == -EPIPE || n == -ECONNRESET) {
                n = -EPIPE;
                fail_later(ch, "peer left");
        }
        f = frame_free(f);
        return (int)n;
}

int channel_send(struct channel *ch, json_t *msg, const int *fds, size_t nfds)
{
        struct frame *f;
        int r;

        if (ch->close_reason || ch->is_freed)
                r = -EPIPE;
        else if (!json_is_object(msg) || nfds > CHANNEL_FDS_MAX)
                r = -EINVAL;
        else
                r = frame_make(msg, fds, nfds, &f);
        json_decref(msg);
        return r < 0 ? r : send_or_queue(ch, f);
}

/* ---- the rest ---- */

static void on_ready(struct io *io, uint32_t events)
{
        struct channel *ch = CONTAINER_OF(io, struct channel, io);

        ch->is_in_callback = true;
        if (events & EPOLLOUT)
                flush(ch);
        if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                read_messages(ch);
        leave_callback(ch);
}

int channel_create(struct loop *l, int fd, const struct channel_ops *ops, void *arg, struct channel **ret)
{
        struct channel *ch;
        int r;

        ch = calloc(1, sizeof(*ch));
        if (!ch) {
                close_fd(&fd);
                return -ENOMEM;
        }
        *ch = (struct channel){
                .io = {.fd = fd, .on = on_ready},
                .loop = l,
                .ops = ops,
                .arg = arg,
                .in = BUF_INIT(HEAD_BYTES + CHANNEL_MESSAGE_MAX),
                .close_task = {.run = on_close_task},
        };
        list_init(&ch->out);
        r = loop_add(l, &ch->io, EPOLLIN);
        if (r < 0) {
                ch = channel_free(ch);
                return r;
        }
        *ret = ch;
        return 0;
}
