/* restart.h - programs that the daemon starts again when they end: they asked for it with a file (model/envd_restart.h).
 *
 * A program that ends soon after its start is started again after a pause.  One that ends RESTARTS_MAX times in a row
 * without a new file is given up: it does not come as far as writing one. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"

struct process_table;
struct settings;

#define RESTARTS_MAX 10

struct restarts {
        struct process_table *table;     /* borrowed */
        const struct settings *settings; /* borrowed */
        const char *dir;                 /* borrowed */
        uint64_t pause_ms, short_life_ms;
        struct list all; /* struct restart: programs that were started again, or will be */
};

void restarts_init(struct restarts *r, struct process_table *t, const struct settings *s);
void restarts_done(struct restarts *r);
/* No program runs yet: files that are there are of an earlier life. */
void restarts_forget_files(const struct restarts *r);
/* A child of the daemon has ended, with these results of waitid(). */
void restarts_on_end(struct restarts *r, pid_t pid, int code, int status);
