/* warm.h - sandboxes at rest whose processes are still in memory, frozen: waking one is a thaw.
 *
 * Their images are on disk as well, so nothing is lost with them: they go, least recently used first, when there are more
 * than the budget (conf warm_mb) allows, when the machine runs short of memory, and with the engine. */
#pragma once
#include "engine/guest.h"

bool warm_has_room(const struct guest *s); /* would it fit, with all others gone? */
void warm_add(struct guest *s);            /* PAUSING -> WARM; others may have to go */
unsigned warm_count(const struct engine *e);
uint64_t warm_bytes(const struct engine *e);
