/* pause.h - how a running sandbox is paused, and what can be done to a paused one. */
#pragma once
#include "engine/guest/guest.h"
#include "engine/jobs/job.h"

/* RUNNING -> PAUSING; answered when it is paused, or runs on as if nothing had been. */
void pause_begin(struct guest *s, const char *checkpoint /* "": files only */, bool is_durable,
                 const json_t *origin /* borrowed; NULL: as it is noted already (origin.h) */, struct ask *a);
/* PAUSED: its upper directory becomes a layer. */
/* below: the name of a directory of its files; NULL: all of them. */
void pause_seal(struct guest *s, const char *layer, const char *below, const json_t *origin, struct ask *a);
/* What was put there without waiting for the disk stays, also after the machine went down: flush it, and say so. */
void pause_make_durable(struct guest *s, struct ask *a);
/* What a pause without is_durable left to be flushed; either may be NULL. */
void saved_items_flush(struct engine *e, const char *checkpoint, const char *layer, struct ask *a);
