/* owner.h - whose a request is that names no sandbox.
 *
 * With one address for all sandboxes (E2B_SANDBOX_URL) some requests have neither host nor header to tell: file URLs that
 * were signed (signed.h), and calls that carry nothing but an access token (token.h).  Control is asked.  The answer only
 * says where the request goes: whether it may is the daemon's to judge.  What was nobody's is counted, since control looks
 * at each sandbox to find that out. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "edge/limits/limits.h"
#include "edge/route/routes.h"

struct edge_client;
struct edge;

struct owner_lookup { /* by signature, or by token */
        const struct owner_limits *limits;
        struct list waiting; /* of clients */
        size_t count;
        struct budget unowned; /* that were asked for */
};
void owner_init(struct owner_lookup *way, const struct owner_limits *limits);

/* `question` (stolen; NULL: out of memory) gets its number here.  WAIT: c is resumed with the answer, its id (x.id_is_news) or
 * WAIT_NOT_FOUND; c leaves by owner_forget().  CROWDED: too many of those before were nobody's.  FULL: not now. */
enum routes_result owner_ask(struct edge_client *c, struct owner_lookup *way, json_t *question);
void owner_forget(struct edge_client *c);
/* For routes.c: an answer that may be one of ours; a new connection to control. */
void owner_answered(struct edge *e, uint64_t req, const json_t *msg);
void owner_ask_again(struct edge *e);
