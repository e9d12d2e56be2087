/* job_files.h - what job processes do to directories of checkpoints and layers. */
#pragma once
#include "engine/jobs/job_process.h"

bool job_is_traced(const struct job_conf *c, pid_t pid);
