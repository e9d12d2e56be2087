/* proxy_exchange.h - a request that was sent on its way (request.h) and its answer: both bodies at once, until both end. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct edge_client;

void proxy_exchange_step(struct edge_client *c); /* move bytes both ways as far as they go now */
void proxy_exchange_on_upstream(struct edge_client *c,
                                uint32_t events); /* its upstream can be read or written, or failed */
/* Its connection is of a sandbox that stopped.  true: it is as before it was sent (CLIENT_HEAD); false: upstream may have
 * acted on it. */
bool proxy_exchange_repeats(struct edge_client *c);
/* The exchange is over in whatever way: lets go of the upstream connection and of the sandbox; logs. */
void proxy_exchange_done(struct edge_client *c);
