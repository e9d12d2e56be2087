/* What the edge checks and says by itself. */
#include "harness.h"

#include <sys/socket.h>

#include "base/auto.h"
#include "tap.h"

static char answer[65536];

static int ask(int c, const char *request, const char **ret_body)
{
        return say(c, request) < 0 ? -1 : hear_answer(c, answer, sizeof(answer), ret_body);
}

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
        CHECK(give_error(&w, "gone"));
        CHECK(give_route(&w, BOX_A, NULL, NULL)); /* asked again, once */
        CHECK(give_error(&w, "gone"));
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 502);
        CHECK_STR(body, NOT_FOUND_A);
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        CHECK(give_error(&w, "gone"));
        CHECK(give_no_route(&w, BOX_A));
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 502);
        CHECK_STR(body, NOT_FOUND_A);
}

static void a_port_that_opens_in_a_moment_is_waited_for(void)
{
        WORLD;
        AUTO_CLOSE int c = -1, up = -1;
        const char *body;

        w.limits.port_timeout_ms = 60000;
        START;
        c = dial_client(&w);
        CHECK_INT(say(c, REQUEST("POST", "/", HOST_A("3000"), "Content-Length: 2\r\n") "ab"), ==, 0);
        CHECK(give_route(&w, BOX_A, NULL, NULL));
        for (int i = 0; i < 4; i++)
                CHECK(give_error(&w, "unavailable"));
        up = give_socket(&w, BOX_A, 3000);
        CHECK(hears(up, REQUEST("POST", "/", HOST_A("3000"), "Content-Length: 2\r\n") "ab"));
        CHECK_INT(say(up, OK_EMPTY), ==, 0);
        CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 200);
        /* A sandbox that goes meanwhile is noticed at once. */
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("4000"), "")), ==, 0);
        CHECK(give_error(&w, "unavailable"));
        CHECK(tell_gone(&w, BOX_A));
        CHECK_INT(hear_end(c), ==, END_RESET);
}

static void a_port_that_stays_closed_is_said_after_a_while(void)
{
        WORLD;
        AUTO_CLOSE int c = -1;
        const char *body;
        int dials = 1;

        w.limits.port_timeout_ms = 100;
        START;
        c = dial_client(&w);
        for (int i = 0; i < 2; i++) { /* each request has its own time */
                CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
                if (i == 0)
                        CHECK(give_route(&w, BOX_A, NULL, NULL));
                CHECK(give_error(&w, "unavailable"));
                for (dials = 1; !is_silent(w.dial_ch, 300); dials++)
                        CHECK(give_error(&w, "unavailable"));
                CHECK_INT(dials, >, 1);
                CHECK_INT(hear_answer(c, answer, sizeof(answer), &body), ==, 502);
                CHECK(strstr(body, "\"port\":3000"));
        }
        /* Who leaves is not dialled for. */
        CHECK_INT(say(c, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
        CHECK(give_error(&w, "unavailable"));
        close_fd(&c);
        while (!is_silent(w.dial_ch, 300))
                CHECK(give_error(&w, "unavailable"));
}

static void only_so_many_wait_for_ports_of_one_sandbox(void)
{
        WORLD;
        AUTO_CLOSE int a = -1, b = -1, up = -1;
        const char *body;

        w.limits.port_timeout_ms = 60000;
        w.limits.port_waiters_max = 1;
        START;
        for (int i = 0; i < 2; i++) { /* the one that waited makes room for the next */
                a = dial_client(&w);
                CHECK_INT(say(a, REQUEST("GET", "/", HOST_A("3000"), "")), ==, 0);
                if (i == 0)
                        CHECK(give_route(&w, BOX_A, NULL, NULL));
                for (int k = 0; k < 7; k++) /* so that the next pause is long enough for the other one */
                        CHECK(give_error(&w, "unavailable"));
                b = dial_client(&w);
                CHECK_INT(say(b, REQUEST("GET", "/", HOST_A("4000"), "")), ==, 0);
                CHECK(give_error(&w, "unavailable"));
                CHECK_INT(hear_answer(b, answer, sizeof(answer), &body), ==, 502);
                CHECK(strstr(body, "\"port\":4000"));
                up = give_socket(&w, BOX_A, 3000);
                CHECK(hears(up, REQUEST("GET", "/", HOST_A("3000"), "")));
                close_fd(&a);
                close_fd(&b);
                close_fd(&up);
        }
}

int main(void)
{
        RUN(sandboxes_that_never_were_are_not_found);
        RUN(routing_errors_are_plain_text);
        RUN(reserved_paths_stop_at_the_edge);
        RUN(private_traffic_needs_its_token);
        RUN(masked_hosts_are_what_servers_see);
        RUN(closed_ports_and_vanished_sandboxes_are_told_apart);
        RUN(a_port_that_opens_in_a_moment_is_waited_for);
        RUN(a_port_that_stays_closed_is_said_after_a_while);
        RUN(only_so_many_wait_for_ports_of_one_sandbox);
        return tap_done();
}
