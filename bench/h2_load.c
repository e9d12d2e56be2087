/* h2_load.c - asks over HTTP/2 and TLS as fast as it is answered: CONNECTIONS with STREAMS requests under way on each.
 * Prints one JSON object: requests and megabytes per second, microseconds per request.
 *
 *   h2_load PORT PATH CONNECTIONS STREAMS SECONDS */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "samples.h"

#define HOST "8080-iaaaaaaaaaaaaaaaaaaaa.box.test"
#define WINDOW (1 << 24)

struct conn {
        int fd;
        SSL *ssl;
        nghttp2_session *session;
};

static struct {
        uint32_t port, connections, streams, seconds;
        const char *path;
        double stop_us;
        uint64_t done, bytes;
        struct samples times;
} load;

static void ask(struct conn *c)
{
        const nghttp2_nv nv[] = {
                {(uint8_t *)":method", (uint8_t *)"GET", 7, 3, NGHTTP2_NV_FLAG_NONE},
                {(uint8_t *)":scheme", (uint8_t *)"https", 7, 5, NGHTTP2_NV_FLAG_NONE},
                {(uint8_t *)":authority", (uint8_t *)HOST, 10, sizeof(HOST) - 1, NGHTTP2_NV_FLAG_NONE},
                {(uint8_t *)":path", (uint8_t *)(uintptr_t)load.path, 5, strlen(load.path), NGHTTP2_NV_FLAG_NONE},
        };
        double *began = malloc(sizeof(*began));

        if (!began)
                err(1, "memory");
        *began = now_us();
        if (nghttp2_submit_request(c->session, NULL, nv, ARRAY_LEN(nv), NULL, began) < 0)
                errx(1, "no more streams");
}

static int on_header(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
        (void)s;
        (void)f;
        (void)flags;
        (void)arg;
        if (name_len == 7 && memcmp(name, ":status", 7) == 0 && (value_len != 3 || memcmp(value, "200", 3) != 0))
                errx(1, "answered %.*s", (int)value_len, value);
        return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *arg)
{
        (void)s;
        (void)flags;
        (void)id;
        (void)p;
        (void)arg;
        load.bytes += n;
        return 0;
}

static int on_close(nghttp2_session *s, int32_t id, uint32_t error, void *arg)
{
        double *began = nghttp2_session_get_stream_user_data(s, id), now = now_us();

        if (error)
                errx(1, "stream %d reset: %u", id, error);
        samples_add(&load.times, now - *began);
        load.done++;
        free(began);
        if (now < load.stop_us)
                ask(arg);
        return 0;
}

static int connect_to(uint32_t port)
{
        struct sockaddr_in at = {
                .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
                err(1, "connect");
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        return fd;
}

static void open_conn(struct conn *c, SSL_CTX *ctx, nghttp2_session_callbacks *cb)
{
        const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW}};

        c->fd = connect_to(load.port);
        c->ssl = SSL_new(ctx);
        if (!c->ssl || SSL_set_fd(c->ssl, c->fd) != 1 || SSL_connect(c->ssl) != 1)
                errx(1, "TLS");
        (void)fcntl(c->fd, F_SETFL, O_NONBLOCK);
        if (nghttp2_session_client_new(&c->session, cb, c) != 0 ||
            nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings)) != 0 ||
            nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, WINDOW) != 0)
                errx(1, "session");
        for (uint32_t i = 0; i < load.streams; i++)
                ask(c);
}

/* Requests are small: the socket takes them. */
static void push(struct conn *c)
{
        static uint8_t out[1 << 20];
        size_t n = 0, done = 0;

        for (;;) {
                const uint8_t *p;
                ssize_t r = nghttp2_session_mem_send(c->session, &p);

                if (r <= 0)
                        break;
                if (n + (size_t)r > sizeof(out))
                        errx(1, "too much at once");
                memcpy(out + n, p, (size_t)r);
                n += (size_t)r;
        }
        while (done < n) {
                int r = SSL_write(c->ssl, out + done, (int)(n - done));

                if (r > 0)
                        done += (size_t)r;
                else if (SSL_get_error(c->ssl, r) != SSL_ERROR_WANT_WRITE)
                        errx(1, "write");
        }
}

static void pull(struct conn *c)
{
        static uint8_t in[64 << 10];

        for (;;) {
                int r = SSL_read(c->ssl, in, sizeof(in));

                if (r <= 0) {
                        if (SSL_get_error(c->ssl, r) != SSL_ERROR_WANT_READ)
                                errx(1, "the connection ended");
                        break;
                }
                if (nghttp2_session_mem_recv(c->session, in, (size_t)r) < 0)
                        errx(1, "session");
        }
        push(c);
}

static void run(struct conn *conns)
{
        struct epoll_event got[64];
        int epoll = epoll_create1(EPOLL_CLOEXEC);

        for (uint32_t i = 0; i < load.connections; i++) {
                struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &conns[i]};

                (void)epoll_ctl(epoll, EPOLL_CTL_ADD, conns[i].fd, &ev);
                push(&conns[i]);
        }
        while (now_us() < load.stop_us) {
                int n = epoll_wait(epoll, got, ARRAY_LEN(got), 100);

                for (int i = 0; i < n; i++)
                        pull(got[i].data.ptr);
        }
        (void)close(epoll);
}

int main(int argc, char **argv)
{
        static const unsigned char alpn[] = "\x02h2";
        nghttp2_session_callbacks *cb;
        struct conn *conns;
        SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
        double begin;

        if (argc != 6 || parse_u32(str_of(argv[1]), 1, 65535, &load.port) < 0 ||
            parse_u32(str_of(argv[3]), 1, 1000, &load.connections) < 0 ||
            parse_u32(str_of(argv[4]), 1, 2000, &load.streams) < 0 ||
            parse_u32(str_of(argv[5]), 1, 600, &load.seconds) < 0)
                errx(2, "usage: h2_load PORT PATH CONNECTIONS STREAMS SECONDS");
        load.path = argv[2];
        conns = calloc(load.connections, sizeof(*conns));
        if (!ctx || !conns || SSL_CTX_set_alpn_protos(ctx, alpn, sizeof(alpn) - 1) != 0 ||
            nghttp2_session_callbacks_new(&cb) != 0)
                errx(1, "memory");
        SSL_CTX_set_read_ahead(ctx, 1);
        nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
        load.stop_us = now_us() + load.seconds * 1e6;
        for (uint32_t i = 0; i < load.connections; i++)
                open_conn(&conns[i], ctx, cb);
        begin = now_us();
        run(conns);
        begin = now_us() - begin;
        json_t *o = json_pack("{sI sf sf so}", "requests", (json_int_t)load.done, "per_second",
                              (double)load.done / begin * 1e6, "mbytes_per_second", (double)load.bytes / begin, "each",
                              samples_json(&load.times));
        (void)json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(8));
        (void)putchar('\n');
        return 0;
}
