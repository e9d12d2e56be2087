#include "mcp/protocol/shorten.h"

#include <inttypes.h>

void shortened_init(struct shortened *s, size_t max)
{
        *s = (struct shortened){.head_max = max / 2, .tail_max = max - max / 2};
        buf_init(&s->head, s->head_max);
        buf_init(&s->tail, 2 * s->tail_max);
}

void shortened_done(struct shortened *s)
{
        buf_done(&s->head);
        buf_done(&s->tail);
}

int shortened_add(struct shortened *s, struct str piece)
{
        size_t n = piece.n < buf_room(&s->head) ? piece.n : buf_room(&s->head);
        int r = buf_add(&s->head, piece.p, n);

        s->total += piece.n;
        piece = (struct str){piece.p + n, piece.n - n};
        if (piece.n > s->tail_max) {
                piece.p += piece.n - s->tail_max;
                piece.n = s->tail_max;
                buf_reset(&s->tail);
        }
        if (r == 0 && piece.n > buf_room(&s->tail)) /* half of the room is older than what is kept */
                buf_consume(&s->tail, s->tail.len > s->tail_max ? s->tail.len - s->tail_max : 0);
        if (r == 0 && piece.n > buf_room(&s->tail))
                buf_consume(&s->tail, piece.n - buf_room(&s->tail));
        return r < 0 ? r : buf_add(&s->tail, piece.p, piece.n);
}

bool shortened_is_cut(const struct shortened *s)
{
        return s->total > s->head_max + s->tail_max;
}

static struct str kept_tail(const struct shortened *s)
{
        size_t n = s->tail.len < s->tail_max ? s->tail.len : s->tail_max;

        return (struct str){(const char *)buf_at(&s->tail) + (s->tail.len - n), n};
}

int shortened_text(const struct shortened *s, struct buf *out)
{
        struct str head = {(const char *)buf_at(&s->head), s->head.len},
                   tail = s->tail.len ? kept_tail(s) : (struct str){"", 0};
        AUTO_BUF struct buf whole = BUF_INIT(s->head_max + s->tail_max);
        int r;

        if (!shortened_is_cut(s)) { /* a character may stand in both parts */
                r = buf_add(&whole, head.p, head.n);
                if (r == 0)
                        r = buf_add(&whole, tail.p, tail.n);
                return r < 0 ? r : text_clean((struct str){(const char *)buf_at(&whole), whole.len}, out);
        }
        while (head.n > 0 && ((unsigned char)head.p[head.n - 1] & 0xc0) == 0x80) /* no half characters at the gap */
                head.n--;
        if (head.n > 0 && (unsigned char)head.p[head.n - 1] >= 0xc0)
                head.n--;
        while (tail.n > 0 && ((unsigned char)tail.p[0] & 0xc0) == 0x80) {
                tail.p++;
                tail.n--;
        }
        r = text_clean(head, out);
        if (r == 0)
                r = buf_addf(out, "\n\n[... %" PRIu64 " bytes left out here ...]\n\n", s->total - head.n - tail.n);
        return r < 0 ? r : text_clean(tail, out);
}
