/* Clients and upstreams that do not play by the rules, or play slowly. */
#include "harness.h"

#include <poll.h>
#include <sys/param.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/str.h"
#include "tap.h"

#define CLOSED_3000                                                                                                    \
        "{\"sandboxId\":\"" BOX_A "\",\"message\":\"The sandbox is running but port is not open\",\"port\":3000,"      \
        "\"code\":502}"

static char large[1 << 20];

static void refuses_what_could_be_read_in_two_ways(void)
{
        static const struct {
                const char *text;
                int status;
        } cases[] = {
                {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", 400},
                {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: "
                 "chunked\r\n\r\n0\r\n\r\n",
                 400},
                {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n",
                 501},
                {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n", 501},
                {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding : chunked\r\n\r\n", 400},
                {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: +1\r\n\r\nx", 400},
                {"GET / HTTP/1.1\nHost: localhost\n\n", 400},
                {"GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n", 400},
                {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
                {"GET / HTTP/1.1\r\n\r\n", 400},
                {"GET http://127.0.0.1/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
                {"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
                {"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", 505},
                {"PRI * HTTP/2.1\r\n\r\nSM\r\n\r\n", 505},
                {"\x16\x03\x01\x02", 400},
        };
        WORLD;
        char head[4096];
        const char *body;

        START;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_CLOSE int c = dial_client(&w);
                int status;

                CHECK_INT(say(c, cases[i].text), ==, 0);
                status = hear_answer(c, head, sizeof(head), &body);
                if (status != cases[i].status)
                        printf("# case %zu\n", i);
                CHECK_INT(status, ==, cases[i].status);
                CHECK(strstr(head, "Connection: close"));
                CHECK(strstr(body, "\"code\":"));
                CHECK_INT(hear_end(c), ==, END_CLEAN);
        }
        CHECK(is_silent(w.api, 20)); /* none of it went anywhere */
}

static void http2_begins_with_the_connection_or_not_at_all(void)
{
        static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
        WORLD;
        char head[4096];
        const char *body;

        START;
        for (int is_pipelined = 0; is_pipelined < 2; is_pipelined++) {
                AUTO_CLOSE int c = dial_client(&w);

                CHECK_INT(say(c, REQUEST("GET", "/init", HOST_A("49983"), "")), ==, 0);
                if (!is_pipelined)
                        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 404);
                CHECK_INT(say_bytes(c, preface, sizeof(preface) - 1), ==, 0);
                if (is_pipelined)
                        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 404);
                CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 505);
                CHECK_INT(hear_end(c), ==, END_CLEAN);
        }
}

static void a_broken_body_never_smuggles_a_request(void)
{
        static const char *const bodies[] = {"5\r\nabc\r\n0\r\n\r\nGET /evil", "zz\r\n", "3\r\nabcGET /evil",
                                             "-1\r\n\r\n", "3\nabc\n"};
        WORLD;
        char head[4096];
        const char *body;

        START;
        for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
                AUTO_CLOSE int c = dial_client(&w), up = -1;

                CHECK_INT(say(c, REQUEST("POST", "/", HOST_A("3000"), "Transfer-Encoding: chunked\r\n")), ==, 0);
                up = i ? give_socket(&w, BOX_A, 3000) : give_both(&w, BOX_A, 3000);
                CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
                CHECK_INT(say(c, bodies[i]), ==, 0);
                CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 400);
                CHECK_INT(hear_end(c), ==, END_CLEAN);
                CHECK_INT(hear_end(up), !=, END_NONE);
        }
}

static void refuses_heads_without_end(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, many = -1, target = -1;
        char head[4096];
        const char *body;

        START;
        memset(large, 'a', sizeof(large));
        c = dial_client(&w);
        CHECK_INT(say(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX: "), ==, 0);
        CHECK_INT(say_bytes(c, large, 40 << 10), ==, 0);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 431);
        many = dial_client(&w);
        CHECK_INT(say(many, "GET / HTTP/1.1\r\nHost: localhost\r\n"), ==, 0);
        for (int i = 0; i < 110; i++)
                CHECK_INT(say(many, "A: b\r\n"), ==, 0);
        CHECK_INT(say(many, "\r\n"), ==, 0);
        CHECK_INT(hear_answer(many, head, sizeof(head), &body), ==, 431);
        target = dial_client(&w);
        CHECK_INT(say(target, "GET /"), ==, 0);
        CHECK_INT(say_bytes(target, large, 40 << 10), ==, 0);
        CHECK_INT(hear_answer(target, head, sizeof(head), &body), ==, 414);
}

static void a_slow_head_times_out(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, silent = -1, second = -1, api = -1;
        char head[4096];
        const char *body;

        w.limits.head_timeout_ms = SHORT_MS;
        START;
        c = dial_client(&w);
        silent = dial_client(&w);
        CHECK_INT(say(c, "GET / HTTP/1.1\r\nHo"), ==, 0);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 408);
        CHECK_INT(hear_end(c), ==, END_CLEAN);
        CHECK_INT(hear_end(silent), ==, END_CLEAN); /* nothing was begun, so nothing is said */
        /* After a request the limit holds again. */
        second = dial_client(&w);
        CHECK_INT(say(second, REQUEST("GET", "/", "localhost", "")), ==, 0);
        api = accept_api(&w);
        CHECK_INT(hear_head(api, head, sizeof(head)), >, 0);
        CHECK(is_silent(second, 2 * SHORT_MS)); /* an answer may take its time */
        CHECK_INT(say(api, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(second, head, sizeof(head), &body), ==, 200);
        CHECK_INT(say(second, "GET / HT"), ==, 0);
        CHECK_INT(hear_answer(second, head, sizeof(head), &body), ==, 408);
}

static void an_idle_connection_is_closed(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, api = -1;
        char head[4096];
        const char *body;

        w.limits.idle_timeout_ms = 60;
        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", "localhost", "")), ==, 0);
        api = accept_api(&w);
        CHECK_INT(hear_head(api, head, sizeof(head)), >, 0);
        CHECK_INT(say(api, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 200);
        CHECK_INT(hear_end(c), ==, END_CLEAN);
}

static void garbage_from_upstream_is_a_closed_port(void)
{
        static const char *const garbage[] = {
                "SSH-2.0-OpenSSH_9\r\n",
                "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
                "HTTP/1.1 2x0 OK\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", /* nobody asked */
                "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
                "HTTP/3.0 200 OK\r\n\r\n",
                "HTTP/1.1 099 Low\r\n\r\n",
        };
        WORLD;
        char head[4096];
        const char *body;

        START;
        for (size_t i = 0; i < ARRAY_LEN(garbage); i++) {
                AUTO_CLOSE int c = dial_client(&w), up = -1;
                int status;

                CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
                up = i ? give_socket(&w, BOX_A, 3000) : give_both(&w, BOX_A, 3000);
                CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
                CHECK_INT(say(up, garbage[i]), ==, 0);
                status = hear_answer(c, head, sizeof(head), &body);
                if (status != 502)
                        printf("# case %zu\n", i);
                CHECK_INT(status, ==, 502);
                CHECK_STR(body, CLOSED_3000);
                CHECK_INT(hear_end(up), !=, END_NONE);
        }
}

static void endless_answer_heads_are_cut(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\n"), ==, 0);
        for (int i = 0; i < 3000 && say(up, "X-Header: with some value\r\n") == 0; i++)
                ;
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 502);
        CHECK_INT(hear_end(up), !=, END_NONE);
}

static void floods_of_interim_answers_are_cut(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];
        int hints = 0;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        for (int i = 0; i < 1000 && say(up, "HTTP/1.1 103 Early Hints\r\n\r\n") == 0; i++)
                ;
        while (hear_head(c, head, sizeof(head)) > 0 && strncmp(head, "HTTP/1.1 103", 12) == 0)
                hints++;
        CHECK_INT(hints, ==, 16);
        CHECK(strncmp(head, "HTTP/1.1 502", 12) == 0);
}

static void lies_about_the_length_stay_with_their_request(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1, next = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("49983"), "")), ==, 0);
        up = give_both(&w, BOX_A, 49983);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef"), ==, 0);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 200);
        CHECK_STR(body, "abc");
        CHECK_INT(say(c, REQUEST("GET", "/2", HOST_A("49983"), "")), ==, 0);
        next = give_socket(&w, BOX_A, 49983); /* the liar is not used again */
        CHECK(hears(next, "GET /2 "));
}

static void bad_chunks_abort_the_answer(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"), ==, 0);
        CHECK_INT(hear_head(c, head, sizeof(head)), >, 0);
        CHECK(hears(c, "3\r\nabc\r\n"));
        CHECK_INT(say(up, "nonsense\r\n"), ==, 0);
        CHECK_INT(hear_end(c), ==, END_RESET);
}

static void bad_chunks_right_behind_the_head_are_a_closed_port(void)
{
        static const char *const bodies[] = {"nonsense\r\n", "3\r\nabc\r\nnonsense\r\n", "3\r\nabcd\r\n",
                                             "ffffffffffffffffff\r\n"};
        WORLD;
        AUTO_CLOSE int c = -1;
        char head[4096], answer[200];
        const char *body;

        START;
        c = dial_client(&w); /* which goes on after each of them */
        for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
                AUTO_CLOSE int up = -1;

                CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
                up = i ? give_socket(&w, BOX_A, 3000) : give_both(&w, BOX_A, 3000);
                CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
                (void)snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s",
                               bodies[i]);
                CHECK_INT(say(up, answer), ==, 0);
                CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 502);
                CHECK_STR(body, CLOSED_3000);
                CHECK_INT(hear_end(up), !=, END_NONE);
        }
}

/* Say zeros until it would block for `ms`; how much went. */
static size_t say_until_full(int fd, size_t most)
{
        size_t n = 0;

        while (n < most) {
                ssize_t w = send(fd, large, sizeof(large), MSG_DONTWAIT | MSG_NOSIGNAL);

                if (w > 0)
                        n += (size_t)w;
                else if (is_silent(fd, 100) && send(fd, large, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
                        break;
                else
                        n++;
        }
        return n;
}

static bool hear_zeros(int fd, size_t n)
{
        while (n) {
                ssize_t r = hear_bytes(fd, large, n < sizeof(large) ? n : sizeof(large));

                if (r <= 0)
                        return false;
                n -= (size_t)r;
        }
        return true;
}

static void a_slow_reader_stops_the_writer(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        const size_t total = 64u << 20;
        char head[4096];
        size_t said;
        long before, after;

        START;
        memset(large, 0, sizeof(large));
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n"), ==, 0);
        CHECK_INT(hear_head(c, head, sizeof(head)), >, 0);
        before = world_rss_kb(&w);
        said = say_until_full(up, total);
        after = world_rss_kb(&w);
        CHECK_INT(said, <, total); /* sockets hold some megabytes, the edge nearly nothing */
        CHECK_INT(after - before, <, 512);
        CHECK(hear_zeros(c, said));
        /* And it goes on. */
        CHECK_INT(say_bytes(up, large, 1000), ==, 0);
        CHECK(hear_zeros(c, 1000));
}

static void a_slow_upstream_stops_the_client(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        const size_t total = 64u << 20;
        char head[4096];
        size_t said;
        long before, after;

        START;
        memset(large, 0, sizeof(large));
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("POST", "/", HOST_A("3000"), "Content-Length: 67108864\r\n")), ==, 0);
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        before = world_rss_kb(&w);
        said = say_until_full(c, total);
        after = world_rss_kb(&w);
        CHECK_INT(said, <, total);
        CHECK_INT(after - before, <, 512);
        CHECK(hear_zeros(up, said));
        CHECK_INT(say_bytes(c, large, 1000), ==, 0);
        CHECK(hear_zeros(up, 1000));
}

static void an_answer_survives_its_server_s_hang_up(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, api = -1;
        const size_t total = 3u << 20;
        size_t said = 0, heard = 0;
        char head[4096];

        START;
        memset(large, 0, sizeof(large));
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/big", "localhost", "")), ==, 0);
        api = accept_api(&w);
        CHECK_INT(hear_head(api, head, sizeof(head)), >, 0);
        CHECK_INT(say(api, "HTTP/1.1 200 OK\r\nContent-Length: 3145728\r\n\r\n"), ==, 0);
        CHECK_INT(hear_head(c, head, sizeof(head)), >, 0);
        while (said < total) {
                struct pollfd p = {.fd = api, .events = POLLOUT};
                ssize_t n = poll(&p, 1, 200) == 1
                                    ? send(api, large, MIN(sizeof(large), total - said), MSG_DONTWAIT | MSG_NOSIGNAL)
                                    : 0;

                said += n > 0 ? (size_t)n : 0;
                if (n <= 0) { /* the sockets of this machine hold less: make room for a little more */
                        CHECK(hear_zeros(c, sizeof(large)));
                        heard += sizeof(large);
                }
        }
        close_fd(&api); /* some of it still waits in the socket */
        CHECK(hear_zeros(c, total - heard));
}

static void a_flood_of_small_chunks_passes(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), ==, 0);
        CHECK_INT(hear_head(c, head, sizeof(head)), >, 0);
        for (int i = 0; i < 60; i++) {
                for (size_t at = 0; at < 60000; at += 6)
                        memcpy(large + at, "1\r\nX\r\n", 6);
                CHECK_INT(say_bytes(up, large, 60000), ==, 0);
                CHECK_INT(hear_bytes(c, large + 100000, 60000), ==, 60000);
                CHECK(memcmp(large, large + 100000, 60000) == 0);
        }
        CHECK_INT(say(up, "0\r\n\r\n"), ==, 0);
        CHECK(hears(c, "0\r\n\r\n"));
}

static void more_clients_than_allowed_are_refused(void)
{
        WORLD;
        AUTO_CLOSE int one = -1, two = -1, three = -1, four = -1;
        char head[4096];
        const char *body;

        w.limits.clients_max = 2;
        START;
        one = dial_client(&w);
        two = dial_client(&w);
        CHECK_INT(say(one, "G"), ==, 0);
        CHECK_INT(say(two, "G"), ==, 0);
        three = dial_client(&w);
        CHECK_INT(hear_answer(three, head, sizeof(head), &body), ==, 503);
        CHECK_STR(body, "{\"code\":503,\"message\":\"too many connections\"}");
        close_fd(&one);
        CHECK_INT(hear_end(three), !=, END_NONE);
        CHECK_INT(say(two, "x x\r\n"), ==, 0); /* a bad request line: by its answer the edge has seen the rest too */
        CHECK_INT(hear_answer(two, head, sizeof(head), &body), ==, 400);
        four = dial_client(&w);
        CHECK_INT(say(four, "bad\r\n\r\n"), ==, 0);
        CHECK_INT(hear_answer(four, head, sizeof(head), &body), ==, 400);
}

int main(void)
{
        RUN(refuses_what_could_be_read_in_two_ways);
        RUN(http2_begins_with_the_connection_or_not_at_all);
        RUN(a_broken_body_never_smuggles_a_request);
        RUN(refuses_heads_without_end);
        RUN(a_slow_head_times_out);
        RUN(an_idle_connection_is_closed);
        RUN(garbage_from_upstream_is_a_closed_port);
        RUN(endless_answer_heads_are_cut);
        RUN(floods_of_interim_answers_are_cut);
        RUN(lies_about_the_length_stay_with_their_request);
        RUN(bad_chunks_abort_the_answer);
        RUN(bad_chunks_right_behind_the_head_are_a_closed_port);
        RUN(a_slow_reader_stops_the_writer);
        RUN(a_slow_upstream_stops_the_client);
        RUN(an_answer_survives_its_server_s_hang_up);
        RUN(a_flood_of_small_chunks_passes);
        RUN(more_clients_than_allowed_are_refused);
        return tap_done();
}
