/* trash.h - <data>/trash: what is not wanted any more is moved there at once, and removed there in the background by the trash
 * remover (slot_cleaner.h).
 *
 * The only rename into it, for the engine, its helpers and job processes.  Blocks: the engine's loop asks its disk helper
 * (disk_throw in disk.h). */
#pragma once

/* Under a new name.  -ENOENT: it is not there.  Any other: it is still where it was; a full disk may have no room for one more
 * entry in the directory (sys_is_full()). */
int trash_move(int trash_dir, int dir, const char *name);
/* For processes that have nothing else to do about a failure: it is logged.  Fine when it is not there. */
void trash_discard(int trash_dir, int dir, const char *name);
