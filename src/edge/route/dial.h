/* dial.h - sockets connected inside a sandbox, from the engine. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct edge_client;
struct edge;

int dial_start(struct edge *e); /* 0, -ENOMEM */
void dial_done(struct edge *e);
/* Ask for a socket to client c's sandbox and port; the answer comes as edge_client_dialled().  false: too many wait, or out of memory. */
bool dial_ask(struct edge *e, struct edge_client *c);
void dial_forget(struct edge_client *c); /* the answer is not wanted any more */
