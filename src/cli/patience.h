/* patience.h - what a command does when the server asks to come back later (503 with Retry-After), as it does while it builds a
 * template at its first use: the person is told, and the request is sent again. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandglass.h"

struct patience {
        const char *who;      /* before what is told: "sandglass agent"; borrowed */
        uint64_t deadline_ms; /* monotonic */
        int cancel_fd;        /* once it is readable, nothing is waited for; -1: none */
        bool clears_line;     /* a progress line may be on the terminal */
        uint64_t told_ms;     /* when it was told last; 0: never */
};

/* Waits as long as the server has asked to.  True: the request is to be sent again (a cancelled one ends as such).  False: there
 * is nothing to wait for, or no time: *why counts. */
bool patience_wait(struct patience *p, const struct sg_error *why);
