/* envs_fetch.h - GET /envs of envd: the variables of the sandbox.
 *
 * One request over a connection of its own, on the loop.  Answers other than 200, answers that are no object, refused
 * connections and slow answers all count as "not known". */
#pragma once
#include <jansson.h>
#include <netinet/in.h>

#include "base/str.h"
#include "io/loop.h"

struct err;
struct envs_fetch; /* opaque */

/* "http://localhost:49983": a numeric IPv4 address or "localhost", and a port.  ERR_INVALID. */
int envs_parse_url(const char *url, struct sockaddr_in *ret, struct err *err);

/* token: for X-Access-Token; empty: none.  on_done comes from the loop, once, with an object (the callee's reference) or
 * NULL; the fetch is gone then.  Negative errno: nothing was begun. */
int envs_fetch_start(struct loop *loop, const struct sockaddr_in *envd, struct str token,
                     void (*on_done)(json_t *variables, void *arg), void *arg, struct envs_fetch **ret);
struct envs_fetch *envs_fetch_cancel(struct envs_fetch *f); /* on_done does not come any more; NULL is fine */
