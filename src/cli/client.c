#include "cli/client.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"

#define CONNECT_S 10
#define CALL_MS 120000u
#define TICK_MS 100
#define READ_MOST (64u << 10)

int client_init(struct client *c, const char *url, struct err *err)
{
        struct str rest = str_of(url), host, port = STR("80");
        uint32_t number;

        *c = (struct client){.cancel = -1};
        if (!str_starts(rest, "http://"))
                return err_set(err, ERR_INVALID, "'%s': the command line speaks plain http:// only", url);
        rest = (struct str){url + 7, strcspn(url + 7, "/")};
        host = rest;
        for (size_t i = rest.n; i > 0 && rest.p[i - 1] != ']'; i--) {
                if (rest.p[i - 1] == ':') {
                        host.n = i - 1;
                        port = (struct str){rest.p + i, rest.n - i};
                        break;
                }
        }
        if (host.n == 0 || parse_u32(port, 1, UINT16_MAX, &number) < 0)
                return err_set(err, ERR_INVALID, "'%s' is not http://host:port", url);
        (void)snprintf(c->port, sizeof(c->port), "%u", number & UINT16_MAX);
        c->host = str_dup(rest);
        if (host.n > 2 && host.p[0] == '[')
                host = (struct str){host.p + 1, host.n - 2};
        c->address = str_dup(host);
        if (c->host && c->address)
                return 0;
        client_done(c);
        return err_set(err, ERR_LIMIT, "out of memory");
}

void client_done(struct client *c)
{
        free(c->host);
        free(c->address);
        *c = (struct client){0};
}

static int connect_one(const struct addrinfo *ai, int *ret_fd)
{
        const struct timeval limit = {.tv_sec = CONNECT_S};
        AUTO_CLOSE int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0 ||
            connect(fd, ai->ai_addr, ai->ai_addrlen) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
                return -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static int client_connect(const struct client *c, int *ret_fd, struct err *err)
{
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
        struct addrinfo *list = NULL;
        int r = getaddrinfo(c->address, c->port, &hints, &list);

        if (r != 0)
                return err_set(err, ERR_UNAVAILABLE, "find '%s': %s", c->address, gai_strerror(r));
        r = -EHOSTUNREACH;
        for (const struct addrinfo *ai = list; ai && r < 0; ai = ai->ai_next)
                r = connect_one(ai, ret_fd);
        freeaddrinfo(list);
        if (r == -ECONNREFUSED)
                return err_set(err, ERR_UNAVAILABLE, "no server answers at %s: is `sandglass serve` running?", c->host);
        return r < 0 ? err_sys(err, r, "connect to %s", c->host) : 0;
}

static int write_request(struct buf *out, const struct client *c, const struct client_request *rq)
{
        const struct client_header *h = rq->headers;
        int r;

        r = http1_write_request_line(out, str_of(rq->method), str_of(rq->target));
        if (r == 0)
                r = http1_write_header(out, STR("Host"), str_of(c->host));
        if (r == 0)
                r = http1_write_header(out, STR("Connection"), STR("close"));
        if (r == 0)
                r = http1_write_header(out, STR("User-Agent"), STR("sandglass"));
        for (; r == 0 && h && h->name; h++)
                r = http1_write_header(out, str_of(h->name), str_of(h->value));
        if (r == 0 && rq->content_type)
                r = http1_write_header(out, STR("Content-Type"), str_of(rq->content_type));
        if (r == 0 && (rq->content_type || strcmp(rq->method, "POST") == 0))
                r = http1_write_headerf(out, "Content-Length", "%zu", rq->body.n);
        if (r == 0)
                r = http1_write_end(out);
        return r < 0 ? r : buf_add(out, rq->body.p, rq->body.n);
}

int call_start(struct call *c, const struct client *client, const struct client_request *rq, struct err *err)
{
        int r;

        *c = (struct call){.fd = -1, .out = BUF_INIT(CLIENT_BODY_MAX), .in = BUF_INIT(HTTP1_HEAD_MAX + READ_MOST)};
        r = write_request(&c->out, client, rq);
        if (r < 0) {
                (void)err_sys(err, r, "write the request");
        } else {
                r = client_connect(client, &c->fd, err);
        }
        if (r < 0)
                call_done(c);
        return r;
}

void call_done(struct call *c)
{
        close_fd(&c->fd);
        buf_done(&c->out);
        buf_done(&c->in);
}

short call_events(const struct call *c)
{
        return (short)(POLLIN | (c->out.len ? POLLOUT : 0));
}

/* The head, from the bytes in c->in: 1 when it is complete. */
static int take_head(struct call *c, struct err *err)
{
        struct str next;
        size_t used;

        switch (http1_parse_response(&c->head, buf_at(&c->in), c->in.len, false, &used)) {
        case HTTP1_MORE: return 0;
        case HTTP1_DONE: break;
        default: return err_set(err, ERR_INTERNAL, "the server's answer is no HTTP: %s", c->head.why);
        }
        c->status = c->head.status;
        next = http1_value(&c->head, "X-Next-Token");
        if (next.n >= sizeof(c->next_token))
                return err_set(err, ERR_INTERNAL, "the server's page token is too long");
        memcpy(c->next_token, next.p, next.n);
        http1_body_init(&c->body, &c->head);
        buf_consume(&c->in, used);
        c->has_head = true;
        return 1;
}

/* Pieces of the body out of c->in: 1 when it is complete. */
static int take_body(struct call *c, void (*on_data)(struct str, void *), void *arg, struct err *err)
{
        enum http1_step step;
        struct str piece;
        size_t used;

        while (!http1_body_is_done(&c->body)) {
                if (c->in.len == 0)
                        return 0;
                step = http1_body_feed(&c->body, buf_at(&c->in), c->in.len, &used, &piece);
                if (step == HTTP1_BAD || step == HTTP1_TOO_BIG || step == HTTP1_UNSUPPORTED)
                        return err_set(err, ERR_INTERNAL, "the server's answer has a broken body");
                if (step == HTTP1_DATA)
                        on_data(piece, arg);
                buf_consume(&c->in, used);
                if (step == HTTP1_DONE)
                        return 1;
                if (step == HTTP1_MORE)
                        return 0;
        }
        return 1;
}

int call_pump(struct call *c, void (*on_data)(struct str, void *), void *arg, struct err *err)
{
        ssize_t n = 0;
        int r;

        if (c->out.len)
                n = buf_drain(&c->out, c->fd);
        if (n < 0 && n != -EAGAIN && n != -EPIPE) /* after EPIPE the answer may still be there to read */
                return err_sys(err, (int)n, "send to the server");
        n = buf_fill(&c->in, c->fd, READ_MOST);
        if (n == -EAGAIN)
                return 0;
        if (n < 0)
                return err_sys(err, (int)n, "read from the server");
        if (!c->has_head) {
                r = take_head(c, err);
                if (r < 0)
                        return r;
                if (r == 0)
                        return n == 0 ? err_set(err, ERR_UNAVAILABLE, "the server closed the connection") : 0;
        }
        r = take_body(c, on_data, arg, err);
        if (r == 0 && n == 0)
                return c->body.framing == HTTP1_BODY_EOF
                               ? 1
                               : err_set(err, ERR_UNAVAILABLE, "the connection was cut in the middle");
        return r;
}

struct collect {
        struct buf *out;
        int r;
};

static void on_collect(struct str piece, void *arg)
{
        struct collect *c = arg;

        if (c->r == 0)
                c->r = buf_add(c->out, piece.p, piece.n);
}

int client_call(const struct client *c, const struct client_request *rq, unsigned *ret_status, struct buf *ret_body,
                char ret_next[512], struct err *err)
{
        AUTO(call_done) struct call call;
        struct collect into = {.out = ret_body};
        unsigned patience_ms = c->patience_ms ? c->patience_ms : CALL_MS;
        uint64_t due = clock_mono_ms() + patience_ms, now;
        int r;

        r = call_start(&call, c, rq, err);
        while (r == 0) {
                struct pollfd p[] = {{.fd = call.fd, .events = call_events(&call)},
                                     {.fd = c->cancel, .events = POLLIN}};

                now = clock_mono_ms();
                if (now >= due)
                        return err_set(err, ERR_TIMEOUT, "no answer from %s within %u s", c->host, patience_ms / 1000);
                if (poll(p, 2, c->on_tick && due - now > TICK_MS ? TICK_MS : (int)(due - now)) <= 0) {
                        if (c->on_tick)
                                c->on_tick(c->tick_arg);
                        continue;
                }
                if (p[0].revents)
                        r = call_pump(&call, on_collect, &into, err);
                else if (p[1].revents)
                        return err_sys(err, -EINTR, "wait for %s", c->host);
        }
        if (r < 0)
                return r;
        if (into.r < 0)
                return err_sys(err, into.r, "keep the server's answer");
        *ret_status = call.status;
        if (ret_next)
                memcpy(ret_next, call.next_token, sizeof(call.next_token));
        return 0;
}
