/* Sockets: pairs with queued data and fds, Unix listeners, UDP, TCP on loopback with data in flight. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "state.h"

static int pair[2];

static bool send_fd(int sock, int fd)
{
        char room[CMSG_SPACE(sizeof(int))] = {0};
        struct iovec text = {"with an fd", 10};
        struct msghdr m = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof(int));
        return sendmsg(sock, &m, 0) == 10;
}

static int receive_fd(int sock)
{
        char room[CMSG_SPACE(sizeof(int))] = {0}, text[32];
        struct iovec into = {text, sizeof(text)};
        struct msghdr m = {.msg_iov = &into, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
        int fd = -1;

        if (recvmsg(sock, &m, MSG_DONTWAIT) == 10 && CMSG_FIRSTHDR(&m))
                memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
        return fd;
}

static const char *pair_make(void)
{
        int fd = memfd_create("passed", 0);

        NEED(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0 && write(fd, "passed", 6) == 6);
        NEED(send(pair[0], "queued", 6, 0) == 6 && send_fd(pair[0], fd) && close(fd) == 0);
        return NULL;
}
static const char *pair_check(void)
{
        char text[32];
        int fd;

        NEED(recv(pair[1], text, sizeof(text), MSG_DONTWAIT) == 6 && memcmp(text, "queued", 6) == 0);
        NEED((fd = receive_fd(pair[1])) >= 0 && pread(fd, text, 6, 0) == 6 && memcmp(text, "passed", 6) == 0);
        NEED(send(pair[0], "queued", 6, 0) == 6 && send_fd(pair[0], fd) && close(fd) == 0);
        return NULL;
}

struct local { /* a listener, and one connection to it */
        int listener, client, server;
        struct sockaddr_un name;
        socklen_t len;
};
static struct local by_path, abstract;

static const char *local_make(struct local *l)
{
        NEED((l->listener = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0 &&
             (l->client = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0);
        NEED(bind(l->listener, (void *)&l->name, l->len) == 0 && listen(l->listener, 5) == 0);
        NEED(connect(l->client, (void *)&l->name, l->len) == 0);
        NEED((l->server = accept(l->listener, NULL, NULL)) >= 0 && send(l->client, "waits", 5, 0) == 5);
        return NULL;
}
static const char *local_check(struct local *l)
{
        char text[16];
        int client = socket(AF_UNIX, SOCK_STREAM, 0), server;

        NEED(recv(l->server, text, sizeof(text), MSG_DONTWAIT) == 5 && memcmp(text, "waits", 5) == 0);
        NEED(send(l->server, "back", 4, 0) == 4 && recv(l->client, text, sizeof(text), 0) == 4);
        NEED(send(l->client, "waits", 5, 0) == 5);
        NEED(connect(client, (void *)&l->name, l->len) == 0 && (server = accept(l->listener, NULL, NULL)) >= 0);
        NEED(send(client, "new", 3, 0) == 3 && recv(server, text, 3, 0) == 3);
        (void)close(client);
        (void)close(server);
        return NULL;
}
static const char *path_make(void)
{
        by_path.name = (struct sockaddr_un){AF_UNIX, "/tmp/state.sock"};
        by_path.len = sizeof(by_path.name);
        return local_make(&by_path);
}
static const char *path_check(void)
{
        return local_check(&by_path);
}
static const char *abstract_make(void)
{
        abstract.name = (struct sockaddr_un){AF_UNIX, "\0state"};
        abstract.len = offsetof(struct sockaddr_un, sun_path) + 6;
        return local_make(&abstract);
}
static const char *abstract_check(void)
{
        return local_check(&abstract);
}

static int dgram[2], udp[2];
static const char *datagrams_make(void)
{
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t n = sizeof(a);

        NEED(socketpair(AF_UNIX, SOCK_DGRAM, 0, dgram) == 0 && send(dgram[0], "one", 3, 0) == 3 &&
             send(dgram[0], "two", 3, 0) == 3);
        NEED((udp[0] = socket(AF_INET, SOCK_DGRAM, 0)) >= 0 && (udp[1] = socket(AF_INET, SOCK_DGRAM, 0)) >= 0);
        NEED(bind(udp[0], (void *)&a, n) == 0 && getsockname(udp[0], (void *)&a, &n) == 0);
        NEED(connect(udp[1], (void *)&a, n) == 0);
        return NULL;
}
static const char *datagrams_check(void)
{
        char text[16];

        NEED(recv(dgram[1], text, 16, MSG_DONTWAIT) == 3 && memcmp(text, "one", 3) == 0);
        NEED(recv(dgram[1], text, 16, MSG_DONTWAIT) == 3 && memcmp(text, "two", 3) == 0);
        NEED(send(dgram[0], "one", 3, 0) == 3 && send(dgram[0], "two", 3, 0) == 3);
        NEED(send(udp[1], "udp", 3, 0) == 3 && recv(udp[0], text, 16, 0) == 3);
        return NULL;
}

static int tcp_listener, tcp_client, tcp_server;
static struct sockaddr_in tcp_name;
static const char *tcp_make(void)
{
        socklen_t n = sizeof(tcp_name);

        tcp_name = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        NEED((tcp_listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && bind(tcp_listener, (void *)&tcp_name, n) == 0);
        NEED(listen(tcp_listener, 5) == 0 && getsockname(tcp_listener, (void *)&tcp_name, &n) == 0);
        NEED((tcp_client = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && connect(tcp_client, (void *)&tcp_name, n) == 0);
        NEED((tcp_server = accept(tcp_listener, NULL, NULL)) >= 0);
        NEED(send(tcp_client, "up", 2, 0) == 2 && send(tcp_server, "down", 4, 0) == 4);
        return NULL;
}
static const char *tcp_check(void)
{
        char text[16];
        int client = socket(AF_INET, SOCK_STREAM, 0), server;

        NEED(recv(tcp_server, text, 2, MSG_WAITALL) == 2 && memcmp(text, "up", 2) == 0);
        NEED(recv(tcp_client, text, 4, MSG_WAITALL) == 4 && memcmp(text, "down", 4) == 0);
        NEED(send(tcp_client, "up", 2, 0) == 2 && send(tcp_server, "down", 4, 0) == 4);
        NEED(connect(client, (void *)&tcp_name, sizeof(tcp_name)) == 0);
        NEED((server = accept(tcp_listener, NULL, NULL)) >= 0);
        (void)close(client);
        (void)close(server);
        return NULL;
}

static int six;
static const char *six_make(void)
{
        struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};

        NEED((six = socket(AF_INET6, SOCK_STREAM, 0)) >= 0);
        if (bind(six, (void *)&a, sizeof(a)) < 0) { /* a sandbox without IPv6 */
                (void)close(six);
                six = -1;
                return NULL;
        }
        NEED(listen(six, 5) == 0);
        return NULL;
}
static const char *six_check(void)
{
        struct sockaddr_in6 a;
        socklen_t n = sizeof(a);
        int client;

        if (six < 0)
                return NULL;
        NEED(getsockname(six, (void *)&a, &n) == 0 && (client = socket(AF_INET6, SOCK_STREAM, 0)) >= 0);
        NEED(connect(client, (void *)&a, n) == 0 && close(client) == 0);
        NEED(close(accept(six, NULL, NULL)) == 0);
        return NULL;
}

const struct item socket_items[] = {
        {"socket pair with data and an fd on its way", pair_make, pair_check},
        {"Unix listener at a path", path_make, path_check},
        {"abstract Unix listener", abstract_make, abstract_check},
        {"datagrams, UDP", datagrams_make, datagrams_check},
        {"TCP connection with data on its way", tcp_make, tcp_check},
        {"IPv6 listener", six_make, six_check},
        {0},
};
