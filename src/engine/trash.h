/* trash.h - throwing away: what is no longer needed is moved to <data>/trash at once, and removed there by the sweeper
 * (janitor.h).
 *
 * Moving takes an entry in a directory.  On a full disk there may be no room for one more until the sweeper has removed
 * others; what could not be moved is tried again then, so that its own room becomes free without a restart. */
#pragma once
#include "base/list.h"
#include "io/loop.h"

struct engine;

struct trash {
        struct list left; /* of what could not be moved yet; owned */
        struct timer again;
};

void trash_init(struct trash *t);
/* It need not be there.  Negative: it is still where it was; what lies in sandboxes/, checkpoints/ or sealed/ is tried
 * again when the disk was full. */
int trash_throw(struct engine *e, int dir, const char *name);
void trash_done(struct trash *t); /* what is left is found again at the next start */
