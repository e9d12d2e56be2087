/* HTTP/2 clients: requests, bodies, streams and their ends, as those of HTTP/1.1 get them. */
#include "h2client.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "tap.h"

#define OK_EMPTY "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define TLS_WORLD                                                                                                      \
        WORLD;                                                                                                         \
        w.https = -2;                                                                                                  \
        START

static bool has_line(const char *head, const char *line) /* one whole line of a head */
{
        char text[512];

        (void)snprintf(text, sizeof(text), "\r\n%s\r\n", line);
        return strcasestr(head, text) != NULL;
}

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
        CHECK_STR(head, "GET /sandboxes?x=1 HTTP/1.1\r\nHost: localhost\r\nx-api-key: k\r\n\r\n");
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

static bool is_reset(struct h2c *c, int32_t id) /* and not as if it were an end */
{
        return h2c_wait_end(c, id) && !h2c_of(c, id)->is_ended && h2c_of(c, id)->error == NGHTTP2_INTERNAL_ERROR;
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

/* A sandbox answers the head and part of the body, and then something happens. */
static int half_an_answer(struct world *w, struct h2c *c, bool is_first, const char *answer, int32_t *ret_id)
{
        char head[4096];
        int up;

        *ret_id = h2c_ask(c, "GET", HOST_A("3000"), "/", NULL, NULL);
        (void)h2c_push(c);
        up = is_first ? give_both(w, BOX_A, 3000) : give_socket(w, BOX_A, 3000);
        if (hear_head(up, head, sizeof(head)) < 0 || say(up, answer) < 0 || !h2c_wait_body(c, *ret_id, 3))
                return -1;
        return up;
}

static void half_an_answer_never_ends_cleanly(void)
{
        static const char *const answers[] = {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
                                              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
                                              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc"};
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        int32_t id;

        CHECK(c);
        for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
                AUTO_CLOSE int up = half_an_answer(&w, c, i == 0, answers[i], &id);

                CHECK_INT(up, >=, 0);
                close_fd(&up);
                CHECK(is_reset(c, id));
        }
        for (size_t i = 0; i < 2; i++) { /* nor one whose framing breaks */
                AUTO_CLOSE int up = half_an_answer(&w, c, false, answers[1], &id);

                CHECK_INT(up, >=, 0);
                CHECK_INT(say(up, i ? "zz\r\n" : "1\r\nab\r\n"), ==, 0);
                CHECK(is_reset(c, id));
                CHECK_INT(hear_end(up), !=, END_NONE);
        }
        CHECK(!c->is_dead); /* the connection is none the worse for it */
        CHECK_INT(c->goaways, ==, 0);
}

static void a_bad_body_right_behind_the_head_is_a_closed_port(void)
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
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nnonsense\r\n"), ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 502);
        CHECK_INT(hear_end(up), !=, END_NONE);
}

static void a_sandbox_that_goes_cuts_its_streams_only(void)
{
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        AUTO_CLOSE int up = -1, other = -1, again = -1;
        char head[4096];
        int32_t a, waits, b;

        CHECK(c);
        up = half_an_answer(&w, c, true, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", &a);
        CHECK_INT(up, >=, 0);
        waits = h2c_ask(c, "GET", HOST_A("3000"), "/", NULL, NULL); /* no answer begun */
        b = h2c_ask(c, "GET", HOST_B("3000"), "/", NULL, NULL);
        CHECK(h2c_push(c));
        again = give_socket(&w, BOX_A, 3000);
        CHECK_INT(hear_head(again, head, sizeof(head)), >, 0);
        other = give_both(&w, BOX_B, 3000);
        CHECK_INT(hear_head(other, head, sizeof(head)), >, 0);
        CHECK(tell_gone(&w, BOX_A));
        CHECK(is_reset(c, a));
        CHECK(is_reset(c, waits));
        CHECK_INT(hear_end(up), !=, END_NONE);
        CHECK_INT(say(other, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, b));
        CHECK_INT(h2c_of(c, b)->status, ==, 200);
        a = h2c_ask(c, "GET", HOST_A("49983"), "/health", NULL, NULL);
        CHECK(h2c_push(c));
        CHECK(give_no_route(&w, BOX_A));
        CHECK(h2c_wait_end(c, a));
        CHECK_INT(h2c_of(c, a)->status, ==, 502);
}

static void a_reset_closes_the_upstream_connection_at_once(void)
{
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        AUTO_CLOSE int up = -1, early = -1;
        char head[4096];
        int32_t id;

        CHECK(c);
        up = half_an_answer(&w, c, true, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", &id);
        CHECK_INT(up, >=, 0);
        h2c_reset(c, id);
        CHECK_INT(hear_end(up), !=, END_NONE);
        /* Also before an answer, and while a socket is asked for. */
        id = h2c_ask(c, "POST", HOST_A("3000"), "/", NULL, H2_OPEN);
        CHECK(h2c_push(c));
        early = give_socket(&w, BOX_A, 3000);
        CHECK_INT(hear_head(early, head, sizeof(head)), >, 0);
        h2c_reset(c, id);
        CHECK_INT(hear_end(early), !=, END_NONE);
        close_fd(&early);
        id = h2c_ask(c, "GET", HOST_A("3000"), "/", NULL, NULL);
        CHECK(h2c_push(c));
        h2c_idle(c, 20);
        h2c_reset(c, id);
        h2c_idle(c, 20);
        early = give_socket(&w, BOX_A, 3000);
        CHECK_INT(hear_end(early), !=, END_NONE);
        CHECK(!c->is_dead);
}

static void a_lost_connection_closes_all_its_upstreams(void)
{
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        AUTO_CLOSE int one = -1, two = -1;
        char head[4096];

        CHECK(c);
        (void)h2c_ask(c, "GET", HOST_A("3000"), "/", NULL, NULL);
        (void)h2c_ask(c, "GET", HOST_A("3000"), "/", NULL, NULL);
        CHECK(h2c_push(c));
        one = give_both(&w, BOX_A, 3000);
        two = give_socket(&w, BOX_A, 3000);
        CHECK_INT(hear_head(one, head, sizeof(head)), >, 0);
        CHECK_INT(hear_head(two, head, sizeof(head)), >, 0);
        h2c_close(&c);
        CHECK_INT(hear_end(one), !=, END_NONE);
        CHECK_INT(hear_end(two), !=, END_NONE);
        CHECK_INT(world_stop(&w), ==, 0);
}

static void five_hundred_streams_at_once(void)
{
        enum { MANY = 500 };
        static int ups[MANY];
        static int32_t ids[MANY];
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        char head[4096];

        CHECK(c);
        for (int i = 0; i < MANY; i++)
                ids[i] = h2c_ask(c, "POST", HOST_A("49983"), "/process.Process/Start", NULL, "{}");
        CHECK(h2c_push(c));
        for (int i = 0; i < MANY; i++) {
                ups[i] = i ? give_socket(&w, BOX_A, 49983) : give_both(&w, BOX_A, 49983);
                CHECK_INT(hear_head(ups[i], head, sizeof(head)), >, 0);
                CHECK_INT(say(ups[i], "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nstart\r\n"), ==, 0);
        }
        for (int i = 0; i < MANY; i++)
                CHECK(h2c_wait_body(c, ids[i], 5));
        /* All of them are open and speak in any order. */
        for (int i = MANY - 1; i >= 0; i -= 7) {
                CHECK_INT(say(ups[i], "3\r\nout\r\n"), ==, 0);
                CHECK(h2c_wait_body(c, ids[i], 8));
        }
        for (int i = 0; i < MANY; i++)
                CHECK_INT(say(ups[i], "0\r\n\r\n"), ==, 0);
        for (int i = 0; i < MANY; i++) {
                CHECK(h2c_wait_end(c, ids[i]));
                CHECK(h2c_of(c, ids[i])->is_ended);
                close_fd(&ups[i]);
        }
        h2c_close(&c);
        CHECK_INT(world_stop(&w), ==, 0);
}

static void a_slow_reader_holds_up_nobody_and_little_memory(void)
{
        enum { SLOW = 40 };
        static char bytes[256 << 10];
        static int ups[SLOW];
        TLS_WORLD;
        H2C c = h2c_open(&w, &(struct h2c_options){.window = 1000});
        char head[4096];
        int32_t ids[SLOW], quick;
        AUTO_CLOSE int other = -1;
        long before, after;

        CHECK(c);
        memset(bytes, 'x', sizeof(bytes));
        before = world_rss_kb(&w);
        for (int i = 0; i < SLOW; i++) { /* more than fits is offered on each */
                size_t sent = 0;

                ids[i] = h2c_ask(c, "GET", HOST_A("3000"), "/", NULL, NULL);
                nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, ids[i], 1000);
                CHECK(h2c_push(c));
                ups[i] = i ? give_socket(&w, BOX_A, 3000) : give_both(&w, BOX_A, 3000);
                CHECK_INT(hear_head(ups[i], head, sizeof(head)), >, 0);
                CHECK_INT(say(ups[i], "HTTP/1.1 200 OK\r\nContent-Length: 99000000\r\n\r\n"), ==, 0);
                while (sent < 64 << 20) {
                        ssize_t n = send(ups[i], bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL);

                        if (n < 0 && is_silent(ups[i], 2))
                                break;
                        sent += n > 0 ? (size_t)n : 0;
                }
                CHECK_INT(sent, <, 32 << 20); /* it stalls */
        }
        after = world_rss_kb(&w);
        CHECK_INT(after - before, <, SLOW * 160L);
        quick = h2c_ask(c, "GET", HOST_B("3000"), "/", NULL, NULL);
        CHECK(h2c_push(c));
        other = give_both(&w, BOX_B, 3000);
        CHECK_INT(hear_head(other, head, sizeof(head)), >, 0);
        CHECK_INT(say(other, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, quick));
        CHECK_INT(h2c_of(c, quick)->status, ==, 200);
        for (int i = 0; i < SLOW; i++) {
                h2c_reset(c, ids[i]);
                CHECK_INT(hear_end(ups[i]), !=, END_NONE);
                close_fd(&ups[i]);
        }
}

static void an_upload_waits_for_a_slow_upstream(void)
{
        static char bytes[16 << 20];
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        AUTO_CLOSE int up = -1, api = -1;
        char head[4096];
        static char got[64 << 10];
        int32_t id, other;
        size_t total = 0;
        long before;

        CHECK(c);
        memset(bytes, 'u', sizeof(bytes));
        before = world_rss_kb(&w);
        id = h2c_ask(c, "POST", HOST_A("3000"), "/", (const char *[]){"content-length", "16777216", NULL}, H2_OPEN);
        h2c_send(c, id, bytes, sizeof(bytes), true);
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        h2c_idle(c, 200);
        CHECK_INT(h2c_of(c, id)->out_sent, <, 12 << 20); /* the window, and what the kernel holds on the way */
        CHECK_INT(world_rss_kb(&w) - before, <, 4 << 10);
        /* Others are not held up. */
        other = h2c_ask(c, "POST", "localhost", "/", NULL, "small");
        CHECK(h2c_push(c));
        api = accept_api(&w);
        CHECK_INT(hear_head(api, head, sizeof(head)), >, 0);
        CHECK(hears(api, "5\r\nsmall\r\n0\r\n\r\n"));
        CHECK_INT(say(api, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, other));
        while (total < sizeof(bytes)) {
                ssize_t n = recv(up, got, sizeof(got), MSG_DONTWAIT);

                total += n > 0 ? (size_t)n : 0;
                if (n < 0)
                        h2c_idle(c, 2);
                CHECK(!c->is_dead && n != 0);
        }
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 200);
}

static void an_early_answer_ends_the_upload(void)
{
        static char bytes[4 << 20];
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        AUTO_CLOSE int up = -1;
        char head[4096];
        int32_t id;

        CHECK(c);
        id = h2c_ask(c, "POST", HOST_A("3000"), "/", NULL, H2_OPEN);
        h2c_send(c, id, bytes, 1000, false);
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"), ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 413);
        CHECK_STR(h2c_of(c, id)->body, "no");
        CHECK(h2c_of(c, id)->is_ended);
        CHECK_INT(h2c_of(c, id)->error, ==, NGHTTP2_NO_ERROR);
        CHECK_INT(hear_end(up), !=, END_NONE);
        /* What was sent of it leaves no hole in the connection's window: many such uploads go by. */
        for (int i = 0; i < 20; i++) {
                id = h2c_ask(c, "POST", HOST_A("49983"), "/init", NULL, H2_OPEN);
                h2c_send(c, id, bytes, 900 << 10, false);
                CHECK(h2c_wait_end(c, id));
                CHECK_INT(h2c_of(c, id)->status, ==, 404);
        }
}

#define WEBSOCKET(host)                                                                                                \
        (const char *[])                                                                                               \
        {                                                                                                              \
                ":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":path", "/chat", ":authority",    \
                        host, "sec-websocket-version", "13", "origin", "https://x", NULL                               \
        }

static void a_websocket_runs_on_a_stream(void)
{
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        AUTO_CLOSE int up = -1;
        char head[4096];
        int32_t id;

        CHECK(c);
        CHECK_INT(nghttp2_session_get_remote_settings(c->session, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL), ==, 1);
        id = h2c_ask_raw(c, WEBSOCKET(HOST_A("3000")), H2_OPEN);
        CHECK(h2c_push(c));
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(strncmp(head, "GET /chat HTTP/1.1\r\nHost: " HOST_A("3000") "\r\n", 30), ==, 0);
        CHECK(has_line(head, "Connection: Upgrade"));
        CHECK(has_line(head, "Upgrade: websocket"));
        CHECK(has_line(head, "sec-websocket-version: 13"));
        CHECK(strstr(head, "\r\nsec-websocket-key: "));
        CHECK(!strcasestr(head, "transfer-encoding"));
        CHECK_INT(say(up, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                          "Sec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: p\r\n\r\nfirst"),
                  ==, 0);
        CHECK(h2c_wait_body(c, id, 5));
        CHECK_STR(h2c_of(c, id)->fields, ":status: 200\nsec-websocket-protocol: p\n");
        h2c_send(c, id, "to you", 6, false);
        CHECK(hears(up, "to you"));
        CHECK_INT(say(up, "to me"), ==, 0);
        CHECK(h2c_wait_body(c, id, 10));
        /* Each direction ends on its own. */
        h2c_send(c, id, "bye", 3, true);
        CHECK(hears(up, "bye"));
        CHECK_INT(hear_end(up), ==, END_CLEAN);
        CHECK(!h2c_of(c, id)->is_closed);
        CHECK_INT(say(up, "last"), ==, 0);
        CHECK_INT(shutdown(up, SHUT_WR), ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_STR(h2c_of(c, id)->body, "firstto melast");
        CHECK(h2c_of(c, id)->is_ended);
        CHECK_INT(h2c_of(c, id)->error, ==, NGHTTP2_NO_ERROR);
}

static void the_other_end_of_a_websocket_ends_first(void)
{
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        AUTO_CLOSE int up = -1, broken = -1;
        char head[4096];
        int32_t id;

        CHECK(c);
        id = h2c_ask_raw(c, WEBSOCKET(HOST_A("3000")), H2_OPEN);
        CHECK(h2c_push(c));
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"), ==, 0);
        CHECK(h2c_wait_head(c, id));
        CHECK_INT(shutdown(up, SHUT_WR), ==, 0);
        while (!h2c_of(c, id)->is_ended && !c->is_dead)
                h2c_idle(c, 5);
        CHECK(!h2c_of(c, id)->is_closed);
        h2c_send(c, id, "still", 5, true);
        CHECK(hears(up, "still"));
        CHECK_INT(hear_end(up), ==, END_CLEAN);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->error, ==, NGHTTP2_NO_ERROR);
        /* A break is a break. */
        id = h2c_ask_raw(c, WEBSOCKET(HOST_A("3000")), H2_OPEN);
        CHECK(h2c_push(c));
        broken = give_socket(&w, BOX_A, 3000);
        CHECK_INT(hear_head(broken, head, sizeof(head)), >, 0);
        CHECK_INT(say(broken, "HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"), ==, 0);
        CHECK(h2c_wait_head(c, id));
        CHECK_INT(setsockopt(broken, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger)), ==,
                  0);
        close_fd(&broken);
        CHECK(is_reset(c, id));
}

static void a_websocket_that_is_refused(void)
{
        static const struct {
                const char *answer;
                int status;
        } cases[] = {
                {"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", 404},
                {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno", 502}, /* would say there is a tunnel */
                {"HTTP/1.1 101 Switching Protocols\r\n\r\n", 502},
        };
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        char head[4096];
        int32_t id;

        CHECK(c);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_CLOSE int up = -1;

                id = h2c_ask_raw(c, WEBSOCKET(HOST_A("3000")), H2_OPEN);
                CHECK(h2c_push(c));
                up = i ? give_socket(&w, BOX_A, 3000) : give_both(&w, BOX_A, 3000);
                CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
                CHECK_INT(say(up, cases[i].answer), ==, 0);
                CHECK(h2c_wait_end(c, id));
                CHECK_INT(h2c_of(c, id)->status, ==, cases[i].status);
                CHECK(h2c_of(c, id)->is_ended);
        }
        id = h2c_ask_raw(c, WEBSOCKET("localhost"), H2_OPEN); /* nothing of ours has tunnels */
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 400);
        id = h2c_ask_raw(c, WEBSOCKET(HOST_A("49983")), H2_OPEN);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 400);
}

static void a_kept_connection_that_died_is_replaced(void)
{
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        AUTO_CLOSE int up = -1, fresh = -1;
        char head[4096];
        int32_t id;

        CHECK(c);
        id = h2c_ask(c, "GET", HOST_A("49983"), "/1", NULL, NULL);
        CHECK(h2c_push(c));
        up = give_both(&w, BOX_A, 49983);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, id));
        id = h2c_ask(c, "GET", HOST_A("49983"), "/2", NULL, NULL);
        CHECK(h2c_push(c));
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        close_fd(&up); /* without a word */
        fresh = give_socket(&w, BOX_A, 49983);
        CHECK_INT(hear_head(fresh, head, sizeof(head)), >, 0);
        CHECK_INT(strncmp(head, "GET /2 ", 7), ==, 0);
        CHECK_INT(say(fresh, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 200);
}

static void stopping_lets_running_streams_finish(void)
{
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        H2C idle = h2c_open(&w, NULL);
        AUTO_CLOSE int up = -1;
        char head[4096];
        int32_t id;

        CHECK(c && idle);
        id = h2c_ask(c, "GET", HOST_A("3000"), "/", NULL, NULL);
        CHECK(h2c_push(c));
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(world_signal(&w), ==, 0);
        CHECK(h2c_wait_goaway(idle, 1));
        CHECK_INT(idle->goaway_code, ==, NGHTTP2_NO_ERROR);
        CHECK(h2c_wait_dead(idle));
        CHECK(!idle->is_reset);
        h2c_close(&idle);
        CHECK(h2c_wait_goaway(c, 2)); /* the notice, and the last word */
        CHECK_INT(c->goaway_last, ==, id);
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_STR(h2c_of(c, id)->body, "ok");
        CHECK(h2c_wait_dead(c));
        CHECK(!c->is_reset);
        h2c_close(&c);
        CHECK_INT(world_stop(&w), ==, 0);
}

static void an_idle_connection_is_told_goodbye(void)
{
        WORLD;
        H2C c = NULL;
        AUTO_CLOSE int api = -1;
        char head[4096];
        int32_t id;

        w.https = -2;
        w.limits.idle_timeout_ms = 80;
        START;
        c = h2c_open(&w, NULL);
        CHECK(c);
        id = h2c_ask(c, "GET", "localhost", "/", NULL, NULL);
        CHECK(h2c_push(c));
        api = accept_api(&w);
        CHECK_INT(hear_head(api, head, sizeof(head)), >, 0);
        h2c_idle(c, 160);
        CHECK_INT(c->goaways, ==, 0); /* a stream is open */
        CHECK_INT(say(api, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 200);
        CHECK(h2c_wait_goaway(c, 1));
        CHECK_INT(c->goaway_code, ==, NGHTTP2_NO_ERROR);
        CHECK(h2c_wait_dead(c));
}

/* HTTP/1.1 and HTTP/2 clients count alike. */
static void a_sandbox_has_only_so_many_connections(void)
{
        WORLD;
        H2C c = NULL;
        AUTO_CLOSE int plain = -1, page = -1, up = -1, second = -1, third = -1;
        char head[4096];
        const char *body;
        int32_t one, two;

        w.https = -2;
        w.connections_max = 2;
        START;
        c = h2c_open(&w, NULL);
        CHECK(c);
        one = h2c_ask(c, "GET", HOST_A("3000"), "/", NULL, NULL);
        CHECK(h2c_push(c));
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        plain = dial_client(&w);
        CHECK_INT(say(plain, REQUEST("GET", "/", HOST_A("3001"), "")), ==, 0);
        second = give_socket(&w, BOX_A, 3001);
        CHECK_INT(hear_head(second, head, sizeof(head)), >, 0);
        two = h2c_ask(c, "GET", HOST_A("3000"), "/", NULL, NULL);
        CHECK(h2c_wait_end(c, two));
        CHECK_INT(h2c_of(c, two)->status, ==, 429);
        CHECK_STR(h2c_of(c, two)->body,
                  "{\"sandboxId\":\"" BOX_A "\",\"message\":\"The sandbox has too many concurrent incoming connections "
                  "(limit: 2)\",\"code\":429,\"connectionLimit\":2}");
        page = dial_client(&w);
        CHECK_INT(say(page, REQUEST("GET", "/", HOST_A("3001"), "User-Agent: Mozilla/5.0\r\n")), ==, 0);
        CHECK_INT(hear_answer(page, head, sizeof(head), &body), ==, 429);
        CHECK(strstr(body, "<title>Too Many Connections</title>") && strstr(body, "(limit: 2)"));
        /* One ends, another may come. */
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, one));
        two = h2c_ask(c, "POST", HOST_A("3000"), "/", NULL, NULL);
        CHECK(h2c_push(c));
        third = give_socket(&w, BOX_A, 3000);
        CHECK_INT(hear_head(third, head, sizeof(head)), >, 0);
        CHECK_INT(say(third, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, two));
        CHECK_INT(h2c_of(c, two)->status, ==, 200);
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
        RUN(half_an_answer_never_ends_cleanly);
        RUN(a_bad_body_right_behind_the_head_is_a_closed_port);
        RUN(a_sandbox_that_goes_cuts_its_streams_only);
        RUN(a_reset_closes_the_upstream_connection_at_once);
        RUN(a_lost_connection_closes_all_its_upstreams);
        RUN(five_hundred_streams_at_once);
        RUN(a_slow_reader_holds_up_nobody_and_little_memory);
        RUN(an_upload_waits_for_a_slow_upstream);
        RUN(an_early_answer_ends_the_upload);
        RUN(a_websocket_runs_on_a_stream);
        RUN(the_other_end_of_a_websocket_ends_first);
        RUN(a_websocket_that_is_refused);
        RUN(a_kept_connection_that_died_is_replaced);
        RUN(stopping_lets_running_streams_finish);
        RUN(an_idle_connection_is_told_goodbye);
        RUN(a_sandbox_has_only_so_many_connections);
        RUN(each_exchange_has_a_line_in_the_log);
        return tap_done();
}
