/* upper_copy.h - a second upper directory like the first, to the last of overlayfs's marks, for one that goes on being used.
 *
 * The tree was made by a sandbox's user, whose processes stand still while it is copied; to be measured they need not.  No
 * link is followed, everything is done beneath directory fds, and work, memory and fds are bounded by the limits below.
 * Blocks; needs what layer_merge.h does. */
#pragma once
#include "engine/storage/tree_size.h"

struct err;

/* More is not copied: the sandbox stands still meanwhile, and from here on it costs it more than being begun again on another
 * upper directory would (about 100 ms); it is also little beside any image of memory. */
#define UPPER_COPY_BYTES_MAX (16u << 20) /* as allocated on disk */
#define UPPER_COPY_ENTRIES_MAX 2048u
#define UPPER_COPY_DEPTH_MAX 64u

/* ERR_TOO_LARGE: beyond the limits, or names longer or deeper than are followed. */
int upper_measure(int dir, const char *name, struct tree_size *ret, struct err *err);
/* dir/name into dir/to, which is made.  ERR_TOO_LARGE as above; ERR_NO_SPACE: disk full.  On failure it holds what was made. */
int upper_copy(int dir, const char *name, const char *to, struct tree_size *ret, struct err *err);
