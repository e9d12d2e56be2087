/* ports.h - which TCP ports listen in this sandbox. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PORTS_MAX 512u

/* Sorted, each once; how many. */
size_t ports_listening(uint16_t ports[PORTS_MAX]);
bool port_listens(uint16_t port);
