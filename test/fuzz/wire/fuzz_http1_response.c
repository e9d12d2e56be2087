#include "http1_head.h"

static enum http1_step in_pieces(const uint8_t *p, size_t n, bool to_head, unsigned way, struct http1_head *h,
                                 uint8_t **ret_held, size_t *ret_used)
{
        struct fuzz_cuts cuts = fuzz_cuts_of(p, n, way);
        enum http1_step step = HTTP1_MORE;

        for (size_t at = 0; at < n && step == HTTP1_MORE;) {
                at += fuzz_cut(&cuts, n - at);
                free(*ret_held);
                *ret_held = fuzz_copy(p, at);
                step = http1_parse_response(h, *ret_held, at, to_head, ret_used);
        }
        return step;
}

static void must_survive_writing(const struct http1_head *h, bool to_head)
{
        AUTO_BUF struct buf b = BUF_INIT(1 << 20);
        struct http1_head again = {0};
        size_t used;

        if (h->minor == 0 || h->reason.n == 0) /* written as 1.1, and with the usual reason */
                return;
        MUST(http1_write_status_line(&b, h->status, h->reason) == 0);
        for (size_t i = 0; i < h->header_count; i++)
                MUST(http1_write_header(&b, h->headers[i].name, h->headers[i].value) == 0);
        MUST(http1_write_end(&b) == 0);
        if (b.len > HTTP1_HEAD_MAX)
                return;
        MUST(http1_parse_response(&again, buf_at(&b), b.len, to_head, &used) == HTTP1_DONE && used == b.len);
        must_be_same(h, &again);
}

static void try(const uint8_t *data, size_t size, bool to_head)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        struct http1_head whole = {0};
        size_t used = 0;
        enum http1_step step = http1_parse_response(&whole, copy, size, to_head, &used);

        if (step == HTTP1_DONE) {
                must_be_sound(&whole, copy, used);
                must_frame_once(&whole);
                must_survive_writing(&whole, to_head);
                MUST(!to_head || whole.framing == HTTP1_BODY_NONE);
        }
        for (unsigned way = size > 4096; way < FUZZ_WAYS; way++) {
                AUTO_FREE uint8_t *held = NULL;
                struct http1_head pieces = {0};
                size_t pieces_used = 0;

                MUST(in_pieces(data, size, to_head, way, &pieces, &held, &pieces_used) == step);
                MUST(pieces_used == used && pieces.status_hint == whole.status_hint && pieces.why == whole.why);
                if (step == HTTP1_DONE)
                        must_be_same(&whole, &pieces);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        try(data, size, false);
        try(data, size, true);
        return 0;
}
