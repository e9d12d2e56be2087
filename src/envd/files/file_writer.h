/* file_writer.h - a file being written on a user's behalf, with exactly the steps that watchers expect to see:
 * a new file is CREATE, CHMOD (its owner), WRITE; no temporary name, no second write for small contents. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "envd/rpc/fault.h"
#include "envd/rpc/users.h"

#define FILE_WRITER_BUFFER (64u << 10)

struct file_writer {
        char *path;         /* owned */
        int fd;             /* -1: closed */
        struct buf pending; /* written when the buffer is full, and at the end */
};

/* How a failure is answered over HTTP: 400 invalid_argument, 507 resource_exhausted, 500 internal. */
unsigned file_writer_fault_status(const struct fault *f);

void file_writer_init(struct file_writer *w); /* fd -1, no path */
/* Close the file; pending bytes are dropped. */
void file_writer_done(struct file_writer *w);
/* Open the file, making its directories.  Takes path. */
int file_writer_open(struct file_writer *w, char *path, const struct user *u, bool keep_owner, struct fault *f);
int file_writer_write(struct file_writer *w, struct str data, int64_t announced, struct fault *f);
/* All bytes have come: write the rest, set the metadata (NULL: none), close.  The path stays. */
int file_writer_finish(struct file_writer *w, const json_t *metadata, int64_t announced, struct fault *f);
