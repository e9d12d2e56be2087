/* trash.h - throwing away: what is no longer needed is moved to <data>/trash at once, and removed there by the trash remover
 * (slot_cleaner.h).
 *
 * Moving takes an entry in a directory.  On a full disk there may be no room for one more until the trash remover has removed
 * others; what could not be moved is tried again then, so that its own room becomes free without a restart. */
#pragma once
#include "base/list.h"
#include "engine/storage/disk.h"
#include "io/loop.h"

struct engine;

struct trash {
        struct list left; /* of what could not be moved yet; owned */
        struct timer again;
        struct disk_request *request; /* that moves the first of them */
};

void trash_init(struct trash *t);
void trash_done(struct trash *t); /* what is left is found again at the next start */

/* It could not be moved for want of room (disk_throw): it is tried again, unless somebody begins anew under its name. */
void trash_left(struct engine *e, enum disk_place place, const char *name);

/* For those who look at the disk themselves (adopt.h, saved_items.h).  It need not be there.  Negative: it is still where it was;
 * what lies in sandboxes/, checkpoints/ or sealed/ is tried again when the disk was full.  Blocks. */
int trash_throw(struct engine *e, int dir, const char *name);
/* The move itself; -ENOENT: it is not there.  Blocks. */
int trash_move(int trash, int dir, const char *name);
