/* json_values.h - how much memory a text will need once it is read as JSON, before it is.  Pure. */
#pragma once
#include "base/str.h"

/* What sandboxes and clients send is read only below this: a value of three bytes, [], needs more than a hundred. */
#define JSON_VALUES_MAX (256u << 10)

/* At least as many as there are values in the text, whether it is well-formed or not, as far as a reader that stops at the first
 * fault gets. */
size_t json_values_most(struct str text);
