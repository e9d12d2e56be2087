#include "sys/scm.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(SCM_FDS_MAX * sizeof(int))];
};

ssize_t scm_send(int sock, const void *p, size_t n, const int *fds, size_t nfds)
{
        union control c = {0};
        struct iovec iov = {(void *)(size_t)p, n};
        struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
        ssize_t sent;

        if (nfds > SCM_FDS_MAX)
                return -EINVAL;
        if (nfds > 0) {
                struct cmsghdr *h;

                m.msg_control = c.bytes;
                m.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
                h = CMSG_FIRSTHDR(&m);
                h->cmsg_level = SOL_SOCKET;
                h->cmsg_type = SCM_RIGHTS;
                h->cmsg_len = CMSG_LEN(nfds * sizeof(int));
                memcpy(CMSG_DATA(h), fds, nfds * sizeof(int));
        }
        sent = sendmsg(sock, &m, MSG_NOSIGNAL);
        return sent < 0 ? -errno : sent;
}

/* Every fd the message carries, whatever control headers they sit in. */
static size_t collect_fds(struct msghdr *m, int out[SCM_FDS_MAX])
{
        size_t have = 0;

        for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
                size_t count;

                if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
                        continue;
                count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < count; i++) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(fd));
                        if (have < SCM_FDS_MAX)
                                out[have++] = fd;
                        else
                                (void)close(fd);
                }
        }
        return have;
}

ssize_t scm_recv(int sock, void *p, size_t n, int *fds, size_t max, size_t *ret_nfds)
{
        union control c;
        struct iovec iov = {p, n};
        struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.bytes, .msg_controllen = sizeof(c.bytes)};
        int got[SCM_FDS_MAX];
        size_t have;
        ssize_t r;

        r = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
        if (r < 0)
                return -errno;
        have = collect_fds(&m, got);
        if (have > max || (m.msg_flags & (MSG_CTRUNC | MSG_TRUNC))) {
                while (have > 0)
                        (void)close(got[--have]);
                return -EBADMSG;
        }
        if (have > 0)
                memcpy(fds, got, have * sizeof(int));
        *ret_nfds = have;
        return r;
}
