#include "wire/http1.h"

#include <errno.h>

#include "tap.h"

/* ---- a body, fed in pieces that are each copied to memory of their exact size ---- */

struct result {
        enum http1_step step; /* the last one that was no DATA */
        size_t used;
        struct buf payload;
};

static void result_done(struct result *r)
{
        buf_done(&r->payload);
}

/* Feed text[0..n) so that a piece ends at `cut` (and, with `each` set, after every byte). */
static void feed(enum http1_framing framing, uint64_t length, const char *text, size_t n, size_t cut, bool each,
                 struct result *ret)
{
        struct http1_head h = {.framing = framing, .content_length = length};
        struct http1_body b;
        size_t at = 0;

        *ret = (struct result){.step = HTTP1_MORE, .payload = BUF_INIT(1 << 20)};
        http1_body_init(&b, &h);
        while (at < n && ret->step == HTTP1_MORE) {
                size_t end = each ? at + 1 : at < cut ? cut : n, size = end - at, off = 0;
                AUTO_FREE char *copy = malloc(size);

                memcpy(copy, text + at, size);
                do {
                        struct str data = {0};
                        size_t used = 0;

                        ret->step = http1_body_feed(&b, copy + off, size - off, &used, &data);
                        if (ret->step == HTTP1_DATA)
                                (void)buf_add(&ret->payload, data.p, data.n);
                        off += used;
                } while (ret->step == HTTP1_DATA);
                at += off;
        }
        ret->used = at;
        if (b.total != ret->payload.len || (ret->step == HTTP1_DONE) != http1_body_is_done(&b))
                ret->step = HTTP1_UNSUPPORTED; /* fails the case */
}

struct body_case {
        struct str text;
        enum http1_step step;
        const char *payload;
        size_t rest; /* bytes left over for the next message */
};

static const char *run_case(const struct body_case *c)
{
        for (size_t cut = 0; cut <= c->text.n + 1; cut++) {
                AUTO(result_done) struct result r;

                feed(HTTP1_BODY_CHUNKED, 0, c->text.p, c->text.n, cut, cut > c->text.n, &r);
                if (r.step != c->step)
                        return "other step";
                if (c->payload && !str_is((struct str){(char *)r.payload.mem, r.payload.len}, c->payload))
                        return "other payload";
                if (c->step == HTTP1_DONE && r.used != c->text.n - c->rest)
                        return "other end";
        }
        return NULL;
}

static void run_cases(const struct body_case *cases, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                const char *wrong = run_case(&cases[i]);

                if (wrong)
                        printf("# case %zu: %s: %.60s\n", i, wrong, cases[i].text.p);
                CHECK(!wrong);
        }
}

#define TEXT(s)                                                                                                        \
        {                                                                                                              \
                (s), sizeof(s) - 1                                                                                     \
        }

static void chunks_are_put_together(void)
{
        static const struct body_case cases[] = {
                {TEXT("0\r\n\r\n"), HTTP1_DONE, "", 0},
                {TEXT("000\r\n\r\n"), HTTP1_DONE, "", 0},
                {TEXT("5\r\nhello\r\n0\r\n\r\n"), HTTP1_DONE, "hello", 0},
                {TEXT("5\r\nhello\r\n0\r\n\r\nGET / HTTP/1.1\r\n"), HTTP1_DONE, "hello", 16},
                {TEXT("1\r\na\r\n2\r\nbc\r\n0a\r\n0123456789\r\n00\r\n\r\n"), HTTP1_DONE, "abc0123456789", 0},
                {TEXT("A\r\n0123456789\r\n0\r\n\r\n"), HTTP1_DONE, "0123456789", 0},
                {TEXT("4\r\n\r\n\r\n\r\n0\r\n\r\n"), HTTP1_DONE, "\r\n\r\n", 0},
                {TEXT("5;a\r\nhello\r\n0;b=\"c;\td\"\r\n\r\n"), HTTP1_DONE, "hello", 0},
                {TEXT("5;\r\nhello\r\n0\r\n\r\n"), HTTP1_DONE, "hello", 0},
                {TEXT("0\r\nA: b\r\nC-d:\r\n\r\n"), HTTP1_DONE, "", 0},
                {TEXT("5\r\nhel"), HTTP1_MORE, "hel", 0},
                {TEXT("5\r\nhello\r\n"), HTTP1_MORE, "hello", 0},
                {TEXT("0\r\n"), HTTP1_MORE, "", 0},
                {TEXT("0\r\nA: b\r\n"), HTTP1_MORE, "", 0},
        };

        run_cases(cases, ARRAY_LEN(cases));
}

static void malformed_chunks_are_refused(void)
{
        static const struct body_case cases[] = {
                {TEXT("\r\n"), HTTP1_BAD},
                {TEXT(";a\r\n"), HTTP1_BAD},
                {TEXT(" 5\r\nhello\r\n0\r\n\r\n"), HTTP1_BAD},
                {TEXT("5 \r\nhello\r\n0\r\n\r\n"), HTTP1_BAD},
                {TEXT("5 ;a\r\nhello\r\n0\r\n\r\n"), HTTP1_BAD},
                {TEXT("5\t\r\nhello\r\n0\r\n\r\n"), HTTP1_BAD},
                {TEXT("0x5\r\nhello\r\n0\r\n\r\n"), HTTP1_BAD},
                {TEXT("+5\r\nhello\r\n0\r\n\r\n"), HTTP1_BAD},
                {TEXT("-5\r\nhello\r\n0\r\n\r\n"), HTTP1_BAD},
                {TEXT("g\r\n"), HTTP1_BAD},
                {TEXT("5,5\r\n"), HTTP1_BAD},
                {TEXT("5\nhello\r\n0\r\n\r\n"), HTTP1_BAD},
                {TEXT("5\rhello\r\n0\r\n\r\n"), HTTP1_BAD},
                {TEXT("5\r\r\nhello\r\n0\r\n\r\n"), HTTP1_BAD},
                {TEXT("5;a\nhello\r\n0\r\n\r\n"), HTTP1_BAD},
                {TEXT("5;a\rb\r\nhello\r\n0\r\n\r\n"), HTTP1_BAD},
                {TEXT("5;a\0b\r\nhello\r\n0\r\n\r\n"), HTTP1_BAD},
                {TEXT("5\r\nhelloX\r\n0\r\n\r\n"), HTTP1_BAD, "hello"},
                {TEXT("5\r\nhelloX\n0\r\n\r\n"), HTTP1_BAD, "hello"},
                {TEXT("5\r\nhello\n0\r\n\r\n"), HTTP1_BAD, "hello"},
                {TEXT("5\r\nhello\rX0\r\n\r\n"), HTTP1_BAD, "hello"},
                {TEXT("5\r\nhello0\r\n\r\n"), HTTP1_BAD, "hello"},
                {TEXT("8000000000000000\r\n"), HTTP1_BAD},
                {TEXT("ffffffffffffffff\r\n"), HTTP1_BAD},
                {TEXT("10000000000000005\r\nhello\r\n0\r\n\r\n"), HTTP1_BAD},
                {TEXT("0\r\n\n"), HTTP1_BAD},
                {TEXT("0\r\n\rX"), HTTP1_BAD},
                {TEXT("0\r\nA\r\n\r\n"), HTTP1_BAD},
                {TEXT("0\r\n: b\r\n\r\n"), HTTP1_BAD},
                {TEXT("0\r\nA : b\r\n\r\n"), HTTP1_BAD},
                {TEXT("0\r\n A: b\r\n\r\n"), HTTP1_BAD},
                {TEXT("0\r\nA: b\r\n c\r\n\r\n"), HTTP1_BAD},
                {TEXT("0\r\nA: b\n\r\n"), HTTP1_BAD},
                {TEXT("0\r\nA: \0\r\n\r\n"), HTTP1_BAD},
                {TEXT("0\r\nA: b\rc\r\n\r\n"), HTTP1_BAD},
                {TEXT("0\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), HTTP1_BAD},
        };

        run_cases(cases, ARRAY_LEN(cases));
}

static void a_refused_body_stays_refused(void)
{
        struct http1_head h = {.framing = HTTP1_BODY_CHUNKED};
        struct http1_body b;
        struct str data;
        size_t used = 9;

        http1_body_init(&b, &h);
        CHECK_INT(http1_body_feed(&b, "x", 1, &used, &data), ==, HTTP1_BAD);
        CHECK_INT(used, ==, 0);
        CHECK_INT(http1_body_feed(&b, "0\r\n\r\n", 5, &used, &data), ==, HTTP1_BAD);
        CHECK(!http1_body_is_done(&b));
}

static enum http1_step feed_buf(const struct buf *text)
{
        AUTO(result_done) struct result r;

        feed(HTTP1_BODY_CHUNKED, 0, (const char *)text->mem, text->len, text->len, false, &r);
        return r.step;
}

static void size_lines_have_a_limit(void)
{
        for (unsigned extra = 0; extra < 2; extra++) {
                AUTO_BUF struct buf b = BUF_INIT(1 << 20);

                CHECK_INT(buf_addc(&b, "0;"), ==, 0);
                while (b.len < HTTP1_CHUNK_LINE_MAX + extra - 2)
                        CHECK_INT(buf_addc(&b, "x"), ==, 0);
                CHECK_INT(buf_addc(&b, "\r\n\r\n"), ==, 0);
                CHECK_INT(feed_buf(&b), ==, extra ? HTTP1_TOO_BIG : HTTP1_DONE);

                buf_reset(&b);
                while (b.len < HTTP1_CHUNK_LINE_MAX + extra - 2)
                        CHECK_INT(buf_addc(&b, "0"), ==, 0);
                CHECK_INT(buf_addc(&b, "\r\n\r\n"), ==, 0);
                CHECK_INT(feed_buf(&b), ==, extra ? HTTP1_TOO_BIG : HTTP1_DONE);
        }
}

static void trailers_have_a_limit(void)
{
        for (unsigned extra = 0; extra < 2; extra++) {
                AUTO_BUF struct buf b = BUF_INIT(1 << 20);

                CHECK_INT(buf_addc(&b, "0\r\nA: b\r\nC: "), ==, 0);
                while (b.len < 3 + HTTP1_TRAILER_MAX + extra - 4)
                        CHECK_INT(buf_addc(&b, "x"), ==, 0);
                CHECK_INT(buf_addc(&b, "\r\n\r\n"), ==, 0);
                CHECK_INT(feed_buf(&b), ==, extra ? HTTP1_TOO_BIG : HTTP1_DONE);
        }
}

static void extensions_may_not_outweigh_the_payload(void)
{
        AUTO_BUF struct buf b = BUF_INIT(1 << 20);

        for (int i = 0; i < 100; i++) /* one byte of payload for 200 of extensions, again and again */
                CHECK_INT(buf_addf(&b, "1;%0200d\r\nx\r\n", 0), ==, 0);
        CHECK_INT(buf_addc(&b, "0\r\n\r\n"), ==, 0);
        CHECK_INT(feed_buf(&b), ==, HTTP1_TOO_BIG);

        buf_reset(&b);
        for (int i = 0; i < 200; i++) /* signed chunks are fine */
                CHECK_INT(buf_addf(&b, "400;signature=%064d\r\n%01024d\r\n", 0, 0), ==, 0);
        CHECK_INT(buf_addc(&b, "0\r\n\r\n"), ==, 0);
        CHECK_INT(feed_buf(&b), ==, HTTP1_DONE);
}

static void length_ends_the_body(void)
{
        for (size_t cut = 0; cut <= 9; cut++) {
                AUTO(result_done) struct result r, short_one;

                feed(HTTP1_BODY_LENGTH, 5, "helloGET", 8, cut, cut == 9, &r);
                CHECK_INT(r.step, ==, HTTP1_DONE);
                CHECK_INT(r.used, ==, 5);
                CHECK_STR(buf_cstr(&r.payload), "hello");
                feed(HTTP1_BODY_LENGTH, 9, "helloGET", 8, cut, cut == 9, &short_one);
                CHECK_INT(short_one.step, ==, HTTP1_MORE);
                CHECK_STR(buf_cstr(&short_one.payload), "helloGET");
        }
}

static void no_body_is_done_at_once(void)
{
        struct http1_head none = {.framing = HTTP1_BODY_NONE}, empty = {.framing = HTTP1_BODY_LENGTH};
        struct http1_body b;
        struct str data;
        size_t used = 9;

        http1_body_init(&b, &none);
        CHECK(http1_body_is_done(&b));
        CHECK_INT(http1_body_feed(&b, "GET", 3, &used, &data), ==, HTTP1_DONE);
        CHECK_INT(used, ==, 0);
        http1_body_init(&b, &empty);
        CHECK(http1_body_is_done(&b));
        CHECK_INT(http1_body_feed(&b, "GET", 3, &used, &data), ==, HTTP1_DONE);
        CHECK_INT(used, ==, 0);
}

static void body_to_the_end_is_never_done(void)
{
        AUTO(result_done) struct result r;

        feed(HTTP1_BODY_EOF, 0, "hello", 5, 2, false, &r);
        CHECK_INT(r.step, ==, HTTP1_MORE);
        CHECK_STR(buf_cstr(&r.payload), "hello");
}

/* ---- writing ---- */

static void heads_are_written(void)
{
        AUTO_BUF struct buf b = BUF_INIT(1000);

        CHECK_INT(http1_write_request_line(&b, STR("GET"), STR("/a?b")), ==, 0);
        CHECK_INT(http1_write_header(&b, STR("Host"), STR("a")), ==, 0);
        CHECK_INT(http1_write_header(&b, STR("X"), STR("")), ==, 0);
        CHECK_INT(http1_write_headerf(&b, "Content-Length", "%d", 17), ==, 0);
        CHECK_INT(http1_write_end(&b), ==, 0);
        CHECK_STR(buf_cstr(&b), "GET /a?b HTTP/1.1\r\nHost: a\r\nX: \r\nContent-Length: 17\r\n\r\n");
        buf_reset(&b);
        CHECK_INT(http1_write_status_line(&b, 404, STR("")), ==, 0);
        CHECK_INT(http1_write_status_line(&b, 200, STR("Fine")), ==, 0);
        CHECK_INT(http1_write_status_line(&b, 599, STR("")), ==, 0);
        CHECK_STR(buf_cstr(&b), "HTTP/1.1 404 Not Found\r\nHTTP/1.1 200 Fine\r\nHTTP/1.1 599 \r\n");
}

static void what_would_break_a_head_is_not_written(void)
{
        AUTO_BUF struct buf b = BUF_INIT(1000);

        CHECK_INT(http1_write_request_line(&b, STR("GET "), STR("/")), ==, -EINVAL);
        CHECK_INT(http1_write_request_line(&b, STR(""), STR("/")), ==, -EINVAL);
        CHECK_INT(http1_write_request_line(&b, STR("GET"), STR("/ HTTP/1.1\r\nX: y")), ==, -EINVAL);
        CHECK_INT(http1_write_request_line(&b, STR("GET"), STR("")), ==, -EINVAL);
        CHECK_INT(http1_write_status_line(&b, 99, STR("")), ==, -EINVAL);
        CHECK_INT(http1_write_status_line(&b, 1000, STR("")), ==, -EINVAL);
        CHECK_INT(http1_write_status_line(&b, 200, STR("a\r\nb")), ==, -EINVAL);
        CHECK_INT(http1_write_header(&b, STR(""), STR("a")), ==, -EINVAL);
        CHECK_INT(http1_write_header(&b, STR("a:"), STR("a")), ==, -EINVAL);
        CHECK_INT(http1_write_header(&b, STR("a"), STR("a\r\nb: c")), ==, -EINVAL);
        CHECK_INT(http1_write_header(&b, STR("a"), STR("a\0b")), ==, -EINVAL);
        CHECK_INT(http1_write_headerf(&b, "a", "%s", "x\ny"), ==, -EINVAL);
        CHECK_INT(http1_write_headerf(&b, "a b", "%s", "x"), ==, -EINVAL);
        CHECK_INT(b.len, ==, 0);
}

static void a_header_that_does_not_fit_leaves_nothing(void)
{
        AUTO_BUF struct buf b = BUF_INIT(10);

        CHECK_INT(http1_write_header(&b, STR("abc"), STR("defg")), ==, -E2BIG);
        CHECK_INT(http1_write_headerf(&b, "abc", "%s", "defg"), ==, -E2BIG);
        CHECK_INT(http1_write_headerf(&b, "abc", "%s", "defghijkl"), ==, -E2BIG);
        CHECK_INT(http1_write_headerf(&b, "abcdefghi", "%s", ""), ==, -E2BIG);
        CHECK_INT(b.len, ==, 0);
        CHECK_INT(http1_write_headerf(&b, "abc", "%s", "def"), ==, 0);
        CHECK_INT(http1_write_end(&b), ==, -E2BIG);
        CHECK_STR(buf_cstr(&b), "abc: def\r\n");
}

static void chunk_heads_are_hex(void)
{
        char out[HTTP1_CHUNK_HEAD_MAX + 1];
        static const struct {
                uint64_t size;
                const char *text;
        } cases[] = {{0, "0\r\n"},
                     {15, "f\r\n"},
                     {16, "10\r\n"},
                     {0x1a2b, "1a2b\r\n"},
                     {UINT64_MAX, "ffffffffffffffff\r\n"}};

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                out[http1_chunk_head(out, cases[i].size)] = 0;
                CHECK_STR(out, cases[i].text);
        }
}

int main(void)
{
        RUN(chunks_are_put_together);
        RUN(malformed_chunks_are_refused);
        RUN(a_refused_body_stays_refused);
        RUN(size_lines_have_a_limit);
        RUN(trailers_have_a_limit);
        RUN(extensions_may_not_outweigh_the_payload);
        RUN(length_ends_the_body);
        RUN(no_body_is_done_at_once);
        RUN(body_to_the_end_is_never_done);
        RUN(heads_are_written);
        RUN(what_would_break_a_head_is_not_written);
        RUN(a_header_that_does_not_fit_leaves_nothing);
        RUN(chunk_heads_are_hex);
        return tap_done();
}
