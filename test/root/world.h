/* world.h - a "world" in a network namespace of the test's own stands for the internet: servers that sandboxes may reach, and
 * one that they may not. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Eight addresses set aside for documentation, by our pid, since another run may be under way beside us. */
extern uint32_t world_net;                    /* .. /29 */
#define WORLD_HERE (world_net + 1)            /* our end */
#define WORLD_THERE (world_net + 2)           /* the world's: a public server on port 80 */
#define WORLD_ANOTHER (world_net + 3)         /* another one */
extern uint32_t world_private_net;            /* 10.x.y.0/24 */
#define WORLD_PRIVATE (world_private_net + 2) /* a server of the operator's */

bool world_make(void); /* linked to the network namespace of the caller */
void world_end(void);
int world_listen(uint16_t port); /* TCP, on all addresses of the caller's namespace; -1: failed */

/* Valid for the next three calls. */
const char *world_text(uint32_t addr);
const char *world_net_text(uint32_t addr, unsigned prefix);
