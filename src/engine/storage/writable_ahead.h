/* writable_ahead.h - directories with an empty writable storage, made ahead for the next sandboxes.
 *
 * A new directory costs the file system more than everything else that a sandbox needs of it.  They are in ahead/, numbered, and
 * belong to one process, the disk helper.  All of it blocks. */
#pragma once
#include <stdbool.h>

struct writable_ahead {
        int dir; /* ahead/; borrowed */
        unsigned count, last;
        bool is_refused; /* the disk has no room for more: set to false to try again */
};

void writable_ahead_init(struct writable_ahead *a, int dir); /* what another process left is removed */
bool writable_ahead_wants_more(const struct writable_ahead *a);
void writable_ahead_make(struct writable_ahead *a); /* one more */
/* One of them becomes sandboxes/id (WRITABLE_AHEAD).  false: there is none, or it cannot be: mkdir says why. */
bool writable_ahead_take(struct writable_ahead *a, int sandboxes, const char *id);
void writable_ahead_give_up(struct writable_ahead *a); /* remove all: others need the room */
