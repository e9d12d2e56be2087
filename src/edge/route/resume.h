/* resume.h - requests for a sandbox at rest: control is asked once to wake it, and all of them wait for the answer.
 *
 * Whether a request may wake it is judged by what the request carries: those with the same credential share an answer
 * that says no, the next of the others asks again. */
#pragma once
#include <jansson.h>

#include "base/str.h"
#include "edge/route/routes.h"

/* c wants to get at s, which is known, at rest, and may be woken.  `token` is what its request carries for envd (empty:
 * nothing).  ROUTES_WAIT: c is resumed (edge_client_go_on) once control has answered, or s runs by other means; c leaves by
 * routes_forget().  ROUTES_CROWDED: too many wait for it.  ROUTES_FULL: too many wait for sandboxes altogether. */
enum routes_result resume_ask(struct edge *e, struct routed_sandbox *s, struct edge_client *c, struct str token);
/* Control's answer to it. */
void resume_answered(struct edge *e, struct routed_sandbox *s, const json_t *msg);
