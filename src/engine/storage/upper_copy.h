/* upper_copy.h - copies an upper directory, with overlayfs's marks, for a sandbox that goes on.
 *
 * The tree was made by a sandbox's user, whose processes stand still while it is copied; while it is measured they may run.  No
 * link is followed, everything is done beneath directory fds, and the limits below bound work, memory and fds.
 * Blocks; needs what layer_merge.h does. */
#pragma once
#include "engine/storage/tree_size.h"

struct err;

/* More is not copied: the sandbox stands still meanwhile, and from here on that takes longer than to pause it and to start it again
 * on another upper directory (about 100 ms).  Beside an image of its memory this is little. */
#define UPPER_COPY_BYTES_MAX (16u << 20) /* as allocated on disk */
#define UPPER_COPY_ENTRIES_MAX 2048u
#define UPPER_COPY_DEPTH_MAX 64u

/* ERR_TOO_LARGE: beyond the limits, or with too long a path. */
int upper_measure(int dir, const char *name, struct tree_size *ret, struct err *err);
/* Copy dir/name to dir/to, a new directory.  ERR_TOO_LARGE as above; ERR_NO_SPACE: disk full.  On failure dir/to holds what was
 * made so far. */
int upper_copy(int dir, const char *name, const char *to, struct tree_size *ret, struct err *err);
