/* lookup.h - addresses of a host name, within a time limit.
 *
 * getaddrinfo() can neither be bounded nor cancelled: it runs in a thread of its own, which is left alone when the time is up
 * and then cleans up behind itself.  Addresses and names of this machine are found without a thread. */
#pragma once
#include <netdb.h>

#include "client/limit.h"

/* *ret: freeaddrinfo().  SG_UNAVAILABLE: no such host. */
int lookup(const char *name, uint16_t port, struct limit *l, struct addrinfo **ret, struct sg_error *err);
