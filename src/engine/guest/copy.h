/* copy.h - a copy of a running sandbox's memory and files, while it stands still for a moment (job_copy.c). */
#pragma once
#include "engine/guest/guest.h"

/* RUNNING -> COPYING -> RUNNING; answered when checkpoint and layer are complete, but perhaps not on disk (saved_items_flush).
 * ERR_TOO_LARGE: its files are too many to be copied meanwhile; nothing has happened.  origin (borrowed, NULL: none) is kept
 * with the checkpoint: origin.h. */
void copy_begin(struct guest *s, const char *checkpoint, const char *layer, const json_t *origin, struct ask *a);
