/* place.h - where programs run and where their workspace is: a row of functions for this machine, another one for a sandbox. */
#pragma once
#include "client/limit.h"
#include "client/modes/environment.h"
#include "client/modes/program_output.h"

struct place;

struct place_ops {
        /* env: all variables.  On failure the program has ended, as far as it could be reached. */
        int (*run)(struct place *place, const struct sg_program *program, const struct environment *env,
                   struct program_output *output, struct limit *limit, struct sg_error *err);
        /* `path` has been checked by place_path_check(). */
        int (*write)(struct place *place, const char *path, struct str bytes, struct limit *limit,
                     struct sg_error *err);
        /* *ret is a block. */
        int (*read)(struct place *place, const char *path, size_t max, struct limit *limit, char **ret, size_t *ret_len,
                    struct sg_error *err);
        void (*free)(struct place *place); /* a sandbox stays as it is */
};

struct place {
        const struct place_ops *ops;
        char *workspace; /* owned; absolute */
};

/* Makes the workspace if it is missing. */
int local_place_create(const char *workspace, struct place **ret, struct sg_error *err);
/* Takes the sandbox, also on failure. */
int sandbox_place_create(struct sg_sandbox *box, const char *workspace, struct limit *limit, struct place **ret,
                         struct sg_error *err);
struct sg_sandbox *sandbox_place_box(struct place *place);

/* SG_INVALID: it is empty or absolute, leads out of the workspace, or is too long. */
int place_path_check(const char *path, struct sg_error *err);
/* What is left of the limit, for a call of the library's own functions. */
struct sg_call place_call(const struct limit *limit);
