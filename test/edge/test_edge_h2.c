/* HTTP/2 clients: requests, bodies and answers, as those of HTTP/1.1 get them, and their lines in the log. */
#include "h2client.h"

#include <string.h>
#include <sys/mman.h>

#include "base/auto.h"
#include "tap.h"

static void a_request_reaches_the_api(void)
{
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        AUTO_CLOSE int api = -1;
        char head[4096];
        int32_t id;

        CHECK(c);
        id = h2c_ask(c, "GET", "localhost", "/sandboxes?x=1", (const char *[]){"x-api-key", "k", NULL}, NULL);
        CHECK(h2c_push(c));
        api = accept_api(&w);
        CHECK_INT(hear_head(api, head, sizeof(head)), >, 0);
        CHECK_STR(head,
                  "GET /sandboxes?x=1 HTTP/1.1\r\nHost: localhost\r\nx-api-key: k\r\nX-Forwarded-Proto: https\r\n\r\n");
        CHECK_INT(say(api, "HTTP/1.1 201 Created\r\nContent-Type: a/b\r\nX-Y: Z\r\nConnection: x-y, keep-alive\r\n"
                           "Keep-Alive: 5\r\nContent-Length: 5\r\n\r\nhello"),
                  ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 201);
        CHECK_STR(h2c_of(c, id)->fields, ":status: 201\ncontent-type: a/b\ncontent-length: 5\n");
        CHECK_STR(h2c_of(c, id)->body, "hello");
        CHECK(h2c_of(c, id)->is_ended);
        CHECK_INT(h2c_of(c, id)->error, ==, NGHTTP2_NO_ERROR);
        /* The upstream connection serves the next stream. */
        id = h2c_ask(c, "GET", "localhost", "/", NULL, NULL);
        CHECK(h2c_push(c));
        CHECK_INT(hear_head(api, head, sizeof(head)), >, 0);
        CHECK_INT(say(api, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 200);
        CHECK(h2c_of(c, id)->is_ended);
}

static void bodies_go_up_with_their_length_or_in_chunks(void)
{
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        AUTO_CLOSE int up = -1;
        char head[4096];
        int32_t id;

        CHECK(c);
        id = h2c_ask(c, "POST", HOST_A("3000"), "/a", (const char *[]){"content-length", "5", NULL}, "hello");
        CHECK(h2c_push(c));
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK(has_line(head, "Content-Length: 5"));
        CHECK(!strcasestr(head, "transfer-encoding"));
        CHECK(hears(up, "hello"));
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 200);
        close_fd(&up);
        id = h2c_ask(c, "POST", HOST_A("3000"), "/b", NULL, H2_OPEN);
        h2c_send(c, id, "one", 3, false);
        up = give_socket(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK(has_line(head, "Transfer-Encoding: chunked"));
        CHECK(hears(up, "3\r\none\r\n"));
        h2c_send(c, id, "three", 5, true);
        CHECK(hears(up, "5\r\nthree\r\n0\r\n\r\n"));
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 200);
        /* A body that turns out empty. */
        close_fd(&up);
        id = h2c_ask(c, "POST", HOST_A("3000"), "/c", NULL, "");
        CHECK(h2c_push(c));
        up = give_socket(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK(hears(up, "0\r\n\r\n"));
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 200);
}

static void trailers_are_dropped(void)
{
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        AUTO_CLOSE int up = -1;
        char head[4096];
        int32_t id;

        CHECK(c);
        id = h2c_ask(c, "POST", HOST_A("3000"), "/", (const char *[]){"te", "trailers", NULL}, H2_OPEN);
        h2c_send(c, id, "x", 1, false);
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK(!strcasestr(head, "\r\nte:"));
        CHECK(hears(up, "1\r\nx\r\n"));
        h2c_of(c, id)->out_has_trailer = true;
        h2c_send(c, id, "", 0, true);
        CHECK(hears(up, "0\r\n\r\n"));
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-u\r\n\r\n2\r\nok\r\n0\r\nx-u: "
                          "2\r\n\r\n"),
                  ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_STR(h2c_of(c, id)->fields, ":status: 200\n");
        CHECK_STR(h2c_of(c, id)->body, "ok");
        CHECK(h2c_of(c, id)->is_ended);
}

static void heads_come_as_they_would_by_http1(void)
{
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        AUTO_CLOSE int up = -1;
        char head[4096];
        int32_t id;

        CHECK(c);
        id = h2c_ask(c, "GET", HOST_A("3000"), "/p?q=%20",
                     (const char *[]){"cookie", "a=1", "x-forwarded-for", "9.9.9.9", "forwarded", "for=9", "cookie",
                                      "b=2", "user-agent", "t", "accept-encoding", "br", "cookie", "c=3", NULL},
                     NULL);
        CHECK(h2c_push(c));
        CHECK(give_route(&w, BOX_A, NULL, "app.test:${PORT}"));
        up = give_socket(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_STR(head, "GET /p?q=%20 HTTP/1.1\r\nHost: app.test:3000\r\nuser-agent: t\r\naccept-encoding: br\r\n"
                        "cookie: a=1; b=2; c=3\r\nX-Forwarded-Host: " HOST_A("3000") "\r\n\r\n");
        CHECK_INT(say(up, "HTTP/1.1 200 Whatever\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n"),
                  ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_STR(h2c_of(c, id)->fields, ":status: 200\nset-cookie: a=1\nset-cookie: b=2\ncontent-length: 0\n");
        /* Host instead of :authority. */
        id = h2c_ask_raw(
                c, (const char *[]){":method", "GET", ":scheme", "https", ":path", "/", "host", HOST_A("3000"), NULL},
                NULL);
        CHECK(h2c_push(c));
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 200);
}

static void answers_of_our_own(void)
{
        static const struct {
                const char *host, *path, *field, *value;
                int status;
                const char *body; /* contained in it */
        } cases[] = {
                {HOST_A("49983"), "/init", "a", "b", 404, "\"path\":\"/init\""},
                {HOST_A("49983"), "/x/../%69nit", "a", "b", 404, "\"path\":\"/init\""},
                {"nodash.box.test", "/", "a", "b", 400, "Invalid host"},
                {"x-" BOX_A ".box.test", "/", "a", "b", 400, "Invalid sandbox port"},
                {"sandbox.box.test", "/", "e2b-sandbox-id", BOX_A, 400, "missing header"},
                {HOST_A("3000"), "/", "a", "b", 403, "Token header 'e2b-traffic-access-token' is missing"},
                {HOST_A("3000"), "/", "e2b-traffic-access-token", "wrong", 403, "is invalid"},
                {HOST_A("3000"), "/", "user-agent", "Mozilla/5.0", 403, "<title>Missing Traffic Access Token</title>"},
        };
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        int32_t id;

        CHECK(c);
        id = h2c_ask(c, "GET", HOST_B("3000"), "/", NULL, NULL);
        CHECK(h2c_push(c));
        CHECK(give_no_route(&w, BOX_B));
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 502);
        CHECK_STR(h2c_of(c, id)->body,
                  "{\"sandboxId\":\"" BOX_B "\",\"message\":\"The sandbox was not found\",\"code\":502}");
        CHECK(strstr(h2c_of(c, id)->fields, "content-type: application/json; charset=utf-8\n"));
        id = h2c_ask(c, "GET", HOST_A("3000"), "/", (const char *[]){"e2b-traffic-access-token", "secret", NULL}, NULL);
        CHECK(h2c_push(c));
        CHECK(give_route(&w, BOX_A, "secret", NULL));
        CHECK(give_error(&w, "unavailable"));
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 502);
        CHECK(strstr(h2c_of(c, id)->body, "port is not open\",\"port\":3000"));
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                id = h2c_ask(c, i % 2 ? "GET" : "POST", cases[i].host, cases[i].path,
                             (const char *[]){cases[i].field, cases[i].value, NULL}, NULL);
                CHECK(h2c_wait_end(c, id));
                if (h2c_of(c, id)->status != cases[i].status)
                        printf("# case %zu: %s\n", i, h2c_of(c, id)->body);
                CHECK_INT(h2c_of(c, id)->status, ==, cases[i].status);
                CHECK(strstr(h2c_of(c, id)->body, cases[i].body));
                CHECK(h2c_of(c, id)->is_ended);
        }
        /* HEAD: the same without a body. */
        id = h2c_ask(c, "HEAD", HOST_A("3000"), "/", NULL, NULL);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 403);
        CHECK_INT(h2c_of(c, id)->body_len, ==, 0);
        CHECK(h2c_of(c, id)->is_ended);
}

static void an_answer_of_our_own_does_not_wait_for_the_body(void)
{
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        int32_t id;

        CHECK(c);
        id = h2c_ask(c, "POST", HOST_A("49983"), "/init", NULL, H2_OPEN);
        h2c_send(c, id, "some", 4, false);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 404);
        CHECK(h2c_of(c, id)->is_ended);
        CHECK_INT(h2c_of(c, id)->error, ==, NGHTTP2_NO_ERROR);
}

static void answers_without_body_end_with_their_head(void)
{
        static const struct {
                const char *method, *answer, *fields;
        } cases[] = {
                {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", ":status: 200\ncontent-length: 5\n"},
                {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", ":status: 200\n"},
                {"GET", "HTTP/1.1 204 No Content\r\n\r\n", ":status: 204\n"},
                {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", ":status: 304\ncontent-length: 9\n"},
                {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ":status: 200\ncontent-length: 0\n"},
        };
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        AUTO_CLOSE int up = -1;
        char head[4096];

        CHECK(c);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                int32_t id = h2c_ask(c, cases[i].method, HOST_A("49983"), "/", NULL, NULL);

                CHECK(h2c_push(c));
                if (i == 0)
                        up = give_both(&w, BOX_A, 49983);
                CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
                CHECK_INT(say(up, cases[i].answer), ==, 0);
                CHECK(h2c_wait_end(c, id));
                CHECK_STR(h2c_of(c, id)->fields, cases[i].fields);
                CHECK(h2c_of(c, id)->is_ended);
                CHECK_INT(h2c_of(c, id)->body_len, ==, 0);
        }
}

static void answers_come_piece_by_piece(void)
{
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        AUTO_CLOSE int up = -1;
        char head[4096];
        int32_t id;

        CHECK(c);
        id = h2c_ask(c, "GET", HOST_A("3000"), "/", NULL, NULL);
        CHECK(h2c_push(c));
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), ==, 0);
        CHECK(h2c_wait_head(c, id)); /* before there is a body */
        for (size_t i = 1; i <= 20; i++) {
                CHECK_INT(say(up, i % 2 ? "2\r\nab\r\n" : "1;x=y\r\n\n\r\n1\r\nc\r\n"), ==, 0);
                CHECK(h2c_wait_body(c, id, 2 * i));
        }
        CHECK(!h2c_of(c, id)->is_ended);
        CHECK_INT(say(up, "0\r\n\r\n"), ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK(h2c_of(c, id)->is_ended);
        CHECK_INT(h2c_of(c, id)->body_len, ==, 40);
        CHECK_INT(strncmp(h2c_of(c, id)->body, "ab\ncab\nc", 8), ==, 0);
        /* A body that ends with the connection. */
        id = h2c_ask(c, "GET", HOST_A("3000"), "/", NULL, NULL);
        CHECK(h2c_push(c));
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.0 200 OK\r\n\r\nall of it"), ==, 0);
        CHECK(h2c_wait_body(c, id, 9));
        CHECK(!h2c_of(c, id)->is_ended);
        close_fd(&up);
        CHECK(h2c_wait_end(c, id));
        CHECK(h2c_of(c, id)->is_ended);
        CHECK_STR(h2c_of(c, id)->body, "all of it");
}

static void interim_answers_are_passed_on(void)
{
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        AUTO_CLOSE int up = -1;
        char head[4096];
        int32_t id;

        CHECK(c);
        id = h2c_ask(c, "PUT", HOST_A("3000"), "/",
                     (const char *[]){"expect", "100-continue", "content-length", "4", NULL}, H2_OPEN);
        CHECK(h2c_push(c));
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK(has_line(head, "expect: 100-continue"));
        CHECK_INT(say(up, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), ==, 0);
        while (h2c_of(c, id)->interims < 2 && !c->is_dead)
                h2c_idle(c, 5);
        CHECK_STR(h2c_of(c, id)->fields, ":status: 100\n:status: 103\nlink: </a>\n");
        h2c_send(c, id, "body", 4, true);
        CHECK(hears(up, "body"));
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 200);
}

static int log_fd = -1;

static void log_there(void)
{
        (void)dup2(log_fd, STDERR_FILENO);
}

static void each_exchange_has_a_line_in_the_log(void)
{
        WORLD;
        H2C c = NULL;
        AUTO_CLOSE int plain = -1, up = -1, fd = log_fd = memfd_create("log", MFD_CLOEXEC);
        char head[4096], text[8192] = "";
        const char *body;
        int32_t id;

        w.https = -2;
        w.access_log = true;
        w.in_edge = log_there;
        START;
        c = h2c_open(&w, NULL);
        CHECK(c);
        id = h2c_ask(c, "POST", HOST_A("3000"), "/secret", NULL, "body");
        CHECK(h2c_push(c));
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 418 Teapot\r\nContent-Length: 5\r\n\r\nhello"), ==, 0);
        CHECK(h2c_wait_end(c, id));
        id = h2c_ask(c, "DELETE", HOST_A("3000"), "/", NULL, NULL);
        CHECK(h2c_push(c));
        h2c_idle(c, 20);
        h2c_reset(c, id);
        plain = dial_client(&w);
        CHECK_INT(say(plain, REQUEST("PUT", "/init", HOST_A("49983"), "")), ==, 0);
        CHECK_INT(hear_answer(plain, head, sizeof(head), &body), ==, 404);
        CHECK_INT(say(plain, "nonsense\r\n\r\n"), ==, 0);
        CHECK_INT(hear_answer(plain, head, sizeof(head), &body), ==, 400);
        h2c_close(&c);
        close_fd(&plain);
        CHECK_INT(world_stop(&w), ==, 0);
        CHECK_INT(pread(fd, text, sizeof(text) - 1, 0), >, 0);
        CHECK(strstr(text, "exchange proto=h2 sandbox=" BOX_A " port=3000 method=POST status=418 in="));
        CHECK(strstr(text, " out=5 ms="));
        CHECK(strstr(text, "exchange proto=h2 sandbox=" BOX_A " port=3000 method=DELETE status=0 in="));
        CHECK(strstr(text, "exchange proto=h1 sandbox=" BOX_A " port=49983 method=PUT status=404 in=0 out="));
        CHECK(strstr(text, "exchange proto=h1 sandbox=- port=0 method= status=400 in=0 out="));
        CHECK(!strstr(text, "secret"));
}

int main(void)
{
        RUN(a_request_reaches_the_api);
        RUN(bodies_go_up_with_their_length_or_in_chunks);
        RUN(trailers_are_dropped);
        RUN(heads_come_as_they_would_by_http1);
        RUN(answers_of_our_own);
        RUN(an_answer_of_our_own_does_not_wait_for_the_body);
        RUN(answers_without_body_end_with_their_head);
        RUN(answers_come_piece_by_piece);
        RUN(interim_answers_are_passed_on);
        RUN(each_exchange_has_a_line_in_the_log);
        return tap_done();
}
