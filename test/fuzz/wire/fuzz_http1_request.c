#include "http1_head.h"
#include "wire/url.h"

static enum http1_step in_pieces(const uint8_t *p, size_t n, unsigned way, struct http1_head *h, uint8_t **ret_held,
                                 size_t *ret_used)
{
        struct fuzz_cuts cuts = fuzz_cuts_of(p, n, way);
        enum http1_step step = HTTP1_MORE;

        for (size_t at = 0; at < n && step == HTTP1_MORE;) {
                at += fuzz_cut(&cuts, n - at);
                free(*ret_held);
                *ret_held = fuzz_copy(p, at); /* elsewhere each time */
                step = http1_parse_request(h, *ret_held, at, ret_used);
        }
        return step;
}

static void must_survive_writing(const struct http1_head *h)
{
        AUTO_BUF struct buf b = BUF_INIT(1 << 20);
        struct http1_head again = {0};
        size_t used;

        if (h->minor == 0)
                return; /* written as 1.1, where other rules hold */
        MUST(http1_write_request_line(&b, h->method, h->target) == 0);
        for (size_t i = 0; i < h->header_count; i++)
                MUST(http1_write_header(&b, h->headers[i].name, h->headers[i].value) == 0);
        MUST(http1_write_end(&b) == 0);
        if (b.len > HTTP1_HEAD_MAX)
                return; /* "a:b" grew to "a: b" */
        MUST(http1_parse_request(&again, buf_at(&b), b.len, &used) == HTTP1_DONE && used == b.len);
        must_be_same(h, &again);
}

static void look_around(const struct http1_head *h)
{
        struct url url;

        if (url_parse(h->target, &url) == 0)
                MUST(url.segment_count <= URL_SEGMENTS_MAX);
        for (size_t i = 0; i < h->header_count; i++)
                (void)http1_is_hop_by_hop(h, h->headers[i].name);
        MUST(!http1_is_hop_by_hop(h, STR("host")) && !http1_is_hop_by_hop(h, STR("content-length")));
        if (h->minor == 1)
                MUST(http1_count(h, "host") == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        struct http1_head whole = {0};
        size_t used = 0;
        enum http1_step step = http1_parse_request(&whole, copy, size, &used);

        if (step == HTTP1_DONE) {
                must_be_sound(&whole, copy, used);
                must_frame_once(&whole);
                must_survive_writing(&whole);
                look_around(&whole);
        }
        for (unsigned way = size > 4096; way < FUZZ_WAYS; way++) { /* byte by byte is quadratic here */
                AUTO_FREE uint8_t *held = NULL;
                struct http1_head pieces = {0};
                size_t pieces_used = 0;

                MUST(in_pieces(data, size, way, &pieces, &held, &pieces_used) == step);
                MUST(pieces_used == used && pieces.status_hint == whole.status_hint && pieces.why == whole.why);
                if (step == HTTP1_DONE)
                        must_be_same(&whole, &pieces);
        }
        return 0;
}
