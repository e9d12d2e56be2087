/* The edge forwarding ordinary traffic. */
#include "harness.h"

#include "base/auto.h"
#include "base/str.h"
#include "tap.h"

#define WORLD                                                                                                          \
        __attribute__((cleanup(world_end))) struct world w;                                                            \
        world_init(&w)
#define START CHECK_INT(world_start(&w), ==, 0)

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
                CHECK_INT(hear_head(api, head, sizeof(head)), >, 0);
                CHECK_STR(head, "GET /sandboxes?x=1 HTTP/1.1\r\nHost: localhost:3000\r\nX-API-Key: k\r\n\r\n");
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

int main(void)
{
        RUN(forwards_api_requests_and_reuses_the_connection);
        RUN(forwards_to_a_sandbox_by_host);
        return tap_done();
}
