/* worker_envd.h - envd's side of a checkpoint: its binary, by content, and the word that it was woken.
 *
 * Memory in a checkpoint has envd mapped, so it only fits the very same binary: envd/<sha256> keeps a copy of each that a
 * checkpoint refers to. */
#pragma once
#include "engine/worker.h"

/* The hash of the envd that runs as `pid`, where nobody noted it. */
int worker_envd_hash(int proc_dir, pid_t pid, char out[RECORD_HASH_MAX], struct err *err);
int worker_envd_hash_fd(int fd, char out[RECORD_HASH_MAX]);
/* A copy of the envd that runs as `pid` is kept.  Durably. */
int worker_envd_keep(const struct worker_conf *c, const char *hash, pid_t pid, struct err *err);
/* /dev with it, as devfs_make(); ERR_INVALID: there is no such copy any more. */
int worker_envd_dev(const struct worker_conf *c, const char *hash, int *ret_mount, struct err *err);

/* POST /init inside the network namespace; bounded.  token: what it has now; NULL: it is open. */
int worker_envd_init(int netns, const char *token, const json_t *init, struct err *err);
