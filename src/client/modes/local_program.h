/* local_program.h - a program on this machine, with a process group of its own, from its start to its end. */
#pragma once
#include "client/limit.h"
#include "client/modes/program_output.h"

/* In the directory `dir`.  When it returns, all of the group have got a signal that nobody can ignore. */
int local_program_run(const struct sg_program *program, int dir, char *const *env, struct program_output *output,
                      struct limit *limit, struct sg_error *err);
