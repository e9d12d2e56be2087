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
        void *arg; /* of the options */
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
        /* Takes stdout as it comes, instead of `out`; false: that is enough, the program is ended.  NULL: out collects. */
        bool (*take)(void *arg, struct str piece);
        void *arg; /* of take and release */
        void (*release)(
                void *arg); /* once, after on_done or when the call is cancelled or cannot begin; NULL: nothing */
        void (*on_done)(struct call *c, const struct once_output *o); /* finishes the call */
};

void once_run(struct call *c, const struct once_options *opt); /* a program that cannot be started is the result */
