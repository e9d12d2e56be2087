/* fake_server.h - an HTTP server on loopback that says what a test wants said: one thread or process for each connection.
 *
 * The test's function gets each request (head and body) with its number, and fills in the answer. */
#pragma once
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FAKE_REQUEST_MAX (4u << 20)

struct fake_answer {
        const char *bytes; /* the whole answer; NULL: none */
        size_t n;          /* 0: strlen(bytes) */
        bool holds;        /* then nothing, until the client leaves */
        bool closes;       /* then the connection is closed */
};

struct fake_server {
        int fd;
        uint16_t port;
        char url[40];
        void (*on_request)(const char *request, size_t n, unsigned number, struct fake_answer *ret);
        atomic_uint requests, connections, held, left; /* left: clients that went away while held */
        atomic_ullong dropped;                         /* bytes of bodies that are longer than FAKE_REQUEST_MAX */
        pthread_t thread;
};

struct fake_connection {
        struct fake_server *server;
        int fd;
};

static inline bool fake_write(int fd, const char *p, size_t n)
{
        while (n) {
                ssize_t done = send(fd, p, n, MSG_NOSIGNAL);

                if (done <= 0)
                        return false;
                p += done;
                n -= (size_t)done;
        }
        return true;
}

/* Bytes of one whole request in `text`, 0: not all of it is there. */
static inline size_t fake_request_len(const char *text, size_t n)
{
        const char *end = memmem(text, n, "\r\n\r\n", 4), *length, *chunked;
        size_t head, body = 0;

        if (!end)
                return 0;
        head = (size_t)(end - text) + 4;
        length = memmem(text, head, "Content-Length: ", 16);
        chunked = memmem(text, head, "Transfer-Encoding: chunked", 26);
        if (length)
                body = (size_t)strtoul(length + 16, NULL, 10);
        if (chunked) {
                const char *last = memmem(text + head, n - head, "0\r\n\r\n", 5);

                return last ? (size_t)(last - text) + 5 : 0;
        }
        return n >= head + body ? head + body : 0;
}

static inline bool fake_answer_one(struct fake_connection *c, const char *request, size_t n)
{
        struct fake_answer a = {0};
        char byte;

        c->server->on_request(request, n, atomic_fetch_add(&c->server->requests, 1), &a);
        if (a.bytes && !fake_write(c->fd, a.bytes, a.n ? a.n : strlen(a.bytes)))
                return false;
        if (a.holds) {
                atomic_fetch_add(&c->server->held, 1);
                while (recv(c->fd, &byte, 1, 0) > 0)
                        ;
                atomic_fetch_add(&c->server->left, 1);
                return false;
        }
        return a.bytes && !a.closes;
}

/* The rest of a body that does not fit is read, and the test gets the beginning.  0: the client left. */
static inline size_t fake_drop_rest(struct fake_connection *c, const char *text, size_t have)
{
        const char *end = memmem(text, have, "\r\n\r\n", 4),
                   *length = end ? memmem(text, (size_t)(end - text), "Content-Length: ", 16) : NULL;
        size_t left = length ? (size_t)(end + 4 - text) + strtoul(length + 16, NULL, 10) - have : 0;
        char piece[65536];

        while (left) {
                ssize_t n = recv(c->fd, piece, left < sizeof(piece) ? left : sizeof(piece), 0);

                if (n <= 0)
                        return 0;
                left -= (size_t)n;
                atomic_fetch_add(&c->server->dropped, (unsigned long long)n);
        }
        return have;
}

static inline void *fake_serve(void *arg)
{
        struct fake_connection *c = arg;
        char *text = malloc(FAKE_REQUEST_MAX);
        size_t have = 0;
        bool goes_on = text != NULL;

        while (goes_on) {
                ssize_t n = recv(c->fd, text + have, FAKE_REQUEST_MAX - have, 0);
                size_t len;

                if (n <= 0)
                        break;
                have += (size_t)n;
                if (have == FAKE_REQUEST_MAX && !fake_request_len(text, have)) {
                        goes_on = fake_drop_rest(c, text, have) && fake_answer_one(c, text, have);
                        have = 0;
                }
                while (goes_on && (len = fake_request_len(text, have))) {
                        goes_on = fake_answer_one(c, text, len);
                        memmove(text, text + len, have - len);
                        have -= len;
                }
        }
        (void)close(c->fd);
        free(text);
        free(c);
        return NULL;
}

static inline void *fake_accept(void *arg)
{
        struct fake_server *s = arg;
        pthread_attr_t attr;
        pthread_t thread;
        int fd;

        (void)pthread_attr_init(&attr);
        (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        while ((fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
                struct fake_connection *c = malloc(sizeof(*c));

                if (!c)
                        abort();
                *c = (struct fake_connection){s, fd};
                atomic_fetch_add(&s->connections, 1);
                if (pthread_create(&thread, &attr, fake_serve, c) != 0)
                        abort();
        }
        return NULL;
}

static inline bool fake_listen(struct fake_server *s)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(at);

        s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (s->fd < 0 || bind(s->fd, (struct sockaddr *)(void *)&at, sizeof(at)) < 0 || listen(s->fd, 100) < 0 ||
            getsockname(s->fd, (struct sockaddr *)(void *)&at, &len) < 0)
                return false;
        s->port = ntohs(at.sin_port);
        (void)snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%u", s->port);
        return true;
}

static inline bool fake_start(struct fake_server *s)
{
        return fake_listen(s) && pthread_create(&s->thread, NULL, fake_accept, s) == 0;
}

static inline void fake_stop(struct fake_server *s)
{
        (void)shutdown(s->fd, SHUT_RDWR);
        (void)pthread_join(s->thread, NULL);
        (void)close(s->fd);
}
