/* progress.h - a line on the terminal that says what is being waited for, and how long it has taken.
 *
 * Nothing is shown when stderr is no terminal, or when the wait is over at once. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "cli/api.h"
#include "io/loop.h"

struct progress {
        struct cli_api *api;      /* borrowed: whose calls are waited for */
        const char *doing, *what; /* "pausing", "i..."; borrowed */
        uint64_t since_ms;
        struct timer tick; /* a few times a second */
        bool is_shown;
};

/* Until progress_end() calls of `api` may take long, and the line shows how long they take. */
void progress_start(struct progress *p, struct cli_api *api, const char *doing, const char *what);
void progress_end(struct progress *p); /* takes the line away */
