/* What goes well: requests as they are sent, answers in all framings, streaming both ways, connections used again. */
#include "http_client_rig.h"

#include <netinet/in.h>
#include <pthread.h>

#include "http/origin.h"
#include "io/listener.h"

#define HI "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
#define ASKED "GET /a?b=c HTTP/1.1\r\nHost: box.test:81\r\nUser-Agent: sandglass\r\n\r\n"

static void a_url_names_a_server(void)
{
        static const struct {
                const char *url, *host, *name;
                uint16_t port;
                bool is_tls;
        } good[] = {
                {"http://127.0.0.1:3000", "127.0.0.1:3000", "127.0.0.1", 3000, false},
                {"http://localhost", "localhost", "localhost", 80, false},
                {"http://[::1]:81/x", "[::1]:81", "::1", 81, false},
                {"http://[::1]", "[::1]", "::1", 80, false},
                {"https://a.test", "a.test", "a.test", 443, true},
                {"https://a.test:8443/", "a.test:8443", "a.test", 8443, true},
        };
        static const char *const bad[] = {
                "ftp://a:1",  "http://", "http://:80", "http://a:", "http://a:123456", "http://a:65536", "http://a:0",
                "http://a:x", "a:1",     "https://:1", ""};
        struct err e = {0};

        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                AUTO(http_origin_done) struct http_origin o = {0};

                CHECK_INT(http_origin_parse(good[i].url, &o, &e), ==, 0);
                CHECK_STR(o.host, good[i].host);
                CHECK_STR(o.name, good[i].name);
                CHECK_INT(o.port, ==, good[i].port);
                CHECK_INT(o.is_tls, ==, good[i].is_tls);
        }
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct http_origin o;

                CHECK_INT(http_origin_parse(bad[i], &o, &e), <, 0);
                CHECK_INT(e.kind, ==, ERR_INVALID);
        }
}

static void a_request_is_sent_and_its_answer_told(void)
{
        AUTO_RIG struct rig r = {.server = -1};

        CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
        CHECK_INT(start_get(&r), ==, 0);
        CHECK_STR(heard(&r), ASKED);
        CHECK(!http_call_head(told.call));
        say(&r, HI);
        CHECK_INT(told.ends, ==, 1);
        CHECK_INT(told.why.kind, ==, ERR_NONE);
        CHECK_INT(http_call_head(told.call)->status, ==, 200);
        CHECK_STR(body(), "hi");
}

static void headers_and_a_body_are_sent(void)
{
        AUTO_RIG struct rig r = {.server = -1};
        const struct http_header headers[] = {{"X-A", "1"}, {NULL, NULL}};
        struct http_call_options opt = get_options();

        CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
        opt.method = "POST";
        opt.headers = headers;
        opt.content_type = "text/plain";
        opt.body = STR("abc");
        CHECK_INT(start(&r, &opt), ==, 0);
        CHECK_STR(heard(&r), "POST /a?b=c HTTP/1.1\r\nHost: box.test:81\r\nUser-Agent: sandglass\r\nX-A: 1\r\n"
                             "Content-Type: text/plain\r\nContent-Length: 3\r\n\r\nabc");
}

static void what_breaks_a_head_is_refused(void)
{
        AUTO_RIG struct rig r = {.server = -1};
        const struct http_header split[] = {{"X-A", "1\r\nX-B: 2"}, {NULL, NULL}};
        struct http_call_options opt = get_options();
        struct err e = {0};

        CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
        opt.target = "/a b";
        CHECK_INT(http_call_start(r.client, &opt, &told.call, &e), <, 0);
        CHECK_INT(e.kind, ==, ERR_INVALID);
        opt = get_options();
        opt.headers = split;
        CHECK_INT(http_call_start(r.client, &opt, &told.call, &e), <, 0);
        CHECK_INT(e.kind, ==, ERR_INVALID);
        turns(2);
        CHECK_STR(heard(&r), "");
}

static void an_answer_may_come_byte_by_byte(void)
{
        static const char *const answers[] = {
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nT: 1\r\n\r\n",
                ("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
                 "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        };

        for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
                AUTO_RIG struct rig r = {.server = -1};

                CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
                CHECK_INT(start_get(&r), ==, 0);
                (void)heard(&r);
                for (const char *p = answers[i]; *p; p++) {
                        CHECK_INT(told.ends, ==, 0);
                        say_n(&r, p, 1);
                }
                CHECK_INT(told.ends, ==, 1);
                CHECK_INT(told.why.kind, ==, ERR_NONE);
                CHECK_INT(told.heads, ==, 1);
                CHECK_STR(body(), "hello");
        }
}

static void an_answer_without_length_ends_with_the_connection(void)
{
        AUTO_RIG struct rig r = {.server = -1};

        CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
        CHECK_INT(start_get(&r), ==, 0);
        (void)heard(&r); /* else the end is a reset */
        say(&r, "HTTP/1.1 200 OK\r\n\r\nto the ");
        say(&r, "end");
        CHECK_INT(told.ends, ==, 0);
        hang_up(&r);
        CHECK_INT(told.ends, ==, 1);
        CHECK_INT(told.why.kind, ==, ERR_NONE);
        CHECK_STR(body(), "to the end");
}

static void some_answers_have_no_body(void)
{
        AUTO_RIG struct rig r = {.server = -1};
        struct http_call_options opt = get_options();

        CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
        opt.method = "HEAD";
        CHECK_INT(start(&r, &opt), ==, 0);
        say(&r, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
        CHECK_INT(told.ends, ==, 1);
        CHECK_INT(told.why.kind, ==, ERR_NONE);
        CHECK_INT(told.pieces, ==, 0);
        told.call = http_call_free(told.call);
        CHECK_INT(start_get(&r), ==, 0);
        say(&r, "HTTP/1.1 204 No Content\r\n\r\n");
        CHECK_INT(told.ends, ==, 2);
        CHECK_INT(told.why.kind, ==, ERR_NONE);
}

static void a_slow_reader_stops_the_server(void)
{
        static char flood[1 << 20];
        AUTO_RIG struct rig r = {.server = -1};
        size_t sent = 0;
        ssize_t n = 0;

        memset(flood, 'f', sizeof(flood));
        CHECK_INT(rig_open(&r, (struct http_timeouts){.idle_ms = 20}), ==, 0);
        told.take_most = 10;
        CHECK_INT(start_get(&r), ==, 0);
        say(&r, "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n");
        for (int i = 0; i < 100; i++) { /* until the socket is full, and stays so */
                n = write(r.server, flood, sizeof(flood) - sent);
                sent += n > 0 ? (size_t)n : 0;
                turns(2);
        }
        CHECK_INT(n, ==, -1);
        CHECK_INT(sent, <, sizeof(flood));
        CHECK_INT(told.pieces, ==, 1);
        CHECK_INT(told.body_len, ==, 10);
        CHECK_INT(told.ends, ==, 0); /* and the time that the reader takes is not the server's */

        told.take_most = 0;
        for (int i = 0; i < 100000 && !told.ends; i++) {
                n = write(r.server, flood, sizeof(flood) - sent);
                sent += n > 0 ? (size_t)n : 0;
                http_call_resume(told.call);
                turns(1);
        }
        CHECK_INT(told.ends, ==, 1);
        CHECK_INT(told.why.kind, ==, ERR_NONE);
        CHECK_INT(told.body_len, ==, sizeof(flood));
}

static void a_paused_answer_survives_the_end_of_the_connection(void)
{
        AUTO_RIG struct rig r = {.server = -1};

        CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
        told.take_most = 1;
        CHECK_INT(start_get(&r), ==, 0);
        say(&r, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
        say(&r, "lo");
        hang_up(&r);
        CHECK_INT(told.pieces, ==, 1);
        for (int i = 0; i < 10; i++) {
                http_call_resume(told.call);
                turns(2);
        }
        CHECK_INT(told.why.kind, ==, ERR_NONE);
        CHECK_INT(told.ends, ==, 1);
        CHECK_STR(body(), "hello");
}

static void a_streamed_request_goes_out_as_it_comes(void)
{
        for (int has_length = 0; has_length < 2; has_length++) {
                AUTO_RIG struct rig r = {.server = -1};
                struct http_call_options opt = get_options();

                CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
                opt.method = "PUT";
                opt.on_send = on_send;
                opt.send_bytes = has_length ? 8 : -1;
                told.to_send = "abcdefgh";
                told.send_most = 3;
                told.sends_slowly = true;
                CHECK_INT(start(&r, &opt), ==, 0);
                CHECK_INT(told.sent, ==, 0);
                for (int i = 0; i < 4; i++) {
                        http_call_resume(told.call);
                        turns(2);
                }
                CHECK_INT(told.sent, ==, 8);
                CHECK_STR(strstr(heard(&r), "\r\n\r\n") + 4,
                          has_length ? "abcdefgh" : "3\r\nabc\r\n3\r\ndef\r\n2\r\ngh\r\n0\r\n\r\n");
                say(&r, HI);
                CHECK_INT(told.ends, ==, 1);
                CHECK_INT(told.why.kind, ==, ERR_NONE);
        }
}

static void a_slow_server_stops_the_sender(void)
{
        static char flood[8 << 20];
        AUTO_RIG struct rig r = {.server = -1};
        struct http_call_options opt = get_options();
        size_t before;

        memset(flood, 'f', sizeof(flood) - 1);
        CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
        opt.method = "PUT";
        opt.on_send = on_send;
        told.to_send = flood;
        CHECK_INT(start(&r, &opt), ==, 0);
        turns(10);
        before = told.sent;
        CHECK_INT(before, <, sizeof(flood) / 2);
        turns(10);
        CHECK_INT(told.sent, ==, before);
        for (int i = 0; i < 10000 && told.sent < sizeof(flood) - 1; i++)
                (void)heard(&r);
        CHECK_INT(told.sent, ==, sizeof(flood) - 1);
}

static void an_early_answer_ends_the_request(void)
{
        static char flood[8 << 20];
        AUTO_RIG struct rig r = {.server = -1};
        struct http_call_options opt = get_options();

        memset(flood, 'f', sizeof(flood) - 1);
        CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
        opt.method = "PUT";
        opt.on_send = on_send;
        told.to_send = flood;
        CHECK_INT(start(&r, &opt), ==, 0);
        say(&r, "HTTP/1.1 507 Full\r\nContent-Length: 4\r\n\r\nfull");
        CHECK_INT(told.ends, ==, 1);
        CHECK_INT(told.why.kind, ==, ERR_NONE);
        CHECK_INT(http_call_head(told.call)->status, ==, 507);
        CHECK_STR(body(), "full");
        CHECK(strstr(heard(&r), "<EOF>")); /* what is half sent cannot be used again */
}

static void a_server_that_stops_reading_may_still_answer(void)
{
        static char flood[8 << 20];
        AUTO_RIG struct rig r = {.server = -1};
        struct http_call_options opt = get_options();

        memset(flood, 'f', sizeof(flood) - 1);
        CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
        opt.method = "PUT";
        opt.on_send = on_send;
        told.to_send = flood;
        CHECK_INT(start(&r, &opt), ==, 0);
        CHECK_INT(shutdown(r.server, SHUT_RD), ==, 0);
        turns(3);
        CHECK_INT(told.ends, ==, 0);
        say(&r, "HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno");
        CHECK_INT(told.ends, ==, 1);
        CHECK_INT(told.why.kind, ==, ERR_NONE);
        CHECK_INT(http_call_head(told.call)->status, ==, 413);
}

static void a_call_may_be_freed_in_its_callbacks(void)
{
        for (int way = 0; way < 3; way++) {
                AUTO_RIG struct rig r = {.server = -1};
                struct http_call_options opt = get_options();

                CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
                told.frees_in_send = way == 0;
                told.frees_in_head = way == 1;
                told.frees_in_data = way == 2;
                opt.on_send = way == 0 ? on_send : NULL;
                told.to_send = "x";
                CHECK_INT(start(&r, &opt), ==, 0);
                if (way > 0)
                        say(&r, HI);
                CHECK(!told.call);
                CHECK_INT(told.ends, ==, 0);
                CHECK(strstr(heard(&r), "<EOF>"));
        }
}

/* ---- connections ---- */

static void a_given_connection_serves_one_call_after_the_other(void)
{
        AUTO_RIG struct rig r = {.server = -1};
        const struct http_call_options opt = get_options();
        struct http_call *second = NULL;
        struct err e = {0};

        CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
        CHECK_INT(start_get(&r), ==, 0);
        CHECK_INT(http_call_start(r.client, &opt, &second, &e), <, 0);
        CHECK_INT(e.kind, ==, ERR_UNAVAILABLE);
        say(&r, HI);
        told.call = http_call_free(told.call);
        CHECK_INT(start_get(&r), ==, 0);
        CHECK_STR(heard(&r), ASKED ASKED);
        say(&r, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        CHECK_INT(told.ends, ==, 2);
        told.call = http_call_free(told.call);
        CHECK_INT(http_call_start(r.client, &opt, &second, &e), <, 0);
        CHECK_INT(e.kind, ==, ERR_UNAVAILABLE);
}

/* What is given may be connecting still: to somebody, or to nobody. */
static void a_given_connection_may_be_under_way(void)
{
        AUTO_CLOSE int listener = -1;
        uint16_t port = 0;

        CHECK_INT(listen_tcp(STR("127.0.0.1:0"), false, &listener, NULL), ==, 0);
        CHECK_INT(socket_port(listener, &port), ==, 0);
        for (int is_refused = 0; is_refused < 2; is_refused++) {
                const struct sockaddr_in to = {
                        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
                AUTO_RIG struct rig r = {.server = -1};
                int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

                CHECK_INT(rig_open(&r, (struct http_timeouts){0}), ==, 0);
                if (is_refused)
                        close_fd(&listener);
                (void)!connect(fd, (const struct sockaddr *)(const void *)&to, sizeof(to));
                CHECK_INT(http_client_give(r.client, fd, NULL), ==, 0);
                CHECK_INT(start_get(&r), ==, 0);
                if (is_refused) {
                        CHECK_INT(told.ends, ==, 1);
                        CHECK_INT(told.why.kind, ==, ERR_UNAVAILABLE);
                        continue;
                }
                close_fd(&r.server);
                r.server = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                CHECK_STR(heard(&r), ASKED);
                say(&r, HI);
                CHECK_INT(told.ends, ==, 1);
                CHECK_INT(told.why.kind, ==, ERR_NONE);
        }
}

struct tcp_rig {
        struct rig r;
        int listener;
        char url[64];
};
static char socket_path[64];

static void tcp_rig_done(struct tcp_rig *t)
{
        (void)unlink(socket_path);
        rig_done(&t->r);
        close_fd(&t->listener);
}
static int tcp_rig_open(struct tcp_rig *t, bool is_unix)
{
        struct http_client_options opt = {.loop = loop, .url = t->url, .unix_path = is_unix ? socket_path : NULL};
        uint16_t port = 0;

        (void)snprintf(socket_path, sizeof(socket_path), "/tmp/http-client-%d.sock", getpid());
        memset(&told, 0, sizeof(told));
        if (is_unix ? listen_unix(socket_path, 0600, &t->listener, NULL) < 0
                    : listen_tcp(STR("127.0.0.1:0"), false, &t->listener, NULL) < 0 ||
                              socket_port(t->listener, &port) < 0)
                return -1;
        (void)snprintf(t->url, sizeof(t->url), "http://127.0.0.1:%u", is_unix ? 80 : port);
        return http_client_create(&opt, &t->r.client, NULL);
}
static int tcp_rig_accept(struct tcp_rig *t)
{
        close_fd(&t->r.server);
        for (int i = 0; i < 100 && t->r.server < 0; i++) {
                t->r.server = accept4(t->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                turns(1);
        }
        turns(2);
        return t->r.server;
}
#define AUTO_TCP_RIG AUTO(tcp_rig_done)

static void connections_are_made_and_kept(void)
{
        for (int is_unix = 0; is_unix < 2; is_unix++) {
                AUTO_TCP_RIG struct tcp_rig t = {.r.server = -1, .listener = -1};
                struct http_call_options post = get_options();

                CHECK_INT(tcp_rig_open(&t, is_unix), ==, 0);
                CHECK_INT(start_get(&t.r), ==, 0);
                CHECK_INT(tcp_rig_accept(&t), >=, 0);
                CHECK(strstr(heard(&t.r), "GET /a?b=c"));
                say(&t.r, HI);
                told.call = http_call_free(told.call);
                CHECK_INT(start_get(&t.r), ==, 0);
                CHECK(strstr(heard(&t.r), "GET /a?b=c")); /* over the same one */
                say(&t.r, HI);
                CHECK_INT(told.ends, ==, 2);
                told.call = http_call_free(told.call);
                post.method = "POST"; /* must not be sent twice: it begins on a new one */
                CHECK_INT(start(&t.r, &post), ==, 0);
                CHECK_INT(tcp_rig_accept(&t), >=, 0);
                CHECK(strstr(heard(&t.r), "POST /a?b=c"));
        }
}

static void a_kept_connection_that_was_closed_is_replaced(void)
{
        for (int after_request = 0; after_request < 2; after_request++) {
                AUTO_TCP_RIG struct tcp_rig t = {.r.server = -1, .listener = -1};

                CHECK_INT(tcp_rig_open(&t, false), ==, 0);
                CHECK_INT(start_get(&t.r), ==, 0);
                CHECK_INT(tcp_rig_accept(&t), >=, 0);
                (void)heard(&t.r);
                say(&t.r, HI);
                told.call = http_call_free(told.call);
                if (!after_request)
                        close_fd(&t.r.server); /* unnoticed: the loop does not run */
                CHECK_INT(start_get(&t.r), ==, 0);
                if (after_request)
                        hang_up(&t.r);
                CHECK_INT(tcp_rig_accept(&t), >=, 0);
                CHECK(strstr(heard(&t.r), "GET /a?b=c"));
                say(&t.r, HI);
                CHECK_INT(told.ends, ==, 2);
                CHECK_INT(told.why.kind, ==, ERR_NONE);
        }
}

/* ---- blocking ---- */

/* Answers each request with what it is told to, from a thread: the call blocks. */
struct answerer {
        int fd;
        const char *answer;
        pthread_t thread;
};
static void *answer_requests(void *arg)
{
        const struct answerer *a = arg;
        char request[4096];

        while (read(a->fd, request, sizeof(request)) > 0)
                if (write(a->fd, a->answer, strlen(a->answer)) < 0)
                        break;
        return NULL;
}
static void answerer_done(struct answerer *a)
{
        if (a->fd < 0)
                return;
        (void)shutdown(a->fd, SHUT_RDWR);
        (void)pthread_join(a->thread, NULL);
        close_fd(&a->fd);
}

static void a_blocking_call_returns_the_answer(void)
{
        AUTO(http_answer_done) struct http_answer a = {0};
        AUTO_RIG struct rig r = {.server = -1};
        AUTO(answerer_done)
        struct answerer server = {.fd = -1, .answer = "HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 2\r\n\r\nhi"};
        const struct http_client_options opt = {.url = "http://box.test", .uses_given_connection = true};
        const struct http_call_options call = {.method = "GET", .target = "/"};
        struct err e = {0};
        int p[2];

        CHECK_INT(http_client_create(&opt, &r.client, &e), ==, 0);
        CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), ==, 0);
        server.fd = p[1];
        CHECK_INT(pthread_create(&server.thread, NULL, answer_requests, &server), ==, 0);
        CHECK_INT(http_client_give(r.client, p[0], &e), ==, 0);
        for (int i = 0; i < 3; i++) {
                CHECK_INT(http_client_run(r.client, &call, i == 2 ? 1 : 2, &a, &e), ==, i == 2 ? -EFBIG : 0);
                CHECK_INT(a.head.status, ==, 200); /* what failed left the last answer alone */
                CHECK(str_is(http1_value(&a.head, "X-A"), "b"));
                CHECK(a.body.len == 2 && memcmp(buf_at(&a.body), "hi", 2) == 0);
        }
        CHECK_INT(e.kind, ==, ERR_TOO_LARGE);
        CHECK_INT(http_client_run(r.client, &call, 2, &a, &e), <,
                  0); /* its connection was in the middle of an answer */
        CHECK_INT(e.kind, ==, ERR_UNAVAILABLE);
}

static void a_blocking_call_can_be_cancelled(void)
{
        AUTO(http_answer_done) struct http_answer a = {0};
        AUTO_RIG struct rig r = {.server = -1};
        const struct http_client_options opt = {.url = "http://box.test", .uses_given_connection = true};
        const struct http_call_options call = {.method = "GET", .target = "/"};
        struct err e = {0};
        int p[2];

        CHECK_INT(pipe2(p, O_CLOEXEC), ==, 0);
        CHECK_INT(http_client_create(&opt, &r.client, &e), ==, 0);
        CHECK_INT(rig_give(&r), ==, 0);
        http_client_cancel_on(r.client, p[0]);
        close(p[1]);
        CHECK_INT(http_client_run(r.client, &call, 10, &a, &e), ==, -EINTR);
        CHECK_INT(e.sys, ==, EINTR);
        close(p[0]);
}

int main(void)
{
        if (loop_create(&loop) < 0)
                return 1;
        RUN(a_url_names_a_server);
        RUN(a_request_is_sent_and_its_answer_told);
        RUN(headers_and_a_body_are_sent);
        RUN(what_breaks_a_head_is_refused);
        RUN(an_answer_may_come_byte_by_byte);
        RUN(an_answer_without_length_ends_with_the_connection);
        RUN(some_answers_have_no_body);
        RUN(a_slow_reader_stops_the_server);
        RUN(a_paused_answer_survives_the_end_of_the_connection);
        RUN(a_streamed_request_goes_out_as_it_comes);
        RUN(a_slow_server_stops_the_sender);
        RUN(an_early_answer_ends_the_request);
        RUN(a_server_that_stops_reading_may_still_answer);
        RUN(a_call_may_be_freed_in_its_callbacks);
        RUN(a_given_connection_serves_one_call_after_the_other);
        RUN(a_given_connection_may_be_under_way);
        RUN(connections_are_made_and_kept);
        RUN(a_kept_connection_that_was_closed_is_replaced);
        RUN(a_blocking_call_returns_the_answer);
        RUN(a_blocking_call_can_be_cancelled);
        loop = loop_free(loop);
        return tap_done();
}
