/* Bodies.  Size lines and trailers are walked byte by byte, payload in whole slices. */
#include <string.h>

#include "wire/http1.h"
#include "wire/http1_chars.h"

#define EXT_DEBT_MAX (16u << 10) /* extensions may not outweigh the payload by more */

enum state {
        CHUNK_START, /* before the first digit of a size */
        CHUNK_SIZE,
        CHUNK_EXT,
        CHUNK_SIZE_LF,
        CHUNK_DATA,
        CHUNK_DATA_CR,
        CHUNK_DATA_LF,
        TRAILER_START,
        TRAILER_NAME,
        TRAILER_VALUE,
        TRAILER_LF,
        TRAILER_END_LF,
        CHUNKS_DONE,
        REFUSED_BAD,
        REFUSED_TOO_BIG,
};

void http1_body_init(struct http1_body *b, const struct http1_head *h)
{
        *b = (struct http1_body){.framing = h->framing, .state = CHUNK_START};
        if (h->framing == HTTP1_BODY_LENGTH)
                b->left = h->content_length;
}

bool http1_body_is_done(const struct http1_body *b)
{
        switch (b->framing) {
        case HTTP1_BODY_NONE: return true;
        case HTTP1_BODY_LENGTH: return b->left == 0;
        case HTTP1_BODY_CHUNKED: return b->state == CHUNKS_DONE;
        case HTTP1_BODY_EOF: break;
        }
        return false;
}

static unsigned after_size(struct http1_body *b)
{
        b->line_len = 0;
        if (b->left == 0)
                return TRAILER_START;
        b->ext_debt -= b->ext_debt < b->left ? b->ext_debt : (size_t)b->left;
        return CHUNK_DATA;
}

static unsigned size_digit(struct http1_body *b, char c)
{
        int digit = hex_value(c);

        if (digit < 0 || b->left > (INT64_MAX >> 4))
                return REFUSED_BAD;
        b->left = b->left << 4 | (unsigned)digit;
        return CHUNK_SIZE;
}

/* The state after c; limits are checked by the caller. */
static unsigned step_size(struct http1_body *b, char c)
{
        switch ((enum state)b->state) {
        case CHUNK_START: b->left = 0; return size_digit(b, c);
        case CHUNK_SIZE:
                if (c == '\r')
                        return CHUNK_SIZE_LF;
                return c == ';' ? CHUNK_EXT : size_digit(b, c);
        case CHUNK_EXT:
                b->ext_debt++;
                if (c == '\r')
                        return CHUNK_SIZE_LF;
                return http1_char_is(c, HTTP1_CHAR_VALUE) ? CHUNK_EXT : REFUSED_BAD;
        case CHUNK_SIZE_LF: return c == '\n' ? after_size(b) : REFUSED_BAD;
        default: return REFUSED_BAD;
        }
}

static unsigned step_trailer(struct http1_body *b, char c)
{
        switch ((enum state)b->state) {
        case TRAILER_START:
                if (c == '\r')
                        return TRAILER_END_LF;
                return http1_char_is(c, HTTP1_CHAR_TOKEN) ? TRAILER_NAME : REFUSED_BAD;
        case TRAILER_NAME:
                if (c == ':')
                        return TRAILER_VALUE;
                return http1_char_is(c, HTTP1_CHAR_TOKEN) ? TRAILER_NAME : REFUSED_BAD;
        case TRAILER_VALUE:
                if (c == '\r')
                        return TRAILER_LF;
                return http1_char_is(c, HTTP1_CHAR_VALUE) ? TRAILER_VALUE : REFUSED_BAD;
        case TRAILER_LF: return c == '\n' ? TRAILER_START : REFUSED_BAD;
        case TRAILER_END_LF: return c == '\n' ? CHUNKS_DONE : REFUSED_BAD;
        default: return REFUSED_BAD;
        }
}

static unsigned step_chunk(struct http1_body *b, char c)
{
        if (b->state == CHUNK_DATA_CR)
                return c == '\r' ? CHUNK_DATA_LF : REFUSED_BAD;
        if (b->state == CHUNK_DATA_LF)
                return c == '\n' ? CHUNK_START : REFUSED_BAD;
        b->line_len++;
        if (b->state < CHUNK_DATA) {
                if (b->line_len > HTTP1_CHUNK_LINE_MAX || b->ext_debt > EXT_DEBT_MAX)
                        return REFUSED_TOO_BIG;
                return step_size(b, c);
        }
        return b->line_len > HTTP1_TRAILER_MAX ? REFUSED_TOO_BIG : step_trailer(b, c);
}

static size_t take(struct http1_body *b, const char *p, size_t n, struct str *ret_data)
{
        size_t most = n < b->left ? n : (size_t)b->left;

        b->left -= most;
        b->total += most;
        *ret_data = (struct str){p, most};
        return most;
}

static enum http1_step feed_chunked(struct http1_body *b, const char *p, size_t n, size_t *ret_used,
                                    struct str *ret_data)
{
        size_t i = 0;

        while (i < n && b->state < CHUNKS_DONE) {
                if (b->state != CHUNK_DATA) {
                        b->state = step_chunk(b, p[i]);
                        i += b->state < REFUSED_BAD;
                        continue;
                }
                *ret_used = i + take(b, p + i, n - i, ret_data);
                if (b->left == 0)
                        b->state = CHUNK_DATA_CR;
                return HTTP1_DATA;
        }
        *ret_used = i;
        switch (b->state) {
        case CHUNKS_DONE: return HTTP1_DONE;
        case REFUSED_BAD: return HTTP1_BAD;
        case REFUSED_TOO_BIG: return HTTP1_TOO_BIG;
        default: return HTTP1_MORE;
        }
}

enum http1_step http1_body_feed(struct http1_body *b, const void *p, size_t n, size_t *ret_used, struct str *ret_data)
{
        if (b->framing == HTTP1_BODY_CHUNKED)
                return feed_chunked(b, p, n, ret_used, ret_data);
        *ret_used = 0;
        if (http1_body_is_done(b))
                return HTTP1_DONE;
        if (n == 0)
                return HTTP1_MORE;
        if (b->framing == HTTP1_BODY_EOF)
                b->left = n;
        *ret_used = take(b, p, n, ret_data);
        return HTTP1_DATA;
}
