/* errand.h - a job of the vault that changes no sandbox: whoever asked gets what its worker says. */
#pragma once
#include <jansson.h>

#include "engine/guest.h"

/* `what` and `base` are used up, also on failure.  The worker's answer joins what is in base (NULL: nothing).  A long one may
 * take as long as a disk likes and has its turn; others wait only for each other. */
void errand_run(struct engine *e, json_t *what, json_t *base, bool is_long, struct ask *a);
