/* rest.h - how a running sandbox comes to rest, and what can be done to one at rest. */
#pragma once
#include "engine/guest.h"

/* RUNNING -> PAUSING; answered when it is at rest, or runs on as if nothing had been. */
void rest_pause(struct guest *s, const char *checkpoint /* "": files only */, bool is_durable, struct ask *a);
/* What a worker has to know to write its memory down; new reference, NULL out of memory. */
json_t *rest_job(const struct guest *s, const char *op, const char *checkpoint);
/* RESTING: its upper directory becomes a layer. */
void rest_seal(struct guest *s, const char *layer, struct ask *a);
/* What a pause without is_durable left to be flushed; either may be NULL. */
void rest_flush(struct engine *e, const char *checkpoint, const char *layer, struct ask *a);
/* To the trash; they need not be there. */
void rest_drop(struct engine *e, int dir, const char *name);
