#include "agent/output/text.h"

#include <stdbool.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

/* How long a character with this first byte is; 0: none begins so. */
static size_t length_by_first(unsigned char c)
{
        if (c < 0x80)
                return 1;
        if (c >= 0xc2 && c < 0xe0)
                return 2;
        if (c >= 0xe0 && c < 0xf0)
                return 3;
        return c >= 0xf0 && c < 0xf5 ? 4 : 0;
}

/* Can these bytes be the beginning of a character that goes on? */
static bool may_go_on(const unsigned char *p, size_t n)
{
        size_t len = length_by_first(p[0]);

        if (n >= len)
                return false;
        if (n < 2)
                return true;
        if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
            (p[0] == 0xf4 && p[1] > 0x8f))
                return false; /* overlong, half of a surrogate pair, or beyond Unicode */
        for (size_t i = 1; i < n; i++)
                if ((p[i] & 0xc0) != 0x80)
                        return false;
        return true;
}

static bool is_character(const unsigned char *p, size_t n)
{
        return n == length_by_first(p[0]) && str_is_utf8((struct str){(const char *)p, n});
}

/* Complete or refuse what is held with the first bytes of the piece. */
static int text_finish_held(struct text_decoder *d, struct str *piece, struct buf *out)
{
        int r = 0;

        while (r == 0 && d->held_len && piece->n) {
                d->held[d->held_len] = (unsigned char)*piece->p;
                if (may_go_on(d->held, d->held_len + 1) || is_character(d->held, d->held_len + 1)) {
                        d->held_len++;
                        *piece = (struct str){piece->p + 1, piece->n - 1};
                        if (!is_character(d->held, d->held_len))
                                continue;
                        r = buf_add(out, d->held, d->held_len);
                } else {
                        r = buf_addc(out, REPLACEMENT);
                }
                d->held_len = 0;
        }
        return r;
}

int text_add(struct text_decoder *d, struct str piece, struct buf *out)
{
        int r = text_finish_held(d, &piece, out);
        size_t at = 0, from = 0;

        if (r == 0 && str_is_utf8(piece))
                return buf_add(out, piece.p, piece.n);
        while (r == 0 && at < piece.n) {
                const unsigned char *p = (const unsigned char *)piece.p + at;
                size_t left = piece.n - at, len = length_by_first(p[0]);

                if (len && len <= left && is_character(p, len)) {
                        at += len;
                        continue;
                }
                r = buf_add(out, piece.p + from, at - from);
                if (len > left && may_go_on(p, left)) {
                        memcpy(d->held, p, left);
                        d->held_len = left;
                        return r;
                }
                if (r == 0)
                        r = buf_addc(out, REPLACEMENT);
                from = ++at;
        }
        return r < 0 ? r : buf_add(out, piece.p + from, at - from);
}

int text_end(struct text_decoder *d, struct buf *out)
{
        int r = d->held_len ? buf_addc(out, REPLACEMENT) : 0;

        d->held_len = 0;
        return r;
}
