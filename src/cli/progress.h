/* progress.h - a line on the terminal that says what is being waited for, and how long it has taken.
 *
 * Nothing is shown when stderr is no terminal, or when it is over at once. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "cli/client.h"

struct progress {
        struct client *client;    /* borrowed: whose calls are waited for */
        const char *doing, *what; /* "pausing", "i..."; borrowed */
        uint64_t since_ms;
        bool is_shown;
};

/* Until progress_end() the client's calls may take long, and are shown to take it. */
void progress_start(struct progress *p, struct client *client, const char *doing, const char *what);
void progress_end(struct progress *p); /* takes the line away */
