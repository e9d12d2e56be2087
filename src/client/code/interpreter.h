/* interpreter.h - requests to the code interpreter of a sandbox (port 49999). */
#pragma once
#include "client/sandbox/box.h"

#define INTERPRETER_PORT 49999u

struct interpreter_stream { /* POST /execute */
        /* A piece of the answer.  Negative: the request is closed, upon which the interpreter interrupts the run; *err says why. */
        int (*on_body)(struct str piece, struct loop *loop, void *arg, struct sg_error *err);
        void *arg;
        struct lane *lane; /* of the request under way; borrowed */
        /* on_body may set it on the loop.  It is cleared before the lane is somebody else's. */
        struct timer linger;
};
/* 0: the answer is complete, or somebody stopped the lane's loop. */
int interpreter_stream(struct sg_sandbox *box, struct interpreter_stream *s, struct str body, struct limit *l,
                       struct sg_error *err);

/* A request with a small answer; *ret (may be NULL) is the caller's.  `target` as in struct rest_request. */
struct interpreter_call {
        const char *method, *target, *name;
        json_t *body; /* stolen; NULL: none */
        uint32_t usual_ms;
        bool repeats;
};
int interpreter_call(struct sg_sandbox *box, const struct interpreter_call *c, const struct sg_call *call, json_t **ret,
                     struct sg_error *err);
