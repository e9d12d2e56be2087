/* Paused sandboxes: exchanges with them are cut, requests wait for one resume, and are told when it is refused. */
#include "h2client.h"

#include <sys/socket.h>

#include "base/auto.h"
#include "base/str.h"
#include "tap.h"

#define GET(port) REQUEST("GET", "/", HOST_A(port), "")
#define GET_WITH(port, token) REQUEST("GET", "/", HOST_A(port), "X-Access-Token: " token "\r\n")
#define STORM 200

static char answer[65536];

static int hear_status(int c, const char **ret_body)
{
        return hear_answer(c, answer, sizeof(answer), ret_body);
}

/* A new client has said this. */
static int client_saying(const struct world *w, const char *request)
{
        int c = dial_client(w);

        return c < 0 || say(c, request) < 0 ? -1 : c;
}

/* The next socket into the sandbox, and its request answered with 200. */
static bool serve_one(struct world *w, int port, const char *request)
{
        AUTO_CLOSE int up = give_socket(w, BOX_A, port);

        return up >= 0 && hears(up, request) && say(up, OK_EMPTY) == 0;
}

/* ---- pausing ---- */

static void going_to_rest_cuts_what_runs_and_drops_what_is_kept(void)
{
        WORLD;
        AUTO_CLOSE int stream = -1, tunnel = -1, idle = -1, up = -1, ws = -1, kept = -1;
        char head[4096];
        const char *body;

        START;
        stream = client_saying(&w, GET("3000"));
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"), ==, 0);
        CHECK_INT(hear_head(stream, head, sizeof(head)), >, 0);
        CHECK(hears(stream, "1\r\nx\r\n"));
        tunnel = client_saying(&w, REQUEST("GET", "/ws", HOST_A("6080"), WEBSOCKET));
        ws = give_socket(&w, BOX_A, 6080);
        CHECK_INT(hear_head(ws, head, sizeof(head)), >, 0);
        CHECK_INT(say(ws, SWITCH), ==, 0);
        CHECK(hears(tunnel, SWITCH));
        idle = client_saying(&w, GET("49983"));
        kept = give_socket(&w, BOX_A, 49983);
        CHECK(hears(kept, GET("49983")));
        CHECK_INT(say(kept, OK_EMPTY), ==, 0);
        CHECK_INT(hear_status(idle, &body), ==, 200);

        CHECK(tell_state(&w, BOX_A, "paused", false));
        CHECK_INT(hear_end(stream), ==, END_RESET);
        CHECK_INT(hear_end(tunnel), ==, END_RESET);
        CHECK_INT(hear_end(up), !=, END_NONE);
        CHECK_INT(hear_end(ws), !=, END_NONE);
        CHECK_INT(hear_end(kept), !=, END_NONE);
        /* Traffic may not resume the sandbox: not found, and control is not asked. */
        CHECK_INT(say(idle, REQUEST("GET", "/health", HOST_A("49983"), "")), ==, 0);
        CHECK_INT(hear_status(idle, &body), ==, 502);
        CHECK_STR(body, NOT_FOUND_A);
        CHECK(is_silent(w.routes_ch, 20));
        /* Resumed by other means it is served again. */
        CHECK(tell_state(&w, BOX_A, "running", false));
        CHECK_INT(say(idle, GET("49983")), ==, 0);
        CHECK(serve_one(&w, 49983, GET("49983")));
        CHECK_INT(hear_status(idle, &body), ==, 200);
}

static void a_sandbox_that_may_not_be_resumed_is_not_found(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;

        START;
        c = client_saying(&w, GET("3000"));
        CHECK(give_paused(&w, BOX_A, NULL, false));
        CHECK_INT(hear_status(c, &body), ==, 502);
        CHECK_STR(body, NOT_FOUND_A);
        CHECK(is_silent(w.routes_ch, 20));
        /* A visitor is told that it is not gone, and what helps. */
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "User-Agent: Mozilla/5.0\r\n")), ==, 0);
        CHECK_INT(hear_status(c, &body), ==, 502);
        CHECK(strstr(body, "<title>Sandbox Is Paused</title>") && strstr(body, "sandglass resume " BOX_A));
        CHECK(!strstr(body, "not found"));
        CHECK(is_silent(w.routes_ch, 20));
}

/* ---- resuming ---- */

static void a_storm_of_requests_resumes_once(void)
{
        WORLD;
        int c[STORM];
        const char *body;
        long req;

        START;
        for (size_t i = 0; i < STORM; i++)
                c[i] = client_saying(&w, GET("3000"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        req = hear_resume(&w, BOX_A, 3000, NULL);
        CHECK_INT(req, >, 0);
        CHECK(is_silent(w.routes_ch, 50)); /* once for all */
        CHECK(is_silent(w.dial_ch, 0) && is_silent(c[0], 0));
        CHECK(grant_resume(&w, req, BOX_A));
        for (size_t i = 0; i < STORM; i++)
                CHECK(serve_one(&w, 3000, GET("3000")));
        for (size_t i = 0; i < STORM; i++) {
                CHECK_INT(hear_status(c[i], &body), ==, 200);
                close_fd(&c[i]);
        }
        CHECK(is_silent(w.routes_ch, 0));
}

static void the_engine_may_hear_of_its_rest_before_the_edge_does(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;
        long req;

        START;
        c = client_saying(&w, GET("3000"));
        CHECK(give_route(&w, BOX_A, NULL, NULL));
        CHECK(give_error(&w, "gone"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        req = hear_resume(&w, BOX_A, 3000, NULL);
        CHECK_INT(req, >, 0);
        CHECK(grant_resume(&w, req, BOX_A));
        CHECK(serve_one(&w, 3000, GET("3000")));
        CHECK_INT(hear_status(c, &body), ==, 200);
}

static void news_that_it_runs_is_as_good_as_the_answer(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;
        long req;

        START;
        c = client_saying(&w, GET("3000"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        req = hear_resume(&w, BOX_A, 3000, NULL);
        CHECK(tell_state(&w, BOX_A, "paused", true)); /* once more: nothing new */
        CHECK(is_silent(c, 20));
        CHECK(tell_state(&w, BOX_A, "running", false));
        CHECK(serve_one(&w, 3000, GET("3000")));
        CHECK_INT(hear_status(c, &body), ==, 200);
        CHECK(grant_resume(&w, req, BOX_A)); /* nobody waits for it any more */
        CHECK_INT(say(c, GET("3001")), ==, 0);
        CHECK(serve_one(&w, 3001, GET("3001")));
        CHECK_INT(hear_status(c, &body), ==, 200);
}

static void bodies_wait_unread_and_arrive_whole(void)
{
        static char sent[1 << 20], got[1 << 20];
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];
        size_t said = 0;
        const char *body;
        long before, req;

        START;
        for (size_t i = 0; i < sizeof(sent); i++)
                sent[i] = (char)(i * 31 + i / 256);
        c = client_saying(&w, REQUEST("POST", "/up", HOST_A("3000"), "Content-Length: 1048576\r\n"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        req = hear_resume(&w, BOX_A, 3000, NULL);
        before = world_rss_kb(&w);
        for (ssize_t n; said < sizeof(sent); said += (size_t)n) { /* until nobody takes more */
                n = send(c, sent + said, sizeof(sent) - said, MSG_DONTWAIT | MSG_NOSIGNAL);
                if (n <= 0)
                        break;
        }
        CHECK(is_silent(c, 50));
        CHECK_INT(world_rss_kb(&w) - before, <, 512);
        CHECK(grant_resume(&w, req, BOX_A));
        up = give_socket(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        for (size_t have = 0; have < sizeof(got);) {
                ssize_t n = said < sizeof(sent) ? send(c, sent + said, sizeof(sent) - said, MSG_DONTWAIT) : 0;

                said += n > 0 ? (size_t)n : 0;
                n = recv(up, got + have, sizeof(got) - have, said < sizeof(sent) ? MSG_DONTWAIT : 0);
                have += n > 0 ? (size_t)n : 0;
        }
        CHECK(memcmp(sent, got, sizeof(sent)) == 0);
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK_INT(hear_status(c, &body), ==, 200);
}

static void a_websocket_is_held_and_then_opened(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];

        START;
        c = client_saying(&w, REQUEST("GET", "/ws", HOST_A("6080"), WEBSOCKET) "early");
        CHECK(give_paused(&w, BOX_A, NULL, true));
        CHECK(grant_resume(&w, hear_resume(&w, BOX_A, 6080, NULL), BOX_A));
        up = give_socket(&w, BOX_A, 6080);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, SWITCH), ==, 0);
        CHECK(hears(c, SWITCH));
        CHECK(hears(up, "early"));
}

static void streams_are_held_like_connections(void)
{
        static const char *const websocket[] = {":method", "CONNECT", ":protocol", "websocket",  ":scheme",
                                                "https",   ":path",   "/chat",     ":authority", HOST_A("6080"),
                                                "origin",  "x",       NULL};
        WORLD;
        AUTO_CLOSE int up = -1, ws = -1;
        int32_t plain, post, left, chat;
        char head[4096];
        long req;

        w.https = -2;
        START;
        H2C c = h2c_open(&w, NULL);
        CHECK(c);
        plain = h2c_ask(c, "GET", HOST_A("3000"), "/plain", NULL, NULL);
        post = h2c_ask(c, "POST", HOST_A("3000"), "/post", NULL, "body");
        left = h2c_ask(c, "GET", HOST_A("3000"), "/left", NULL, NULL);
        chat = h2c_ask_raw(c, websocket, H2_OPEN);
        CHECK(h2c_push(c));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        req = hear_resume(&w, BOX_A, 3000, NULL);
        h2c_reset(c, left); /* it does not wait for it */
        CHECK(h2c_push(c));
        h2c_idle(c, 20);
        CHECK(is_silent(w.routes_ch, 0));
        CHECK(grant_resume(&w, req, BOX_A));
        CHECK(serve_one(&w, 3000, "GET /plain "));
        up = give_socket(&w, BOX_A, 3000);
        CHECK(hears(up, "POST /post "));
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        ws = give_socket(&w, BOX_A, 6080);
        CHECK_INT(hear_head(ws, head, sizeof(head)), >, 0);
        CHECK_INT(say(ws, SWITCH "hello"), ==, 0);
        CHECK(h2c_wait_end(c, plain) && h2c_wait_end(c, post) && h2c_wait_body(c, chat, 5));
        CHECK_INT(h2c_of(c, plain)->status, ==, 200);
        CHECK_INT(h2c_of(c, post)->status, ==, 200);
        CHECK_STR(h2c_of(c, chat)->body, "hello");
        CHECK(is_silent(w.dial_ch, 0));
        /* At the next pause they are cut. */
        CHECK(tell_state(&w, BOX_A, "paused", true));
        CHECK(h2c_wait_end(c, chat));
        CHECK_INT(h2c_of(c, chat)->error, ==, NGHTTP2_INTERNAL_ERROR);
}

static void one_who_leaves_is_not_served(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, other = -1;
        const char *body;
        long req;

        START;
        c = client_saying(&w, GET("3000"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        req = hear_resume(&w, BOX_A, 3000, NULL);
        other = client_saying(&w, GET("3001"));
        close_fd(&c);
        CHECK(is_silent(w.routes_ch, 20));
        CHECK(grant_resume(&w, req, BOX_A));
        CHECK(serve_one(&w, 3001, GET("3001")));
        CHECK_INT(hear_status(other, &body), ==, 200);
        CHECK(is_silent(w.dial_ch, 0));
}

static void a_resume_takes_longer_than_a_head_or_an_answer_may(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;
        long req;

        w.limits.head_timeout_ms = w.limits.wait_timeout_ms = SHORT_MS;
        START;
        c = client_saying(&w, GET("3000"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        req = hear_resume(&w, BOX_A, 3000, NULL);
        CHECK(is_silent(c, 2 * SHORT_MS));
        CHECK(grant_resume(&w, req, BOX_A));
        CHECK(serve_one(&w, 3000, GET("3000")));
        CHECK_INT(hear_status(c, &body), ==, 200);
}

/* ---- who may ---- */

static void private_traffic_is_checked_before_a_resume(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;

        START;
        c = client_saying(&w, GET("3000"));
        CHECK(give_paused(&w, BOX_A, "secret", true));
        CHECK_INT(hear_status(c, &body), ==, 403);
        CHECK(strstr(body, "is missing"));
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "E2B-Traffic-Access-Token: other\r\n")), ==, 0);
        CHECK_INT(hear_status(c, &body), ==, 403);
        CHECK(strstr(body, "is invalid"));
        CHECK(is_silent(w.routes_ch, 20));
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "E2B-Traffic-Access-Token: secret\r\n")), ==, 0);
        CHECK(grant_resume(&w, hear_resume(&w, BOX_A, 3000, NULL), BOX_A));
        CHECK(serve_one(&w, 3000, "GET / "));
        CHECK_INT(hear_status(c, &body), ==, 200);
}

static void a_denial_concerns_only_who_has_the_same_credential(void)
{
        WORLD;
        AUTO_CLOSE int none = -1, wrong = -1, wrong_too = -1, right = -1, user = -1;
        const char *body;
        long req;

        START;
        wrong = client_saying(&w, GET_WITH("49983", "wrong"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        req = hear_resume(&w, BOX_A, 49983, "wrong");
        wrong_too = client_saying(&w, GET_WITH("49983", "wrong"));
        CHECK(is_silent(w.routes_ch, 20));
        none = client_saying(&w, GET("49983"));
        CHECK(is_silent(w.routes_ch, 20));
        right = client_saying(&w, GET_WITH("49983", "right"));
        CHECK(is_silent(w.routes_ch, 20));
        user = client_saying(&w, GET_WITH("3000", "wrong")); /* a server's own header, perhaps */
        CHECK(is_silent(w.routes_ch, 50));
        CHECK(refuse_resume(&w, req, "denied", "no"));
        CHECK_INT(hear_status(wrong, &body), ==, 403);
        CHECK_STR(body, "{\"sandboxId\":\"" BOX_A "\",\"message\":\"This sandbox can't be resumed with the credentials "
                        "provided. Check your access token and try again.\",\"code\":403}");
        CHECK_INT(hear_status(wrong_too, &body), ==, 403);
        req = hear_resume(&w, BOX_A, 49983, NULL);
        CHECK(refuse_resume(&w, req, "denied", "no"));
        CHECK_INT(hear_status(none, &body), ==, 403);
        req = hear_resume(&w, BOX_A, 49983, "right");
        CHECK(is_silent(user, 20) && is_silent(w.routes_ch, 0));
        CHECK(grant_resume(&w, req, BOX_A));
        CHECK(serve_one(&w, 49983, GET_WITH("49983", "right")));
        CHECK(serve_one(&w, 3000, "GET / "));
        CHECK_INT(hear_status(right, &body), ==, 200);
        CHECK_INT(hear_status(user, &body), ==, 200);
}

static void odd_tokens_are_none(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        char request[2048], token[1024];
        const char *body;

        START;
        c = client_saying(&w, GET_WITH("49983", "\xff\xfe"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        CHECK(refuse_resume(&w, hear_resume(&w, BOX_A, 49983, NULL), "denied", "no"));
        CHECK_INT(hear_status(c, &body), ==, 403);
        memset(token, 'a', sizeof(token) - 1);
        token[sizeof(token) - 1] = 0;
        (void)snprintf(request, sizeof(request),
                       "GET / HTTP/1.1\r\nHost: " HOST_A("49983") "\r\nX-Access-Token: %s\r\n\r\n", token);
        CHECK_INT(say(c, request), ==, 0);
        CHECK(refuse_resume(&w, hear_resume(&w, BOX_A, 49983, NULL), "denied", "no"));
        CHECK_INT(hear_status(c, &body), ==, 403);
}

/* ---- refusals ---- */

static void each_refusal_has_its_answer(void)
{
        static const struct {
                const char *kind, *message;
                int status;
                const char *said, *title;
        } cases[] = {
                {"limit", "20 sandboxes at a time", 429, "20 sandboxes at a time", "Sandbox Limit Reached"},
                {"conflict", "x", 409, "The sandbox is still transitioning. Try again in a moment.",
                 "Sandbox Is Transitioning"},
                {"denied", "x", 403,
                 "This sandbox can't be resumed with the credentials provided. Check your access "
                 "token and try again.",
                 "Sandbox Cannot Be Resumed"},
                {"unavailable", "x", 503, "The sandbox cannot be reached at the moment. Try again in a moment.",
                 "Sandbox Unavailable"},
                {"timeout", "x", 503, "The sandbox cannot be reached at the moment. Try again in a moment.",
                 "Sandbox Unavailable"},
                {"interrupted", "x", 503, "The sandbox cannot be reached at the moment. Try again in a moment.",
                 "Sandbox Unavailable"},
                {"internal", "x", 502, "The sandbox was not found", "Sandbox Could Not Be Resumed"},
                {"invalid", "checkpoint damaged: pages-1.img", 502, "The sandbox was not found",
                 "Sandbox Could Not Be Resumed"},
        };
        WORLD;
        AUTO_CLOSE int c = -1, page = -1;
        char want[512];
        const char *body;

        START;
        c = dial_client(&w), page = dial_client(&w);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                CHECK_INT(say(c, GET("3000")), ==, 0);
                if (i == 0)
                        CHECK(give_paused(&w, BOX_A, NULL, true));
                CHECK(refuse_resume(&w, hear_resume(&w, BOX_A, 3000, NULL), cases[i].kind, cases[i].message));
                CHECK_INT(hear_status(c, &body), ==, cases[i].status);
                (void)snprintf(want, sizeof(want), "{\"sandboxId\":\"" BOX_A "\",\"message\":\"%s\",\"code\":%d}",
                               cases[i].said, cases[i].status);
                CHECK_STR(body, want);
                CHECK_INT(say(page, REQUEST("GET", "/", HOST_A("3000"), "User-Agent: Mozilla/5.0\r\n")), ==, 0);
                CHECK(refuse_resume(&w, hear_resume(&w, BOX_A, 3000, NULL), cases[i].kind, cases[i].message));
                CHECK_INT(hear_status(page, &body), ==, cases[i].status);
                CHECK(strstr(body, cases[i].title) && strstr(body, BOX_A));
        }
        CHECK_INT(say(c, GET("3000")), ==, 0);
        CHECK(refuse_resume(&w, hear_resume(&w, BOX_A, 3000, NULL), "not_found", "x"));
        CHECK_INT(hear_status(c, &body), ==, 502);
        CHECK_STR(body, NOT_FOUND_A);
        CHECK_INT(say(c, GET("3000")), ==, 0); /* nothing is remembered of it */
        CHECK(give_no_route(&w, BOX_A));
        CHECK_INT(hear_status(c, &body), ==, 502);
}

static void limits_are_said_to_everybody_who_waits(void)
{
        WORLD;
        AUTO_CLOSE int a = -1, b = -1;
        const char *body;
        long req;

        START;
        a = client_saying(&w, GET("3000"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        req = hear_resume(&w, BOX_A, 3000, NULL);
        b = client_saying(&w, GET("3001"));
        CHECK(is_silent(w.routes_ch, 50));
        CHECK(refuse_resume(&w, req, "limit", "that is <all>"));
        CHECK_INT(hear_status(a, &body), ==, 429);
        CHECK_INT(hear_status(b, &body), ==, 429);
        CHECK(strstr(body, "that is <all>"));
}

static void a_full_disk_is_told_as_such(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;

        START;
        c = client_saying(&w, GET("3000"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        CHECK(refuse_resume(&w, hear_resume(&w, BOX_A, 3000, NULL), "no_space", "write running.json"));
        CHECK_INT(hear_status(c, &body), ==, 507);
        CHECK(strstr(body, "disk of the server is full"));
}

static void an_answer_that_makes_no_sense_is_a_refusal(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;

        START;
        c = client_saying(&w, GET("3000"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        CHECK(grant_resume(&w, hear_resume(&w, BOX_A, 3000, NULL), BOX_B)); /* another's route */
        CHECK_INT(hear_status(c, &body), ==, 502);
}

static void one_that_is_gone_meanwhile_is_not_found(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, d = -1;
        const char *body;

        START;
        c = client_saying(&w, GET("3000"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        CHECK_INT(hear_resume(&w, BOX_A, 3000, NULL), >, 0);
        CHECK(tell_gone(&w, BOX_A));
        CHECK_INT(hear_status(c, &body), ==, 502);
        CHECK_STR(body, NOT_FOUND_A);
        d = client_saying(&w, GET("3000"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        CHECK_INT(hear_resume(&w, BOX_A, 3000, NULL), >, 0);
        CHECK(tell_state(&w, BOX_A, "paused", false)); /* its memory is lost */
        CHECK_INT(hear_status(d, &body), ==, 502);
}

/* ---- bounds ---- */

static void too_many_who_wait_are_refused(void)
{
        WORLD;
        AUTO_CLOSE int a = -1, b = -1, c = -1, d = -1;
        const char *body;
        long req;

        w.limits.resume_waiters_max = 2;
        w.limits.resumes_max = 1;
        START;
        a = client_saying(&w, GET("3000"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        req = hear_resume(&w, BOX_A, 3000, NULL);
        b = client_saying(&w, GET("3000"));
        CHECK(is_silent(b, 20));
        c = client_saying(&w, GET("3000"));
        CHECK_INT(hear_status(c, &body), ==, 429);
        CHECK(strstr(body, "\"connectionLimit\":2"));
        d = client_saying(&w, REQUEST("GET", "/", HOST_B("3000"), ""));
        CHECK(give_paused(&w, BOX_B, NULL, true));
        CHECK_INT(hear_status(d, &body), ==, 503); /* one at a time */
        CHECK(grant_resume(&w, req, BOX_A));
        CHECK(serve_one(&w, 3000, GET("3000")));
        CHECK(serve_one(&w, 3000, GET("3000")));
        CHECK_INT(say(d, REQUEST("GET", "/", HOST_B("3000"), "")), ==, 0);
        CHECK_INT(hear_resume(&w, BOX_B, 3000, NULL), >, 0);
}

static void too_many_who_wait_for_anything_are_refused(void)
{
        WORLD;
        AUTO_CLOSE int a = -1, b = -1;
        const char *body;

        w.limits.waiters_max = 1;
        START;
        a = client_saying(&w, GET("3000"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        CHECK_INT(hear_resume(&w, BOX_A, 3000, NULL), >, 0);
        b = client_saying(&w, REQUEST("GET", "/", HOST_B("3000"), ""));
        CHECK(give_paused(&w, BOX_B, NULL, true));
        CHECK_INT(hear_status(b, &body), ==, 503);
}

static void a_resume_without_an_end_is_given_up(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;

        w.limits.resume_timeout_ms = 100;
        START;
        c = client_saying(&w, GET("3000"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        CHECK_INT(hear_resume(&w, BOX_A, 3000, NULL), >, 0);
        CHECK_INT(hear_status(c, &body), ==, 409);
        CHECK(strstr(body, "still transitioning"));
}

/* ---- control comes and goes ---- */

static void control_lost_while_waiting_is_asked_again(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, d = -1;
        const char *body;

        START;
        c = client_saying(&w, GET("3000"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        CHECK_INT(hear_resume(&w, BOX_A, 3000, NULL), >, 0);
        world_lose_control(&w);
        d = client_saying(&w, GET("3001"));
        CHECK(accept_routes(&w));
        CHECK(give_paused(&w, BOX_A, NULL, true)); /* control knows nothing of the question */
        CHECK(grant_resume(&w, hear_resume(&w, BOX_A, 3000, NULL), BOX_A));
        CHECK(serve_one(&w, 3000, GET("3000")));
        CHECK(serve_one(&w, 3001, GET("3001")));
        CHECK_INT(hear_status(c, &body), ==, 200);
        CHECK_INT(hear_status(d, &body), ==, 200);
}

static void control_lost_may_come_back_with_it_running(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;

        START;
        c = client_saying(&w, GET("3000"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        CHECK_INT(hear_resume(&w, BOX_A, 3000, NULL), >, 0);
        world_lose_control(&w);
        CHECK(accept_routes(&w));
        CHECK(give_route(&w, BOX_A, NULL, NULL));
        CHECK(serve_one(&w, 3000, GET("3000")));
        CHECK_INT(hear_status(c, &body), ==, 200);
}

static void control_lost_for_good_is_said(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;

        w.limits.wait_timeout_ms = 50;
        START;
        c = client_saying(&w, GET("3000"));
        CHECK(give_paused(&w, BOX_A, NULL, true));
        CHECK_INT(hear_resume(&w, BOX_A, 3000, NULL), >, 0);
        world_lose_control(&w);
        w.routes_ch = -1;
        CHECK_INT(hear_status(c, &body), ==, 503);
        CHECK(strstr(body, "\"sandboxId\":\"" BOX_A "\""));
}

int main(void)
{
        RUN(going_to_rest_cuts_what_runs_and_drops_what_is_kept);
        RUN(a_sandbox_that_may_not_be_resumed_is_not_found);
        RUN(a_storm_of_requests_resumes_once);
        RUN(the_engine_may_hear_of_its_rest_before_the_edge_does);
        RUN(news_that_it_runs_is_as_good_as_the_answer);
        RUN(bodies_wait_unread_and_arrive_whole);
        RUN(a_websocket_is_held_and_then_opened);
        RUN(streams_are_held_like_connections);
        RUN(one_who_leaves_is_not_served);
        RUN(a_resume_takes_longer_than_a_head_or_an_answer_may);
        RUN(private_traffic_is_checked_before_a_resume);
        RUN(a_denial_concerns_only_who_has_the_same_credential);
        RUN(odd_tokens_are_none);
        RUN(each_refusal_has_its_answer);
        RUN(limits_are_said_to_everybody_who_waits);
        RUN(a_full_disk_is_told_as_such);
        RUN(an_answer_that_makes_no_sense_is_a_refusal);
        RUN(one_that_is_gone_meanwhile_is_not_found);
        RUN(too_many_who_wait_are_refused);
        RUN(too_many_who_wait_for_anything_are_refused);
        RUN(a_resume_without_an_end_is_given_up);
        RUN(control_lost_while_waiting_is_asked_again);
        RUN(control_lost_may_come_back_with_it_running);
        RUN(control_lost_for_good_is_said);
        return tap_done();
}
