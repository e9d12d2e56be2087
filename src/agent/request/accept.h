/* accept.h - does the client want JSON (Accept)?  Pure. */
#pragma once
#include <stdbool.h>

#include "base/str.h"

/* Yes if it says nothing, or names application/json or a range that has it, with a weight above 0. */
bool accept_is_json(struct str accept);
