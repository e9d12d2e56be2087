#include "fuzz.h"
#include "wire/http1.h"

struct result {
        enum http1_step step;
        size_t used;
        struct buf payload;
};

static void result_done(struct result *r)
{
        buf_done(&r->payload);
}

static enum http1_step feed_piece(struct http1_body *b, const uint8_t *p, size_t n, struct result *to)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(p, n);
        enum http1_step step;
        size_t at = 0;

        do {
                struct str data = {0};
                size_t used = 0;

                step = http1_body_feed(b, copy + at, n - at, &used, &data);
                MUST(used <= n - at);
                if (step == HTTP1_DATA) {
                        MUST(data.n > 0 && (const uint8_t *)data.p >= copy + at);
                        MUST((const uint8_t *)data.p + data.n == copy + at + used);
                        MUST(buf_add(&to->payload, data.p, data.n) == 0);
                }
                at += used;
        } while (step == HTTP1_DATA);
        MUST(step != HTTP1_MORE || at == n);
        to->used += at;
        return step;
}

static void decode(const struct http1_head *h, const uint8_t *p, size_t n, unsigned way, struct result *ret)
{
        struct fuzz_cuts cuts = fuzz_cuts_of(p, n, way);
        struct http1_body b;

        *ret = (struct result){.step = HTTP1_MORE, .payload = BUF_INIT(1 << 22)};
        http1_body_init(&b, h);
        for (size_t at = 0; at < n && ret->step == HTTP1_MORE;) {
                size_t piece = way == FUZZ_WAYS ? n : fuzz_cut(&cuts, n - at);

                ret->step = feed_piece(&b, p + at, piece, ret);
                at += piece;
        }
        MUST(b.total == ret->payload.len);
        MUST(http1_body_is_done(&b) == (ret->step == HTTP1_DONE) || n == 0);
}

static void must_agree(const struct http1_head *h, const uint8_t *p, size_t n, const struct result *whole)
{
        for (unsigned way = 0; way < FUZZ_WAYS; way++) {
                AUTO(result_done) struct result r;

                decode(h, p, n, way, &r);
                MUST(r.step == whole->step && r.used == whole->used && r.payload.len == whole->payload.len);
                MUST(r.payload.len == 0 || memcmp(r.payload.mem, whole->payload.mem, r.payload.len) == 0);
        }
}

/* Payload written as chunks reads back the same, and what follows is left alone. */
static void must_come_back(const struct http1_head *h, const struct buf *payload)
{
        AUTO_BUF struct buf text = BUF_INIT(1 << 23);
        struct fuzz_cuts cuts = fuzz_cuts_of(payload->mem, payload->len, 3);
        AUTO(result_done) struct result r;

        for (size_t at = 0; at < payload->len;) {
                size_t n = fuzz_cut(&cuts, payload->len - at);
                char head[HTTP1_CHUNK_HEAD_MAX];

                MUST(buf_add(&text, head, http1_chunk_head(head, n)) == 0);
                MUST(buf_add(&text, payload->mem + at, n) == 0 && buf_addc(&text, "\r\n") == 0);
                at += n;
        }
        MUST(buf_addc(&text, "0\r\n\r\nGET") == 0);
        decode(h, buf_at(&text), text.len, FUZZ_WAYS, &r);
        MUST(r.step == HTTP1_DONE && r.used == text.len - 3 && r.payload.len == payload->len);
        MUST(r.payload.len == 0 || memcmp(r.payload.mem, payload->mem, payload->len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const struct http1_head chunked = {.framing = HTTP1_BODY_CHUNKED};
        const struct http1_head length = {.framing = HTTP1_BODY_LENGTH, .content_length = size / 2 + 1};
        const struct http1_head to_end = {.framing = HTTP1_BODY_EOF};
        AUTO(result_done) struct result c, l, e;

        decode(&chunked, data, size, FUZZ_WAYS, &c);
        must_agree(&chunked, data, size, &c);
        if (c.step == HTTP1_DONE)
                must_come_back(&chunked, &c.payload);
        decode(&length, data, size, FUZZ_WAYS, &l);
        must_agree(&length, data, size, &l);
        MUST(l.payload.len == (size < length.content_length ? size : length.content_length));
        decode(&to_end, data, size, FUZZ_WAYS, &e);
        must_agree(&to_end, data, size, &e);
        MUST(e.payload.len == size);
        return 0;
}
