#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "fault.h"
#include "http/server.h"

static struct loop *loop;
static unsigned requests, closes;
static int file = -1;

/* ---- a server that uses every kind of answer ---- */

static void on_close(struct http_request *rq, bool is_complete)
{
        (void)is_complete;
        closes++;
        free(rq->user);
        rq->user = NULL;
}
static void on_body(struct http_request *rq, struct str body)
{
        http_reply_json(rq, 200, NULL, json_stringn(body.p, body.n));
}
static size_t on_data(struct http_request *rq, struct str piece)
{
        return http_write(rq, piece.p, piece.n) < 0 ? piece.n : piece.n;
}
static void answer(struct http_request *rq)
{
        struct str path = rq->url.path;
        static char big[300000];

        if (str_is(path, "/body")) {
                http_read_body(rq, 1000, on_body);
        } else if (str_is(path, "/copy")) {
                http_start(rq, 200, "text/plain", NULL, -1);
                http_stream_body(rq, on_data, http_end);
        } else if (str_is(path, "/file")) {
                http_start(rq, 200, NULL, NULL, 1000);
                http_send_file(rq, dup(file), 0, 1000);
        } else if (str_is(path, "/big")) {
                http_reply(rq, 200, NULL, NULL, big, sizeof(big));
        } else {
                http_reply_error(rq, 404, "no %.*s", STR_ARG(path));
        }
}
static void on_request(struct http_request *rq, void *arg)
{
        (void)arg;
        requests++;
        rq->on_close = on_close;
        rq->user = malloc(10);
        if (!rq->user)
                http_reply_error(rq, 500, "out of memory");
        else
                answer(rq);
}

/* ---- a client that must get the whole answer or the end of the connection ---- */

static void stop(struct task *t)
{
        (void)t;
        loop_stop(loop);
}
static void turns(int n)
{
        while (n--) {
                struct task t = {.run = stop};

                loop_post(loop, &t);
                (void)loop_run(loop);
        }
}

static int ask(int fd, const char *request, size_t answer_least)
{
        static char sink[400000];
        size_t n = 0;
        ssize_t r = -1;

        if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
                return fault_was_hit() ? -EPIPE : BROKEN("the server is gone");
        for (int i = 0; i < 200; i++) {
                turns(1);
                while ((r = read(fd, sink + n, sizeof(sink) - n)) > 0)
                        n += (size_t)r;
                if (r == 0 || n >= answer_least)
                        break;
        }
        if (n >= answer_least)
                return 0;
        MUST(fault_was_hit());
        MUST(r == 0 || memmem(sink, n, "\"code\":500", 10));
        return -ECONNRESET;
}

static int converse(struct http_server *s)
{
        static const struct {
                const char *request;
                size_t least; /* bytes of answer */
        } all[] = {
                {"POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", 100},
                {"POST /copy HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 100},
                {"GET /file HTTP/1.1\r\nHost: h\r\n\r\n", 1050},
                {"GET /big HTTP/1.1\r\nHost: h\r\n\r\n", 300050},
                {"GET /none HTTP/1.1\r\nHost: h\r\n\r\n", 100},
                {"broken\r\n\r\n", 100},
        };
        int p[2], r;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p) < 0)
                return BROKEN("socketpair");
        r = http_server_accept(s, p[0]);
        for (size_t i = 0; i < sizeof(all) / sizeof(*all) && r == 0; i++)
                r = ask(p[1], all[i].request, all[i].least);
        close_fd(&p[1]);
        turns(3);
        MUST(http_server_conn_count(s) == 0);
        MUST(requests == closes);
        return r;
}

static int every_request_is_answered_or_cut(void)
{
        struct http_server_options opt = {.on_request = on_request, .head_timeout_ms = 1000, .idle_timeout_ms = 1000};
        struct http_server *s = NULL;
        int r;

        requests = closes = 0;
        r = loop_create(&loop);
        opt.loop = loop;
        if (r == 0)
                r = http_server_create(&opt, &s);
        if (r == 0)
                r = converse(s);
        s = http_server_free(s);
        loop = loop_free(loop);
        return r;
}

static int listening_fails_in_an_orderly_way(void)
{
        struct http_server_options opt = {.on_request = on_request};
        struct http_server *s = NULL;
        int fd = -1, r;

        r = loop_create(&loop);
        opt.loop = loop;
        if (r == 0)
                r = http_server_create(&opt, &s);
        if (r == 0)
                r = listen_tcp(STR("127.0.0.1:0"), false, &fd, NULL);
        if (r == 0)
                r = http_server_listen(s, fd);
        s = http_server_free(s);
        loop = loop_free(loop);
        return r;
}

int main(void)
{
        file = memfd_create("file", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, 1000) < 0)
                return 1;
        EACH(every_request_is_answered_or_cut);
        EACH(listening_fails_in_an_orderly_way);
        return fault_done();
}
