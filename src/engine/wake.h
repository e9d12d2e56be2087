/* wake.h - a sandbox from a checkpoint: by a thaw where its processes are still there, else restored by a worker. */
#pragma once
#include "engine/guest.h"
#include "engine/marker.h"

/* WARM: is it what the plan asks for? */
bool wake_can_thaw(const struct guest *s, const struct plan_create *plan);
/* WAKING, rousing: have the marker write down what is to be.  Again, when there is a new marker.  Negative: it cannot. */
int wake_mark(struct guest *s);
void wake_marked(struct guest *s, const struct marker_order *o); /* the marker's answer */
/* Begin with a plan (taken) that names a checkpoint, on a new guest or one at rest.  Failure is answered. */
void wake_begin(struct guest *s, struct plan_create *plan, struct ask *a);
