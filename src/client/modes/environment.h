/* environment.h - which variables programs get. */
#pragma once
#include <stdbool.h>

#include "client/error.h"

enum sg_mode environment_mode(void); /* what SANDBOX_MODE says */

struct environment {           /* pairs, the last one of a name counts; ends with a NULL name once there is one */
        struct sg_pair *pairs; /* owned, and the texts in them; NULL: none */
        size_t count;
};
void environment_done(struct environment *e);
/* Those of this process that have one of these names. */
int environment_pass(struct environment *e, const char *const *names, struct sg_error *err);
/* Those of this process that any program on this machine needs. */
int environment_pass_usual(struct environment *e, struct sg_error *err);
/* SG_INVALID: a name that no variable can have. */
int environment_add(struct environment *e, const struct sg_pair *pairs /* may be NULL */, struct sg_error *err);
/* As execve() takes it: NAME=VALUE, ends with NULL; one block for free(). */
char **environment_strings(const struct environment *e);

extern const char *const environment_default_names[];
