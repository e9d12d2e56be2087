/* progress.h - a line on the terminal that says what is being waited for, and how long it has taken, or how much of it is done.
 *
 * Without a terminal the first kind shows nothing, and the second a plain line now and then. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "cli/api.h"

struct progress {
        struct cli_api *api;      /* borrowed: whose calls are waited for */
        const char *doing, *what; /* "pausing", "i..."; borrowed */
        uint64_t since_ms;
        bool is_shown;
};

/* Until progress_end() calls of `api` may take long, and the line shows how long they take. */
void progress_start(struct progress *p, struct cli_api *api, const char *doing, const char *what);
void progress_end(struct progress *p); /* takes the line away */

/* So many bytes of so many. */
struct progress_bar {
        const char *doing, *what; /* "pulling", "python:3.11"; borrowed */
        uint64_t shown_ms;        /* when it was drawn last */
        unsigned tenths;          /* without a terminal: of the last line */
        bool is_terminal, is_shown;
};

void progress_bar_begin(struct progress_bar *b, const char *doing, const char *what);
void progress_bar_show(struct progress_bar *b, uint64_t done, uint64_t total); /* total 0: not known */
void progress_bar_say(struct progress_bar *b, const char *doing);              /* something without a number */
void progress_bar_end(struct progress_bar *b);                                 /* takes the line away */
