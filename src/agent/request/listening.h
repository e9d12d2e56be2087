/* listening.h - which TCP ports listen, out of /proc/net/tcp and /proc/net/tcp6.  Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define LISTENING_MAX 1024

struct listening_port {
        uint16_t port;
        bool is_local; /* only on loopback addresses; reached through the edge all the same */
};

/* Both files, one after the other, in any order.  Sorted by port, each once; what is more than LISTENING_MAX is left out.  Lines
 * that are none of theirs are ignored.  Returns how many. */
size_t listening_parse(struct str text, struct listening_port ret[LISTENING_MAX]);
