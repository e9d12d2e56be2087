/* once.h - a tool that is one run of a program: its output is collected, then a function makes the result of it.
 *
 * A cancelled call ends the program. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct call;

struct once_output {
        int exit_code;
        bool is_cut;       /* there was more output than asked for: the program was ended */
        bool is_timed_out; /* the same, for its time */
        struct str out, err;
};

struct once_options {
        const char *const *argv;
        const char *cwd; /* NULL: the workspace */
        const char *const *env;
        struct str input;
        size_t output_max;
        uint32_t timeout_s;
        void (*on_done)(struct call *c, const struct once_output *o); /* finishes the call */
};

void once_run(struct call *c, const struct once_options *opt); /* a program that cannot be started is the result */
