/* envd_copies.h - envd's side of a checkpoint: its binary, by content.
 *
 * Memory in a checkpoint has envd mapped, so it only fits the very same binary: envd/<sha256> keeps a copy of each that a
 * checkpoint refers to. */
#pragma once
#include "engine/jobs/job_process.h"

/* The hash of the envd that runs as `pid`, where nobody noted it. */
int envd_copies_hash(int proc_dir, pid_t pid, char out[RECORD_HASH_MAX], struct err *err);
int envd_copies_hash_fd(int fd, char out[RECORD_HASH_MAX]);
/* A copy of the envd that runs as `pid` is kept.  Durably. */
int envd_copies_keep(const struct job_conf *c, const char *hash, pid_t pid, struct err *err);
/* /dev with it, as devices_mount(); ERR_INVALID: there is no such copy any more.  For a process that has left the engine's
 * mount namespace: mount_stage_leave(). */
int envd_copies_dev(const struct job_conf *c, const char *hash, uint32_t uid_base, int *ret_mount, struct err *err);
