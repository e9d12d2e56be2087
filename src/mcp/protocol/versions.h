/* versions.h - revisions of the Model Context Protocol that are spoken here. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/str.h"

#define PROTOCOL_STATELESS                                                                                             \
        "2026-07-28"                 /* has no sessions: each request says what it needs, and initialize is not known */
#define PROTOCOL_NEWEST "2025-11-25" /* of those with sessions */
#define PROTOCOL_WITHOUT_HEADER "2025-03-26" /* what a request without the header MCP-Protocol-Version speaks */

/* The revision as a text that lives for ever; NULL: unknown. */
const char *protocol_find(struct str version);
/* The answer to a client that asks for this revision: the same, or the newest. */
const char *protocol_choose(struct str asked);
bool protocol_has_batches(const char *version);
/* A stream of events begins with an id and no message. */
bool protocol_has_first_id(const char *version);
/* What a request of an unknown revision is answered with: an error that names those that are known. */
json_t *protocol_refusal(json_t *id, const char *asked);
json_t *protocol_list(void); /* all of them, the newest first; NULL: no memory */
