/* http1_head.h - what holds for every head that was accepted; for the request and the response fuzzer. */
#pragma once
#include "wire/http1.h"

#include "fuzz.h"

static inline void must_lie_in(struct str s, const uint8_t *p, size_t n)
{
        if (s.n == 0)
                return;
        MUST((const uint8_t *)s.p >= p && (const uint8_t *)s.p + s.n <= p + n);
        for (size_t i = 0; i < s.n; i++)
                MUST(s.p[i] != '\r' && s.p[i] != '\n' && s.p[i] != 0);
}

static inline void must_be_sound(const struct http1_head *h, const uint8_t *p, size_t used)
{
        MUST(used >= 4 && memcmp(p + used - 4, "\r\n\r\n", 4) == 0);
        MUST(memmem(p, used - 1, "\r\n\r\n", 4) == NULL);
        MUST(h->header_count <= HTTP1_HEADERS_MAX);
        must_lie_in(h->method, p, used);
        must_lie_in(h->target, p, used);
        must_lie_in(h->reason, p, used);
        for (size_t i = 0; i < h->header_count; i++) {
                struct str name = h->headers[i].name, value = h->headers[i].value;

                MUST(name.n > 0);
                must_lie_in(name, p, used);
                must_lie_in(value, p, used);
                MUST(!memchr(name.p, ' ', name.n) && !memchr(name.p, ':', name.n) && !memchr(name.p, '\t', name.n));
                MUST(value.n == 0 || (value.p[0] != ' ' && value.p[value.n - 1] != ' '));
        }
}

/* At most one header says where the body ends, whatever the letters of its name. */
static inline void must_frame_once(const struct http1_head *h)
{
        size_t lengths = http1_count(h, "content-length"), codings = http1_count(h, "transfer-encoding");

        MUST(lengths + codings <= 1);
        switch (h->framing) {
        case HTTP1_BODY_LENGTH: MUST(lengths == 1 && h->content_length <= INT64_MAX); break;
        case HTTP1_BODY_CHUNKED: MUST(codings == 1 && h->minor == 1); break;
        case HTTP1_BODY_EOF: MUST(lengths + codings == 0 && h->status >= 200 && !h->keep_alive); break;
        case HTTP1_BODY_NONE: MUST(h->status || lengths + codings == 0); break;
        }
}

static inline void must_be_same(const struct http1_head *a, const struct http1_head *b)
{
        MUST(str_eq(a->method, b->method) && str_eq(a->target, b->target) && str_eq(a->reason, b->reason));
        MUST(a->status == b->status && a->framing == b->framing && a->content_length == b->content_length);
        MUST(a->expect_continue == b->expect_continue && a->header_count == b->header_count);
        MUST(a->minor != b->minor || (a->keep_alive == b->keep_alive && a->is_upgrade == b->is_upgrade));
        for (size_t i = 0; i < a->header_count; i++) {
                MUST(str_eq(a->headers[i].name, b->headers[i].name));
                MUST(str_eq(a->headers[i].value, b->headers[i].value));
        }
}
