/* requests.h - what may be asked of the engine, and who answers: a table for each of its sockets. */
#pragma once
#include <jansson.h>

#include "engine/guest/engine.h"

struct ask;
struct err;

struct request_op {
        const char *name;
        /* Answers a, now or later, and returns 0; or leaves it alone and sets *err. */
        int (*run)(struct engine *e, const json_t *msg, struct ask *a, struct err *err);
};

extern const struct request_op control_ops[], edge_ops[]; /* end with a NULL name */
