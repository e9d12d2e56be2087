/* origins.h - a sandbox's row as an object that the engine keeps beside the sandbox's files, and back: for the case that the
 * store does not know the sandbox any more. */
#pragma once
#include <jansson.h>

#include "control/access/tokens.h"
#include "model/sandbox.h"

struct err;

/* The object has s->env in it.  layers: those below the sandbox's upper directory, or those of the copy.  New reference; NULL:
 * out of memory. */
json_t *origin_encode(const struct tokens *tokens, const struct sandbox *s, const json_t *layers);

struct origin {
        struct sandbox sandbox; /* all but team, state and times; without a checkpoint; owned */
        char token[TOKEN_MAX];  /* of the sandbox's envd; "": envd asks for none */
};
/* Checked field by field like a request: the object comes from a disk.  *ret is the caller's: sandbox_done(&ret->sandbox).
 * ERR_INVALID names the field. */
int origin_decode(const json_t *origin, struct origin *ret, struct err *err);
