/* resume.h - requests for a paused sandbox: control is asked once to resume it, and all of them wait for the answer.
 *
 * Whether a request may resume the sandbox depends on the credential in the request: requests with the same credential
 * share a refusal, the next request with another one asks again. */
#pragma once
#include <jansson.h>

#include "base/str.h"
#include "edge/route/routes.h"

/* The visit wants to reach s, which is known, paused, and may be resumed.  `token` is the credential for envd in its request
 * (empty: none).  ROUTES_WAIT: the visit goes on (ops->go_on) once control has answered or s runs for another reason, or
 * leaves by visit_leave().  ROUTES_CROWDED: too many wait for s.  ROUTES_FULL: too many wait for sandboxes altogether. */
enum routes_result resume_ask(struct route_table *t, struct routed_sandbox *s, struct visit *v, struct str token);
/* Control's answer to the question. */
void resume_answered(struct route_table *t, struct routed_sandbox *s, const json_t *msg);
