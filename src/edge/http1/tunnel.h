/* tunnel.h - an HTTP/1.1 connection after 101 Switching Protocols: bytes both ways, each way ending on its own.
 *
 *   OPEN ──→ DOWN_ONLY (the client's end was passed on)  ──→ ENDED
 *        └─→ UP_ONLY (the upstream's end was passed on) ──┘ */
#pragma once
#include <stdint.h>

struct edge_client;

enum tunnel_state { TUNNEL_OPEN, TUNNEL_DOWN_ONLY, TUNNEL_UP_ONLY, TUNNEL_ENDED };

void tunnel_step(struct edge_client *c);
void tunnel_on_client(struct edge_client *c, uint32_t events);
void tunnel_on_upstream(struct edge_client *c, uint32_t events);
