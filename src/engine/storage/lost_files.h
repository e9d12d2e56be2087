/* lost_files.h - moves files to <data>/lost, and removes them from there (lost_note.h says what is in it).  All of it blocks: for
 * the engine's helpers, not for its loop. */
#pragma once
#include "engine/records/lost_note.h"

/* Move dir/name there, in one rename.  Fine when it is not there (any more).  Negative: it stays where it is; logged. */
int lost_files_keep(int lost, int dir, const char *name, const struct lost_note *note);
int lost_files_remove(int lost, int trash, const char *name); /* -ENOENT: it is not there */
/* Remove what was seen lying there for more than so many days (0: nothing), note that the rest was seen, and remove notes of
 * nothing. */
void lost_files_tidy(int lost, int trash, unsigned days);
