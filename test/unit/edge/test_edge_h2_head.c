/* HTTP/2 fields written down as the head of an HTTP/1.1 request. */
#include "edge/http2/h2_head.h"

#include <errno.h>

#include "base/auto.h"
#include "tap.h"
#include "wire/http1.h"

#define AUTO_HEAD __attribute__((cleanup(h2_head_done))) struct h2_head

static bool add_all(struct h2_head *h, const char *const *fields)
{
        for (; *fields; fields += 2)
                if (h2_head_add(h, str_of(fields[0]), str_of(fields[1])) < 0)
                        return false;
        return true;
}

#define USUAL ":method", "GET", ":scheme", "https", ":path", "/p", ":authority", "h"

static void fields_become_lines(void)
{
        static const struct {
                const char *fields[20];
                bool has_body;
                const char *want;
        } cases[] = {
                {{USUAL}, false, "GET /p HTTP/1.1\r\nhost: h\r\n\r\n"},
                {{USUAL, "a", "1", "b", ""}, false, "GET /p HTTP/1.1\r\nhost: h\r\na: 1\r\nb: \r\n\r\n"},
                {{USUAL, "host", "H"}, false, "GET /p HTTP/1.1\r\nhost: h\r\n\r\n"},
                {{":method", "GET", ":scheme", "https", ":path", "/p", "host", "x"},
                 false,
                 "GET /p HTTP/1.1\r\nhost: x\r\n\r\n"},
                {{USUAL, "cookie", "a=1", "z", "1", "cookie", "b=2"},
                 false,
                 "GET /p HTTP/1.1\r\nhost: h\r\nz: 1\r\ncookie: a=1; b=2\r\n\r\n"},
                {{USUAL}, true, "GET /p HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n"},
                {{USUAL, "content-length", "3"}, true, "GET /p HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\n"},
                {{USUAL, "te", "trailers"}, false, "GET /p HTTP/1.1\r\nhost: h\r\nte: trailers\r\n\r\n"},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_BUF struct buf out = BUF_INIT(1 << 16);
                AUTO_HEAD h;

                h2_head_init(&h);
                CHECK(add_all(&h, cases[i].fields));
                CHECK_INT(h2_head_write(&h, cases[i].has_body, &out), ==, 0);
                CHECK_STR(buf_cstr(&out), cases[i].want);
        }
}

static void what_could_be_read_in_two_ways_is_refused(void)
{
        static const struct {
                unsigned status;
                const char *fields[20];
        } cases[] = {
                {400, {USUAL, "host", "other"}},
                {400, {USUAL, "host", "h", "host", "h"}},
                {400, {USUAL, "a", "1", ":path", "/q"}},
                {400, {USUAL, ":path", "/q"}},
                {400, {USUAL, ":x", "/q"}},
                {400, {USUAL, "connection", "close"}},
                {400, {USUAL, "Connection", "close"}},
                {400, {USUAL, "transfer-encoding", "chunked"}},
                {400, {USUAL, "upgrade", "h2c"}},
                {400, {USUAL, "te", "gzip"}},
                {400, {USUAL, "a", "1\r\nb: 2"}},
                {400, {USUAL, "a\r\nb", "2"}},
                {400, {USUAL, "a: b", "2"}},
                {400, {":method", "GET", ":scheme", "https", ":path", "/ HTTP/1.1\r\na: b", ":authority", "h"}},
                {400, {":method", "GET /x", ":scheme", "https", ":path", "/", ":authority", "h"}},
                {400, {":method", "GET", ":scheme", "https", ":path", "", ":authority", "h"}},
                {400, {":method", "GET", ":scheme", "file", ":path", "/", ":authority", "h"}},
                {400, {":method", "GET", ":scheme", "https", ":authority", "h"}},
                {400, {USUAL, ":protocol", "websocket"}}, /* pseudo, but no CONNECT */
                {501, {":method", "CONNECT", ":authority", "h:1"}},
                {501, {":method", "CONNECT", ":protocol", "ip", ":scheme", "https", ":path", "/", ":authority", "h"}},
                {400,
                 {":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":path", "/", ":authority", "h",
                  "content-length", "0"}},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_BUF struct buf out = BUF_INIT(1 << 16);
                AUTO_HEAD h;

                h2_head_init(&h);
                CHECK(add_all(&h, cases[i].fields));
                CHECK_INT(h2_head_write(&h, false, &out), ==, -EINVAL);
                CHECK_INT(h.refused_with, ==, cases[i].status);
                CHECK(h.why);
        }
}

static void extended_connect_is_an_upgrade(void)
{
        static const char *const fields[] = {":method",
                                             "CONNECT",
                                             ":protocol",
                                             "websocket",
                                             ":scheme",
                                             "https",
                                             ":path",
                                             "/chat",
                                             ":authority",
                                             "h",
                                             "origin",
                                             "https://o",
                                             "sec-websocket-key",
                                             "not theirs to give",
                                             NULL};
        static struct http1_head parsed;
        AUTO_BUF struct buf out = BUF_INIT(1 << 16);
        AUTO_HEAD h;
        size_t used;

        h2_head_init(&h);
        CHECK(add_all(&h, fields));
        CHECK(h2_head_is_connect(&h));
        CHECK_INT(h2_head_write(&h, true, &out), ==, 0);
        CHECK_INT(http1_parse_request(&parsed, buf_at(&out), out.len, &used), ==, HTTP1_DONE);
        CHECK(str_is(parsed.method, "GET"));
        CHECK(parsed.is_upgrade);
        CHECK(str_is(http1_value(&parsed, "upgrade"), "websocket"));
        CHECK_INT(http1_count(&parsed, "sec-websocket-key"), ==, 1);
        CHECK_INT(http1_value(&parsed, "sec-websocket-key").n, ==, 24);
        CHECK_INT(parsed.framing, ==, HTTP1_BODY_NONE);
}

static void heads_are_bounded_and_the_next_starts_anew(void)
{
        static char value[HTTP1_HEAD_MAX];
        AUTO_BUF struct buf out = BUF_INIT(1 << 16);
        AUTO_HEAD h;

        memset(value, 'v', sizeof(value));
        h2_head_init(&h);
        CHECK(add_all(&h, (const char *[]){USUAL, NULL}));
        for (int i = 0; i < 10000; i++)
                CHECK_INT(h2_head_add(&h, STR("x"), (struct str){value, 4000}), ==, 0);
        CHECK_INT(h.lines.len, <, HTTP1_HEAD_MAX); /* what is too much is counted, not kept */
        CHECK_INT(h.bytes, >, 10000 * 4000);
        CHECK_INT(h2_head_write(&h, false, &out), ==, -EINVAL);
        CHECK_INT(h.refused_with, ==, 431);
        h2_head_reset(&h);
        CHECK_INT(h.lines.cap, ==, 0);
        CHECK(add_all(&h, (const char *[]){USUAL, NULL}));
        CHECK_INT(h2_head_write(&h, false, &out), ==, 0);
        CHECK_STR(buf_cstr(&out), "GET /p HTTP/1.1\r\nhost: h\r\n\r\n");
        h2_head_reset(&h);
        for (int i = 0; i < HTTP1_HEADERS_MAX; i++)
                CHECK_INT(h2_head_add(&h, STR("x"), STR("y")), ==, 0);
        CHECK_INT(h.refused_with, ==, 431);
        h2_head_reset(&h);
        CHECK_INT(h2_head_add(&h, STR(":path"), (struct str){value, sizeof(value)}), ==, 0);
        CHECK_INT(h.refused_with, ==, 414);
}

int main(void)
{
        RUN(fields_become_lines);
        RUN(what_could_be_read_in_two_ways_is_refused);
        RUN(extended_connect_is_an_upgrade);
        RUN(heads_are_bounded_and_the_next_starts_anew);
        return tap_done();
}
