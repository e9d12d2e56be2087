/* What the edge checks and says by itself; tunnels; sandboxes that end; parts of ours that come and go; TLS. */
#include "harness.h"

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/str.h"
#include "tap.h"

static char answer[65536];

static int ask(int c, const char *request, const char **ret_body)
{
        return say(c, request) < 0 ? -1 : hear_answer(c, answer, sizeof(answer), ret_body);
}

/* ---- checks ---- */

static void sandboxes_that_never_were_are_not_found(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/health", HOST_A("49983"), "")), ==, 0);
        CHECK(give_no_route(&w, BOX_A));
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 502);
        CHECK_STR(body, NOT_FOUND_A);
        CHECK(strstr(answer, "Content-Type: application/json; charset=utf-8"));
        /* An id that control would never make is not even asked for. */
        CHECK_INT(ask(c, REQUEST("GET", "/health", "49983-abc.box.test", ""), &body), ==, 502);
        CHECK_STR(body, "{\"sandboxId\":\"abc\",\"message\":\"The sandbox was not found\",\"code\":502}");
        CHECK(is_silent(w.routes_ch, 20));
        /* A browser gets a page. */
        CHECK_INT(ask(c, REQUEST("GET", "/", "80-abc.box.test", "User-Agent: Mozilla/5.0\r\n"), &body), ==, 502);
        CHECK(strstr(body, "Sandbox Not Found") && strstr(body, "abc"));
}

static void routing_errors_are_plain_text(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(ask(c, REQUEST("GET", "/", "localhost", "E2b-Sandbox-Id: abc\r\n"), &body), ==, 400);
        CHECK_STR(body, "missing header");
        CHECK_INT(ask(c, REQUEST("GET", "/", "3000-ABC.box.test", ""), &body), ==, 400);
        CHECK_STR(body, "Invalid sandbox ID");
        CHECK_INT(ask(c, REQUEST("GET", "/", "x-abc.box.test", ""), &body), ==, 400);
        CHECK_STR(body, "Invalid sandbox port");
        CHECK_INT(ask(c, REQUEST("POST", "/", "box", "Content-Length: 4\r\n") "body", &body), ==, 400);
        CHECK_STR(body, "Invalid host");
        CHECK(strstr(answer, "text/plain"));
}

static void reserved_paths_stop_at_the_edge(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(ask(c, REQUEST("POST", "//%69nit?x", HOST_A("49983"), "Content-Length: 2\r\n") "{}", &body), ==, 404);
        CHECK_STR(body, "{\"message\":\"This endpoint is reserved for the E2B control plane and is not reachable "
                        "through the sandbox URL\",\"path\":\"/init\",\"code\":404}");
        CHECK(is_silent(w.routes_ch, 20)); /* before anybody is asked */
        CHECK_INT(say(c, REQUEST("POST", "/init", HOST_A("8080"), "Content-Length: 0\r\n")), ==, 0);
        up = give_both(&w, BOX_A, 8080); /* a user's own server may have such a path */
        CHECK(hears(up, "POST /init "));
}

static void private_traffic_needs_its_token(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1, envd = -1;
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("8080"), "")), ==, 0);
        CHECK(give_route(&w, BOX_A, "secret", NULL));
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 403);
        CHECK(strstr(body, "Token header 'e2b-traffic-access-token' is missing"));
        CHECK_INT(ask(c, REQUEST("GET", "/", HOST_A("8080"), "E2B-Traffic-Access-Token: secreT\r\n"), &body), ==, 403);
        CHECK(strstr(body, "Provided token in header 'e2b-traffic-access-token' is invalid"));
        CHECK_INT(ask(c,
                      REQUEST("GET", "/?e2b-traffic-access-token=secret", HOST_A("8080"),
                              "Cookie: e2b-traffic-access-token=secret\r\n"),
                      &body),
                  ==, 403);
        CHECK_INT(say(c, REQUEST("GET", "/in", HOST_A("8080"), "E2B-Traffic-Access-Token: secret\r\n")), ==, 0);
        up = give_socket(&w, BOX_A, 8080);
        CHECK(hears(up, "GET /in "));
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
        CHECK_INT(say(c, REQUEST("GET", "/envd", HOST_A("49983"), "")), ==, 0); /* envd has its own */
        envd = give_socket(&w, BOX_A, 49983);
        CHECK(hears(envd, "GET /envd "));
}

static void masked_hosts_are_what_servers_see(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1, envd = -1;
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("8080"), "X-Forwarded-Host: evil\r\n")), ==, 0);
        CHECK(give_route(&w, BOX_A, NULL, "custom.test:${PORT}"));
        up = give_socket(&w, BOX_A, 8080);
        CHECK(hears(up, "GET / HTTP/1.1\r\nHost: custom.test:8080\r\nX-Forwarded-Host: " HOST_A("8080") "\r\n\r\n"));
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("49983"), "")), ==, 0);
        envd = give_socket(&w, BOX_A, 49983);
        CHECK(hears(envd, REQUEST("GET", "/", HOST_A("49983"), "")));
}

static void closed_ports_and_vanished_sandboxes_are_told_apart(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        CHECK(give_route(&w, BOX_A, NULL, NULL));
        CHECK(give_error(&w, "unavailable"));
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 502);
        CHECK(strstr(body, "\"port\":3000"));
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        CHECK(give_error(&w, "not_found"));
        CHECK(give_route(&w, BOX_A, NULL, NULL)); /* asked again, once */
        CHECK(give_error(&w, "not_found"));
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 502);
        CHECK_STR(body, NOT_FOUND_A);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        CHECK(give_error(&w, "not_found"));
        CHECK(give_no_route(&w, BOX_A));
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 502);
        CHECK_STR(body, NOT_FOUND_A);
}

/* ---- tunnels ---- */

static int open_tunnel(struct world *w, int c)
{
        int up;

        if (say(c, REQUEST("GET", "/ws", HOST_A("6080"), WEBSOCKET)) < 0)
                return -1;
        up = give_both(w, BOX_A, 6080);
        return hears(up, REQUEST("GET", "/ws", HOST_A("6080"), WEBSOCKET)) && say(up, SWITCH) == 0 && hears(c, SWITCH)
                       ? up
                       : -1;
}

static void tunnels_carry_bytes_and_half_closes(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;

        START;
        c = dial_client(&w);
        up = open_tunnel(&w, c);
        CHECK(up >= 0);
        CHECK_INT(say(c, "to the server"), ==, 0);
        CHECK(hears(up, "to the server"));
        CHECK_INT(say(up, "to the client"), ==, 0);
        CHECK(hears(c, "to the client"));
        CHECK_INT(shutdown(c, SHUT_WR), ==, 0);
        CHECK_INT(hear_end(up), ==, END_CLEAN);
        CHECK_INT(say(up, "still here"), ==, 0);
        CHECK(hears(c, "still here"));
        close_fd(&up);
        CHECK_INT(hear_end(c), ==, END_CLEAN);
}

static void a_tunnel_half_closed_lives_as_long_as_bytes_come(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1, other = -1, other_up = -1;
        char head[4096];

        w.limits.half_timeout_ms = 300;
        START;
        c = dial_client(&w);
        up = open_tunnel(&w, c);
        CHECK(up >= 0);
        CHECK_INT(shutdown(c, SHUT_WR), ==, 0);
        CHECK_INT(hear_end(up), ==, END_CLEAN);
        for (int i = 0; i < 10; i++) { /* longer than the limit */
                CHECK_INT(say(up, "x"), ==, 0);
                CHECK(hears(c, "x"));
                CHECK(is_silent(c, 60));
        }
        CHECK_INT(hear_end(c), ==, END_RESET);
        CHECK_INT(hear_end(up), !=, END_NONE);
        /* The other end, too. */
        other = dial_client(&w);
        CHECK_INT(say(other, REQUEST("GET", "/ws", HOST_A("3000"), "Connection: Upgrade\r\nUpgrade: websocket\r\n")),
                  ==, 0);
        other_up = give_socket(&w, BOX_A, 3000);
        CHECK_INT(hear_head(other_up, head, sizeof(head)), >, 0);
        CHECK_INT(
                say(other_up, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
                ==, 0);
        CHECK_INT(hear_head(other, head, sizeof(head)), >, 0);
        CHECK_INT(shutdown(other_up, SHUT_WR), ==, 0);
        CHECK_INT(hear_end(other), !=, END_NONE);
        CHECK_INT(hear_end(other_up), !=, END_NONE);
}

/* Whatever waits there are for heads, idle connections and ourselves: none is for what runs. */
static void silent_tunnels_and_streams_go_on(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1, s = -1, slow = -1, h = -1, waits = -1;
        char head[4096];

        w.limits.head_timeout_ms = w.limits.idle_timeout_ms = w.limits.wait_timeout_ms = 20;
        w.limits.dial_timeout_ms = w.limits.drain_timeout_ms = w.limits.idle_users_ms = 20;
        START;
        c = dial_client(&w);
        up = open_tunnel(&w, c);
        CHECK(up >= 0);
        s = dial_client(&w);
        CHECK_INT(say(s, REQUEST("GET", "/events", HOST_A("3000"), "")), ==, 0);
        slow = give_socket(&w, BOX_A, 3000);
        CHECK_INT(hear_head(slow, head, sizeof(head)), >, 0);
        CHECK_INT(say(slow, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), ==, 0);
        CHECK_INT(hear_head(s, head, sizeof(head)), >, 0);
        h = dial_client(&w);
        CHECK_INT(say(h, REQUEST("POST", "/think", HOST_A("3000"), "Content-Length: 2\r\n") "a"), ==, 0);
        waits = give_socket(&w, BOX_A, 3000);
        CHECK_INT(hear_head(waits, head, sizeof(head)), >, 0);
        CHECK(hears(waits, "a"));
        CHECK(is_silent(c, 150)); /* many times all of them */
        CHECK(is_silent(s, 1) && is_silent(h, 1));
        CHECK_INT(say(c, "ping"), ==, 0);
        CHECK(hears(up, "ping"));
        CHECK_INT(say(slow, "1\r\nx\r\n"), ==, 0);
        CHECK(hears(s, "1\r\nx\r\n"));
        CHECK_INT(say(h, "b"), ==, 0);
        CHECK(hears(waits, "b"));
        CHECK_INT(say(waits, OK_EMPTY), ==, 0);
        CHECK(hears(h, "HTTP/1.1 200 OK\r\n"));
}

/* Who accepts a connection waits longer than who made it, so that no request meets a connection about to close. */
static void waits_grow_along_the_chain(void)
{
        CHECK_INT(edge_limits_default.idle_timeout_ms, ==, 620000);
        CHECK_INT(edge_limits_default.idle_ours_ms, <, 640000); /* the daemon and control */
        CHECK_INT(edge_limits_default.idle_users_ms, <, 5000);  /* what Node's servers wait */
}

static void tunnels_hold_back_who_is_too_fast(void)
{
        static char piece[1 << 16], got[1 << 16];
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        size_t said = 0, most = 64u << 20;
        long before;

        START;
        c = dial_client(&w);
        up = open_tunnel(&w, c);
        CHECK(up >= 0);
        before = world_rss_kb(&w);
        for (;;) {
                ssize_t n = send(up, piece, sizeof(piece), MSG_DONTWAIT | MSG_NOSIGNAL);

                if (n < 0 && is_silent(up, 50) && send(up, piece, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
                        break;
                said += n < 0 ? 1 : (size_t)n;
                CHECK_INT(said, <, most);
        }
        CHECK_INT(world_rss_kb(&w) - before, <, 512);
        close_fd(&up); /* what is in flight still arrives */
        while (said) {
                ssize_t n = hear_bytes(c, got, said < sizeof(got) ? said : sizeof(got));

                CHECK_INT(n, >, 0);
                said -= (size_t)n;
        }
        CHECK_INT(hear_end(c), ==, END_CLEAN);
}

static void bytes_right_behind_the_switch_are_not_lost(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/ws", HOST_A("6080"), WEBSOCKET) "early"), ==, 0);
        up = give_both(&w, BOX_A, 6080);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK(is_silent(up, 20)); /* not before the switch */
        CHECK_INT(say(up, SWITCH "first"), ==, 0);
        CHECK(hears(c, SWITCH "first"));
        CHECK(hears(up, "early"));
}

static void envd_and_the_api_are_never_tunnelled(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1, api = -1, h2c = -1, user = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("49983"), WEBSOCKET)), ==, 0);
        up = give_both(&w, BOX_A, 49983);
        CHECK(hears(up, REQUEST("GET", "/", HOST_A("49983"), "")));
        CHECK_INT(say(up, SWITCH), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 502);
        CHECK_INT(say(c, REQUEST("GET", "/", "localhost", WEBSOCKET)), ==, 0);
        api = accept_api(&w);
        CHECK(hears(api, REQUEST("GET", "/", "localhost", "")));
        h2c = dial_client(&w);
        CHECK_INT(say(h2c, REQUEST("GET", "/", HOST_A("80"),
                                   "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                                   "HTTP2-Settings: x\r\n")),
                  ==, 0);
        user = give_socket(&w, BOX_A, 80);
        CHECK_INT(hear_head(user, head, sizeof(head)), >, 0);
        CHECK(!strcasestr(head, "upgrade") && !strcasestr(head, "HTTP2-Settings"));
}

/* ---- ends ---- */

static void gone_sandboxes_lose_route_then_connections(void)
{
        WORLD;
        AUTO_CLOSE int stream = -1, tunnel = -1, waiting = -1, idle = -1, other = -1;
        AUTO_CLOSE int up = -1, ws = -1, slow = -1, kept = -1, far = -1;
        char head[4096];
        const char *body;

        START;
        stream = dial_client(&w), tunnel = dial_client(&w), waiting = dial_client(&w), idle = dial_client(&w);
        other = dial_client(&w);
        ws = open_tunnel(&w, tunnel);
        CHECK_INT(say(stream, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        up = give_socket(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"), ==, 0);
        CHECK_INT(hear_head(stream, head, sizeof(head)), >, 0);
        CHECK(hears(stream, "1\r\nx\r\n"));
        CHECK_INT(say(waiting, REQUEST("GET", "/", HOST_A("3001"), "")), ==, 0);
        slow = give_socket(&w, BOX_A, 3001);
        CHECK_INT(hear_head(slow, head, sizeof(head)), >, 0);
        CHECK_INT(say(idle, REQUEST("GET", "/", HOST_A("49983"), "")), ==, 0);
        kept = give_socket(&w, BOX_A, 49983);
        CHECK_INT(hear_head(kept, head, sizeof(head)), >, 0);
        CHECK_INT(say(kept, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(idle, answer, sizeof(answer), &body), ==, 200);
        CHECK_INT(say(other, REQUEST("GET", "/", HOST_B("3000"), "")), ==, 0);
        far = give_both(&w, BOX_B, 3000);
        CHECK_INT(hear_head(far, head, sizeof(head)), >, 0);

        CHECK(tell_gone(&w, BOX_A));
        CHECK_INT(hear_end(stream), ==, END_RESET);
        CHECK_INT(hear_end(tunnel), ==, END_RESET);
        CHECK_INT(hear_end(waiting), ==, END_RESET);
        CHECK_INT(hear_end(up), !=, END_NONE);
        CHECK_INT(hear_end(ws), !=, END_NONE);
        CHECK_INT(hear_end(slow), !=, END_NONE);
        CHECK_INT(hear_end(kept), !=, END_NONE);
        /* A client that merely used it goes on, and learns that it is gone; other sandboxes are untouched. */
        CHECK_INT(say(idle, REQUEST("GET", "/health", HOST_A("49983"), "")), ==, 0);
        CHECK(give_no_route(&w, BOX_A));
        CHECK_INT(hear_answer(idle, answer, sizeof(answer), &body), ==, 502);
        CHECK_STR(body, NOT_FOUND_A);
        CHECK_INT(say(far, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(other, answer, sizeof(answer), &body), ==, 200);
}

static void gone_while_dialling_is_not_found_or_cut(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        CHECK(give_route(&w, BOX_A, NULL, NULL));
        CHECK(!is_silent(w.dial_ch, 5000));
        CHECK(tell_gone(&w, BOX_A));
        CHECK_INT(hear_end(c), ==, END_RESET);
        CHECK(give_error(&w, "not_found")); /* an answer nobody waits for */
}

/* ---- parts of ours that come and go ---- */

static void waits_for_control_and_asks_again(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1, running = -1, run = -1;
        char head[4096];
        const char *body;

        START;
        running = dial_client(&w);
        CHECK_INT(say(running, REQUEST("GET", "/", HOST_B("3000"), "")), ==, 0);
        run = give_both(&w, BOX_B, 3000);
        CHECK_INT(hear_head(run, head, sizeof(head)), >, 0);
        world_lose_control(&w);
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("49983"), "")), ==, 0);
        CHECK(is_silent(c, 20));
        CHECK(accept_routes(&w));
        /* What runs is asked for again, as is what was asked meanwhile. */
        CHECK(give_route(&w, BOX_B, NULL, NULL));
        up = give_both(&w, BOX_A, 49983);
        CHECK(hears(up, "GET / "));
        CHECK_INT(say(run, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(running, answer, sizeof(answer), &body), ==, 200);
}

static void a_sandbox_that_ended_meanwhile_is_cut(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        char head[4096];

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        world_lose_control(&w);
        CHECK(accept_routes(&w));
        CHECK(give_no_route(&w, BOX_A));
        CHECK_INT(hear_end(c), ==, END_RESET);
}

static void gives_up_on_control_after_a_while(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, box = -1;
        const char *body;

        w.limits.wait_timeout_ms = 100;
        START;
        world_lose_control(&w);
        w.routes_ch = -1;
        box = dial_client(&w);
        CHECK_INT(say(box, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        CHECK_INT(hear_answer(box, answer, sizeof(answer), &body), ==, 503);
        CHECK(strstr(body, "\"sandboxId\":\"" BOX_A "\"") && strstr(body, "\"code\":503"));
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("POST", "/sandboxes", "localhost", "Content-Length: 2\r\n") "{}"), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 503);
        CHECK(strstr(body, "{\"code\":503,\"message\":\""));
        /* The connection is still good. */
        CHECK_INT(ask(c, REQUEST("GET", "/", "nowhere", ""), &body), ==, 400);
}

static void an_api_that_dies_is_tried_again_for_reads_only(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, api = -1, next = -1;
        char head[4096];
        const char *body;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/1", "localhost", "")), ==, 0);
        api = accept_api(&w);
        CHECK_INT(hear_head(api, head, sizeof(head)), >, 0);
        CHECK_INT(say(api, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
        CHECK_INT(say(c, REQUEST("GET", "/2", "localhost", "")), ==, 0);
        CHECK(hears(api, "GET /2 "));
        close_fd(&api);
        next = accept_api(&w);
        CHECK(hears(next, REQUEST("GET", "/2", "localhost", "")));
        CHECK_INT(say(next, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
        CHECK_INT(say(c, REQUEST("POST", "/3", "localhost", "Content-Length: 0\r\n")), ==, 0);
        CHECK(hears(next, "POST /3 "));
        close_fd(&next);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 503);
        CHECK(strstr(body, "\"code\":503"));
}

static void waits_for_the_engine_and_asks_again(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;

        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        CHECK(give_route(&w, BOX_A, NULL, NULL));
        CHECK(!is_silent(w.dial_ch, 5000));
        close_fd(&w.dial_ch);
        CHECK(accept_dial(&w));
        up = give_socket(&w, BOX_A, 3000);
        CHECK(hears(up, "GET / "));
}

static void ends_in_order(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, idle = -1, up = -1;
        char head[4096];
        const char *body;

        START;
        idle = dial_client(&w);
        CHECK_INT(ask(idle, REQUEST("GET", "/", "nowhere", ""), &body), ==, 400);
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(world_signal(&w), ==, 0);
        CHECK_INT(hear_end(idle), ==, END_CLEAN);
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
        CHECK(strstr(answer, "Connection: close"));
        CHECK_INT(hear_end(c), ==, END_CLEAN);
        close_fd(&c);
        CHECK_INT(world_stop(&w), ==, 0);
}

static void ends_although_streams_go_on(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;

        w.limits.stop_timeout_ms = 50;
        START;
        c = dial_client(&w);
        up = open_tunnel(&w, c);
        CHECK(up >= 0);
        CHECK_INT(world_stop(&w), ==, 0);
        CHECK_INT(hear_end(c), ==, END_RESET);
}

/* ---- TLS ---- */

static SSL *tls_client(const struct world *w, SSL_CTX *ctx, int fd)
{
        static const unsigned char alpn[] = "\x08http/1.1";
        SSL *ssl = SSL_new(ctx);

        (void)w;
        if (!ssl || SSL_set_fd(ssl, fd) != 1 || SSL_set_tlsext_host_name(ssl, HOST_A("49983")) != 1 ||
            SSL_set1_host(ssl, HOST_A("49983")) != 1 || SSL_set_alpn_protos(ssl, alpn, sizeof(alpn) - 1) != 0 ||
            SSL_connect(ssl) != 1) {
                SSL_free(ssl);
                return NULL;
        }
        return ssl;
}

static void check_tls(struct world *w, SSL_CTX *ctx, int fd)
{
        static const char request[] = REQUEST("POST", "/up", HOST_A("49983"), "Content-Length: 200000\r\n");
        static char sent[200000], got[200000];
        const unsigned char *proto;
        unsigned proto_len;
        char head[4096];
        size_t n, have = 0;
        AUTO_CLOSE int up = -1;
        SSL *ssl = tls_client(w, ctx, fd);

        CHECK(ssl);
        SSL_get0_alpn_selected(ssl, &proto, &proto_len);
        CHECK(str_is((struct str){(const char *)proto, proto_len}, "http/1.1"));
        for (size_t i = 0; i < sizeof(sent); i++)
                sent[i] = (char)(i * 7 + i / 256);
        CHECK_INT(SSL_write_ex(ssl, request, sizeof(request) - 1, &n), ==, 1);
        up = give_both(w, BOX_A, 49983);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK_INT(SSL_write_ex(ssl, sent, sizeof(sent), &n), ==, 1);
        CHECK_INT(hear_bytes(up, got, sizeof(got)), ==, sizeof(got));
        CHECK(memcmp(sent, got, sizeof(got)) == 0);
        CHECK_INT(say(up, "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n"), ==, 0);
        CHECK_INT(say_bytes(up, sent, sizeof(sent)), ==, 0);
        CHECK_INT(SSL_read_ex(ssl, head, sizeof("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n") - 1, &n), ==, 1);
        memset(got, 0, sizeof(got));
        while (have < sizeof(got)) {
                CHECK_INT(SSL_read_ex(ssl, got + have, sizeof(got) - have, &n), ==, 1);
                have += n;
        }
        CHECK(memcmp(sent, got, sizeof(got)) == 0);
        /* Again, now cut in the middle: TLS sees no proper end. */
        CHECK_INT(SSL_write_ex(ssl, REQUEST("GET", "/", HOST_A("49983"), ""),
                               sizeof(REQUEST("GET", "/", HOST_A("49983"), "")) - 1, &n),
                  ==, 1);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK(tell_gone(w, BOX_A));
        CHECK_INT(SSL_read_ex(ssl, head, sizeof(head), &n), ==, 0);
        CHECK_INT(SSL_get_error(ssl, 0), !=, SSL_ERROR_ZERO_RETURN);
        SSL_free(ssl);
}

static void speaks_tls_by_host_name(void)
{
        WORLD;
        AUTO_CLOSE int fd = -1;
        char ca[128];
        SSL_CTX *ctx;

        w.https = -2;
        START;
        fd = dial_port(w.tls_port);
        ctx = SSL_CTX_new(TLS_client_method());
        (void)snprintf(ca, sizeof(ca), "%s/ca/ca.pem", w.dir);
        CHECK_INT(SSL_CTX_load_verify_locations(ctx, ca, NULL), ==, 1);
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
        check_tls(&w, ctx, fd);
        SSL_CTX_free(ctx);
}

int main(void)
{
        RUN(sandboxes_that_never_were_are_not_found);
        RUN(routing_errors_are_plain_text);
        RUN(reserved_paths_stop_at_the_edge);
        RUN(private_traffic_needs_its_token);
        RUN(masked_hosts_are_what_servers_see);
        RUN(closed_ports_and_vanished_sandboxes_are_told_apart);
        RUN(tunnels_carry_bytes_and_half_closes);
        RUN(a_tunnel_half_closed_lives_as_long_as_bytes_come);
        RUN(silent_tunnels_and_streams_go_on);
        RUN(waits_grow_along_the_chain);
        RUN(tunnels_hold_back_who_is_too_fast);
        RUN(bytes_right_behind_the_switch_are_not_lost);
        RUN(envd_and_the_api_are_never_tunnelled);
        RUN(gone_sandboxes_lose_route_then_connections);
        RUN(gone_while_dialling_is_not_found_or_cut);
        RUN(waits_for_control_and_asks_again);
        RUN(a_sandbox_that_ended_meanwhile_is_cut);
        RUN(gives_up_on_control_after_a_while);
        RUN(an_api_that_dies_is_tried_again_for_reads_only);
        RUN(waits_for_the_engine_and_asks_again);
        RUN(ends_in_order);
        RUN(ends_although_streams_go_on);
        RUN(speaks_tls_by_host_name);
        return tap_done();
}
