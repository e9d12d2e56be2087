/* rest.h - how a running sandbox comes to rest, and what can be done to one at rest. */
#pragma once
#include "engine/guest.h"

/* RUNNING -> PAUSING; answered when it is at rest, or runs on as if nothing had been. */
void rest_pause(struct guest *s, const char *checkpoint /* "": files only */, bool is_durable,
                const json_t *origin /* borrowed; NULL: as it is noted already (origin.h) */, struct ask *a);
/* What a worker has to know to write its memory down; new reference, NULL out of memory. */
json_t *rest_job(const struct guest *s, const char *op, const char *checkpoint, const json_t *origin);
/* RESTING: its upper directory becomes a layer. */
/* What was put there without waiting for the disk stays, also after the machine went down: flush it, and say so. */
void rest_keep(struct guest *s, struct ask *a);
void rest_seal(struct guest *s, const char *layer, const json_t *origin, struct ask *a);
/* What a pause without is_durable left to be flushed; either may be NULL. */
void rest_flush(struct engine *e, const char *checkpoint, const char *layer, struct ask *a);
/* To the trash; it need not be there.  Negative: it is still there, and that is logged. */
int rest_drop(struct engine *e, int dir, const char *name);
