/* signed.h - signed file URLs that name no sandbox.
 *
 * With one address for all sandboxes (E2B_SANDBOX_URL) a client writes neither host nor header into them: control is asked
 * whose token such a URL was signed with.  That costs it a hash for each sandbox, so what nobody signed is counted. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "edge/routes.h"

struct client;
struct edge;

/* A request of ours that is such a URL?  *ret_query is a slice of target. */
bool signed_concerns(struct str method, struct str target, struct str *ret_query);
/* WAIT: c is resumed with the answer, its id or WAIT_NOT_FOUND; c leaves by signed_forget().  CROWDED: too many of those
 * before were nobody's.  FULL: not now. */
enum routes_result signed_ask(struct edge *e, struct client *c, struct str method, struct str query);
void signed_forget(struct client *c);
/* For routes.c: an answer that may be one of ours; a new connection to control. */
void signed_answered(struct edge *e, uint64_t req, const json_t *msg);
void signed_ask_again(struct edge *e);
