/* criu_root.h - the file system that CRIU sees: itself, the host's programs, and what it works on.
 *
 * CRIU looks for paths that a sandbox chose, and follows links on the way; a link to "/tmp" then leads from CRIU's own root.
 * So its root is an empty one in which only this is found: /usr and its kin, /dev and CRIU's own files, read-only; /proc and
 * /sys; a tmpfs on /run; the paths of this one call.  Nothing in there can be written by others than root. */
#pragma once
#include <stddef.h>

struct criu_tool;

#define CRIU_ROOT_PATHS_MAX 3
#define CRIU_ROOT_PROGRAMS "/own" /* comes first in its PATH: programs that differ from the host's */

/* run: the mount for /run.  paths: absolute, to be written to; those below /sys are there already.  For a child that is
 * about to become CRIU: leaves the caller's mount namespace.  Negative errno. */
int criu_root_enter(const struct criu_tool *t, int run, const char *const paths[], size_t n);
