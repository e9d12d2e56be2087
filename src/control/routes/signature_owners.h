/* signature_owners.h - which sandbox a request is meant for whose address names none: by the signature of a file URL, or by
 * the access token.  Both say where a request goes, not that the request is allowed: envd judges that by itself. */
#pragma once
#include "base/str.h"

struct lives;
struct tokens;

/* Both return the sandbox's id, borrowed until the sandbox goes, or NULL: no sandbox has that signature or token.  All tokens
 * are tried, each in the same time.
 *
 * query: of the URL, as sent. */
const char *signature_owner(struct lives *ls, const struct tokens *tokens, const char *query, const char *operation);
const char *token_owner(struct lives *ls, const struct tokens *tokens, struct str token);
