/* context_impl.h - shared by the files of a context: context.c (states), context_variables.c (statements). */
#pragma once
#include "interpreter/service/context.h"

/* Append what must be executed silently before the run's code: new seeds, variables of the sandbox, variables of the run.
 * Notes what is to be undone. */
int context_add_preparation(struct context *c, struct buf *out);
/* Append what undoes the variables of the last run, and forget them. */
int context_add_undo(struct context *c, struct buf *out);
/* Before a run: if the sandbox has become another one, its variables are not those that are set in the kernel. */
void context_notice_copy(struct context *c);
/* The kernel is new: remember whose random numbers it has, forget what was set in the old one. */
void context_forget_variables(struct context *c);
