/* hand_over.h - a create that is done by handing over a standby (standby.h): the guest gets the name of the sandbox, its rules are
 * set, and a job process does the rest (jobs/job_hand_over.c).
 *
 * Whatever fails on the way: that guest is ended with all it has, and then the create is done again without a standby. */
#pragma once
#include "engine/guest/deferred.h"
#include "engine/guest/guest.h"

/* True: it has begun, plan is used up, and a will be answered.  False: there is no standby for it, and nothing has changed.
 * msg: the request; again: does it without a standby. */
bool hand_over_begin(struct engine *e, struct plan_create *plan, const json_t *msg, struct ask *a, request_op *again);
