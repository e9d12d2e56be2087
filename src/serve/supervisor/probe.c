#include "serve/supervisor/probe.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"

union address {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
};

/* Where a client on this machine reaches it: "any" becomes loopback. */
static int address_of(int listening_fd, union address *ret, socklen_t *ret_len)
{
        socklen_t len = sizeof(*ret);

        if (getsockname(listening_fd, &ret->sa, &len) < 0)
                return -errno;
        if (ret->sa.sa_family == AF_INET && ret->in.sin_addr.s_addr == htonl(INADDR_ANY))
                ret->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (ret->sa.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&ret->in6.sin6_addr))
                ret->in6.sin6_addr = in6addr_loopback;
        *ret_len = len;
        return 0;
}

static int probe_ask(const union address *at, socklen_t len, unsigned timeout_s)
{
        static const char request[] = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        const struct timeval limit = {.tv_sec = timeout_s};
        AUTO_CLOSE int fd = -1;
        char answer[16];
        size_t got = 0;
        ssize_t n;

        fd = socket(at->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0 || connect(fd, &at->sa, len) < 0 ||
            send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) != (ssize_t)sizeof(request) - 1)
                return -1;
        while (got < 12 && (n = read(fd, answer + got, sizeof(answer) - got)) > 0)
                got += (size_t)n;
        return got >= 12 && memcmp(answer, "HTTP/1.1 2", 10) == 0 ? 0 : -1;
}

int probe_start(int listening_fd, unsigned timeout_s, pid_t *ret_pid)
{
        union address at;
        socklen_t len = 0;
        pid_t pid;
        int r;

        r = address_of(listening_fd, &at, &len);
        if (r < 0)
                return r;
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                (void)close_range(3, ~0u, 0);
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
                _exit(probe_ask(&at, len, timeout_s) < 0 ? 1 : 0);
        }
        *ret_pid = pid;
        return 0;
}
