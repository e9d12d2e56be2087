/* entry_copy.h - makes one file like another: data, owner, mode, times, extended attributes.
 *
 * A sandbox's user made the files; nothing changes them meanwhile.  Needs the rights over files, CAP_SETFCAP, CAP_SYS_ADMIN for
 * overlayfs's marks, and /proc (fds may be O_PATH). */
#pragma once
#include <stdbool.h>
#include <sys/stat.h>

#define OVERLAY_PREFIX "trusted.overlay."
#define OVERLAY_ESCAPED "trusted.overlay.overlay." /* of an overlay inside the sandbox: ordinary attributes to us */

/* The data of a regular file: shared where the file system can share, and holes stay holes. */
int entry_copy_data(int from, int to, off_t size);
/* All attributes.  st is that of `from`; fds may be O_PATH, also of symbolic links.  with_marks: overlayfs's marks, too.  The
 * order matters: the owner first, as setting it clears others; the mode after ACLs; times last. */
int entry_copy_attrs(int from, int to, const struct stat *st, bool with_marks);
