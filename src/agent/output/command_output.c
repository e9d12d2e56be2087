#include "agent/output/command_output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/output/text.h"
#include "base/auto.h"

#define STEP (64u << 10)
#define LAST_LEAST (64u << 10) /* of the ring, when the budget is used up */

void command_output_init(struct command_output *o, size_t *budget)
{
        *o = (struct command_output){.budget = budget};
        buf_init(&o->first, OUTPUT_FIRST);
}

void command_output_done(struct command_output *o)
{
        buf_done(&o->first);
        free(o->last);
        if (o->budget)
                *o->budget -= o->taken;
        *o = (struct command_output){0};
}

static bool output_take(struct command_output *o, size_t bytes)
{
        if (bytes > OUTPUT_BUDGET - *o->budget)
                return false;
        *o->budget += bytes;
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
        o->last_cap = output_take(o, OUTPUT_LAST) ? OUTPUT_LAST : LAST_LEAST;
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

uint64_t command_output_omitted(const struct command_output *o)
{
        uint64_t after = o->total - o->first.len, kept = o->last ? o->last_cap : 0;

        return after > kept ? after - kept : 0;
}

static int output_add_end(const struct command_output *o, struct text_decoder *d, struct buf *out)
{
        uint64_t omitted = command_output_omitted(o), after = o->total - o->first.len;
        size_t start, n;
        int r = 0;

        if (omitted) {
                r = text_end(d, out);
                if (r == 0)
                        r = buf_addf(out, "\n[... %" PRIu64 " bytes left out ...]\n", omitted);
        }
        if (r < 0 || !o->last || after == omitted)
                return r;
        start = (size_t)(omitted % o->last_cap);
        n = (size_t)(after - omitted);
        if (start + n <= o->last_cap)
                return text_add(d, (struct str){(const char *)o->last + start, n}, out);
        r = text_add(d, (struct str){(const char *)o->last + start, o->last_cap - start}, out);
        return r < 0 ? r : text_add(d, (struct str){(const char *)o->last, n - (o->last_cap - start)}, out);
}

json_t *command_output_text(const struct command_output *o)
{
        AUTO_BUF struct buf out = BUF_INIT(3 * (OUTPUT_FIRST + OUTPUT_LAST) + 128); /* a byte may become three */
        struct text_decoder d = {0};

        if (text_add(&d, (struct str){o->first.len ? (const char *)buf_at(&o->first) : "", o->first.len}, &out) < 0 ||
            output_add_end(o, &d, &out) < 0 || text_end(&d, &out) < 0)
                return NULL;
        return json_stringn_nocheck(out.len ? (const char *)buf_at(&out) : "", out.len);
}
