/* Sending: the socket is tried at once, what it does not take waits in conn->out, a file follows what is queued. */
#include <errno.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "http/conn.h"

#define IOV_MAX_HERE 5

static ssize_t out_send_iov(struct http_conn *c, struct iovec *iov, int n, bool has_more)
{
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)n};
        ssize_t r;

        do {
                r = sendmsg(c->io.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT | (has_more ? MSG_MORE : 0));
        } while (r < 0 && errno == EINTR);
        c->has_moved |= r > 0;
        return r < 0 ? -errno : r;
}

/* Send the file's bytes after the queue.  A file that became shorter than announced cannot be sent properly any more. */
static void out_send_file(struct http_conn *c)
{
        struct http_exchange *ex = c->ex;
        off_t at = (off_t)ex->file_at;
        ssize_t n;

        if (ex->file_left) {
                n = sendfile(c->io.fd, ex->file, &at,
                             ex->file_left < HTTP_SENDFILE_BYTES ? ex->file_left : HTTP_SENDFILE_BYTES);
                if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
                        c->is_blocked = true;
                        return;
                }
                if (n <= 0) {
                        conn_cut(c);
                        return;
                }
                c->has_moved = true;
                ex->file_at += (uint64_t)n;
                ex->file_left -= (uint64_t)n;
                c->is_blocked = true; /* go on when there is room: the others have their turn in between */
        }
        if (ex->file_left == 0) {
                close_fd(&ex->file);
                ex->left = 0;
                ex->reply = REPLY_ENDED;
                c->is_blocked = false;
        }
}

void out_flush(struct http_conn *c)
{
        bool has_file = c->ex && c->ex->file >= 0;

        c->is_blocked = false;
        while (c->out.len) {
                struct iovec iov = {buf_at(&c->out), c->out.len};
                ssize_t n = out_send_iov(c, &iov, 1, has_file);

                if (n == -EAGAIN) {
                        c->is_blocked = true;
                        return;
                }
                if (n < 0) {
                        conn_cut(c);
                        return;
                }
                buf_consume(&c->out, (size_t)n);
        }
        if (c->out.cap > HTTP_PIECE_BYTES)
                buf_done(&c->out);
        if (has_file)
                out_send_file(c);
}

/* Keep what was not sent: `sent` bytes of c->out and the pieces are gone. */
static int out_keep_rest(struct http_conn *c, size_t sent, const struct iovec *iov, int n)
{
        size_t queued = sent < c->out.len ? sent : c->out.len;
        int r = 0;

        buf_consume(&c->out, queued);
        sent -= queued;
        for (int i = 0; i < n && r == 0; i++) {
                size_t gone = sent < iov[i].iov_len ? sent : iov[i].iov_len;

                r = buf_add(&c->out, (const uint8_t *)iov[i].iov_base + gone, iov[i].iov_len - gone);
                sent -= gone;
        }
        return r;
}

void out_send(struct http_conn *c, const struct iovec *iov, int n)
{
        struct iovec all[IOV_MAX_HERE] = {{buf_at(&c->out), c->out.len}};
        ssize_t sent = 0;

        if (!c->is_blocked) {
                for (int i = 0; i < n; i++)
                        all[i + 1] = iov[i];
                sent = out_send_iov(c, all, n + 1, false);
                if (sent < 0 && sent != -EAGAIN) {
                        conn_cut(c);
                        return;
                }
                sent = sent < 0 ? 0 : sent;
        }
        if (out_keep_rest(c, (size_t)sent, iov, n) < 0)
                conn_cut(c);
        else if (c->out.len)
                c->is_blocked = true;
}
