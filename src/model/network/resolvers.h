/* resolvers.h - which name servers a host uses, and what sandboxes are told of them.  Pure.
 *
 * A sandbox asks the host's servers itself where it may reach them.  Where one of them is in a closed network (loopback, a
 * private network) or is IPv6, sandboxes ask the forwarder (engine/net/dns_forwarder.h), which asks the host's. */
#pragma once
#include <jansson.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/str.h"

#define RESOLVERS_MAX 3u /* as resolv.conf(5) has */
#define RESOLVERS_WORDS_MAX 1024
#define RESOLVER_LINK_MAX 16

struct resolver {
        sa_family_t family; /* AF_INET, AF_INET6 */
        struct in_addr v4;
        struct in6_addr v6;
        char link[RESOLVER_LINK_MAX]; /* of a link-local IPv6 address; "": none */
};

struct resolvers {
        struct resolver server[RESOLVERS_MAX];
        size_t count;
        char search[RESOLVERS_WORDS_MAX];  /* names to try, with spaces between; "": none */
        char options[RESOLVERS_WORDS_MAX]; /* the same for options */
};

/* The text of /etc/resolv.conf.  What cannot be understood is left out, as the C library does.  Without a server: 127.0.0.1. */
void resolvers_parse(struct str text, struct resolvers *ret);
/* The setting sandbox_dns instead of the servers of the file; NULL changes nothing. */
void resolvers_replace(struct resolvers *r, const json_t *addresses);
bool resolvers_are_open(const struct resolvers *r); /* does a sandbox reach each of them? */
/* resolv.conf of a sandbox: these servers, or the forwarder alone (its address in host byte order; 0: these servers). */
int resolvers_write(const struct resolvers *r, uint32_t forwarder, struct buf *out);
