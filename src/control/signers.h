/* signers.h - which sandbox a request is meant for whose address names none: by the signature of a file URL, or by the
 * access token.  Both say where a request goes, not that it may: the daemon judges by itself. */
#pragma once
#include "base/str.h"

struct control;

/* Both: the id, borrowed until the sandbox goes; NULL: nobody's.  All tokens are tried, each in the same time.
 *
 * query: of the URL, as sent. */
const char *signers_find(struct control *c, const char *query, const char *operation);
const char *signers_find_token(struct control *c, struct str token);
