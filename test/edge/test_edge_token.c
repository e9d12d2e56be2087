/* Requests on the shared address: an access token or an API key tells whose they are. */
#include "h2client.h"

#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "tap.h"

#define TOKEN_1 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define TOKEN_2 "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define WITH(token) "X-Access-Token: " token "\r\n"
#define ROUTED(id, port) "E2b-Sandbox-Id: " id "\r\nE2b-Sandbox-Port: " port "\r\n"
#define KEY "X-API-Key: e2b_0123456789abcdef0123456789abcdef01234567\r\n"
#define LOCAL "127.0.0.1:3000"
#define FILES REQUEST("GET", "/files?path=a", LOCAL, WITH(TOKEN_1))
#define NOBODYS "{\"sandboxId\":\"\",\"message\":\"The sandbox was not found\",\"code\":502}"

static char answer[65536];

static int client_saying(const struct world *w, const char *request)
{
        int c = dial_client(w);

        return c < 0 || say(c, request) < 0 ? -1 : c;
}

static void a_token_is_asked_for_once_and_leads_to_the_daemon(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        const char *body;

        START;
        c = client_saying(&w, FILES);
        CHECK(answer_signed(&w, hear_token(&w, TOKEN_1), BOX_A));
        up = give_both(&w, BOX_A, 49983);
        CHECK(hears(up, FILES));
        CHECK_INT(say(up, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"), ==, 0); /* the daemon judges */
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 401);
        CHECK_STR(body, "no");
        /* Again, and with a body: nobody is asked any more. */
        CHECK_INT(say(c, REQUEST("POST", "/files?path=a", LOCAL, WITH(TOKEN_1) "Content-Length: 3\r\n") "abc"), ==, 0);
        CHECK(hears(up, REQUEST("POST", "/files?path=a", LOCAL, WITH(TOKEN_1) "Content-Length: 3\r\n") "abc"));
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
        CHECK(is_silent(w.routes_ch, 20));
        /* Another token is another question, on the same connection. */
        CHECK_INT(say(c, REQUEST("GET", "/health", LOCAL, WITH(TOKEN_2))), ==, 0);
        CHECK(answer_signed(&w, hear_token(&w, TOKEN_2), BOX_B));
        {
                AUTO_CLOSE int other = give_both(&w, BOX_B, 49983);

                CHECK(hears(other, REQUEST("GET", "/health", LOCAL, WITH(TOKEN_2))));
                CHECK_INT(say(other, OK_EMPTY), ==, 0);
        }
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
}

static void a_sandbox_that_ended_is_not_found_by_its_token(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        const char *body;

        START;
        c = client_saying(&w, REQUEST("GET", "/health", LOCAL, WITH(TOKEN_1)));
        CHECK(answer_signed(&w, hear_token(&w, TOKEN_1), BOX_A));
        up = give_both(&w, BOX_A, 49983);
        CHECK(hears(up, "GET /health "));
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
        CHECK(tell_gone(&w, BOX_A));
        CHECK_INT(say(c, FILES), ==, 0);
        CHECK(give_no_route(&w, BOX_A)); /* whose it was is still known */
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 502);
        CHECK_STR(body, NOT_FOUND_A);
}

static void a_token_of_nobody_is_not_found(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;

        START;
        c = client_saying(&w, FILES);
        CHECK(answer_signed(&w, hear_token(&w, TOKEN_1), NULL));
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 502);
        CHECK_STR(body, NOBODYS);
        CHECK_INT(say(c, FILES), ==, 0); /* it may become somebody's */
        CHECK(answer_signed(&w, hear_token(&w, TOKEN_1), "no id"));
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 503);
        /* What is no token of ours is asked of nobody. */
        CHECK_INT(say(c, REQUEST("GET", "/files?path=a", LOCAL, WITH("secret"))), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 502);
        CHECK_STR(body, NOBODYS);
        CHECK(is_silent(w.routes_ch, 20));
}

static void those_who_guess_are_told_to_wait_and_others_are_served(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        const char *body;

        w.limits.tokens.unowned_burst = 2;
        w.limits.tokens.unowned_per_s = 0;
        START;
        c = client_saying(&w, FILES);
        CHECK(answer_signed(&w, hear_token(&w, TOKEN_1), BOX_A));
        up = give_both(&w, BOX_A, 49983);
        CHECK(hears(up, FILES));
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
        for (int i = 0; i < 2; i++) {
                CHECK_INT(say(c, REQUEST("GET", "/health", LOCAL, WITH(TOKEN_2))), ==, 0);
                CHECK(answer_signed(&w, hear_token(&w, TOKEN_2), NULL));
                CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 502);
        }
        CHECK_INT(say(c, REQUEST("GET", "/health", LOCAL, WITH(TOKEN_2))), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 429);
        CHECK(is_silent(w.routes_ch, 20)); /* control hears nothing of it */
        CHECK_INT(say(c, FILES), ==, 0);   /* known ones pass */
        CHECK(hears(up, FILES));
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
        /* Signed URLs have a budget of their own. */
        CHECK_INT(say(c, REQUEST("GET", "/files?signature=x", LOCAL, WITH(TOKEN_1))), ==, 0);
        CHECK(answer_signed(&w, hear_signed(&w, "signature=x", "read"), NULL));
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 401);
}

static void only_so_many_wait(void)
{
        WORLD;
        AUTO_CLOSE int a = -1, b = -1;
        const char *body;
        long req;

        w.limits.tokens.asked_max = 1;
        START;
        a = client_saying(&w, FILES);
        req = hear_token(&w, TOKEN_1);
        b = client_saying(&w, FILES);
        CHECK_INT(hear_answer(b, answer, sizeof(answer), &body), ==, 503);
        CHECK(answer_signed(&w, req, NULL));
        CHECK_INT(hear_answer(a, answer, sizeof(answer), &body), ==, 502);
}

static void control_lost_in_between_is_asked_again(void)
{
        WORLD;
        AUTO_CLOSE int a = -1, b = -1;
        const char *body;

        START;
        a = client_saying(&w, FILES);
        CHECK_INT(hear_token(&w, TOKEN_1), >, 0);
        world_lose_control(&w);
        b = client_saying(&w, FILES);
        CHECK(accept_routes(&w));
        CHECK(answer_signed(&w, hear_token(&w, TOKEN_1), NULL));
        CHECK(answer_signed(&w, hear_token(&w, TOKEN_1), NULL));
        CHECK_INT(hear_answer(a, answer, sizeof(answer), &body), ==, 502);
        CHECK_INT(hear_answer(b, answer, sizeof(answer), &body), ==, 502);
}

static void a_paused_sandbox_is_resumed_with_the_token(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        const char *body;

        START;
        c = client_saying(&w, FILES);
        CHECK(answer_signed(&w, hear_token(&w, TOKEN_1), BOX_A));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        CHECK(grant_resume(&w, hear_resume(&w, BOX_A, 49983, TOKEN_1), BOX_A));
        up = give_socket(&w, BOX_A, 49983);
        CHECK(hears(up, FILES));
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
}

static void reserved_paths_stop_at_the_edge(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;

        START;
        c = client_saying(&w, REQUEST("POST", "/init", LOCAL, WITH(TOKEN_1) "Content-Length: 0\r\n"));
        CHECK(answer_signed(&w, hear_token(&w, TOKEN_1), BOX_A));
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 404);
        CHECK(strstr(body, "\"path\":\"/init\""));
        CHECK(is_silent(w.routes_ch, 20));
}

/* What has a key, or is a path of the API, is the API's; and the API gets it as it came. */
static void what_has_a_key_is_the_apis(void)
{
        static const char *const requests[] = {
                REQUEST("GET", "/files?path=a", LOCAL, WITH(TOKEN_1) KEY),
                REQUEST("GET", "/files?path=a", LOCAL, WITH(TOKEN_1) "Authorization: Bearer abc\r\n"),
                REQUEST("GET", "/health", LOCAL, ""),
                REQUEST("GET", "/sandboxes", LOCAL, WITH(TOKEN_1)),
                REQUEST("GET", "/v2/sandboxes", LOCAL, ROUTED(BOX_A, "49983") KEY),
                REQUEST("DELETE", "/sandboxes/" BOX_A, LOCAL, ROUTED(BOX_A, "49983") KEY),
                REQUEST("GET", "http://" LOCAL "/sandboxes", LOCAL, ROUTED(BOX_A, "49983") KEY),
                REQUEST("POST", "/sandboxes/" BOX_A "/connect", LOCAL,
                        ROUTED(BOX_A, "49983") KEY "Content-Length: 15\r\n") "{\"timeout\":300}",
                REQUEST("GET", "/sandboxes/" BOX_A, LOCAL, ROUTED(BOX_A, "49983") "Authorization: bearer abc\r\n"),
        };
        WORLD;
        AUTO_CLOSE int c = -1, api = -1;
        const char *body;

        START;
        c = dial_client(&w);
        for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
                char want[1024];
                const char *scheme;

                (void)snprintf(want, sizeof(want), "%s", requests[i]);
                scheme = strstr(want, "http://" LOCAL);
                if (scheme) /* said without it */
                        memmove(want + 4, scheme + strlen("http://" LOCAL),
                                strlen(scheme + strlen("http://" LOCAL)) + 1);
                printf("# case %zu\n", i);
                CHECK_INT(say(c, requests[i]), ==, 0);
                if (api < 0)
                        api = accept_api(&w);
                CHECK(hears(api, want));
                CHECK_INT(say(api, OK_EMPTY), ==, 0);
                CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
        }
        CHECK(is_silent(w.routes_ch, 20));
}

/* The other way round: a user's server may have such paths and keys of its own, and the daemon gets what it knows. */
static void what_is_a_sandboxs_stays_there(void)
{
        static const struct {
                const char *request;
                int port;
        } cases[] = {
                {REQUEST("GET", "/sandboxes", HOST_A("3000"), KEY), 3000},
                {REQUEST("GET", "/v2/sandboxes", HOST_A("49983"), KEY WITH(TOKEN_1)), 49983},
                {REQUEST("GET", "/sandboxes", LOCAL, ROUTED(BOX_A, "3000") KEY), 3000},
                {REQUEST("GET", "/sandboxes", LOCAL, ROUTED(BOX_A, "49983")), 49983},
                {REQUEST("GET", "/health", LOCAL, ROUTED(BOX_A, "49983") KEY), 49983},
                {REQUEST("GET", "/files?path=a", LOCAL, ROUTED(BOX_A, "49983") KEY WITH(TOKEN_2)), 49983},
                {REQUEST("GET", "/sandboxes", LOCAL, ROUTED(BOX_A, "49983") "Authorization: Basic dXNlcjo=\r\n"),
                 49983},
        };
        WORLD;
        const char *body;

        START;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_CLOSE int c = client_saying(&w, cases[i].request), up = -1;

                printf("# case %zu\n", i);
                up = i == 0 ? give_both(&w, BOX_A, cases[i].port) : give_socket(&w, BOX_A, cases[i].port);
                CHECK(hears(up, cases[i].request));
                CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), ==, 0);
                CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
        }
}

static void by_http2_too(void)
{
        WORLD;
        w.https = -2;
        START;
        H2C c = h2c_open(&w, NULL);
        AUTO_CLOSE int up = -1;
        static const char *const fields[] = {"x-access-token", TOKEN_1, NULL};
        int32_t id;

        CHECK(c);
        id = h2c_ask(c, "GET", "localhost", "/files?path=a", fields, NULL);
        CHECK(h2c_push(c));
        CHECK(answer_signed(&w, hear_token(&w, TOKEN_1), BOX_A));
        up = give_both(&w, BOX_A, 49983);
        CHECK(hears(up, "GET /files?path=a HTTP/1.1\r\n"));
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 200);
}

int main(void)
{
        RUN(a_token_is_asked_for_once_and_leads_to_the_daemon);
        RUN(a_sandbox_that_ended_is_not_found_by_its_token);
        RUN(a_token_of_nobody_is_not_found);
        RUN(those_who_guess_are_told_to_wait_and_others_are_served);
        RUN(only_so_many_wait);
        RUN(control_lost_in_between_is_asked_again);
        RUN(a_paused_sandbox_is_resumed_with_the_token);
        RUN(reserved_paths_stop_at_the_edge);
        RUN(what_has_a_key_is_the_apis);
        RUN(what_is_a_sandboxs_stays_there);
        RUN(by_http2_too);
        return tap_done();
}
