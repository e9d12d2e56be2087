/* trash_retry.h - what could not be moved to the trash (trash.h) since the disk is full: tried again.
 *
 * Moving takes an entry in a directory.  On a full disk there may be no room for one more until the trash remover has removed
 * others.  What could not be moved is tried again then, so that its own room becomes free without a restart. */
#pragma once
#include "base/list.h"
#include "engine/storage/disk.h"
#include "io/loop.h"

struct engine;

struct trash_retry {
        struct list left; /* of what could not be moved yet; owned */
        struct timer again;
        struct disk_request *request; /* that moves the first of them */
};

/* From now on every disk_throw() that fails for want of room is tried again, unless something new begins under the same name. */
void trash_retry_start(struct engine *e);
void trash_retry_stop(struct engine *e); /* what is left is found again at the next start */

/* What lies there is wanted again, or is moved elsewhere: it is not tried again.  A try that is under way comes before every
 * request made of the disk after this. */
void trash_retry_forget(struct engine *e, enum disk_place place, const char *name);

/* For the parts of the engine that look at the disk themselves (adopt.h, saved_items.h): trash_move(), and tried again when the
 * disk is full, if it lies in sandboxes/, checkpoints/ or sealed/.  It need not be there.  Negative: it is still where it
 * was, which is logged.  Blocks. */
int trash_throw(struct engine *e, int dir, const char *name);
