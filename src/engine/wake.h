/* wake.h - a sandbox from a checkpoint: by a thaw where its processes are still there, else restored by a worker. */
#pragma once
#include "engine/guest.h"

/* WARM: is it what the plan asks for? */
bool wake_can_thaw(const struct guest *s, const struct plan_create *plan);
/* WAKING, rousing: it is on disk that it does; or why not. */
void wake_roused(struct guest *s, int result);
/* Begin with a plan (taken) that names a checkpoint, on a new guest or one at rest.  Failure is answered. */
void wake_begin(struct guest *s, struct plan_create *plan, struct ask *a);
