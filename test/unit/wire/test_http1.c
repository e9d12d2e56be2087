#include "wire/http1.h"

#include <errno.h>

#include "tap.h"

/* ---- a head, fed whole, byte by byte and in every two pieces, each time at another address ---- */

struct head_case {
        const char *text;
        size_t n;
        enum http1_step step;
        unsigned hint;
        bool is_response, to_head;
};
#define REQUEST(s, step_, hint_)                                                                                       \
        {                                                                                                              \
                .text = (s), .n = sizeof(s) - 1, .step = (step_), .hint = (hint_)                                      \
        }
#define RESPONSE(s, step_, hint_)                                                                                      \
        {                                                                                                              \
                .text = (s), .n = sizeof(s) - 1, .step = (step_), .hint = (hint_), .is_response = true                 \
        }

static enum http1_step feed(const struct head_case *c, struct http1_head *h, const char *p, size_t n, size_t *used)
{
        return c->is_response ? http1_parse_response(h, p, n, c->to_head, used) : http1_parse_request(h, p, n, used);
}

static bool same_head(const struct http1_head *a, const struct http1_head *b)
{
        if (!str_eq(a->method, b->method) || !str_eq(a->target, b->target) || !str_eq(a->reason, b->reason))
                return false;
        if (a->status != b->status || a->minor != b->minor || a->framing != b->framing ||
            a->content_length != b->content_length || a->keep_alive != b->keep_alive ||
            a->expect_continue != b->expect_continue || a->is_upgrade != b->is_upgrade ||
            a->header_count != b->header_count)
                return false;
        for (size_t i = 0; i < a->header_count; i++)
                if (!str_eq(a->headers[i].name, b->headers[i].name) ||
                    !str_eq(a->headers[i].value, b->headers[i].value))
                        return false;
        return true;
}

/* Feed growing prefixes (ends[] in rising order, last one c->n), each copied to fresh memory of its exact size. */
static bool feed_pieces_agrees(const struct head_case *c, size_t first, size_t stride, const struct http1_head *want,
                               size_t want_used)
{
        struct http1_head h = {0};
        enum http1_step step = HTTP1_MORE;
        AUTO_FREE char *held = NULL;
        size_t used = 0;

        for (size_t at = first; step == HTTP1_MORE; at += stride) {
                size_t n = at < c->n ? at : c->n;
                char *copy = malloc(n ? n : 1);

                memcpy(copy, c->text, n);
                free(held);
                held = copy;
                step = feed(c, &h, copy, n, &used);
                if (n == c->n)
                        break;
        }
        if (step != c->step || h.status_hint != want->status_hint || (h.why != want->why && step != HTTP1_MORE))
                return false;
        return step != HTTP1_DONE || (used == want_used && same_head(&h, want));
}

static const char *run_head_case(const struct head_case *c)
{
        struct http1_head h = {0};
        size_t used = 4711;

        if (feed(c, &h, c->text, c->n, &used) != c->step)
                return "fed whole: other step";
        if (h.status_hint != c->hint)
                return "other status hint";
        if (c->step != HTTP1_DONE && used != 4711)
                return "ret_used touched";
        if (c->step != HTTP1_DONE && c->step != HTTP1_MORE && !h.why)
                return "no reason given";
        if (!feed_pieces_agrees(c, 1, 1, &h, used))
                return "fed byte by byte: differs";
        for (size_t cut = 0; cut <= c->n; cut++)
                if (!feed_pieces_agrees(c, cut, c->n, &h, used))
                        return "fed in two pieces: differs";
        return NULL;
}

static void run_head_cases(const struct head_case *cases, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                const char *wrong = run_head_case(&cases[i]);

                if (wrong)
                        printf("# case %zu: %s: %.60s\n", i, wrong, cases[i].text);
                CHECK(!wrong);
        }
}

#define H11 " HTTP/1.1\r\nHost: a\r\n"
#define BAD(s) REQUEST(s, HTTP1_BAD, 400)
#define OK(s) REQUEST(s, HTTP1_DONE, 0)

static void requests_accepted(void)
{
        static const struct head_case cases[] = {
                OK("GET /" H11 "\r\n"),
                OK("GET / HTTP/1.0\r\n\r\n"),
                OK("GET / HTTP/1.0\r\nHost: a\r\n\r\n"),
                OK("GET / HTTP/1.1\r\nHost:\r\n\r\n"),
                OK("GET / HTTP/1.1\r\nhOsT:49983-iabc.example.org:3443\r\n\r\n"),
                OK("GET / HTTP/1.1\r\nHost: [::1]:3000\r\n\r\n"),
                OK("OPTIONS *" H11 "\r\n"),
                OK("GET http://a/x?y" H11 "\r\n"),
                OK("GET http://A HTTP/1.1\r\nHost: a\r\n\r\n"),
                OK("GET http://a?x HTTP/1.1\r\nHost: a\r\n\r\n"),
                OK("POST /x?a=%20&b=[]|^\"<>" H11 "Content-Length: 0\r\n\r\n"),
                OK("POST /x" H11 "Content-Length: 9223372036854775807\r\n\r\n"),
                OK("POST /x" H11 "content-length:\t 007 \t\r\n\r\n"),
                OK("POST /x" H11 "Transfer-Encoding: Chunked\r\n\r\n"),
                OK("POST /x" H11 "Expect: 100-Continue\r\nContent-Length: 3\r\n\r\nabc"),
                OK("GET /ws" H11 "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n"),
                OK("GET /x" H11 "Connection: close\r\n\r\n"),
                OK("M-SEARCH!#$%&'*+-.^_`|~09 /x" H11 "\r\n"),
                OK("GET /x" H11 "X-Empty:\r\nX-Blank:   \r\nX-Utf8: \xc3\xa9\tb\r\nX: :a:b\r\n\r\n"),
                OK("GET /x" H11 "\r\nGET /y" H11 "\r\n"), /* pipelined: only the first is taken */
                REQUEST("", HTTP1_MORE, 0),
                REQUEST("GET", HTTP1_MORE, 0),
                REQUEST("GET /x" H11 "\r", HTTP1_MORE, 0),
                REQUEST("GET /x" H11 "A: b\r\n", HTTP1_MORE, 0),
        };

        run_head_cases(cases, ARRAY_LEN(cases));
}

static void requests_refused(void)
{
        static const struct head_case cases[] = {
                /* line ends */
                BAD("GET / HTTP/1.1\nHost: a\n\n"),
                BAD("GET / HTTP/1.1\r\nHost: a\n\r\n"),
                BAD("GET / HTTP/1.1\r\nHost: a\r\n\n"),
                BAD("GET / HTTP/1.1\r\nHost: a\rb: c\r\n\r\n"),
                BAD("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n"),
                BAD("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n"),
                BAD("\r\nGET /" H11 "\r\n"),
                BAD("\nGET /" H11 "\r\n"),
                /* request line */
                BAD(" GET /" H11 "\r\n"),
                BAD("GET  /" H11 "\r\n"),
                BAD("GET / " H11 "\r\n"),
                BAD("GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n"),
                BAD("GET /\r\nHost: a\r\n\r\n"),
                BAD("GET\r\n\r\n"),
                BAD("GET /a b" H11 "\r\n"),
                BAD("GET /a#b" H11 "\r\n"),
                BAD("GET /\xc3\xa9" H11 "\r\n"),
                BAD("GET /\x7f" H11 "\r\n"),
                BAD("GET /\0" H11 "\r\n"),
                BAD("GET /\x01" H11 "\r\n"),
                BAD("G@T /" H11 "\r\n"),
                BAD("G\0T /" H11 "\r\n"),
                BAD("GET / http/1.1\r\nHost: a\r\n\r\n"),
                BAD("GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
                BAD("GET / HTTP/1.10\r\nHost: a\r\n\r\n"),
                BAD("GET / HTTP/11\r\nHost: a\r\n\r\n"),
                BAD("GET / HTTP/x.1\r\nHost: a\r\n\r\n"),
                REQUEST("GET / HTTP/1.2\r\nHost: a\r\n\r\n", HTTP1_UNSUPPORTED, 505),
                REQUEST("GET / HTTP/0.9\r\nHost: a\r\n\r\n", HTTP1_UNSUPPORTED, 505),
                REQUEST("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HTTP1_UNSUPPORTED, 505),
                BAD("\x16\x03\x01\x02\x00\x01"), /* TLS where none is spoken: told at once */
                /* headers */
                BAD("GET /" H11 "A : b\r\n\r\n"),
                BAD("GET /" H11 " A: b\r\n\r\n"),
                BAD("GET /" H11 "A: b\r\n c\r\n\r\n"),
                BAD("GET /" H11 "A: b\r\n\tc\r\n\r\n"),
                BAD("GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
                BAD("GET /" H11 ": b\r\n\r\n"),
                BAD("GET /" H11 "A\r\n\r\n"),
                BAD("GET /" H11 "A(b): c\r\n\r\n"),
                BAD("GET /" H11 "A,b: c\r\n\r\n"),
                BAD("GET /" H11 "A\0: c\r\n\r\n"),
                BAD("GET /" H11 "\xc3\xa9: c\r\n\r\n"),
                BAD("GET /" H11 "A: b\0c\r\n\r\n"),
                BAD("GET /" H11 "A: bbbbbbbbbb\x0b"
                    "cccccccccc\r\n\r\n"),
                BAD("GET /" H11 "A: \x7f\r\n\r\n"),
                BAD("GET /" H11 "A: aaaaaaa\x7f\r\n\r\n"),
                BAD("GET /" H11 "A: \x1b[0m\r\n\r\n"),
                /* Host */
                BAD("GET / HTTP/1.1\r\n\r\n"),
                BAD("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
                BAD("GET / HTTP/1.0\r\nHost: a\r\nhost: b\r\n\r\n"),
                BAD("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
                BAD("GET / HTTP/1.1\r\nHost: a,b\r\n\r\n"),
                BAD("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
                BAD("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
                BAD("GET http://b/x" H11 "\r\n"),
                BAD("GET http://a:80/x" H11 "\r\n"),
                BAD("GET http://u@a/x" H11 "\r\n"),
                /* framing */
                BAD("POST /" H11 "Content-Length: 1\r\nContent-Length: 1\r\n\r\n"),
                BAD("POST /" H11 "Content-Length: 1\r\nContent-Length: 2\r\n\r\n"),
                BAD("POST /" H11 "Content-Length: 1, 1\r\n\r\n"),
                BAD("POST /" H11 "Content-Length: +1\r\n\r\n"),
                BAD("POST /" H11 "Content-Length: -1\r\n\r\n"),
                BAD("POST /" H11 "Content-Length: 0x1\r\n\r\n"),
                BAD("POST /" H11 "Content-Length: 1 2\r\n\r\n"),
                BAD("POST /" H11 "Content-Length:\r\n\r\n"),
                BAD("POST /" H11 "Content-Length: 9223372036854775808\r\n\r\n"),
                BAD("POST /" H11 "Content-Length: 18446744073709551617\r\n\r\n"),
                BAD("POST /" H11 "Content-Length : 1\r\n\r\n"),
                BAD("POST /" H11 "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
                BAD("POST /" H11 "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"),
                BAD("POST /" H11 "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
                BAD("POST /" H11 "Transfer-Encoding:\r\n\r\n"),
                BAD("POST /" H11 "Transfer-Encoding : chunked\r\n\r\n"),
                BAD("POST /" H11 "Transfer-Encoding:\x0b"
                    "chunked\r\n\r\n"),
                BAD("POST /" H11 "Transfer-Encoding:\r\n chunked\r\n\r\n"),
                BAD("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
                REQUEST("POST /" H11 "Transfer-Encoding: identity\r\n\r\n", HTTP1_UNSUPPORTED, 501),
                REQUEST("POST /" H11 "Transfer-Encoding: gzip, chunked\r\n\r\n", HTTP1_UNSUPPORTED, 501),
                REQUEST("POST /" H11 "Transfer-Encoding: chunked, chunked\r\n\r\n", HTTP1_UNSUPPORTED, 501),
                REQUEST("POST /" H11 "Transfer-Encoding: chunked, identity\r\n\r\n", HTTP1_UNSUPPORTED, 501),
                REQUEST("POST /" H11 "Transfer-Encoding: xchunked\r\n\r\n", HTTP1_UNSUPPORTED, 501),
                REQUEST("POST /" H11 "Transfer-Encoding: \"chunked\"\r\n\r\n", HTTP1_UNSUPPORTED, 501),
                REQUEST("POST /" H11 "Expect: 200-ok\r\n\r\n", HTTP1_BAD, 417),
        };

        run_head_cases(cases, ARRAY_LEN(cases));
}

static void responses_accepted_and_refused(void)
{
        static const struct head_case cases[] = {
                RESPONSE("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", HTTP1_DONE, 0),
                RESPONSE("HTTP/1.1 200 \r\n\r\n", HTTP1_DONE, 0),
                RESPONSE("HTTP/1.1 200\r\n\r\n", HTTP1_DONE, 0),
                RESPONSE("HTTP/1.0 999 So \xc3\xa9\tso\r\n\r\n", HTTP1_DONE, 0),
                RESPONSE("HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", HTTP1_DONE, 0),
                RESPONSE("HTTP/1.1 200 OK\r\nHost: a b\r\nHost: c\r\n\r\n", HTTP1_DONE, 0),
                RESPONSE("HTTP/1.1 200 OK\r\nExpect: x\r\n\r\n", HTTP1_DONE, 0),
                RESPONSE("HTTP/1.1 20", HTTP1_MORE, 0),
                RESPONSE("HTTP/1.1  200 OK\r\n\r\n", HTTP1_BAD, 400),
                RESPONSE("HTTP/1.1 99 OK\r\n\r\n", HTTP1_BAD, 400),
                RESPONSE("HTTP/1.1 099 OK\r\n\r\n", HTTP1_BAD, 400),
                RESPONSE("HTTP/1.1 2000 OK\r\n\r\n", HTTP1_BAD, 400),
                RESPONSE("HTTP/1.1 2x0 OK\r\n\r\n", HTTP1_BAD, 400),
                RESPONSE("HTTP/1.1 200 O\0K\r\n\r\n", HTTP1_BAD, 400),
                RESPONSE("HTTP/1.1\r\n\r\n", HTTP1_BAD, 400),
                RESPONSE("HTTP/2.0 200 OK\r\n\r\n", HTTP1_UNSUPPORTED, 505),
                RESPONSE("SSH-2.0-x", HTTP1_BAD, 400),
                RESPONSE("HTTP/1.1 200 OK\nA: b\n\n", HTTP1_BAD, 400),
                RESPONSE("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", HTTP1_BAD, 400),
                RESPONSE("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", HTTP1_BAD, 400),
                RESPONSE("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP1_BAD, 400),
                RESPONSE("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP1_BAD, 400),
                RESPONSE("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", HTTP1_UNSUPPORTED, 501),
                RESPONSE("HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\n", HTTP1_BAD, 400),
                RESPONSE("HTTP/1.1 103 x\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP1_BAD, 400),
        };

        run_head_cases(cases, ARRAY_LEN(cases));
}

static enum http1_step parse_request(struct http1_head *h, const char *text)
{
        size_t used = 0;

        return http1_parse_request(h, text, strlen(text), &used);
}

static void request_is_taken_apart(void)
{
        struct http1_head h = {0};

        CHECK_INT(parse_request(&h,
                                "POST /a?b HTTP/1.1\r\nHost:  a.b \r\nContent-Length: 12\r\nX-y: 1\r\nx-Y: 2\r\n\r\n"),
                  ==, HTTP1_DONE);
        CHECK(str_is(h.method, "POST"));
        CHECK(str_is(h.target, "/a?b"));
        CHECK_INT(h.status, ==, 0);
        CHECK_INT(h.minor, ==, 1);
        CHECK_INT(h.header_count, ==, 4);
        CHECK(str_is(http1_value(&h, "host"), "a.b"));
        CHECK(str_is(http1_value(&h, "X-Y"), "1"));
        CHECK_INT(http1_count(&h, "x-y"), ==, 2);
        CHECK(!http1_find(&h, "x"));
        CHECK_INT(http1_value(&h, "x").n, ==, 0);
        CHECK_INT(h.framing, ==, HTTP1_BODY_LENGTH);
        CHECK_INT(h.content_length, ==, 12);
        CHECK(h.keep_alive && !h.expect_continue && !h.is_upgrade);
}

static void head_can_be_used_again(void)
{
        struct http1_head h = {0};

        CHECK_INT(parse_request(&h, "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nConnection: upgrade\r\n"
                                    "Upgrade: x\r\nContent-Length: 5\r\n\r\n"),
                  ==, HTTP1_DONE);
        CHECK(h.expect_continue && h.is_upgrade);
        h.scanned = 0;
        CHECK_INT(parse_request(&h, "GET / HTTP/1.0\r\n\r\n"), ==, HTTP1_DONE);
        CHECK(!h.expect_continue && !h.is_upgrade && !h.keep_alive);
        CHECK_INT(h.header_count, ==, 0);
        CHECK_INT(h.framing, ==, HTTP1_BODY_NONE);
        CHECK_INT(h.content_length, ==, 0);
}

static void connection_header_is_heeded(void)
{
        static const struct {
                const char *text;
                bool keep_alive, is_upgrade;
        } cases[] = {
                {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true, false},
                {"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE\r\n\r\n", false, false},
                {"GET / HTTP/1.1\r\nHost: a\r\nConnection: x\r\nConnection: close\r\n\r\n", false, false},
                {"GET / HTTP/1.1\r\nHost: a\r\nConnection: closed\r\n\r\n", true, false},
                {"GET / HTTP/1.0\r\n\r\n", false, false},
                {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true, false},
                {"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false, false},
                {"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\r\n", true, false},
                {"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\n\r\n", true, false},
                {"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", true, true},
                {"GET / HTTP/1.0\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", false, false},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct http1_head h = {0};

                CHECK_INT(parse_request(&h, cases[i].text), ==, HTTP1_DONE);
                CHECK_INT(h.keep_alive, ==, cases[i].keep_alive);
                CHECK_INT(h.is_upgrade, ==, cases[i].is_upgrade);
        }
}

static void response_framing_follows_the_rfc(void)
{
        static const struct {
                const char *text;
                bool to_head;
                enum http1_framing framing;
                bool keep_alive;
        } cases[] = {
                {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, HTTP1_BODY_LENGTH, true},
                {"HTTP/1.1 200 OK\r\n\r\n", false, HTTP1_BODY_EOF, false},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, HTTP1_BODY_CHUNKED, true},
                {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n", false, HTTP1_BODY_LENGTH,
                 true},
                {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", true, HTTP1_BODY_NONE, true},
                {"HTTP/1.1 200 OK\r\n\r\n", true, HTTP1_BODY_NONE, true},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true, HTTP1_BODY_NONE, true},
                {"HTTP/1.1 100 Continue\r\n\r\n", false, HTTP1_BODY_NONE, true},
                {"HTTP/1.1 101 x\r\nContent-Length: 0\r\n\r\n", false, HTTP1_BODY_NONE, true},
                {"HTTP/1.1 204 No Content\r\n\r\n", false, HTTP1_BODY_NONE, true},
                {"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", false, HTTP1_BODY_NONE, true},
                {"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n", false, HTTP1_BODY_NONE, false},
                {"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", false, HTTP1_BODY_NONE, false},
                {"HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n", false, HTTP1_BODY_NONE, true},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct http1_head h = {0};
                size_t used = 0;

                CHECK_INT(http1_parse_response(&h, cases[i].text, strlen(cases[i].text), cases[i].to_head, &used), ==,
                          HTTP1_DONE);
                CHECK_INT(h.framing, ==, cases[i].framing);
                CHECK_INT(h.keep_alive, ==, cases[i].keep_alive);
        }
}

static enum http1_step parse_padded(size_t total, struct http1_head *h) /* a good head of exactly `total` bytes */
{
        AUTO_BUF struct buf b = BUF_INIT(1 << 20);
        size_t used = 0;

        (void)buf_addc(&b, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
        while (b.len < total - 4)
                (void)buf_addc(&b, "x");
        (void)buf_addc(&b, "\r\n\r\n");
        return http1_parse_request(h, buf_at(&b), b.len, &used);
}

static void head_has_a_limit(void)
{
        AUTO_BUF struct buf b = BUF_INIT(1 << 20);
        struct http1_head h = {0};
        size_t used;

        CHECK_INT(parse_padded(HTTP1_HEAD_MAX, &h), ==, HTTP1_DONE);
        h.scanned = 0;
        CHECK_INT(parse_padded(HTTP1_HEAD_MAX + 1, &h), ==, HTTP1_TOO_BIG);
        CHECK_INT(h.status_hint, ==, 431);

        CHECK_INT(buf_addc(&b, "GET /"), ==, 0);
        while (b.len < HTTP1_HEAD_MAX)
                CHECK_INT(buf_addc(&b, "a"), ==, 0);
        h.scanned = 0;
        CHECK_INT(http1_parse_request(&h, buf_at(&b), b.len - 1, &used), ==, HTTP1_MORE);
        CHECK_INT(http1_parse_request(&h, buf_at(&b), b.len, &used), ==, HTTP1_TOO_BIG);
        CHECK_INT(h.status_hint, ==, 414);
}

static void headers_have_a_limit(void)
{
        for (int extra = 0; extra < 2; extra++) {
                AUTO_BUF struct buf b = BUF_INIT(1 << 20);
                struct http1_head h = {0};
                size_t used;

                CHECK_INT(buf_addc(&b, "GET / HTTP/1.1\r\nHost: a\r\n"), ==, 0);
                for (int i = 1; i < HTTP1_HEADERS_MAX + extra; i++)
                        CHECK_INT(buf_addf(&b, "H%d: x\r\n", i), ==, 0);
                CHECK_INT(buf_addc(&b, "\r\n"), ==, 0);
                CHECK_INT(http1_parse_request(&h, buf_at(&b), b.len, &used), ==, extra ? HTTP1_TOO_BIG : HTTP1_DONE);
                CHECK_INT(h.status_hint, ==, extra ? 431 : 0);
        }
}

static void lists_are_searched_by_element(void)
{
        struct http1_head h = {0};

        CHECK_INT(parse_request(&h, "GET / HTTP/1.1\r\nHost: a\r\nA: b ,,C\r\nA: d\r\nE:\r\n\r\n"), ==, HTTP1_DONE);
        CHECK(http1_has_token(&h, "a", "B"));
        CHECK(http1_has_token(&h, "a", "c"));
        CHECK(http1_has_token(&h, "a", "d"));
        CHECK(!http1_has_token(&h, "a", "e"));
        CHECK(!http1_has_token(&h, "e", "d"));
        CHECK(!http1_has_token(&h, "f", "d"));
}

static void hop_by_hop_headers_are_known(void)
{
        static const char *const hop[] = {"connection", "KEEP-ALIVE", "Proxy-Authorization", "proxy-connection",
                                          "te",         "Trailer",    "transfer-encoding",   "Upgrade",
                                          "x-mine",     "X-Other"};
        static const char *const end_to_end[] = {"Host", "Content-Length", "Accept", "X-Third", "Proxy", "Via"};
        struct http1_head h = {0};

        CHECK_INT(parse_request(&h, "GET / HTTP/1.1\r\nHost: a\r\nConnection: x-mine, host, content-length\r\n"
                                    "Connection: X-OTHER\r\n\r\n"),
                  ==, HTTP1_DONE);
        for (size_t i = 0; i < ARRAY_LEN(hop); i++)
                CHECK(http1_is_hop_by_hop(&h, str_of(hop[i])));
        for (size_t i = 0; i < ARRAY_LEN(end_to_end); i++)
                CHECK(!http1_is_hop_by_hop(&h, str_of(end_to_end[i])));
}

int main(void)
{
        RUN(requests_accepted);
        RUN(requests_refused);
        RUN(responses_accepted_and_refused);
        RUN(request_is_taken_apart);
        RUN(head_can_be_used_again);
        RUN(connection_header_is_heeded);
        RUN(response_framing_follows_the_rfc);
        RUN(head_has_a_limit);
        RUN(headers_have_a_limit);
        RUN(lists_are_searched_by_element);
        RUN(hop_by_hop_headers_are_known);
        return tap_done();
}
