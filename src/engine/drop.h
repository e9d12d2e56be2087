/* drop.h - the request `drop`: checkpoints and layers that nobody needs, sandboxes that ended by themselves and are in nobody's
 * store any more.  Answered when all of them were tried, with those that are `left`. */
#pragma once
#include "engine/guest/deferred.h"

request_op drop_op;
