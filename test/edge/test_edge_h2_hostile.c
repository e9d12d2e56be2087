/* HTTP/2 clients that do not play by the rules, or try to wear the edge out. */
#include "h2client.h"

#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "tap.h"

static char large[64 << 10];

/* The connection still works: a request that needs nobody is answered. */
static bool is_well(struct h2c *c)
{
        int32_t id = h2c_ask(c, "GET", HOST_A("49983"), "/init", NULL, NULL);

        return h2c_wait_end(c, id) && h2c_of(c, id)->status == 404 && h2c_of(c, id)->is_ended;
}

static void bad_heads_are_refused_or_reset(void)
{
#define USUAL ":method", "GET", ":scheme", "https", ":path", "/", ":authority", "localhost"
        static const struct {
                int status; /* 0: the stream is reset */
                const char *fields[16];
        } cases[] = {
                {0, {":method", "GET", ":scheme", "https", ":path", "/", ":path", "/b", ":authority", "localhost"}},
                {0, {":method", "GET", ":scheme", "https", ":authority", "localhost"}},
                {0, {":scheme", "https", ":path", "/", ":authority", "localhost"}},
                {0, {":method", "GET", ":path", "/", ":authority", "localhost"}},
                {0, {":method", "GET", ":scheme", "https", ":path", "", ":authority", "localhost"}},
                {0, {USUAL, "x", "y", ":method", "GET"}},
                {0, {USUAL, ":status", "200"}},
                {0, {USUAL, ":unknown", "200"}},
                {0, {USUAL, "connection", "close"}},
                {0, {USUAL, "connection", "upgrade"}},
                {0, {USUAL, "keep-alive", "5"}},
                {0, {USUAL, "proxy-connection", "close"}},
                {0, {USUAL, "transfer-encoding", "chunked"}},
                {0, {USUAL, "upgrade", "websocket"}},
                {0, {USUAL, "te", "gzip"}},
                {0, {USUAL, "content-length", "5"}}, /* and nothing follows */
                {0, {USUAL, "content-length", "x"}},
                {0, {USUAL, "content-length", "0", "content-length", "0"}},
                {0, {USUAL, "content-length", "-1"}},
                {0, {":method", "GET", ":scheme", "https", ":path", "/", ":authority", "localhost", ":protocol", "x"}},
                {0, {":method", "CONNECT", ":protocol", "websocket", ":authority", "localhost"}},
                {0, {USUAL, "host", "other"}}, /* or 400 */
                {0, {":method", "GET", ":scheme", "https", ":path", "/"}},
                {0, {":method", "GET", ":scheme", "https", ":path", "relative", ":authority", "localhost"}},
                {0, {":method", "GET", ":scheme", "https", ":path", "http://other/", ":authority", "localhost"}},
                {0, {":method", "G T", ":scheme", "https", ":path", "/", ":authority", "localhost"}},
                {0, {":method", "GET", ":scheme", "https", ":path", "/ HTTP/1.1\r\nx: y", ":authority", "localhost"}},
                {0, {":method", "GET", ":scheme", "https", ":path", "/a b", ":authority", "localhost"}},
                {0, {":method", "GET", ":scheme", "https", ":path", "/", ":authority", "local host"}},
                {0, {USUAL, "x", "a\r\nevil: 1"}},
                {0, {USUAL, "x", "a\nb"}},
                {0, {USUAL, "x y", "b"}},
                {0, {USUAL, "", "b"}},
                {400, {":method", "GET", ":scheme", "ftp", ":path", "/", ":authority", "localhost"}},
                {400, {":method", "GET", ":scheme", "https", ":path", "/", ":authority", "u@localhost"}},
                {501, {":method", "CONNECT", ":authority", "localhost:443"}},
                {501, {":method", "CONNECT", ":protocol", "mqtt", ":scheme", "https", ":path", "/", ":authority", "a"}},
        };
        TLS_WORLD;
        H2C c = h2c_open(&w, &(struct h2c_options){.is_lax = true});

        CHECK(c);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                int32_t id = h2c_ask_raw(c, cases[i].fields, NULL);
                const struct h2_heard *st = h2c_of(c, id);

                CHECK(h2c_wait_end(c, id));
                if (st->status != cases[i].status && st->status / 100 != 4)
                        printf("# case %zu: status %d error %u\n", i, st->status, st->error);
                if (cases[i].status)
                        CHECK_INT(st->status, ==, cases[i].status);
                else
                        CHECK(st->status == 400 || (st->status == 0 && st->error != NGHTTP2_NO_ERROR));
        }
        CHECK(is_well(c));
        CHECK(is_silent(w.api, 20)); /* none of it went anywhere */
}

static void names_in_capitals_are_refused(void)
{
        /* A literal without indexing: "X-Upper: a"; the client's library would have made it lower case. */
        static const char block[] = "\x82\x87\x84\x01\x09localhost\x00\x07X-Upper\x01"
                                    "a";
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);

        CHECK(c);
        h2c_frame(c, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1, block, sizeof(block) - 1);
        h2c_idle(c, 50);
        CHECK(is_silent(w.api, 20));
}

static void lengths_must_be_true(void)
{
        TLS_WORLD;
        H2C c = h2c_open(&w, &(struct h2c_options){.is_lax = true});
        AUTO_CLOSE int up = -1;
        char head[4096];
        int32_t id;

        CHECK(c);
        id = h2c_ask(c, "POST", HOST_A("3000"), "/", (const char *[]){"content-length", "5", NULL}, H2_OPEN);
        h2c_send(c, id, "abc", 3, false);
        up = give_both(&w, BOX_A, 3000);
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK(hears(up, "abc"));
        h2c_send(c, id, "", 0, true);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->error, ==, NGHTTP2_PROTOCOL_ERROR);
        CHECK_INT(hear_end(up), !=, END_NONE); /* upstream sees no whole request */
        id = h2c_ask(c, "POST", HOST_A("3000"), "/", (const char *[]){"content-length", "5", NULL}, H2_OPEN);
        h2c_send(c, id, "abcdefGET /evil", 15, false);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->error, ==, NGHTTP2_PROTOCOL_ERROR);
        h2c_idle(c, 20);
        CHECK(is_well(c));
}

static void heads_have_a_limit(void)
{
        static char value[33 << 10];
        const char *many[2 * 110 + 1] = {0};
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        int32_t id;

        CHECK(c);
        memset(value, 'a', sizeof(value) - 1);
        id = h2c_ask(c, "GET", "localhost", "/", (const char *[]){"x", value, NULL}, NULL);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 431);
        id = h2c_ask(c, "GET", "localhost", "/", (const char *[]){"cookie", value, NULL}, NULL);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 431);
        value[0] = '/';
        id = h2c_ask(c, "GET", "localhost", value, NULL, NULL);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 414);
        for (size_t i = 0; i < 220; i++)
                many[i] = i % 2 ? "y" : "x";
        id = h2c_ask(c, "GET", "localhost", "/", many, NULL);
        CHECK(h2c_wait_end(c, id));
        CHECK_INT(h2c_of(c, id)->status, ==, 431);
        CHECK(is_well(c));
        CHECK(is_silent(w.api, 20));
}

/* One entry of the table named over and over: a few bytes that stand for many. */
static void a_head_that_unpacks_without_end_ends_the_connection(void)
{
        static char block[16 << 10];
        size_t n = 0;
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);
        long before;

        CHECK(c);
        before = world_rss_kb(&w);
        memcpy(block, "\x82\x87\x84\x01\x09localhost\x40\x01x\x7f\xa1\x1e", 14 + 7); /* a value of 4000 bytes ... */
        n = 14 + 6;
        memset(block + n, 'v', 4000);
        n += 4000;
        memset(block + n, 0xbe, sizeof(block) - n); /* ... 12000 times */
        h2c_frame(c, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1, block, sizeof(block));
        CHECK(h2c_wait_dead(c));
        CHECK_INT(c->goaways, >, 0);
        CHECK_INT(world_rss_kb(&w) - before, <, 2000);
}

static void rapid_resets_end_the_connection(void)
{
        WORLD;
        H2C c = NULL;
        int asked = 0;

        w.https = -2;
        w.limits.h2_resets_burst = 50;
        w.limits.h2_resets_per_s = 1;
        START;
        c = h2c_open(&w, NULL);
        CHECK(c);
        for (; asked < 400 && !c->is_dead && !c->goaways; asked++) {
                int32_t id = h2c_ask(c, "GET", "localhost", "/", NULL, NULL);

                (void)h2c_push(c);
                h2c_reset(c, id);
                h2c_idle(c, 0);
        }
        CHECK(h2c_wait_goaway(c, 1));
        CHECK_INT(c->goaway_code, ==, NGHTTP2_ENHANCE_YOUR_CALM);
        CHECK(h2c_wait_dead(c));
        CHECK_INT(asked, >=, 50);
        h2c_close(&c);
        c = h2c_open(&w, NULL); /* others are served */
        CHECK(c);
        CHECK(is_well(c));
}

/* What makes the edge reset streams counts as well. */
static void making_us_reset_ends_the_connection(void)
{
        WORLD;
        H2C c = NULL;

        w.https = -2;
        w.limits.h2_resets_burst = 50;
        w.limits.h2_resets_per_s = 1;
        START;
        c = h2c_open(&w, &(struct h2c_options){.is_lax = true});
        CHECK(c);
        for (int i = 0; i < 400 && !c->is_dead && !c->goaways; i++) {
                (void)h2c_ask(c, "GET", "localhost", "/", (const char *[]){"connection", "close", NULL}, NULL);
                h2c_idle(c, 0);
        }
        CHECK(h2c_wait_goaway(c, 1));
        CHECK_INT(c->goaway_code, ==, NGHTTP2_ENHANCE_YOUR_CALM);
        CHECK(h2c_wait_dead(c));
}

static void floods_end_the_connection(void)
{
        static const struct {
                unsigned type, flags;
                int32_t id;
                const char *payload;
                size_t n;
        } cases[] = {
                {NGHTTP2_PING, 0, 0, "12345678", 8},
                {NGHTTP2_SETTINGS, 0, 0, "\0\x04\0\0\xff\xff", 6},
                {NGHTTP2_SETTINGS, 0, 0, "", 0},
                {NGHTTP2_PRIORITY, 0, 3, "\0\0\0\x01\x10", 5},
                {NGHTTP2_DATA, 0, 1, "", 0},
                {NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\x08", 4},
                {NGHTTP2_WINDOW_UPDATE, 0, 1, "\0\0\0\0", 4},
                {NGHTTP2_WINDOW_UPDATE, 0, 0, "\x7f\xff\xff\xff", 4},
                {NGHTTP2_CONTINUATION, 0, 1, "", 0},
        };
        WORLD;
        long before;

        w.https = -2;
        w.limits.h2_chatter_burst = 100;
        w.limits.h2_chatter_per_s = 1;
        START;
        before = world_rss_kb(&w);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                H2C c = h2c_open(&w, &(struct h2c_options){.is_lax = true});
                int32_t id;

                CHECK(c);
                id = h2c_ask(c, "POST", "localhost", "/", NULL, H2_OPEN);
                CHECK_INT(id, ==, 1);
                for (int n = 0; n < 20000 && !c->is_dead; n++) { /* nothing is read meanwhile */
                        h2c_frame(c, cases[i].type, cases[i].flags, cases[i].id, cases[i].payload, cases[i].n);
                        if (n % 200 == 0)
                                h2c_idle(c, 0);
                }
                if (!h2c_wait_dead(c))
                        printf("# case %zu\n", i);
                CHECK(c->is_dead);
        }
        CHECK_INT(world_rss_kb(&w) - before, <, 8000);
        {
                H2C c = h2c_open(&w, NULL);

                CHECK(c);
                CHECK(is_well(c));
        }
}

static void a_head_in_endless_pieces_ends_the_connection(void)
{
        TLS_WORLD;
        H2C c = h2c_open(&w, NULL);

        CHECK(c);
        h2c_frame(c, NGHTTP2_HEADERS, 0, 1, "\x82\x87\x84", 3);
        for (int i = 0; i < 2000 && !c->is_dead; i++) {
                h2c_frame(c, NGHTTP2_CONTINUATION, 0, 1, "\x40\x01x\x01y", 5);
                if (i % 20 == 0)
                        h2c_idle(c, 0);
        }
        CHECK(h2c_wait_dead(c));
}

static void slow_heads_and_silence_time_out(void)
{
        WORLD;
        H2C c = NULL;
        AUTO_CLOSE int api = -1;
        char head[4096];
        int32_t id;

        w.https = -2;
        w.limits.head_timeout_ms = SHORT_MS;
        START;
        c = h2c_open(&w, NULL);
        CHECK(c);
        id = h2c_ask(c, "GET", "localhost", "/", NULL, NULL);
        CHECK(h2c_push(c));
        api = accept_api(&w);
        CHECK_INT(hear_head(api, head, sizeof(head)), >, 0);
        h2c_idle(c, 2 * SHORT_MS);
        CHECK_INT(c->goaways, ==, 0); /* an answer may take its time */
        CHECK_INT(say(api, OK_EMPTY), ==, 0);
        CHECK(h2c_wait_end(c, id));
        h2c_frame(c, NGHTTP2_HEADERS, 0, 3, "\x82\x87", 2); /* and no more */
        CHECK(h2c_wait_goaway(c, 1));
        CHECK_INT(c->goaway_code, ==, NGHTTP2_ENHANCE_YOUR_CALM);
        CHECK(h2c_wait_dead(c));
}

static void a_bad_head_is_not_waited_for(void)
{
        WORLD;
        H2C c = NULL;
        int32_t id;

        w.https = -2;
        w.limits.head_timeout_ms = SHORT_MS;
        START;
        c = h2c_open(&w, &(struct h2c_options){.is_lax = true});
        CHECK(c);
        id = h2c_ask(c, "GET", "localhost", "/", (const char *[]){"connection", "close", NULL}, NULL);
        CHECK(h2c_wait_end(c, id));
        id = h2c_ask(c, "GET", "localhost", "/", (const char *[]){"x", "a\nb", NULL}, NULL);
        CHECK(h2c_wait_end(c, id));
        h2c_idle(c, 2 * SHORT_MS);
        CHECK_INT(c->goaways, ==, 0);
        CHECK(is_well(c));
}

static void uploads_nobody_takes_have_a_limit_together(void)
{
        static char bytes[1 << 20];
        WORLD;
        H2C c = NULL;
        AUTO_CLOSE int up = -1;
        char head[4096];
        int32_t ids[4];
        int cut = 0;

        w.https = -2;
        w.limits.h2_waiting_max = 2 << 20;
        START;
        c = h2c_open(&w, NULL);
        CHECK(c);
        for (int i = 0; i < 4; i++) { /* their sandbox is not found out about yet */
                ids[i] = h2c_ask(c, "POST", HOST_A("3000"), "/", NULL, H2_OPEN);
                h2c_send(c, ids[i], bytes, sizeof(bytes), false);
        }
        for (int i = 0; i < 100 && cut < 2; i++) {
                h2c_idle(c, 10);
                cut = 0;
                for (int k = 0; k < 4; k++)
                        cut += h2c_of(c, ids[k])->is_closed;
        }
        CHECK_INT(cut, ==, 2);
        up = give_both(&w, BOX_A, 3000); /* the others go on */
        CHECK_INT(hear_head(up, head, sizeof(head)), >, 0);
        CHECK(is_well(c));
}

static void too_many_streams_are_refused(void)
{
        WORLD;
        H2C c = NULL;
        int32_t id = 0, last;

        w.https = -2;
        w.limits.h2_streams_max = 1000;
        w.limits.clients_max = 6; /* this connection, and five streams */
        START;
        c = h2c_open(&w, NULL);
        CHECK(c);
        for (int i = 0; i < 5; i++)
                id = h2c_ask(c, "GET", HOST_A("3000"), "/", NULL, NULL);
        last = h2c_ask(c, "GET", HOST_A("3000"), "/", NULL, NULL);
        CHECK(h2c_wait_end(c, last));
        CHECK_INT(h2c_of(c, last)->error, ==, NGHTTP2_REFUSED_STREAM); /* the client may try again */
        CHECK(!h2c_of(c, id)->is_closed);
        h2c_reset(c, id);
        CHECK(is_well(c));
}

static void streams_beyond_the_announced_number_are_refused(void)
{
        WORLD;
        H2C c = NULL;
        unsigned refused = 0;

        w.https = -2;
        w.limits.h2_streams_max = 10;
        START;
        c = h2c_open(&w, NULL);
        CHECK(c);
        CHECK_INT(nghttp2_session_get_remote_settings(c->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS), ==, 10);
        for (int32_t id = 1; id < 2 * 15; id += 2) /* by hand: the library would keep to it */
                h2c_frame(c, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, id,
                          "\x82\x87\x84\x01\x09localhost", 14);
        h2c_idle(c, 100);
        for (int i = 0; i < 10; i++) {
                AUTO_CLOSE int api = accept_api(&w);

                CHECK_INT(api, >=, 0);
                refused++;
        }
        CHECK(is_silent(w.api, 50)); /* an eleventh was never begun */
        CHECK_INT(refused, ==, 10);
}

static void garbage_is_no_protocol(void)
{
        static const char *const garbage[] = {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSX",
                                              "\x7f\x45\x4c\x46\x02\x01\x01 and more of the like, long enough"};
        TLS_WORLD;

        for (size_t i = 0; i < ARRAY_LEN(garbage); i++) {
                H2C c = h2c_connect(&w);

                CHECK(c);
                CHECK(h2c_write(c, garbage[i], strlen(garbage[i])));
                CHECK(h2c_wait_dead(c));
        }
        for (size_t i = 0; i < 40; i++) { /* frames of no sense after a proper greeting */
                H2C c = h2c_open(&w, NULL);

                CHECK(c);
                for (size_t n = 0; n < sizeof(large); n++)
                        large[n] = (char)(n * (2 * i + 1) * 2654435761u >> 13);
                (void)h2c_write(c, large, sizeof(large));
                if (!c->is_dead)
                        h2c_idle(c, 1);
        }
        {
                H2C c = h2c_open(&w, NULL);

                CHECK(c);
                CHECK(is_well(c));
        }
        CHECK_INT(world_stop(&w), ==, 0);
}

int main(void)
{
        RUN(bad_heads_are_refused_or_reset);
        RUN(names_in_capitals_are_refused);
        RUN(lengths_must_be_true);
        RUN(heads_have_a_limit);
        RUN(a_head_that_unpacks_without_end_ends_the_connection);
        RUN(rapid_resets_end_the_connection);
        RUN(making_us_reset_ends_the_connection);
        RUN(floods_end_the_connection);
        RUN(a_head_in_endless_pieces_ends_the_connection);
        RUN(slow_heads_and_silence_time_out);
        RUN(a_bad_head_is_not_waited_for);
        RUN(uploads_nobody_takes_have_a_limit_together);
        RUN(too_many_streams_are_refused);
        RUN(streams_beyond_the_announced_number_are_refused);
        RUN(garbage_is_no_protocol);
        return tap_done();
}
