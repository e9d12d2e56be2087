/* unlinked_files.h - names that CRIU gave to open files which had lost theirs, but have another one, for as long as it dumped.
 *
 * Who is restored from the images looks for them where they were (DIR/link_remap.N), and CRIU takes them away again.  While the
 * sandbox rests they are kept beside its files (writable_open_names), so that one which is thawed instead never sees them; put
 * back before its files are used for a restore. */
#pragma once

struct err;
struct writable;

/* From CRIU's hook, while they are there.  images: with all that CRIU has written; names that were kept before are
 * discarded already. */
int unlinked_files_keep(int images, const struct writable *w, struct err *err);
/* Into its files, which no mount uses.  Fine when there are none, and when they are there already. */
int unlinked_files_put_back(const struct writable *w, struct err *err);
