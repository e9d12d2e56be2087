#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "http/server.h"

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

/* ---- cases ---- */

static void requests_on_one_connection_are_answered_in_turn(void)
{
        AUTO_CLOSE int c = -1;

        CHECK_INT(start_default(), ==, 0);
        c = dial();
        for (int i = 0; i < 3; i++) {
                put(c, GET("/hello"));
                CHECK_STR(get(c), HI);
        }
        CHECK_INT(seen.requests, ==, 3);
        CHECK_INT(seen.completes, ==, 3);
}

static void pipelined_requests_are_answered_in_order(void)
{
        AUTO_CLOSE int c = -1;

        CHECK_INT(start_default(), ==, 0);
        c = dial();
        put(c,
            GET("/hello") "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc" GET("/none") GET("/hello"));
        turns(10);
        CHECK_STR(get(c), HI "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nabc"
                             "HTTP/1.1 204 No Content\r\n\r\n" HI);
}

static void bytes_may_come_one_at_a_time(void)
{
        static const char text[] = "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                                   "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n" GET("/hello");
        AUTO_CLOSE int c = -1;

        CHECK_INT(start_default(), ==, 0);
        c = dial();
        for (size_t i = 0; i < sizeof(text) - 1; i++) {
                CHECK(write(c, text + i, 1) == 1);
                turns(2);
        }
        turns(4);
        CHECK_STR(get(c), "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nabcde" HI);
}

static void heads_and_streams_have_the_right_form(void)
{
        static const struct {
                const char *request, *answer;
        } cases[] = {
                {"HEAD /hello HTTP/1.1\r\nHost: h\r\n\r\n",
                 "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n"},
                {"HEAD /words HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
                {"HEAD /length HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n"},
                {GET("/words"), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                "3\r\none\r\n5\r\nthree\r\n0\r\n\r\n"},
                {GET("/length"), "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabcdef"},
                {GET("/json"), "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nX-A: 1\r\n"
                               "Content-Length: 7\r\n\r\n{\"a\":1}"},
                {"GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
                 "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: "
                 "close\r\n\r\nhi<EOF>"},
                {"GET /hello HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: "
                                                "2\r\nConnection: close\r\n\r\nhi<EOF>"},
                {"GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
                 "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: "
                 "keep-alive\r\n\r\nhi"},
                {"GET /words HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
                 "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nonethree<EOF>"},
                {GET("/short"), "<EOF>"}, /* less than announced: cut */
                {GET("/split"), "<EOF>"}, /* a header that would break the head: cut */
                {GET("/a%20b?c=d"),
                 "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 39\r\n\r\n"
                 "{\"code\":404,\"message\":\"no /a%20b here\"}"},
                {"GET http://h/hello HTTP/1.1\r\nHost: h\r\n\r\n", HI},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_CLOSE int c = -1;
                const char *got;

                CHECK_INT(start_default(), ==, 0);
                c = dial();
                put(c, cases[i].request);
                got = get(c);
                if (strcmp(got, cases[i].answer) != 0)
                        printf("# case %zu: %s\n", i, cases[i].request);
                CHECK_STR(got, cases[i].answer);
        }
}

static void bad_requests_are_refused_and_end_the_connection(void)
{
        static const struct {
                const char *request;
                unsigned status;
        } bad[] = {
                {"\r\n", 400},
                {"nonsense\r\n\r\n", 400},
                {"GET /hello\r\n\r\n", 400},
                {"GET /hello HTTP/1.1\r\n\r\n", 400}, /* no Host */
                {"GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
                {"GET /hello HTTP/1.1\nHost: a\n\n", 400},
                {"GET /hello HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400},
                {"GET /hello HTTP/1.1\r\nHost : a\r\n\r\n", 400},
                {"GET /hello HTTP/2.0\r\nHost: a\r\n\r\n", 505},
                {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", 400},
                {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx", 400},
                {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\nx", 501},
                {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\nx", 400},
                {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
                {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n", 400},
                {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n", 413},
                {"POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", 400},
        };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                AUTO_CLOSE int c = -1;
                char want[64];
                const char *got;

                CHECK_INT(start_default(), ==, 0);
                c = dial();
                put(c, bad[i].request);
                got = get(c);
                (void)snprintf(want, sizeof(want), "HTTP/1.1 %u ", bad[i].status);
                if (strncmp(got, want, strlen(want)) != 0)
                        printf("# case %zu wants %u: %s\n", i, bad[i].status, got);
                CHECK(strncmp(got, want, strlen(want)) == 0);
                (void)snprintf(want, sizeof(want), "{\"code\":%u,\"message\":\"", bad[i].status);
                CHECK(strstr(got, want) && strstr(got, "Connection: close\r\n") && strstr(got, "<EOF>"));
                CHECK_INT(seen.requests, ==, seen.closes);
                close_fd(&c);
                turns(3);
                CHECK_INT(http_server_conn_count(server), ==, 0);
        }
}

static void targets_that_are_no_path_are_400(void)
{
        AUTO_CLOSE int c = -1;

        CHECK_INT(start_default(), ==, 0);
        c = dial();
        put(c, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n");
        CHECK(strncmp(get(c), "HTTP/1.1 400 ", 13) == 0);
        put(c, GET("/hello")); /* nothing wrong with the connection */
        CHECK_STR(get(c), HI);
        put(c, GET("/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s"));
        CHECK(strstr(get(c), "HTTP/1.1 404 "));
        CHECK_INT(seen.requests, ==, 1);
}

static void an_endless_head_is_431(void)
{
        AUTO_CLOSE int c = -1;
        char line[1001];
        int i;

        memset(line, 'a', 1000);
        memcpy(line, "X-", 2);
        line[500] = ':';
        memcpy(line + 998, "\r\n", 3);
        CHECK_INT(start_default(), ==, 0);
        c = dial();
        put(c, "GET /hello HTTP/1.1\r\nHost: h\r\n");
        for (i = 0; i < 100 && write(c, line, 1000) == 1000; i++)
                turns(2);
        CHECK(strstr(get(c), "HTTP/1.1 431 "));
        CHECK_INT(seen.requests, ==, 0);
}

static void continue_is_said_only_when_the_body_is_wanted(void)
{
#define EXPECT(path, n) "POST " path " HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: " n "\r\n\r\n"
        AUTO_CLOSE int c = -1;

        CHECK_INT(start_default(), ==, 0);
        c = dial();
        put(c, EXPECT("/echo", "4"));
        CHECK_STR(get(c), "HTTP/1.1 100 Continue\r\n\r\n");
        put(c, "abcd");
        CHECK(strstr(get(c), "\r\n\r\nabcd"));
        put(c, EXPECT("/echo", "2") "xy"); /* sent it anyway */
        CHECK(strncmp(get(c), "HTTP/1.1 200 ", 13) == 0);
        put(c, EXPECT("/echo", "2000"));
        CHECK(strncmp(get(c), "HTTP/1.1 413 ", 13) == 0);
        close_fd(&c);
        c = dial();
        put(c, EXPECT("/hello", "4")); /* not read: nobody knows whether the body comes */
        CHECK(strstr(get(c), "Connection: close\r\n"));
}

static void a_chunked_body_over_the_limit_is_413(void)
{
        AUTO_CLOSE int c = -1;
        AUTO_BUF struct buf text = BUF_INIT(10000);

        CHECK_INT(start_default(), ==, 0);
        c = dial();
        CHECK(buf_addf(&text, "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n%01001d\r\n",
                       1) == 0);
        put(c, buf_cstr(&text));
        CHECK(strstr(get(c), "HTTP/1.1 413 "));
        CHECK_INT(seen.closes, ==, 1);
}

static void an_unread_body_is_drained_when_small(void)
{
        AUTO_CLOSE int c = -1;

        CHECK_INT(start_default(), ==, 0);
        c = dial();
        put(c, "POST /hello HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345");
        CHECK_STR(get(c), HI); /* answered before the body is there */
        put(c, "67890" GET("/hello"));
        CHECK_STR(get(c), HI);
        put(c, "POST /hello HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n" GET(
                       "/hello"));
        turns(4);
        CHECK_STR(get(c), HI HI);
        put(c, "POST /hello HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n12345");
        CHECK(strstr(get(c), "Connection: close\r\n\r\nhi<EOF>"));
}

static void endless_unread_chunks_end_the_connection(void)
{
        AUTO_CLOSE int c = -1;
        static char chunk[10000 + 10];
        unsigned sent = 0;

        memset(chunk, 'x', sizeof(chunk));
        memcpy(chunk, "2710\r\n", 6);
        memcpy(chunk + 10006, "\r\n", 2);
        CHECK_INT(start_default(), ==, 0);
        c = dial();
        put(c, "POST /hello HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
        CHECK_STR(get(c), HI);
        for (; sent < 10000 && send(c, chunk, 10008, MSG_NOSIGNAL) == 10008; sent++)
                turns(2);
        CHECK_INT(sent, >=, 20);
        CHECK_INT(sent, <, 10000);
        CHECK_INT(http_server_conn_count(server), ==, 0);
}

static void an_upload_is_held_back_while_paused(void)
{
        AUTO_CLOSE int c = -1;
        static char piece[10000];
        uint64_t sent = 0;
        ssize_t n = 0;

        CHECK_INT(start_default(), ==, 0);
        seen.take_most = 1000;
        c = dial();
        put(c, "PUT /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 5000000\r\n\r\n");
        for (int i = 0; i < 1000; i++) {
                n = write(c, piece, sizeof(piece));
                if (n < 0)
                        break;
                sent += (uint64_t)n;
                turns(1);
        }
        CHECK_INT(n, ==, -1);
        CHECK_INT(sent, <, 1000000); /* the socket's buffer, and one piece here */
        CHECK_INT(seen.uploaded, ==, 1000);
        seen.take_most = 0;
        http_resume_body(seen.last);
        while (sent < 5000000) {
                n = write(c, piece, 5000000 - sent < sizeof(piece) ? 5000000 - sent : sizeof(piece));
                sent += n > 0 ? (uint64_t)n : 0;
                turns(1);
        }
        turns(5);
        CHECK_INT(seen.uploaded, ==, 5000000);
        CHECK_INT(seen.ends, ==, 1);
        CHECK(strstr(get(c), "\r\n\r\n5000000"));
}

static void a_handler_may_answer_in_the_middle_of_an_upload(void)
{
        AUTO_CLOSE int c = -1;

        CHECK_INT(start_default(), ==, 0);
        c = dial();
        put(c, "PUT /full HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\n0123456789");
        CHECK(strstr(get(c), "{\"code\":507,\"message\":\"no room for \\\"it?\\\"\"}"));
        put(c, "0123456789" GET("/hello"));
        CHECK_STR(get(c), HI);
        CHECK_INT(seen.ends, ==, 0);
}

static void a_slow_reader_stops_the_producer(void)
{
        static char sink[100000];
        AUTO_CLOSE int c = -1;
        uint64_t got = 0;
        ssize_t n;

        CHECK_INT(start_default(), ==, 0);
        seen.pieces_left = 500; /* 15 MB */
        c = dial();
        put(c, GET("/flood"));
        turns(20);
        CHECK_INT(seen.pieces_left, >, 450);
        CHECK_INT(seen.queued_most, <=, HTTP_OUT_HIGH + 40000);
        for (int i = 0; i < 100000 && !seen.closes; i++) {
                while ((n = read(c, sink, sizeof(sink))) > 0)
                        got += (uint64_t)n;
                turns(1);
        }
        while ((n = read(c, sink, sizeof(sink))) > 0)
                got += (uint64_t)n;
        CHECK_INT(seen.completes, ==, 1);
        CHECK_INT(got, >, 15000000);
        CHECK_INT(seen.drains, >, 5);
        CHECK_INT(seen.queued_most, <=, HTTP_OUT_HIGH + 40000);
        put(c, GET("/hello"));
        CHECK_STR(get(c), HI);
}

static void a_client_that_leaves_is_noticed_at_once(void)
{
        static const char *const paths[] = {GET("/late"), GET("/stream"), GET("/flood"),
                                            "PUT /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n123"};

        for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
                int c;

                CHECK_INT(start_default(), ==, 0);
                seen.pieces_left = 1000;
                c = dial();
                put(c, paths[i]);
                CHECK(seen.last);
                CHECK_INT(seen.closes, ==, 0);
                close(c);
                turns(2);
                CHECK_INT(seen.closes, ==, 1);
                CHECK_INT(seen.completes, ==, 0);
                CHECK_INT(http_server_conn_count(server), ==, 0);
        }
}

static void half_closing_counts_as_leaving_while_the_answer_is_not_there(void)
{
        AUTO_CLOSE int c = -1;

        CHECK_INT(start_default(), ==, 0);
        c = dial();
        put(c, GET("/late"));
        CHECK(shutdown(c, SHUT_WR) == 0);
        turns(2);
        CHECK_INT(seen.closes, ==, 1);
        c = (close(c), dial());
        CHECK(write(c, GET("/hello"), strlen(GET("/hello"))) > 0 && shutdown(c, SHUT_WR) == 0);
        turns(4);
        CHECK(strstr(get(c), "\r\n\r\nhi")); /* answered at once: it gets it */
}

static void writing_to_a_gone_client_fails_until_the_close_is_told(void)
{
        int c, r = 0;

        CHECK_INT(start_default(), ==, 0);
        c = dial();
        put(c, GET("/stream"));
        close(c);
        for (int i = 0; i < 3 && r == 0; i++) {
                static char big[20000];

                r = http_write(seen.last, big, sizeof(big));
        }
        CHECK_INT(r, ==, -EPIPE);
        http_end(seen.last); /* harmless */
        CHECK_INT(seen.closes, ==, 0);
        turns(1);
        CHECK_INT(seen.closes, ==, 1);
}

static void answers_may_come_later_and_abort_cuts(void)
{
        AUTO_CLOSE int c = -1;

        CHECK_INT(start_default(), ==, 0);
        c = dial();
        put(c, GET("/late") GET("/stream"));
        CHECK_STR(get(c), "");
        http_reply(seen.last, 200, "text/plain", NULL, "hi", 2);
        CHECK_STR(get(c), HI); /* without a turn of the loop */
        turns(4);
        CHECK_STR(get(c), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n");
        http_write(seen.last, "more", 4);
        turns(1);
        CHECK_STR(get(c), "4\r\nmore\r\n");
        http_abort(seen.last);
        turns(1);
        CHECK_INT(seen.closes, ==, 2);
        CHECK_INT(seen.completes, ==, 1);
        CHECK(!strstr(get(c), "0\r\n\r\n"));
}

static void files_are_sent_whole_and_cut_when_they_shrink(void)
{
        static char got[4 << 20];
        size_t n = 0;
        AUTO_CLOSE int c = -1, file = -1;
        ssize_t r = 1;

        file = memfd_create("file", MFD_CLOEXEC);
        CHECK(file >= 0 && ftruncate(file, 3 << 20) == 0 && pwrite(file, "start", 5, 5) == 5 &&
              pwrite(file, "end", 3, (3 << 20) - 3) == 3);
        for (int is_cut = 0; is_cut < 2; is_cut++) {
                CHECK_INT(start_default(), ==, 0);
                seen.file = file;
                seen.file_len = (3 << 20) - 5;
                close_fd(&c);
                c = dial();
                put(c, "POST /file HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
                if (is_cut)
                        CHECK(ftruncate(file, 1 << 20) == 0);
                n = 0;
                for (int i = 0; i < 100000 && r != 0 && !(seen.closes && r < 0); i++) {
                        r = read(c, got + n, sizeof(got) - n);
                        n += r > 0 ? (size_t)r : 0;
                        turns(1);
                }
                CHECK_INT(seen.completes, ==, !is_cut);
                if (is_cut)
                        continue;
                CHECK(memmem(got, 300, "\r\n\r\nstart", 9));
                CHECK(memcmp(got + n - 3, "end", 3) == 0);
                put(c, GET("/hello"));
                CHECK_STR(get(c), HI);
                put(c, "HEAD /file HTTP/1.1\r\nHost: h\r\n\r\n");
                CHECK(strstr(get(c), "Content-Length: 3145723\r\n\r\n"));
                r = 1;
        }
}

static bool is_gone(void)
{
        return http_server_conn_count(server) == 0;
}
/* Run until the server closes; the client's end of file is the event. */
static void on_eof(struct io *io, uint32_t events)
{
        if (events & (EPOLLRDHUP | EPOLLHUP))
                loop_stop(io->loop);
}
static int run_to_eof(int fd)
{
        struct io io = {.fd = fd, .on = on_eof};

        if (loop_add(loop, &io, EPOLLRDHUP) < 0)
                return -1;
        (void)loop_run(loop);
        loop_del(&io);
        return 0;
}
static void slow_heads_and_bodies_time_out_and_idle_connections_close(void)
{
        static const struct {
                const char *text, *answer;
        } cases[] = {
                {"GET /hello HT", "HTTP/1.1 408 "},
                {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na", "HTTP/1.1 408 "},
                {"", "<EOF>"},
                {GET("/hello"), HI},
                {"POST /hello HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na", HI},
        };
        struct http_server_options opt = options();

        opt.head_timeout_ms = 10;
        opt.idle_timeout_ms = 10;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_CLOSE int c = -1;
                const char *got = "";

                CHECK_INT(start(&opt), ==, 0);
                c = dial();
                if (cases[i].text[0])
                        CHECK(write(c, cases[i].text, strlen(cases[i].text)) > 0);
                turns(2);
                CHECK(run_to_eof(c) == 0);
                got = get(c);
                CHECK(strncmp(got, cases[i].answer, strlen(cases[i].answer)) == 0);
                close_fd(&c);
                turns(3);
                CHECK(is_gone());
                CHECK_INT(seen.requests, ==, seen.closes);
        }
}

static void connections_over_the_limit_get_503(void)
{
        int c[4];

        CHECK_INT(start_default(), ==, 0);
        for (int i = 0; i < 4; i++)
                c[i] = dial();
        CHECK(strncmp(get(c[3]), "HTTP/1.1 503 ", 13) == 0);
        put(c[2], GET("/hello"));
        CHECK_STR(get(c[2]), HI);
        close(c[0]);
        turns(2);
        CHECK_INT(http_server_conn_count(server), ==, 2);
        for (int i = 1; i < 4; i++)
                close(c[i]);
}

static bool is_stopped;
static void on_stopped(void *arg)
{
        *(bool *)arg = true;
}
static void stopping_lets_running_exchanges_end(void)
{
        AUTO_CLOSE int idle = -1, busy = -1;

        is_stopped = false;
        CHECK_INT(start_default(), ==, 0);
        idle = dial();
        busy = dial();
        put(idle, GET("/hello"));
        put(busy, GET("/late"));
        CHECK_STR(get(idle), HI);
        http_server_stop(server, on_stopped, &is_stopped);
        turns(3);
        CHECK_STR(get(idle), "<EOF>");
        CHECK(!is_stopped);
        http_reply(seen.last, 200, "text/plain", NULL, "hi", 2);
        turns(3);
        CHECK(strstr(get(busy), "Connection: close\r\n"));
        CHECK(is_stopped);
        is_stopped = false;
        CHECK_INT(start_default(), ==, 0);
        http_server_stop(server, on_stopped, &is_stopped); /* nothing to wait for */
        CHECK(!is_stopped);
        turns(1);
        CHECK(is_stopped);
}

static void freeing_the_server_tells_every_handler(void)
{
        AUTO_CLOSE int a = -1, b = -1;

        CHECK_INT(start_default(), ==, 0);
        a = dial();
        b = dial();
        put(a, GET("/late"));
        put(b, GET("/stream"));
        server = http_server_free(server);
        CHECK_INT(seen.closes, ==, 2);
        CHECK_INT(seen.completes, ==, 0);
}

static void it_listens_on_sockets_given_to_it(void)
{
        AUTO_CLOSE int c = -1;
        char dir[] = "/tmp/http-XXXXXX", path[64];
        int fd = -1;

        CHECK(mkdtemp(dir));
        (void)snprintf(path, sizeof(path), "%s/s", dir);
        CHECK_INT(start_default(), ==, 0);
        CHECK_INT(listen_unix(path, 0600, &fd, NULL), ==, 0);
        CHECK_INT(http_server_listen(server, fd), ==, 0);
        CHECK_INT(connect_unix(path, &c), ==, 0);
        put(c, GET("/hello"));
        CHECK_STR(get(c), HI);
        server = http_server_free(server);
        CHECK_STR(get(c), "<EOF>");
        (void)unlink(path);
        (void)rmdir(dir);
}

int main(void)
{
        if (loop_create(&loop) < 0)
                return 1;
        RUN(requests_on_one_connection_are_answered_in_turn);
        RUN(pipelined_requests_are_answered_in_order);
        RUN(bytes_may_come_one_at_a_time);
        RUN(heads_and_streams_have_the_right_form);
        RUN(bad_requests_are_refused_and_end_the_connection);
        RUN(targets_that_are_no_path_are_400);
        RUN(an_endless_head_is_431);
        RUN(continue_is_said_only_when_the_body_is_wanted);
        RUN(a_chunked_body_over_the_limit_is_413);
        RUN(an_unread_body_is_drained_when_small);
        RUN(endless_unread_chunks_end_the_connection);
        RUN(an_upload_is_held_back_while_paused);
        RUN(a_handler_may_answer_in_the_middle_of_an_upload);
        RUN(a_slow_reader_stops_the_producer);
        RUN(a_client_that_leaves_is_noticed_at_once);
        RUN(half_closing_counts_as_leaving_while_the_answer_is_not_there);
        RUN(writing_to_a_gone_client_fails_until_the_close_is_told);
        RUN(answers_may_come_later_and_abort_cuts);
        RUN(files_are_sent_whole_and_cut_when_they_shrink);
        RUN(slow_heads_and_bodies_time_out_and_idle_connections_close);
        RUN(connections_over_the_limit_get_503);
        RUN(stopping_lets_running_exchanges_end);
        RUN(freeing_the_server_tells_every_handler);
        RUN(it_listens_on_sockets_given_to_it);
        server = http_server_free(server);
        loop = loop_free(loop);
        return tap_done();
}
