/* entry_copy.h - what makes one file like another: data, owner, mode, times, extended attributes.
 *
 * Both were made by a sandbox's user, in a tree that nobody changes meanwhile.  Needs the rights over files, CAP_SETFCAP, and
 * CAP_SYS_ADMIN for overlayfs's marks; /proc, too, as fds may be O_PATH. */
#pragma once
#include <stdbool.h>
#include <sys/stat.h>

#define OVERLAY_PREFIX "trusted.overlay."
#define OVERLAY_ESCAPED "trusted.overlay.overlay." /* of an overlay inside the sandbox: ordinary attributes to us */

/* Of a regular file: shared where the file system can, and holes stay holes. */
int entry_copy_data(int from, int to, off_t size);
/* In this order: owner first, as it clears others; mode after ACLs; times last.  st is that of `from`; fds may be O_PATH, also
 * of symbolic links.  with_marks: overlayfs's own, too. */
int entry_copy_attrs(int from, int to, const struct stat *st, bool with_marks);
