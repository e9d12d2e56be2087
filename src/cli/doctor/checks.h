/* checks.h - what `doctor` looks at besides the engine's own probes (engine/namespace/probe.h): the data directory, the template,
 * ports, names, and what other kinds of sandboxes would need.  Tried out rather than looked up; nothing is left behind. */
#pragma once
#include <stdbool.h>

#include "base/auto.h"

#define CHECK_TEXT_MAX 400

enum check_state {
        CHECK_OK,
        CHECK_MISSING, /* needed: the server will not work */
        CHECK_NOTE,    /* not needed now, or only for some features */
};

struct check_result {
        enum check_state state;
        char detail[CHECK_TEXT_MAX];
        const char *fix; /* static; NULL when there is nothing to fix */
};

void check_say(struct check_result *r, enum check_state state, const char *fix, const char *fmt, ...) PRINTF(4, 5);

struct check_env { /* what the checks are about: directories as `serve` has them, which may not exist yet */
        const char *data_dir, *images_dir, *criu_dir;
};

struct check {
        const char *name;
        void (*run)(const struct check_env *env, struct check_result *ret);
};

extern const struct check checks[]; /* ends with a NULL name */
