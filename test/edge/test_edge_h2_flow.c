/* HTTP/2: many streams, slow readers, slow servers, and limits. */
#include "h2client.h"

#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "tap.h"

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

int main(void)
{
        RUN(five_hundred_streams_at_once);
        RUN(a_slow_reader_holds_up_nobody_and_little_memory);
        RUN(an_upload_waits_for_a_slow_upstream);
        RUN(an_early_answer_ends_the_upload);
        RUN(a_sandbox_has_only_so_many_connections);
        return tap_done();
}
