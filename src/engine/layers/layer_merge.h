/* layer_merge.h - merges several adjacent layers, upper directories of overlay mounts, into one layer with the same meaning.
 *
 * "The same": on top of any layers below the lowest of them, names, types, modes, owners, times, contents, link targets and
 * attributes are as they were.  Files are hard links (a layer never changes), so no data is copied, except where an inode cannot
 * take more links.  Link counts and change times do change, also in mounts of the old layers.
 *
 * The trees were made by a sandbox's user: any depth, any number of entries, any bytes in names.  Memory and fds are bounded all
 * the same, no symbolic link is followed, and only directories are opened (and files that are copied).
 * Blocks; needs CAP_DAC_READ_SEARCH and the other rights over files, CAP_MKNOD, CAP_SYS_ADMIN (trusted attributes). */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct err;

struct layer_merge_count {
        uint64_t directories, files, whiteouts;
        uint64_t copied; /* files that had too many links already */
};

/* dir has layers[0..n-1], lowest first, and `out`, all on one file system.  out exists and is empty.  On failure it holds what was
 * made so far.  ERR_NO_SPACE: disk full.  ERR_LIMIT: a redirect is longer than the file system can note (the layers
 * cannot be merged).  ERR_NOT_FOUND: a layer is missing. */
int layer_merge(int dir, const char *const *layers, size_t n, const char *out, struct layer_merge_count *ret,
                struct err *err);
