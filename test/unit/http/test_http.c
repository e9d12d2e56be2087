/* The HTTP server: what requests and answers look like, and which are refused. */
#include "http_rig.h"

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

int main(void)
{
        if (rig_start() < 0)
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
        rig_stop();
        return tap_done();
}
