/* hello.c - the least HTTP server: the same short answer to every request, on one port of 127.0.0.1.
 *
 *   hello PORT
 *
 * What a proxy in front of it adds is then all there is to see.  Built statically, so that it runs in any sandbox. */
#include <err.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"

static void welcome(int epoll, int listener)
{
        int on = 1, conn = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        struct epoll_event ev = {.events = EPOLLIN, .data.fd = conn};

        if (conn < 0)
                return;
        (void)setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        (void)epoll_ctl(epoll, EPOLL_CTL_ADD, conn, &ev);
}

/* A request is what one read returns: the clients of the benchmark send small ones, one at a time. */
static void answer(int conn)
{
        static const char text[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n";
        char request[8192];

        if (read(conn, request, sizeof(request)) <= 0 || write(conn, text, sizeof(text) - 1) < 0)
                (void)close(conn);
}

int main(int argc, char **argv)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int on = 1, epoll = epoll_create1(EPOLL_CLOEXEC), listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct epoll_event ev = {.events = EPOLLIN, .data.fd = listener}, got[64];
        uint32_t port;

        if (argc != 2 || parse_u32(str_of(argv[1]), 1, 65535, &port) < 0)
                errx(2, "usage: hello PORT");
        (void)signal(SIGPIPE, SIG_IGN);
        at.sin_port = htons((uint16_t)port);
        (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 511) < 0)
                err(1, "port %u", port);
        (void)epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &ev);
        for (;;) {
                int n = epoll_wait(epoll, got, 64, -1);
                for (int i = 0; i < n; i++) {
                        if (got[i].data.fd == listener)
                                welcome(epoll, listener);
                        else
                                answer(got[i].data.fd);
                }
        }
}
