/* file_writer.h - a file being written on a user's behalf, with exactly the steps that watchers expect to see:
 * a new file is CREATE, CHMOD (its owner), WRITE; no temporary name, no second write for small contents. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "envd/rpc/fault.h"
#include "envd/rpc/users.h"

#define TARGET_BUFFER (64u << 10)

struct target {
        char *path;         /* owned */
        int fd;             /* -1: closed */
        struct buf pending; /* written when it is full, and at the end */
};

/* How a failure is answered over HTTP: 400 invalid_argument, 507 resource_exhausted, 500 internal. */
unsigned target_fault_status(const struct fault *f);

void target_init(struct target *t); /* fd -1, no path */
/* Closes; what is pending is dropped. */
void target_done(struct target *t);
/* Open the file, making its directories.  Takes path.  length: what is announced to come, -1 unknown. */
int target_open(struct target *t, char *path, const struct user *u, bool keep_owner, struct fault *f);
int target_write(struct target *t, struct str data, int64_t announced, struct fault *f);
/* All is there: write the rest, set the metadata (NULL: none), close.  The path stays. */
int target_finish(struct target *t, const json_t *metadata, int64_t announced, struct fault *f);
