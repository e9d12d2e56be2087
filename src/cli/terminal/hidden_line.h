/* hidden_line.h - a line that a person types or pastes at the terminal (standard input) and that is not shown.
 *
 * The kernel's own editing of lines keeps at most 4095 bytes and drops the rest without a word, so bytes are read as they come; the
 * terminal's keys for erasing (a character, a word, all) and for the end (Ctrl-D) work as usual. */
#pragma once
#include <stddef.h>

struct buf;
struct err;

/* Ask, on standard error.  The line is added to *out, with its "\n" unless Ctrl-D ended it; *out does not move meanwhile.  Signals
 * that end the program give the terminal back first.  ERR_INVALID: more than `max` bytes. */
int hidden_line_ask(const char *question, size_t max, struct buf *out, struct err *err);
