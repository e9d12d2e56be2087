#include "io/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"

#define ACCEPTS_PER_EVENT 32u
#define PAUSE_MS 50u

union address {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
};

static int parse_host(struct str host, uint16_t port, union address *ret, socklen_t *ret_len)
{
        bool is_v6 = host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']';
        char text[INET6_ADDRSTRLEN];

        if (is_v6)
                host = (struct str){host.p + 1, host.n - 2};
        if (host.n >= sizeof(text) || str_has_nul(host))
                return -EINVAL;
        memcpy(text, host.p, host.n);
        text[host.n] = 0;
        *ret = (union address){0};
        if (is_v6 || host.n == 0) {
                ret->in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
                *ret_len = sizeof(ret->in6);
                return !is_v6 || inet_pton(AF_INET6, text, &ret->in6.sin6_addr) == 1 ? 0 : -EINVAL;
        }
        ret->in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
        *ret_len = sizeof(ret->in);
        return inet_pton(AF_INET, text, &ret->in.sin_addr) == 1 ? 0 : -EINVAL;
}

static int parse_addr(struct str addr, union address *ret, socklen_t *ret_len)
{
        size_t colon = addr.n;
        uint32_t port;

        while (colon && addr.p[colon - 1] != ':')
                colon--;
        if (!colon || parse_u32((struct str){addr.p + colon, addr.n - colon}, 0, 65535, &port) < 0)
                return -EINVAL;
        return parse_host((struct str){addr.p, colon - 1}, (uint16_t)port, ret, ret_len);
}

static bool is_loopback(const union address *at)
{
        return at->sa.sa_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&at->in6.sin6_addr)
                                            : ntohl(at->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

void socket_is_local(int fd)
{
        static const char plain[] = "reno"; /* the one that every kernel has, and anyone may use */

        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, plain, sizeof(plain) - 1);
}

static int listen_at(const union address *at, socklen_t len, bool reuse_port, int *ret_fd)
{
        AUTO_CLOSE int fd = -1;
        const int on = 1, off = 0;

        fd = socket(at->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
            (reuse_port && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0))
                return -errno;
        if (at->sa.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&at->in6.sin6_addr))
                (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)); /* "all" means IPv4 too */
        if (is_loopback(at))
                socket_is_local(fd);
        if (bind(fd, &at->sa, len) < 0 || listen(fd, SOMAXCONN) < 0)
                return -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int listen_tcp(struct str addr, bool reuse_port, int *ret_fd, struct err *err)
{
        union address at;
        socklen_t len;
        int r;

        if (parse_addr(addr, &at, &len) < 0)
                return err_set(err, ERR_INVALID, "listen address '%.*s' is not ADDRESS:PORT", STR_ARG(addr));
        r = listen_at(&at, len, reuse_port, ret_fd);
        if (r == -EAFNOSUPPORT && addr.p[0] == ':') { /* a kernel without IPv6 */
                at.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = at.in6.sin6_port};
                r = listen_at(&at, sizeof(at.in), reuse_port, ret_fd);
        }
        if (r == -EADDRINUSE)
                return err_set(err, ERR_CONFLICT, "listen on %.*s: the address is already in use", STR_ARG(addr));
        if (r < 0)
                return err_sys(err, r, "listen on %.*s", STR_ARG(addr));
        return 0;
}

static int unix_address(const char *path, union address *ret)
{
        size_t n = strlen(path);

        *ret = (union address){.un = {.sun_family = AF_UNIX}};
        if (n == 0 || n >= sizeof(ret->un.sun_path))
                return -ENAMETOOLONG;
        memcpy(ret->un.sun_path, path, n + 1);
        return 0;
}

int listen_unix(const char *path, unsigned mode, int *ret_fd, struct err *err)
{
        AUTO_CLOSE int fd = -1;
        union address at;
        int r;

        r = unix_address(path, &at);
        if (r < 0)
                return err_sys(err, r, "socket '%s'", path);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return err_sys(err, -errno, "socket '%s'", path);
        if (unlink(path) < 0 && errno != ENOENT)
                return err_sys(err, -errno, "remove old socket '%s'", path);
        if (bind(fd, &at.sa, sizeof(at.un)) < 0)
                return err_sys(err, -errno, "bind socket '%s'", path);
        /* The mode counts from the first connection on: nobody can connect before listen(). */
        if (chmod(path, mode) < 0 || listen(fd, SOMAXCONN) < 0) {
                r = -errno;
                (void)unlink(path);
                return err_sys(err, r, "listen on '%s'", path);
        }
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int connect_unix(const char *path, int *ret_fd)
{
        AUTO_CLOSE int fd = -1;
        union address at;
        int r;

        r = unix_address(path, &at);
        if (r < 0)
                return r;
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        if (connect(fd, &at.sa, sizeof(at.un)) < 0)
                return -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int socket_port(int fd, uint16_t *ret)
{
        union address at = {0};
        socklen_t len = sizeof(at);

        if (getsockname(fd, &at.sa, &len) < 0)
                return -errno;
        if (at.sa.sa_family == AF_INET)
                *ret = ntohs(at.in.sin_port);
        else if (at.sa.sa_family == AF_INET6)
                *ret = ntohs(at.in6.sin6_port);
        else
                return -EAFNOSUPPORT;
        return 0;
}

static bool is_out_of_resources(int error)
{
        return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

static void on_acceptable(struct io *io, uint32_t events)
{
        struct listener *ln = CONTAINER_OF(io, struct listener, io);
        struct loop *l = io->loop;

        (void)events;
        for (unsigned i = 0; i < ACCEPTS_PER_EVENT && io->loop; i++) {
                int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (fd >= 0) {
                        ln->on_conn(ln, fd);
                } else if (errno == EAGAIN) {
                        return;
                } else if (is_out_of_resources(errno)) {
                        loop_want(io, 0);
                        timer_set(l, &ln->pause, PAUSE_MS);
                        return;
                } /* anything else is the failure of one connection that never came to be */
        }
}

static void on_pause_over(struct timer *t)
{
        struct listener *ln = CONTAINER_OF(t, struct listener, pause);

        loop_want(&ln->io, EPOLLIN);
}

int listener_start(struct listener *ln, struct loop *l, int fd, void (*on_conn)(struct listener *, int fd), void *arg)
{
        int flags = fcntl(fd, F_GETFL);
        const int on = 1;
        int r;

        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) /* it may come from another process */
                return -errno;
        *ln = (struct listener){
                .io = {.fd = fd, .on = on_acceptable},
                .on_conn = on_conn,
                .arg = arg,
                .pause = {.on = on_pause_over},
        };
        /* Accepted sockets inherit it; not for Unix sockets, where it fails. */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        r = loop_add(l, &ln->io, EPOLLIN);
        if (r < 0)
                ln->io.fd = -1; /* still the caller's */
        return r;
}

void listener_stop(struct listener *ln)
{
        timer_clear(&ln->pause);
        if (!ln->io.loop)
                return;
        loop_del(&ln->io);
        close_fd(&ln->io.fd);
}
