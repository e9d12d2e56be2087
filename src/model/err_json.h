/* err_json.h - an error in messages between our processes: the object {"kind":"not_found","message":"no such sandbox"}.
 *
 * The only encoder and the only decoder of such objects.  The errno underneath stays in the process that met it. */
#pragma once
#include <jansson.h>

struct err;

/* New reference; NULL: out of memory.  A message that is not UTF-8 (the name of a file in it, or a cut through a
 * character) is sent with '?' for every byte outside of ASCII. */
json_t *err_encode(const struct err *err);

/* Set *err from the object and return the negative errno that fits its kind: there is always an error afterwards.  A kind
 * that is missing, unknown or "none" becomes ERR_INTERNAL; a message that is missing becomes `unsaid`. */
int err_decode(const json_t *obj, const char *unsaid, struct err *err);
