/* owner.h - which sandbox a request belongs to that names none.
 *
 * With one address for all sandboxes (E2B_SANDBOX_URL) some requests have neither a host nor a header that names the
 * sandbox: signed file URLs (signed_url.h), and calls that carry nothing but an access token (token.h).  Control is asked.
 * The answer only says where the request goes; whether the request is allowed is envd's decision.  Questions that no
 * sandbox matches are counted, since control looks at each sandbox to answer them. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "edge/limits/budget.h"
#include "edge/limits/limits.h"
#include "edge/route/visit.h"

struct route_table;

struct owner_lookup { /* by signature, or by token */
        const struct owner_limits *limits;
        struct list waiting; /* struct visit */
        size_t count;
        struct budget unowned; /* questions that no sandbox matched */
};
void owner_init(struct owner_lookup *lookup, const struct owner_limits *limits);

/* `question` (stolen; NULL: out of memory) gets its number here.  WAIT: the visit goes on with the answer, which is `id`
 * and id_is_news or WAIT_NOT_FOUND; or leaves by visit_leave().  CROWDED: too many questions before matched no sandbox.
 * FULL: not now. */
enum routes_result owner_ask(struct visit *v, struct owner_lookup *lookup, json_t *question);
void owner_forget(struct visit *v); /* for visit_leave() */
/* For routes.c: control answered a question that may be an owner question; control is connected again. */
void owner_answered(struct route_table *t, uint64_t req, const json_t *msg);
void owner_ask_again(struct route_table *t);
