/* HTTP/2: WebSockets on streams (RFC 8441). */
#include "h2client.h"

#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "tap.h"

#define WEBSOCKET_TO(host)                                                                                             \
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
        id = h2c_ask_raw(c, WEBSOCKET_TO(HOST_A("3000")), H2_OPEN);
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
        id = h2c_ask_raw(c, WEBSOCKET_TO(HOST_A("3000")), H2_OPEN);
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
        id = h2c_ask_raw(c, WEBSOCKET_TO(HOST_A("3000")), H2_OPEN);
        CHECK(h2c_push(c));
        broken = give_socket(&w, BOX_A, 3000);
        CHECK_INT(hear_head(broken, head, sizeof(head)), >, 0);
        CHECK_INT(say(broken, "HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"), ==, 0);
        CHECK(h2c_wait_head(c, id));
        CHECK_INT(setsockopt(broken, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger)), ==,
                  0);
        close_fd(&broken);
        CHECK(h2c_is_reset(c, id));
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

                id = h2c_ask_raw(c, WEBSOCKET_TO(HOST_A("3000")), H2_OPEN);
                CHECK(h2c_push(c));
                up = i ? give_socket(&w, BOX_A, 3000) : give_both(&w, BOX_A, 3000);
                CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
                CHECK_INT(say(up, cases[i].answer), ==, 0);
                CHECK(h2c_wait_end(c, id));
                CHECK_INT(h2c_of(c, id)->status, ==, cases[i].status);
                CHECK(h2c_of(c, id)->is_ended);
        }
        id = h2c_ask_raw(c, WEBSOCKET_TO("localhost"), H2_OPEN); /* nothing of ours has tunnels */
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 400);
        id = h2c_ask_raw(c, WEBSOCKET_TO(HOST_A("49983")), H2_OPEN);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 400);
}

int main(void)
{
        RUN(a_websocket_runs_on_a_stream);
        RUN(the_other_end_of_a_websocket_ends_first);
        RUN(a_websocket_that_is_refused);
        return tap_done();
}
