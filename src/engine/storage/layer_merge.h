/* layer_merge.h - several adjacent upper directories of overlay mounts merged into one that means the same.
 *
 * "The same": stacked on whatever lies below the lowest of them, names, types, modes, owners, times, contents, link
 * targets and attributes are as they were.  Files are hard links (a layer never changes), so no data is copied but where
 * an inode cannot take more links.  Link counts and change times do move, also for whoever has the old layers mounted.
 *
 * The trees are a sandbox user's: any depth, any number of entries, any bytes in names.  Memory and fds are bounded
 * whatever they are, no symbolic link is followed, nothing is opened that is no directory (but a file to be copied).
 * Blocks; needs CAP_DAC_READ_SEARCH and the other rights over files, CAP_MKNOD, CAP_SYS_ADMIN (trusted attributes). */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct err;

struct layer_merge_count {
        uint64_t directories, files, whiteouts;
        uint64_t copied; /* files that had too many links already */
};

/* dir: where layers[0..n-1], lowest first, and `out` lie, all on one file system.  out exists and is empty.  On failure it
 * holds whatever was made.  ERR_NO_SPACE: disk full.  ERR_LIMIT: a redirect longer than the file system can note (the layers cannot
 * be merged).  ERR_NOT_FOUND: a layer is missing. */
int layer_merge(int dir, const char *const *layers, size_t n, const char *out, struct layer_merge_count *ret,
                struct err *err);
