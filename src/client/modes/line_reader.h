/* line_reader.h - lines out of the output of a program, in whatever pieces it comes.  Pure.
 *
 * A line ends with "\n" or "\r\n", which are left out.  Of a line longer than the maximum the beginning is told, and the rest is
 * dropped, so memory has a bound. */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

struct line {
        struct str text; /* borrowed for the call; may hold any byte but "\n" */
        bool is_cut;
};
/* Negative ends the reading; that number is returned. */
typedef int line_fn(const struct line *line, void *arg);

struct line_reader {
        struct buf
                part; /* of the line that has not ended yet: at most line_max + 1 bytes, since a "\r" may be its end */
        size_t line_max;
        bool has_part; /* an empty one, too */
        bool is_cut;   /* bytes of this line were dropped */
};

void line_reader_init(struct line_reader *r, size_t line_max);
void line_reader_done(struct line_reader *r);
int line_reader_feed(struct line_reader *r, struct str piece, line_fn *on_line, void *arg); /* also -ENOMEM */
/* There is no more: a last line without an end is told. */
int line_reader_finish(struct line_reader *r, line_fn *on_line, void *arg);
