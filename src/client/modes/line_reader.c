#include "client/modes/line_reader.h"

#include <errno.h>

void line_reader_init(struct line_reader *r, size_t line_max)
{
        *r = (struct line_reader){.line_max = line_max};
        buf_init(&r->part, line_max + 1);
}

void line_reader_done(struct line_reader *r)
{
        buf_done(&r->part);
}

/* A piece of a line, without its end. */
static int keep(struct line_reader *r, struct str piece)
{
        size_t room = buf_room(&r->part), n = piece.n < room ? piece.n : room;

        r->has_part = true;
        if (n < piece.n)
                r->is_cut = true;
        return n ? buf_add(&r->part, piece.p, n) : 0;
}

static int tell(struct line_reader *r, struct str text, bool is_cut, line_fn *on_line, void *arg)
{
        struct line line = {.text = text, .is_cut = is_cut};

        if (!is_cut && str_ends(text, "\r"))
                line.text.n--;
        if (line.text.n > r->line_max) {
                line.text.n = r->line_max;
                line.is_cut = true;
        }
        return on_line(&line, arg);
}

static int tell_part(struct line_reader *r, line_fn *on_line, void *arg)
{
        const struct str text = {r->part.len ? (const char *)buf_at(&r->part) : "", r->part.len};
        int told = tell(r, text, r->is_cut, on_line, arg);

        buf_reset(&r->part);
        r->has_part = r->is_cut = false;
        return told;
}

int line_reader_feed(struct line_reader *r, struct str piece, line_fn *on_line, void *arg)
{
        struct str rest = piece, line;
        int told = 0;

        while (told >= 0 && rest.n) {
                bool has_end = str_cut(&rest, '\n', &line);

                if (has_end && !r->has_part) {
                        told = tell(r, line, false, on_line, arg); /* whole: nothing is copied */
                        continue;
                }
                told = keep(r, line);
                if (told == 0 && has_end)
                        told = tell_part(r, on_line, arg);
        }
        return told < 0 ? told : 0;
}

int line_reader_finish(struct line_reader *r, line_fn *on_line, void *arg)
{
        int told = r->has_part ? tell_part(r, on_line, arg) : 0;

        return told < 0 ? told : 0;
}
