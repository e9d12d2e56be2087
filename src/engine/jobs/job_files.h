/* job_files.h - what job processes do to directories of checkpoints and layers. */
#pragma once
#include <stdint.h>

#include "engine/jobs/job_process.h"

uint64_t job_size_of(int dir, const char *name); /* on disk, as far as it can be counted in a moment */
bool job_is_traced(const struct job_conf *c, pid_t pid);
