/* HTTP/2: how streams, connections and what is behind them end, and what the other side hears of it. */
#include "h2client.h"

#include <string.h>

#include "base/auto.h"
#include "tap.h"

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
                CHECK(h2c_is_reset(c, id));
        }
        for (size_t i = 0; i < 2; i++) { /* nor one whose framing breaks */
                AUTO_CLOSE int up = half_an_answer(&w, c, false, answers[1], &id);

                CHECK_INT(up, >=, 0);
                CHECK_INT(say(up, i ? "zz\r\n" : "1\r\nab\r\n"), ==, 0);
                CHECK(h2c_is_reset(c, id));
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
        CHECK(h2c_is_reset(c, a));
        CHECK(h2c_is_reset(c, waits));
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
        w.limits.idle_timeout_ms = SHORT_MS;
        START;
        c = h2c_open(&w, NULL);
        CHECK(c);
        id = h2c_ask(c, "GET", "localhost", "/", NULL, NULL);
        CHECK(h2c_push(c));
        api = accept_api(&w);
        CHECK_INT(hear_head(api, head, sizeof(head)), >, 0);
        h2c_idle(c, 2 * SHORT_MS);
        CHECK_INT(c->goaways, ==, 0); /* a stream is open */
        CHECK_INT(say(api, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 200);
        CHECK(h2c_wait_goaway(c, 1));
        CHECK_INT(c->goaway_code, ==, NGHTTP2_NO_ERROR);
        CHECK(h2c_wait_dead(c));
}

int main(void)
{
        RUN(half_an_answer_never_ends_cleanly);
        RUN(a_bad_body_right_behind_the_head_is_a_closed_port);
        RUN(a_sandbox_that_goes_cuts_its_streams_only);
        RUN(a_reset_closes_the_upstream_connection_at_once);
        RUN(a_lost_connection_closes_all_its_upstreams);
        RUN(a_kept_connection_that_died_is_replaced);
        RUN(stopping_lets_running_streams_finish);
        RUN(an_idle_connection_is_told_goodbye);
        return tap_done();
}
