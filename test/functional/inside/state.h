/* state.h - runs inside a sandbox: things a process can hold, each made once and checked as often as asked.
 *
 * A check leaves its thing as it found it, so that it can be done after every resume. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

struct item {
        const char *name;
        const char *(*make)(void); /* NULL, or what is wrong */
        const char *(*check)(void);
};

extern const struct item file_items[], socket_items[], memory_items[], process_items[], clock_items[];

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

const char *why(const char *what); /* what, with errno in words; valid until the next call */
#define NEED(condition)                                                                                                \
        do {                                                                                                           \
                if (!(condition))                                                                                      \
                        return why(#condition);                                                                        \
        } while (0)
