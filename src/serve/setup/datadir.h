/* datadir.h - the data directory: its parts with owners and modes, its lock.  Needs root. */
#pragma once
#include <sys/types.h>

struct conf;
struct err;

/* Look whether the directory is one of ours (layout.h), then make what is missing and set owners and modes (ARCHITECTURE.md, "Data directory").  ERR_DENIED when the unprivileged
 * roles could not reach it, naming the directory in the way. */
int datadir_prepare(const struct conf *c, struct err *err);
int images_prepare(const char *images_dir, struct err *err); /* layers/ and templates/ in it */

/* Take <data>/lock and write our pid into it; held for as long as *ret_fd is open.
 * ERR_CONFLICT names the process that holds it. */
int datadir_lock(const struct conf *c, int *ret_fd, struct err *err);

/* Who holds the lock: its pid, 0 when nobody does, negative errno. */
pid_t datadir_holder(const struct conf *c);

/* Write a file whole or not at all: temporary name, fsync, rename. */
int file_replace(const char *path, unsigned mode, const void *p, size_t n);
/* The same for a file of lines; on a full disk it is written over the old one, followed by empty lines. */
int file_replace_lines(const char *path, unsigned mode, const void *p, size_t n);
/* All of a regular file that is smaller than the buf's maximum (-E2BIG), never through a symbolic link. */
struct buf;
int file_read(const char *path, struct buf *out);
