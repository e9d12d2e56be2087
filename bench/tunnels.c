/* tunnels.c - opens WebSockets through an edge, leaves them idle, and says what each costs the edge's process.
 *
 *   tunnels N [tls]     fewer when the process may not have as many files
 *
 * Starts an edge of its own (edge_alone, beside this program) and is the server behind it.  Prints one JSON object. */
#include <err.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"

#define ASK                                                                                                            \
        "GET / HTTP/1.1\r\nHost: 8080-iaaaaaaaaaaaaaaaaaaaa.box.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" \
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
#define ANSWER                                                                                                         \
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"                            \
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
#define EDGES_MAX 2
#define FDS_SPARE 300u
#define FRAME "\x81\x05hello"

struct edge {
        pid_t alone;
        int input; /* closing it ends the edge */
        unsigned port, pid, tls_port;
};

static int listen_anywhere(uint16_t *ret_port)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t n = sizeof(at);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) < 0 || listen(fd, 4096) < 0 ||
            getsockname(fd, (struct sockaddr *)&at, &n) < 0)
                err(1, "listen");
        *ret_port = ntohs(at.sin_port);
        return fd;
}

/* Takes a connection for each tunnel, switches protocols, says something, and keeps it. */
static void serve(int listener)
{
        char request[4096];

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
                int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

                if (fd < 0)
                        err(1, "accept");
                if (read(fd, request, sizeof(request)) <= 0 || write(fd, ANSWER FRAME, sizeof(ANSWER FRAME) - 1) < 0)
                        err(1, "tunnel");
        }
}

static struct edge start_edge(const char *self, uint16_t port)
{
        struct edge e = {0};
        int in[2], out[2];
        char path[4096], arg[16];
        const char *slash = strrchr(self, '/');
        FILE *f;

        (void)snprintf(path, sizeof(path), "%.*sedge_alone", slash ? (int)(slash - self + 1) : 0, self);
        (void)snprintf(arg, sizeof(arg), "%u", port);
        if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
                err(1, "pipe");
        e.alone = fork();
        if (e.alone == 0) {
                (void)dup2(in[0], 0);
                (void)dup2(out[1], 1);
                (void)execl(path, path, arg, (char *)NULL);
                err(1, "%s", path);
        }
        (void)close(in[0]);
        (void)close(out[1]);
        e.input = in[1];
        f = fdopen(out[0], "re");
        if (!f || fscanf(f, "%u %u %u", &e.port, &e.pid, &e.tls_port) != 3)
                errx(1, "no edge");
        return e;
}

static int connect_to(unsigned port)
{
        struct sockaddr_in at = {
                .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
                err(1, "connect");
        return fd;
}

static SSL *secure(SSL_CTX *ctx, int fd)
{
        SSL *ssl = SSL_new(ctx);

        if (!ssl || SSL_set_fd(ssl, fd) != 1 || SSL_connect(ssl) != 1)
                errx(1, "TLS");
        return ssl;
}

static void open_tunnel(unsigned port, SSL_CTX *ctx)
{
        const size_t want = sizeof(ANSWER FRAME) - 1;
        int fd = connect_to(port);
        SSL *ssl = ctx ? secure(ctx, fd) : NULL;
        char got[4096];
        size_t n = 0;

        if (ssl ? SSL_write(ssl, ASK, sizeof(ASK) - 1) <= 0 : write(fd, ASK, sizeof(ASK) - 1) < 0)
                err(1, "ask");
        while (n < want) { /* the head has a header less or more: the frame at the end tells */
                ssize_t r = ssl ? SSL_read(ssl, got + n, (int)(sizeof(got) - n)) : read(fd, got + n, sizeof(got) - n);

                if (r <= 0)
                        errx(1, "tunnel: %.*s", (int)n, got);
                n += (size_t)r;
                if (n > 7 && memcmp(got + n - 7, FRAME, 7) == 0)
                        return;
        }
}

static long rss_kb(unsigned pid)
{
        char path[64], line[256];
        long kb = -1;
        FILE *f;

        (void)snprintf(path, sizeof(path), "/proc/%u/status", pid);
        f = fopen(path, "re");
        while (f && fgets(line, sizeof(line), f))
                if (strncmp(line, "VmRSS:", 6) == 0)
                        kb = strtol(line + 6, NULL, 10);
        if (f)
                (void)fclose(f);
        return kb;
}

static uint32_t most_in_one(void) /* two for each in the edge */
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0)
                err(1, "files");
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
        return (uint32_t)(files.rlim_max - FDS_SPARE) / 2;
}

/* `count` of them through an edge of its own; what its process grew by.  It goes on with them open. */
static long fill(const char *self, uint16_t port, uint32_t count, SSL_CTX *ctx, struct edge *ret)
{
        long before;

        *ret = start_edge(self, port);
        open_tunnel(ctx ? ret->tls_port : ret->port, ctx); /* what the first one brings is not counted */
        before = rss_kb(ret->pid);
        for (uint32_t i = 0; i < count; i++)
                open_tunnel(ctx ? ret->tls_port : ret->port, ctx);
        return rss_kb(ret->pid) - before;
}

int main(int argc, char **argv)
{
        struct edge edges[EDGES_MAX];
        SSL_CTX *ctx = NULL;
        uint32_t count, each, used = 0;
        uint16_t port;
        pid_t server;
        int listener;
        long kb = 0;

        if (argc < 2 || parse_u32(str_of(argv[1]), 1, 30000, &count) < 0)
                errx(2, "usage: tunnels N [tls]");
        each = most_in_one();
        if (count > each * EDGES_MAX)
                count = each * EDGES_MAX;
        if (argc > 2)
                ctx = SSL_CTX_new(TLS_client_method());
        listener = listen_anywhere(&port);
        server = fork();
        if (server == 0)
                serve(listener);
        (void)close(listener);
        for (uint32_t left = count; left > 0; used++) { /* as a server has one for each core */
                uint32_t n = left < each ? left : each;

                kb += fill(argv[0], port, n, ctx, &edges[used]);
                left -= n;
        }
        printf("{\"tunnels\":%u,\"tls\":%s,\"kib_each\":%.2f}\n", count, ctx ? "true" : "false", (double)kb / count);
        (void)kill(server, SIGKILL);
        for (uint32_t i = 0; i < used; i++) {
                (void)close(edges[i].input);
                (void)waitpid(edges[i].alone, NULL, 0);
        }
        return 0;
}
