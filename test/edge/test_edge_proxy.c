/* The edge forwarding ordinary traffic. */
#include "harness.h"

#include <sys/socket.h>

#include "base/auto.h"
#include "tap.h"

static void forwards_api_requests_and_reuses_the_connection(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, api = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        for (int i = 0; i < 3; i++) {
                CHECK_INT(say(c, REQUEST("GET", "/sandboxes?x=1", "localhost:3000", "X-API-Key: k\r\n")), ==, 0);
                if (i == 0)
                        api = accept_api(&w);
                CHECK(hears(api, REQUEST("GET", "/sandboxes?x=1", "localhost:3000", "X-API-Key: k\r\n")));
                CHECK_INT(say(api, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\n[]"), ==, 0);
                CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 200);
                CHECK_STR(body, "[]");
                CHECK_STR(head, "HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 2\r\n\r");
        }
}

static void forwards_to_a_sandbox_by_host(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/health", HOST_A("49983"), "")), ==, 0);
        up = give_both(&w, BOX_A, 49983);
        CHECK(up >= 0);
        CHECK(hears(up, REQUEST("GET", "/health", HOST_A("49983"), "")));
        CHECK_INT(say(up, "HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n"), ==, 0);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 204);
        CHECK_STR(head, "HTTP/1.1 204 No Content\r\nServer: x\r\n\r");
        /* Again: nobody is asked anything, on the same connection. */
        CHECK_INT(say(c, REQUEST("GET", "/health", HOST_A("49983"), "")), ==, 0);
        CHECK(hears(up, REQUEST("GET", "/health", HOST_A("49983"), "")));
        CHECK_INT(say(up, "HTTP/1.1 204 No Content\r\n\r\n"), ==, 0);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 204);
}

static void forwards_by_headers_on_localhost(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", "localhost", "E2b-Sandbox-Id: " BOX_A "\r\nE2b-Sandbox-Port: 8080\r\n")),
                  ==, 0);
        up = give_both(&w, BOX_A, 8080);
        CHECK(hears(up, "GET / HTTP/1.1\r\n"));
}

static void never_reuses_across_sandboxes_or_ports(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, one = -1, two = -1, three = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/1", HOST_A("49983"), "")), ==, 0);
        one = give_both(&w, BOX_A, 49983);
        CHECK(hears(one, "GET /1 "));
        CHECK_INT(say(one, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 200);
        CHECK_INT(say(c, REQUEST("GET", "/2", HOST_B("49983"), "")), ==, 0);
        two = give_both(&w, BOX_B, 49983);
        CHECK(hears(two, "GET /2 "));
        CHECK_INT(say(two, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 200);
        CHECK_INT(say(c, REQUEST("GET", "/3", HOST_A("8080"), "")), ==, 0);
        three = give_socket(&w, BOX_A, 8080);
        CHECK(hears(three, "GET /3 "));
}

static void streams_bodies_both_ways_at_once(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("POST", "/rpc", HOST_A("49983"), "Transfer-Encoding: chunked\r\n")), ==, 0);
        up = give_both(&w, BOX_A, 49983);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK(strstr(head, "\r\nTransfer-Encoding: chunked\r\n"));
        CHECK_INT(say(c, "3;ext=1\r\nabc\r\n"), ==, 0);
        CHECK(hears(up, "3\r\nabc\r\n"));
        /* The answer begins while the request still flows. */
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n"), ==, 0);
        CHECK_INT(hear_head(c, head, sizeof(head)), >, 0);
        CHECK(hears(c, "2\r\nhi\r\n"));
        CHECK_INT(say(c, "1\r\nd\r\n0\r\nX-Trailer: 1\r\n\r\n"), ==, 0);
        CHECK(hears(up, "1\r\nd\r\n0\r\n\r\n")); /* trailers are dropped */
        CHECK_INT(say(up, "1\r\n!\r\n0\r\nT: 2\r\n\r\n"), ==, 0);
        CHECK(hears(c, "1\r\n!\r\n0\r\n\r\n"));
        /* And the connection serves the next one. */
        CHECK_INT(say(c, REQUEST("GET", "/next", HOST_A("49983"), "")), ==, 0);
        CHECK(hears(up, "GET /next "));
}

static void answers_before_the_request_has_ended(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("POST", "/big", HOST_A("49983"), "Content-Length: 1000\r\n") "12345"), ==, 0);
        up = give_both(&w, BOX_A, 49983);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK(hears(up, "12345"));
        CHECK_INT(say(up, "HTTP/1.1 413 No\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig"), ==, 0);
        close_fd(&up);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 413);
        CHECK_STR(body, "big");
        /* The rest of the body is thrown away; then the next request is read. */
        for (int i = 0; i < 199; i++)
                CHECK_INT(say(c, "67890"), ==, 0);
        CHECK_INT(say(c, REQUEST("GET", "/after", HOST_A("49983"), "")), ==, 0);
        up = give_socket(&w, BOX_A, 49983);
        CHECK(hears(up, "GET /after "));
}

static void serves_pipelined_requests_in_order(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/1", HOST_A("49983"), "")
                                 REQUEST("POST", "/2", HOST_A("49983"), "Content-Length: 3\r\n") "abc" REQUEST(
                                         "GET", "/nowhere", "nowhere", "") REQUEST("GET", "/3", HOST_A("49983"), "")),
                  ==, 0);
        up = give_both(&w, BOX_A, 49983);
        CHECK(hears(up, REQUEST("GET", "/1", HOST_A("49983"), "")));
        CHECK(is_silent(up, 20));
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK(hears(up, REQUEST("POST", "/2", HOST_A("49983"), "Content-Length: 3\r\n") "abc"));
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK(hears(up, REQUEST("GET", "/3", HOST_A("49983"), "")));
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 200);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 200);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 400);
        CHECK_STR(body, "Invalid host");
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 200);
}

static void a_head_in_single_bytes_is_the_same_head(void)
{
        static const char text[] = REQUEST("GET", "/slow", HOST_A("49983"), "A: b\r\n");
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];
        const char *body;
        static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

        START;
        c = dial_client(&w);
        for (size_t i = 0; i < sizeof(text) - 1; i++)
                CHECK_INT(say_bytes(c, text + i, 1), ==, 0);
        up = give_both(&w, BOX_A, 49983);
        CHECK(hears(up, text));
        for (size_t i = 0; i < sizeof(answer) - 1; i++)
                CHECK_INT(say_bytes(up, answer + i, 1), ==, 0);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 200);
        CHECK_STR(body, "ok");
}

static void ends_without_length_become_chunks(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("8000"), "")), ==, 0);
        up = give_both(&w, BOX_A, 8000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.0 200 OK\r\n\r\nuntil"), ==, 0);
        CHECK_INT(say(up, " the end"), ==, 0);
        close_fd(&up);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 200);
        CHECK_STR(body, "until the end");
        CHECK(strstr(head, "Transfer-Encoding: chunked"));
}

static void old_clients_get_bytes_until_the_end(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096], body[64] = "";

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, "GET / HTTP/1.0\r\nHost: " HOST_A("8000") "\r\n\r\n"), ==, 0);
        up = give_both(&w, BOX_A, 8000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                          "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
                  ==, 0);
        CHECK_INT(hear_head(c, head, sizeof(head)), >, 0);
        CHECK_STR(head, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        CHECK_INT(hear_bytes(c, body, sizeof(body) - 1), ==, 5);
        CHECK_STR(body, "abcde");
}

static void answers_without_a_body_have_none(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("HEAD", "/", HOST_A("49983"), "")), ==, 0);
        up = give_both(&w, BOX_A, 49983);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"), ==, 0);
        CHECK(hears(c, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"));
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("49983"), "")), ==, 0);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0); /* the same connection */
        CHECK_INT(say(up, "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"), ==, 0);
        CHECK(hears(c, "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"));
}

static void passes_100_continue_on_when_asked_for(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("POST", "/f", HOST_A("49983"), "Expect: 100-continue\r\nContent-Length: 2\r\n")), ==,
                  0);
        up = give_both(&w, BOX_A, 49983);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK(strstr(head, "\r\nExpect: 100-continue\r\n"));
        CHECK_INT(say(up, "HTTP/1.1 100 Continue\r\n\r\n"), ==, 0);
        CHECK(hears(c, "HTTP/1.1 100 Continue\r\n\r\n"));
        CHECK_INT(say(c, "hi"), ==, 0);
        CHECK(hears(up, "hi"));
        CHECK_INT(say(up, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" OK_EMPTY), ==, 0);
        CHECK(hears(c, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"));
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 200);
        /* Unasked it is swallowed. */
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("49983"), "")), ==, 0);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 100 Continue\r\n\r\n" OK_EMPTY), ==, 0);
        CHECK(hears(c, "HTTP/1.1 200 OK\r\n"));
}

static void a_refusal_instead_of_100_closes_the_connection(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("POST", "/f", HOST_A("49983"), "Expect: 100-continue\r\nContent-Length: 2\r\n")), ==,
                  0);
        up = give_both(&w, BOX_A, 49983);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"), ==, 0);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 401);
        CHECK(strstr(head, "Connection: close"));
}

static void says_a_dead_kept_connection_s_request_again(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1, again = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/1", HOST_A("3000"), "")), ==, 0);
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 200);
        CHECK_INT(say(c, REQUEST("GET", "/2", HOST_A("3000"), "")), ==, 0);
        CHECK(hears(up, "GET /2 "));
        close_fd(&up); /* without an answer */
        again = give_socket(&w, BOX_A, 3000);
        CHECK(hears(again, REQUEST("GET", "/2", HOST_A("3000"), "")));
        close_fd(&again); /* a fresh one that dies is not tried again */
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 502);
        CHECK_STR(body, "{\"sandboxId\":\"" BOX_A "\",\"message\":\"The sandbox is running but port is not open\","
                        "\"port\":3000,\"code\":502}");
}

static void never_says_a_post_twice(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/1", HOST_A("49983"), "")), ==, 0);
        up = give_both(&w, BOX_A, 49983);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 200);
        CHECK_INT(say(c, REQUEST("POST", "/2", HOST_A("49983"), "Content-Length: 1\r\n") "x"), ==, 0);
        CHECK(hears(up, "POST /2 "));
        close_fd(&up);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 502);
        CHECK(is_silent(w.dial_ch, 20));
}

static void posts_to_users_ports_take_a_fresh_connection(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1, fresh = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/1", HOST_A("3000"), "")), ==, 0);
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 200);
        CHECK_INT(say(c, REQUEST("POST", "/2", HOST_A("3000"), "Content-Length: 1\r\n") "x"), ==, 0);
        fresh = give_socket(&w, BOX_A, 3000);
        CHECK(hears(fresh, "POST /2 "));
}

static void drops_a_kept_connection_that_speaks_unasked(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1, fresh = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/1", HOST_A("49983"), "")), ==, 0);
        up = give_both(&w, BOX_A, 49983);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        /* Two answers to one request: the second must never reach anybody. */
        CHECK_INT(say(up, OK_EMPTY "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"), ==, 0);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 200);
        CHECK_INT(say(c, REQUEST("GET", "/2", HOST_A("49983"), "")), ==, 0);
        fresh = give_socket(&w, BOX_A, 49983);
        CHECK(hears(fresh, "GET /2 "));
        CHECK_INT(say(fresh, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, head, sizeof(head), &body), ==, 200);
        CHECK_STR(body, "");
}

static void a_client_that_leaves_ends_the_upstream_side(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("POST", "/execute", HOST_A("49999"), "Content-Length: 0\r\n")), ==, 0);
        up = give_both(&w, BOX_A, 49999);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"), ==, 0);
        CHECK_INT(hear_head(c, head, sizeof(head)), >, 0);
        close_fd(&c);
        CHECK_INT(hear_end(up), !=, END_NONE);
}

static void half_an_answer_never_ends_cleanly(void)
{
        static const char *const halves[] = {
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhi",
        };
        WORLD;
        char head[4096];

        START;
        for (size_t i = 0; i < ARRAY_LEN(halves); i++) {
                AUTO_CLOSE int c = dial_client(&w), up = -1;

                CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
                up = i ? give_socket(&w, BOX_A, 3000) : give_both(&w, BOX_A, 3000);
                CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
                CHECK_INT(say(up, halves[i]), ==, 0);
                CHECK_INT(hear_head(c, head, sizeof(head)), >, 0);
                close_fd(&up);
                CHECK_INT(hear_end(c), ==, END_RESET);
        }
}

int main(void)
{
        RUN(forwards_api_requests_and_reuses_the_connection);
        RUN(forwards_to_a_sandbox_by_host);
        RUN(forwards_by_headers_on_localhost);
        RUN(never_reuses_across_sandboxes_or_ports);
        RUN(streams_bodies_both_ways_at_once);
        RUN(answers_before_the_request_has_ended);
        RUN(serves_pipelined_requests_in_order);
        RUN(a_head_in_single_bytes_is_the_same_head);
        RUN(ends_without_length_become_chunks);
        RUN(old_clients_get_bytes_until_the_end);
        RUN(answers_without_a_body_have_none);
        RUN(passes_100_continue_on_when_asked_for);
        RUN(a_refusal_instead_of_100_closes_the_connection);
        RUN(says_a_dead_kept_connection_s_request_again);
        RUN(never_says_a_post_twice);
        RUN(posts_to_users_ports_take_a_fresh_connection);
        RUN(drops_a_kept_connection_that_speaks_unasked);
        RUN(a_client_that_leaves_ends_the_upstream_side);
        RUN(half_an_answer_never_ends_cleanly);
        return tap_done();
}
