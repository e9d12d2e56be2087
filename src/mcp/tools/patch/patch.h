/* patch.h - unified diffs, as `diff -u` and `git diff` write them: parsing and applying.  No I/O.
 *
 * Of git's own lines are known: new, deleted, renamed and copied files, and modes.  What cannot be applied here (binary files, links,
 * submodules) is an error, so that nothing of a patch is left out in silence.
 *
 * A hunk is applied where its old lines stand: at the line it names, else at the nearest place that has them, else it fails.  Lines must
 * be the same to the letter. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

struct err;

#define PATCH_WORK_MAX 50000000u /* lines compared in one file */
#define PATCH_FILES_MAX 256u
#define PATCH_NAMES_MAX (64u << 10)

enum patch_mode { PATCH_MODE_KEPT, PATCH_MODE_PLAIN, PATCH_MODE_PROGRAM };

struct patch_file {
        struct str from, to; /* paths without "a/" and "b/"; from empty: a new file; to empty: the file is deleted */
        struct str hunks;    /* the text of all its hunks */
        enum patch_mode mode;
        bool is_copy; /* from stays */
};

struct patch {
        struct patch_file files[PATCH_FILES_MAX]; /* borrowed from the text, and from names */
        size_t count;
        char names[PATCH_NAMES_MAX]; /* those that were quoted in the text */
        size_t names_used;
};

/* ERR_INVALID with the number of the line. */
int patch_parse(struct str text, struct patch *ret, struct err *err);
/* The file's new content.  ERR_CONFLICT: a hunk does not fit, with its number. */
int patch_apply(const struct patch_file *f, struct str old, struct buf *out, struct err *err);
