/* path.h - files that tools read and write: names, whole contents, replacing a file at once.
 *
 * Relative paths begin in the workspace.  What a path may reach is what the user of this server may reach: the sandbox is the fence. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/str.h"

struct err;
struct mcp;

#define FILE_BYTES_MAX (16u << 20) /* of a file that is edited */

/* The absolute path in ret (PATH_MAX bytes).  ERR_INVALID: too long. */
int path_of(const struct mcp *m, const char *path, char *ret, struct err *err);
/* An open regular file, and its facts.  Words for what is missing, a directory, a device. */
int file_open(const char *path, struct stat *ret_st, int *ret_fd, struct err *err);
/* All of a regular file of at most FILE_BYTES_MAX bytes. */
int file_read(const char *path, struct buf *out, struct err *err);
/* Put the content in place of the file; directories on the way are made.  A link is followed, also to a file that is not there yet; mode
 * and owner stay.  All of the content or none of it, unless the file must be written in place: it has several names, or the directory
 * does not let it be replaced.  *ret_is_new: there was no such file. */
int file_replace(const char *path, struct str content, bool *ret_is_new, struct err *err);
