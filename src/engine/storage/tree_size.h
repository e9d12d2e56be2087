/* tree_size.h - how much a directory tree takes on disk, as far as that can be counted in a moment.
 *
 * The tree may be a sandbox's, which changes it meanwhile: no link is followed, and work and memory are bounded.  Blocks. */
#pragma once
#include <stdint.h>

#define TREE_SIZE_ENTRIES_MAX 20000u /* more are not looked at: a request waits for the answer */
#define TREE_SIZE_DEPTH_MAX 64u

struct tree_size {
        uint64_t bytes; /* as allocated on disk; a file counts as often as it has names */
        unsigned entries;
};

/* Of dir/name: all entries, and the bytes of regular files.  Nothing where it cannot be read. */
struct tree_size tree_size_of(int dir, const char *name);
/* The same, but at most that many entries. */
struct tree_size tree_size_upto(int dir, const char *name, unsigned entries_max);
