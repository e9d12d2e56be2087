#include "agent/output/command_output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/output/text.h"
#include "base/auto.h"

#define STEP (64u << 10)

void command_output_init(struct command_output *o, bool (*take)(void *arg, size_t bytes), void *arg)
{
        *o = (struct command_output){.take = take, .arg = arg};
        buf_init(&o->first, OUTPUT_FIRST);
}

void command_output_done(struct command_output *o)
{
        buf_done(&o->first);
        free(o->last);
        *o = (struct command_output){0};
}

static bool output_take(struct command_output *o, size_t bytes)
{
        if (!o->take(o->arg, bytes))
                return false;
        o->taken += bytes;
        return true;
}

/* How much of the piece goes to the beginning. */
static size_t output_add_first(struct command_output *o, struct str piece)
{
        size_t n = piece.n < buf_room(&o->first) ? piece.n : buf_room(&o->first);

        if (o->total > o->first.len)
                return 0; /* the beginning has ended */
        while (o->taken < o->first.len + n)
                if (!output_take(o, STEP))
                        return 0;
        return buf_add(&o->first, piece.p, n) < 0 ? 0 : n;
}

static bool output_needs_last(struct command_output *o)
{
        if (o->last)
                return true;
        o->last_cap = output_take(o, OUTPUT_LAST) ? OUTPUT_LAST : OUTPUT_LEAST;
        o->last = malloc(o->last_cap);
        return o->last;
}

/* Byte number i after the beginning is at i % last_cap. */
static void output_add_last(struct command_output *o, struct str piece, uint64_t at)
{
        if (piece.n > o->last_cap) {
                at += piece.n - o->last_cap;
                piece = (struct str){piece.p + (piece.n - o->last_cap), o->last_cap};
        }
        while (piece.n) {
                size_t place = (size_t)(at % o->last_cap), room = o->last_cap - place,
                       n = piece.n < room ? piece.n : room;

                memcpy(o->last + place, piece.p, n);
                piece = (struct str){piece.p + n, piece.n - n};
                at += n;
        }
}

void command_output_add(struct command_output *o, struct str piece)
{
        size_t n = output_add_first(o, piece);

        if (n < piece.n && output_needs_last(o))
                output_add_last(o, (struct str){piece.p + n, piece.n - n}, o->total + n - o->first.len);
        o->total += piece.n;
}

/* ---- what is kept, as one sequence: the beginning, then the ring ---- */

static size_t output_kept(const struct command_output *o)
{
        uint64_t after = o->total - o->first.len, ring = o->last ? o->last_cap : 0;

        return o->first.len + (size_t)(after < ring ? after : ring);
}

/* Bytes from number `at` on, not beyond `end`, that are together in memory. */
static struct str output_piece(const struct command_output *o, size_t at, size_t end)
{
        size_t place, room;
        const uint8_t *p;

        if (at < o->first.len) {
                p = buf_at(&o->first) + at;
                room = o->first.len - at;
        } else {
                place = (size_t)((o->total - o->first.len - (output_kept(o) - at)) % o->last_cap);
                p = o->last + place;
                room = o->last_cap - place;
        }
        return (struct str){(const char *)p, end - at < room ? end - at : room};
}

uint64_t command_output_omitted(const struct command_output *o)
{
        return o->total - output_kept(o) + (o->cut_end - o->cut_from);
}

/* ---- how much of it fits ---- */

static size_t json_bytes_most(char c)
{
        if ((unsigned char)c >= 0x80)
                return 3; /* it may become U+FFFD */
        if (c >= ' ')
                return c == '"' || c == '\\' ? 2 : 1;
        return c == '\n' || c == '\t' || c == '\r' || c == '\b' || c == '\f' ? 2 : 6;
}

/* How many of the bytes [at, end) fit at the beginning; *left: bytes of JSON. */
static size_t output_fit_first(const struct command_output *o, size_t at, size_t end, size_t *left)
{
        while (at < end) {
                struct str piece = output_piece(o, at, end);

                for (size_t i = 0; i < piece.n; i++) {
                        size_t need = json_bytes_most(piece.p[i]);

                        if (need > *left)
                                return at + i;
                        *left -= need;
                }
                at += piece.n;
        }
        return end;
}

/* The same from the end: where the part begins that fits. */
static size_t output_fit_last(const struct command_output *o, size_t at, size_t end, size_t left)
{
        while (end > at) {
                size_t need = json_bytes_most(*output_piece(o, end - 1, end).p);

                if (need > left)
                        break;
                left -= need;
                end--;
        }
        return end;
}

void command_output_fit(struct command_output *o, size_t json_max)
{
        size_t kept = output_kept(o), first_end = o->total > kept ? o->first.len : kept, left = json_max / 4 * 3, from;

        o->cut_from = o->cut_end = 0;
        if (kept <= json_max / 6)
                return;
        from = output_fit_first(o, 0, first_end, &left);
        left += json_max - json_max / 4 * 3;
        o->cut_end = output_fit_last(o, o->total > kept ? first_end : from, kept, left);
        o->cut_from = from;
}

/* ---- as text ---- */

static int output_show(const struct command_output *o, size_t at, size_t end, struct text_decoder *d, struct buf *out)
{
        int r = 0;

        while (r == 0 && at < end) {
                struct str piece = output_piece(o, at, end);

                r = text_add(d, piece, out);
                at += piece.n;
        }
        return r;
}

json_t *command_output_text(const struct command_output *o)
{
        AUTO_BUF struct buf out = BUF_INIT(3 * (OUTPUT_FIRST + OUTPUT_LAST) + 128); /* a byte may become three */
        bool is_cut = o->cut_end > o->cut_from;
        size_t from = is_cut ? o->cut_from : o->first.len, end = is_cut ? o->cut_end : from;
        uint64_t omitted = command_output_omitted(o);
        struct text_decoder d = {0};
        int r;

        r = output_show(o, 0, from, &d, &out);
        if (r == 0 && omitted)
                r = text_end(&d, &out);
        if (r == 0 && omitted)
                r = buf_addf(&out, "\n[... %" PRIu64 " bytes left out ...]\n", omitted);
        if (r == 0)
                r = output_show(o, end, output_kept(o), &d, &out);
        if (r == 0)
                r = text_end(&d, &out);
        return r < 0 ? NULL : json_stringn_nocheck(out.len ? (const char *)buf_at(&out) : "", out.len);
}
