/* http_rig.h - a server of http/server.h in the test's own loop, with a handler for each path, and clients. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "http/server.h"

#include "tap.h"

static struct loop *loop;
static struct http_server *server;

/* ---- a server with one handler per path ---- */

static struct {
        unsigned requests, closes, completes, drains, ends;
        struct http_request *last; /* the one that waits */
        uint64_t uploaded;
        size_t queued_most;
        unsigned pieces_left;
        size_t take_most; /* per on_data */
        int file;
        uint64_t file_len;
} seen;

static void on_close(struct http_request *rq, bool is_complete)
{
        seen.closes++;
        seen.completes += is_complete;
        if (seen.last == rq)
                seen.last = NULL;
}
static void echo_body(struct http_request *rq, struct str body)
{
        http_reply(rq, 200, "text/plain", NULL, body.p, body.n);
}
static size_t count_data(struct http_request *rq, struct str piece)
{
        size_t n = seen.take_most && seen.take_most < piece.n ? seen.take_most : piece.n;

        (void)rq;
        seen.uploaded += n;
        return n;
}
static size_t refuse_data(struct http_request *rq, struct str piece)
{
        (void)piece;
        http_reply_error(rq, 507, "no room for \"%s\"", "it\xff");
        return 1;
}
static void count_end(struct http_request *rq)
{
        char text[32];

        seen.ends++;
        http_reply(rq, 200, "text/plain", NULL, text,
                   (size_t)snprintf(text, sizeof(text), "%llu", (unsigned long long)seen.uploaded));
}
static void pump(struct http_request *rq)
{
        static char piece[30000];

        memset(piece, 'p', sizeof(piece));
        while (seen.pieces_left && !http_is_full(rq)) {
                if (http_write(rq, piece, sizeof(piece)) < 0)
                        return;
                seen.pieces_left--;
                if (http_queued(rq) > seen.queued_most)
                        seen.queued_most = http_queued(rq);
        }
        if (!seen.pieces_left)
                http_end(rq);
}
static void on_drain(struct http_request *rq)
{
        seen.drains++;
        pump(rq);
}

static void do_hello(struct http_request *rq)
{
        http_reply(rq, 200, "text/plain", NULL, "hi", 2);
}
static void do_echo(struct http_request *rq)
{
        http_read_body(rq, 1000, echo_body);
}
static void do_upload(struct http_request *rq)
{
        seen.last = rq;
        http_stream_body(rq, count_data, count_end);
}
static void do_full(struct http_request *rq)
{
        http_stream_body(rq, refuse_data, count_end);
}
static void do_late(struct http_request *rq)
{
        seen.last = rq;
}
static void do_flood(struct http_request *rq)
{
        seen.last = rq;
        http_start(rq, 200, "application/octet-stream", NULL, -1);
        pump(rq);
}
static void do_words(struct http_request *rq)
{
        http_start(rq, 200, NULL, NULL, -1);
        http_write(rq, "one", 3);
        http_write(rq, "", 0);
        http_write(rq, "three", 5);
        http_end(rq);
}
static void do_length(struct http_request *rq)
{
        http_start(rq, 200, NULL, NULL, 6);
        http_write(rq, "abc", 3);
        http_write(rq, "def", 3);
        http_end(rq);
}
static void do_short(struct http_request *rq)
{
        http_start(rq, 200, NULL, NULL, 6);
        http_write(rq, "abc", 3);
        http_end(rq);
}
static void do_stream(struct http_request *rq)
{
        seen.last = rq;
        http_start(rq, 200, NULL, NULL, -1);
        http_write(rq, "begun", 5);
}
static void do_none(struct http_request *rq)
{
        http_reply(rq, 204, NULL, NULL, NULL, 0);
}
static void do_split(struct http_request *rq)
{
        const struct http_header extra[] = {{"X-A", "1\r\nX-B: 2"}, {NULL, NULL}};

        http_reply(rq, 200, NULL, extra, NULL, 0);
}
static void do_json(struct http_request *rq)
{
        const struct http_header extra[] = {{"X-A", "1"}, {NULL, NULL}};

        http_reply_json(rq, 201, extra, json_pack("{s:i}", "a", 1));
}
static void do_file(struct http_request *rq)
{
        http_start(rq, 200, NULL, NULL, (int64_t)seen.file_len);
        http_send_file(rq, dup(seen.file), 5, seen.file_len);
}

static void on_request(struct http_request *rq, void *arg)
{
        static const struct {
                const char *path;
                void (*run)(struct http_request *rq);
        } routes[] = {{"hello", do_hello}, {"echo", do_echo},    {"upload", do_upload}, {"full", do_full},
                      {"late", do_late},   {"flood", do_flood},  {"words", do_words},   {"length", do_length},
                      {"short", do_short}, {"none", do_none},    {"split", do_split},   {"json", do_json},
                      {"file", do_file},   {"stream", do_stream}};

        (void)arg;
        seen.requests++;
        rq->on_close = on_close;
        rq->on_drain = on_drain;
        for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
                if (rq->url.segment_count == 1 && str_is(rq->url.segments[0], routes[i].path)) {
                        routes[i].run(rq);
                        return;
                }
        }
        http_reply_error(rq, 404, "no %.*s here", STR_ARG(rq->url.path));
}

/* ---- a client ---- */

static struct http_server_options options(void)
{
        return (struct http_server_options){.loop = loop, .on_request = on_request, .conns_max = 3};
}
static int start(const struct http_server_options *opt)
{
        server = http_server_free(server);
        memset(&seen, 0, sizeof(seen));
        return http_server_create(opt, &server);
}
static int start_default(void)
{
        const struct http_server_options opt = options();

        return start(&opt);
}
static int dial(void)
{
        int p[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) < 0 || fcntl(p[1], F_SETFL, O_RDWR | O_NONBLOCK) < 0)
                return -errno;
        if (http_server_accept(server, p[0]) < 0 && http_server_conn_count(server) != 3)
                return -EIO;
        return p[1];
}
static void stop_task(struct task *t)
{
        (void)t;
        loop_stop(loop);
}
static void turns(int n)
{
        while (n--) {
                struct task t = {.run = stop_task};

                loop_post(loop, &t);
                (void)loop_run(loop);
        }
}
static void put(int fd, const char *text)
{
        if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
                tap_case_failed = 1;
        turns(6);
}
/* What has arrived, as text without the Date line; empties the socket.  Ends in "<EOF>" when the server closed. */
static const char *get(int fd)
{
        static char text[300000];
        size_t n = 0;
        char *date;
        ssize_t r;

        while ((r = read(fd, text + n, sizeof(text) - n - 6)) > 0)
                n += (size_t)r;
        memcpy(text + n, r == 0 ? "<EOF>" : "", r == 0 ? 6 : 1);
        while ((date = strstr(text, "Date: "))) {
                char *next = strstr(date, "\r\n") + 2;

                memmove(date, next, strlen(next) + 1);
        }
        return text;
}
#define HI "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi"
#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"

static int rig_start(void)
{
        return loop_create(&loop);
}
static void rig_stop(void)
{
        server = http_server_free(server);
        loop = loop_free(loop);
}
