/* dial.h - sockets connected inside a sandbox, from the engine. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct client;
struct edge;

int dial_start(struct edge *e); /* 0, -ENOMEM */
void dial_done(struct edge *e);
/* Ask for a socket to client c's sandbox and port; the answer comes as client_dialled().  false: too many wait, or out of memory. */
bool dial_ask(struct edge *e, struct client *c);
void dial_forget(struct client *c); /* the answer is not wanted any more */
