/* tunnel.h - an HTTP/1.1 connection after 101 Switching Protocols: bytes both ways, each way ending on its own. */
#pragma once
#include <stdint.h>

struct edge_client;

void tunnel_step(struct edge_client *c);
void tunnel_on_client(struct edge_client *c, uint32_t events);
void tunnel_on_upstream(struct edge_client *c, uint32_t events);
