/* warm.h - paused sandboxes whose processes are still in memory, frozen: a resume is a thaw.
 *
 * Their images are on disk as well, so nothing is lost with them: they go, least recently used first, when there are more
 * than the budget (conf warm_mb) allows, when the machine runs short of memory, and with the engine.  Standbys (standby.h) go
 * before them. */
#pragma once
#include "engine/guest/guest.h"

void warm_start(struct engine *e); /* begin to watch the machine's memory */
void warm_stop(struct engine *e);  /* what is warm ends; it is paused on disk */
/* PAUSING -> WARM, and others may have to go; false: there is no room for it. */
bool warm_add(struct guest *s);
bool warm_is_machine_full(const struct engine *e); /* so little memory is left that nothing more is kept */
void warm_forget(struct guest *s);                 /* fine when it is not warm */
