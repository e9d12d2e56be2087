/* Signed file URLs that name no sandbox: control is asked whose they are, and then they are like any other. */
#include "h2client.h"

#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "tap.h"

#define QUERY "path=a+b%2Bc&signature=v1_x%2Fy&signature_expiration=5"
#define TARGET "/files?" QUERY
#define GET REQUEST("GET", TARGET, "127.0.0.1:3000", "")
#define NOBODYS "{\"code\":401,\"message\":\"invalid signature\"}"

static char answer[65536];

static int client_saying(const struct world *w, const char *request)
{
        int c = dial_client(w);

        return c < 0 || say(c, request) < 0 ? -1 : c;
}

static void one_that_is_found_goes_there_as_it_came(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        const char *body;

        START;
        c = client_saying(&w, GET);
        CHECK(answer_signed(&w, hear_signed(&w, QUERY, "read"), BOX_A));
        up = give_both(&w, BOX_A, 49983);
        CHECK(hears(up, GET));
        CHECK_INT(say(up, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"), ==, 0); /* envd judges */
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 401);
        CHECK_STR(body, "no");
        /* The next on the same connection is another question. */
        CHECK_INT(say(c, REQUEST("POST", TARGET, "localhost", "Content-Length: 3\r\n") "abc"), ==, 0);
        CHECK(answer_signed(&w, hear_signed(&w, QUERY, "write"), BOX_B));
        CHECK(give_route(&w, BOX_B, "traffic", NULL)); /* concerns other ports */
        {
                AUTO_CLOSE int other = give_socket(&w, BOX_B, 49983);

                CHECK(hears(other, REQUEST("POST", TARGET, "localhost", "Content-Length: 3\r\n") "abc"));
                CHECK_INT(say(other, OK_EMPTY), ==, 0);
        }
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
        CHECK_INT(say(c, REQUEST("GET", "/sandboxes", "localhost", "")), ==, 0); /* and the API is the API */
        AUTO_CLOSE int api = accept_api(&w);

        CHECK(hears(api, "GET /sandboxes "));
}

static void nobodys_is_refused(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;

        START;
        c = client_saying(&w, GET);
        CHECK(answer_signed(&w, hear_signed(&w, QUERY, "read"), NULL));
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 401);
        CHECK_STR(body, NOBODYS);
        CHECK_INT(say(c, GET), ==, 0);
        CHECK(answer_signed(&w, hear_signed(&w, QUERY, "read"), "no id"));
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 503);
        CHECK_INT(say(c, GET), ==, 0);
        CHECK(answer_signed(&w, hear_signed(&w, QUERY, "read"), BOX_A)); /* gone in between */
        CHECK(give_no_route(&w, BOX_A));
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 502);
        CHECK_STR(body, NOT_FOUND_A);
}

static void what_is_no_such_url_is_the_apis(void)
{
        static char longer[9 << 10];
        static const char *const requests[] = {REQUEST("GET", "/files?path=a", "localhost", ""),
                                               REQUEST("GET", "/files", "localhost", ""),
                                               REQUEST("GET", "/files?xsignature=v1_x", "localhost", ""),
                                               REQUEST("GET", "/files/?signature=v1_x", "localhost", ""),
                                               REQUEST("GET", "/sandboxes?signature=v1_x", "localhost", ""),
                                               REQUEST("PUT", TARGET, "localhost", ""),
                                               REQUEST("OPTIONS", TARGET, "localhost", ""),
                                               longer};
        WORLD;
        AUTO_CLOSE int c = -1, api = -1;
        const char *body;

        (void)snprintf(longer, sizeof(longer), "GET /files?path=%08200d&signature=x HTTP/1.1\r\nHost: a\r\n\r\n", 0);
        memcpy(strstr(longer, "Host: a"), "Host: localhost\r\n\r\n", 20);
        START;
        c = dial_client(&w);
        for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
                CHECK_INT(say(c, requests[i]), ==, 0);
                if (api < 0)
                        api = accept_api(&w);
                CHECK(hears(api, requests[i]));
                CHECK_INT(say(api, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), ==, 0);
                CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 404);
        }
        CHECK(is_silent(w.routes_ch, 20));
}

static void those_who_guess_are_told_to_wait(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;

        w.limits.signed_urls.unowned_burst = 3;
        w.limits.signed_urls.unowned_per_s = 1;
        START;
        c = dial_client(&w);
        for (int i = 0; i < 3; i++) {
                CHECK_INT(say(c, GET), ==, 0);
                CHECK(answer_signed(&w, hear_signed(&w, QUERY, "read"), NULL));
                CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 401);
        }
        CHECK_INT(say(c, GET), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 429);
        CHECK(strstr(body, "\"code\":429"));
        CHECK(is_silent(w.routes_ch, 20)); /* control hears nothing of it */
        for (int status = 429; status == 429;) {
                CHECK_INT(say(c, GET), ==, 0);
                if (!is_silent(w.routes_ch, 50))
                        CHECK(answer_signed(&w, hear_signed(&w, QUERY, "read"), NULL));
                status = hear_answer(c, answer, sizeof(answer), &body);
                CHECK(status == 429 || status == 401);
        }
}

static void only_so_many_wait(void)
{
        WORLD;
        AUTO_CLOSE int a = -1, b = -1;
        const char *body;
        long req;

        w.limits.signed_urls.asked_max = 1;
        START;
        a = client_saying(&w, GET);
        req = hear_signed(&w, QUERY, "read");
        b = client_saying(&w, GET);
        CHECK_INT(hear_answer(b, answer, sizeof(answer), &body), ==, 503);
        close_fd(&a); /* who leaves makes room, and an answer for him is dropped */
        for (int status = 503; status == 503;) {
                CHECK_INT(say(b, GET), ==, 0);
                if (!is_silent(w.routes_ch, 50))
                        break;
                status = hear_answer(b, answer, sizeof(answer), &body);
        }
        CHECK(answer_signed(&w, req, BOX_B));
        CHECK(answer_signed(&w, hear_signed(&w, QUERY, "read"), NULL));
        CHECK_INT(hear_answer(b, answer, sizeof(answer), &body), ==, 401);
}

static void control_lost_in_between_is_asked_again(void)
{
        WORLD;
        AUTO_CLOSE int a = -1, b = -1;
        const char *body;

        START;
        a = client_saying(&w, GET);
        CHECK_INT(hear_signed(&w, QUERY, "read"), >, 0);
        world_lose_control(&w);
        b = client_saying(&w, GET);
        CHECK(accept_routes(&w));
        CHECK(answer_signed(&w, hear_signed(&w, QUERY, "read"), NULL));
        CHECK(answer_signed(&w, hear_signed(&w, QUERY, "read"), NULL));
        CHECK_INT(hear_answer(a, answer, sizeof(answer), &body), ==, 401);
        CHECK_INT(hear_answer(b, answer, sizeof(answer), &body), ==, 401);
}

static void control_that_stays_away_is_said(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;

        w.limits.wait_timeout_ms = w.limits.route_timeout_ms = 100;
        START;
        c = client_saying(&w, GET);
        CHECK_INT(hear_signed(&w, QUERY, "read"), >, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 503);
}

static void by_http2_too(void)
{
        WORLD;
        w.https = -2;
        START;
        H2C c = h2c_open(&w, NULL);
        AUTO_CLOSE int up = -1;
        int32_t id;

        CHECK(c);
        id = h2c_ask(c, "GET", "localhost", TARGET, NULL, NULL);
        CHECK(h2c_push(c));
        CHECK(answer_signed(&w, hear_signed(&w, QUERY, "read"), BOX_A));
        up = give_both(&w, BOX_A, 49983);
        CHECK(hears(up, "GET " TARGET " HTTP/1.1\r\n"));
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 200);
}

int main(void)
{
        RUN(one_that_is_found_goes_there_as_it_came);
        RUN(nobodys_is_refused);
        RUN(what_is_no_such_url_is_the_apis);
        RUN(those_who_guess_are_told_to_wait);
        RUN(only_so_many_wait);
        RUN(control_lost_in_between_is_asked_again);
        RUN(control_that_stays_away_is_said);
        RUN(by_http2_too);
        return tap_done();
}
