/* source.h - what `template build` and `template check` work on: a directory with e2b.toml, a Dockerfile and the files that it
 * copies. */
#pragma once
#include <jansson.h>

#include "dockerfile/context.h"
#include "dockerfile/dockerfile.h"
#include "dockerfile/e2b_toml.h"

struct cli_options;
struct err;

struct source {                        /* zeroed: none */
        char *dir;                     /* owned */
        bool is_ready_made;            /* dir comes with the program */
        char *dockerfile;              /* owned: its path */
        char *name;                    /* owned: of the template, with its tag if it has one; NULL: not known */
        struct e2b_toml toml;          /* owned */
        struct dockerfile_build build; /* owned: its request is complete, with filesHash */
        struct context context;        /* owned */
        bool has_context;              /* it is open */
        struct context_files *files;   /* owned: one for each of build.copies */
        unsigned errors;               /* told on stderr, each with its file and line */
};

/* Read everything.  o->args[0]: the directory, or the name of a ready-made template; none: the working directory.  What is
 * wrong in the files is told on stderr at once and counted in errors; `tells_notes`: also what is left out.  A negative errno:
 * it could not be read.  *ret is the caller's in any case: source_done(). */
int source_read(const struct cli_options *o, bool tells_notes, struct source *ret, struct err *err);
void source_done(struct source *s);
#define AUTO_SOURCE AUTO(source_done)
