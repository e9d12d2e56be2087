/* unlinked_files.h - names that CRIU gave to open files which had lost theirs, but have another one, for as long as it dumped.
 *
 * Who is restored from the images looks for them where they were (DIR/link_remap.N), and CRIU takes them away again.  While the
 * sandbox rests they are kept in sandboxes/<id>/names, so that one which is thawed instead never sees them; put back before
 * its upper directory is used for a restore. */
#pragma once

struct err;

#define UNLINKED_FILES_DIR "names"

/* From CRIU's hook, while they are there.  images: with all that CRIU has written; dir: sandboxes/<id>, without UNLINKED_FILES_DIR. */
int unlinked_files_keep(int images, int dir, struct err *err);
/* Into the upper directory dir/u, which no mount uses.  Fine when there are none, and when they are there already. */
int unlinked_files_put_back(int dir, struct err *err);
