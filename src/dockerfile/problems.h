/* problems.h - what is wrong in a file that a person wrote: all of it at once, each with its line.  Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"

#define PROBLEMS_MAX 100u /* more are counted, and not kept */

enum problem_level {
        PROBLEM_ERROR,
        PROBLEM_WARNING, /* it works, but perhaps not as meant */
        PROBLEM_NOTE,    /* left out, because it means nothing here */
};

struct problem {
        enum problem_level level;
        unsigned line; /* from 1; 0: the file as a whole */
        char *text;    /* owned */
};

struct problems { /* zeroed: none */
        struct problem *at;
        size_t count;
        unsigned errors; /* also those that were not kept */
        bool lacks_memory;
};

void problems_error(struct problems *p, unsigned line, const char *fmt, ...) PRINTF(3, 4);
void problems_warn(struct problems *p, unsigned line, const char *fmt, ...) PRINTF(3, 4);
void problems_note(struct problems *p, unsigned line, const char *fmt, ...) PRINTF(3, 4);
/* A function that returns 0 or negative errno had no memory, or was given too much.  Returns r. */
int problems_take(struct problems *p, unsigned line, int r);
static inline bool problems_has_errors(const struct problems *p)
{
        return p->errors > 0 || p->lacks_memory;
}
void problems_sort(struct problems *p); /* by line; of one line as they were found */
void problems_done(struct problems *p);
#define AUTO_PROBLEMS AUTO(problems_done)
