/* saved_items.h - checkpoints/ and sealed/: what is kept of sandboxes beside their own directories. */
#pragma once
#include <jansson.h>

#include "engine/guest/engine.h"

/* At the start: what is incomplete, and what no job process is at, goes to the trash; so do copies of envd nobody needs. */
void saved_items_tidy(struct engine *e);
