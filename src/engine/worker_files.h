/* worker_files.h - what workers do to directories of checkpoints and layers. */
#pragma once
#include <stdint.h>

#include "engine/worker.h"

void worker_discard(const struct worker_conf *c, int dir,
                    const char *name);              /* to the trash; fine when it is not there */
uint64_t worker_size_of(int dir, const char *name); /* on disk, as far as it can be counted in a moment */
bool worker_is_traced(const struct worker_conf *c, pid_t pid);
