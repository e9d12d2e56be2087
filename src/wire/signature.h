/* signature.h - the signature of a file URL: "v1_" and, in base64, SHA-256 of path:operation:user:token[:expiration].
 *
 * In two steps, so that many tokens can be tried. */
#pragma once
#include "wire/sha256.h"

#define SIGNATURE_MAX 64

/* path and user as in the query, decoded; NULL: absent. */
void signature_begin(struct sha256 *s, const char *path, const char *operation, const char *user);
/* expiration as in the query; NULL: absent. */
void signature_end(const struct sha256 *begun, const char *token, const char *expiration, char out[SIGNATURE_MAX]);
