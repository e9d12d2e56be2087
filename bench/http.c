#include "http.h"

#include <err.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "samples.h"
#include "wire/http1.h"

#define READ_SIZE (256u << 10)
#define BODY_MAX (64u << 20)

void http_open(struct http *h, uint16_t port)
{
        *h = (struct http){.port = port, .fd = -1};
        buf_init(&h->in, READ_SIZE * 2);
        buf_init(&h->out, BODY_MAX);
        buf_init(&h->body, BODY_MAX);
}

void http_close(struct http *h)
{
        close_fd(&h->fd);
        buf_done(&h->in);
        buf_done(&h->out);
        buf_done(&h->body);
}

static void dial(struct http *h)
{
        struct sockaddr_in to = {
                .sin_family = AF_INET, .sin_port = htons(h->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int on = 1;

        h->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (h->fd < 0 || connect(h->fd, (struct sockaddr *)&to, sizeof(to)) < 0)
                err(1, "connect to port %u", h->port);
        (void)setsockopt(h->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        buf_reset(&h->in);
}

static void send_all(struct http *h, const void *p, size_t n)
{
        const char *at = p;

        while (n > 0) {
                ssize_t w = send(h->fd, at, n, MSG_NOSIGNAL);
                if (w < 0)
                        err(1, "send");
                at += w;
                n -= (size_t)w;
        }
}

static bool fill(struct http *h)
{
        ssize_t r = buf_fill(&h->in, h->fd, READ_SIZE);

        if (r < 0)
                errx(1, "receive: %s", strerror((int)-r));
        return r > 0;
}

static void take(struct http *h, struct str piece)
{
        h->body_bytes += piece.n;
        if (h->on_piece)
                h->on_piece(h, piece);
        if (h->is_counting)
                return;
        if (buf_add(&h->body, piece.p, piece.n) < 0)
                errx(1, "answer too large");
        if (h->mark && h->marked_us == 0 && memmem(buf_at(&h->body), h->body.len, h->mark, strlen(h->mark)))
                h->marked_us = now_us();
}

static bool read_head(struct http *h, struct http1_head *head)
{
        size_t used = 0;

        for (;;) {
                enum http1_step step = http1_parse_response(head, buf_at(&h->in), h->in.len, false, &used);
                if (step == HTTP1_DONE)
                        break;
                if (step != HTTP1_MORE)
                        errx(1, "bad answer: %s", head->why);
                if (!fill(h))
                        errx(1, "connection ended before an answer");
        }
        h->status = head->status;
        buf_consume(&h->in, used);
        return head->keep_alive;
}

static void read_body(struct http *h, const struct http1_head *head)
{
        struct http1_body decoder;
        struct str piece;
        size_t used;

        http1_body_init(&decoder, head);
        while (!http1_body_is_done(&decoder)) {
                enum http1_step step = http1_body_feed(&decoder, buf_at(&h->in), h->in.len, &used, &piece);
                if (step == HTTP1_DATA)
                        take(h, piece);
                buf_consume(&h->in, used);
                if (step == HTTP1_DONE)
                        break;
                if (step == HTTP1_MORE && !fill(h)) {
                        if (head->framing == HTTP1_BODY_EOF)
                                break;
                        errx(1, "connection ended within an answer");
                }
                if (step != HTTP1_MORE && step != HTTP1_DATA)
                        errx(1, "bad answer body");
        }
}

static void begin(struct http *h, const char *method, const char *path, const char *headers, bool has_body,
                  uint64_t len)
{
        if (h->fd < 0)
                dial(h);
        buf_reset(&h->body);
        h->body_bytes = 0;
        h->marked_us = 0;
        buf_reset(&h->out);
        if (buf_addf(&h->out, "%s %s HTTP/1.1\r\n%s%s", method, path,
                     strstr(headers, "Host:") ? "" : "Host: 127.0.0.1\r\n", headers) < 0 ||
            (has_body && buf_addf(&h->out, "Content-Length: %llu\r\n", (unsigned long long)len) < 0) ||
            buf_addc(&h->out, "\r\n") < 0)
                errx(1, "request too large");
}

static void finish(struct http *h)
{
        struct http1_head head = {0};
        bool keep = read_head(h, &head);

        read_body(h, &head);
        if (!keep)
                close_fd(&h->fd);
}

void http_exchange(struct http *h, const char *method, const char *path, const char *headers, const void *body,
                   size_t len)
{
        begin(h, method, path, headers, body, len);
        bool is_small = len < 16384 && buf_add(&h->out, body ? body : "", len) == 0;
        send_all(h, buf_at(&h->out), h->out.len);
        if (!is_small)
                send_all(h, body, len);
        finish(h);
}

void http_upload(struct http *h, const char *method, const char *path, const char *headers, uint64_t size)
{
        static char piece[READ_SIZE];

        memset(piece, 'x', sizeof(piece));
        begin(h, method, path, headers, true, size);
        send_all(h, buf_at(&h->out), h->out.len);
        for (size_t n; size > 0; size -= n) {
                n = size < sizeof(piece) ? (size_t)size : sizeof(piece);
                send_all(h, piece, n);
        }
        finish(h);
}
