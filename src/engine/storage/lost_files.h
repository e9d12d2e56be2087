/* lost_files.h - moving to <data>/lost and away from there (lost_note.h: what lies there).  All of it blocks: for the engine's
 * helpers, not for its loop. */
#pragma once
#include "engine/records/lost_note.h"

/* One rename; nothing is done where there is nothing (any more).  Negative: it stays where it is; logged. */
int lost_files_keep(int lost, int dir, const char *name, const struct lost_note *note);
int lost_files_remove(int lost, int trash, const char *name); /* -ENOENT: it is not there */
/* Remove what lies there for more than so many days (0: nothing), and notes of nothing. */
void lost_files_tidy(int lost, int trash, unsigned days);
