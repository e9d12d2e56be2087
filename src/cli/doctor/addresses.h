/* addresses.h - the addresses of a name, as a set: a name server tells them in another order each time. */
#pragma once
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#define ADDRESSES_MAX 64u

struct addresses {                                  /* zeroed: none */
        char text[ADDRESSES_MAX][INET6_ADDRSTRLEN]; /* in order, each once */
        size_t count;
};

void addresses_add(struct addresses *a, const char *text); /* one too many, or too long for an address: left out */
bool addresses_equal(const struct addresses *a, const struct addresses *b);
/* "a, b", as many as fit. */
void addresses_format(const struct addresses *a, char *out, size_t max);
