/* layout.h - which layout a data directory has: the file <data>/layout holds its number.
 *
 * A program works on data directories of its own layout only.  It looks before it touches anything, and has no code for
 * other layouts: those belong to other versions of the program. */
#pragma once

struct err;

#define DATA_LAYOUT 1u /* the next number with each change of what lies in a data directory, or of what it means */

/* May this program work on the directory?  Yes when it has our layout, or nothing yet: it is not there, or holds no more
 * than images/, criu/ and empty directories.  Changes nothing.
 * ERR_CONFLICT: another layout, or contents without one; the message says what to do. */
int layout_check(const char *data_dir, struct err *err);
/* Note our layout, durably, in a directory that layout_check() found to have none: before anything else is put there. */
int layout_write(const char *data_dir, struct err *err);
