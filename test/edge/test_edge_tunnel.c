/* WebSockets and other long streams through the edge. */
#include "harness.h"

#include <sys/socket.h>

#include "base/auto.h"
#include "tap.h"

static char answer[65536];

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

        w.limits.head_timeout_ms = w.limits.idle_timeout_ms = w.limits.wait_timeout_ms = SHORT_MS;
        w.limits.dial_timeout_ms = w.limits.drain_timeout_ms = w.limits.idle_users_ms = SHORT_MS;
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
        CHECK(is_silent(c, 2 * SHORT_MS)); /* longer than all of them */
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

int main(void)
{
        RUN(tunnels_carry_bytes_and_half_closes);
        RUN(a_tunnel_half_closed_lives_as_long_as_bytes_come);
        RUN(silent_tunnels_and_streams_go_on);
        RUN(waits_grow_along_the_chain);
        RUN(tunnels_hold_back_who_is_too_fast);
        RUN(bytes_right_behind_the_switch_are_not_lost);
        RUN(envd_and_the_api_are_never_tunnelled);
        return tap_done();
}
