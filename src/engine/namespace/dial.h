/* dial.h - sockets connected inside a sandbox's network namespace, for the edge. */
#pragma once
#include <stdint.h>

#include "engine/guest/ask.h"

struct guest;

/* Connect to 127.0.0.1:port inside, else to [::1]:port, and answer a with the socket; ERR_UNAVAILABLE: nobody listens. */
void dial(struct guest *s, uint16_t port, struct ask *a);
