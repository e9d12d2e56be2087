/* dns_upstreams.h - the name servers that the DNS forwarder asks: the host's, followed as they change. */
#pragma once
#include <jansson.h>
#include <stdint.h>
#include <sys/stat.h>

#include "model/network/resolvers.h"

struct dns_upstreams {
        const char *path;      /* borrowed: resolv.conf */
        const json_t *instead; /* borrowed: addresses to ask instead; NULL: those of the file */
        uint16_t port;
        struct resolvers servers;
        struct stat seen;
        uint64_t look_due_ms;
        size_t preferred; /* the one that answered last */
};

void dns_upstreams_init(struct dns_upstreams *u, const char *path, const json_t *instead, uint16_t port);
/* Look at the file again, if the last time is a while ago. */
void dns_upstreams_follow(struct dns_upstreams *u);
/* A socket that is connected (or, of SOCK_STREAM, connects) to the server of this try; negative errno.  Tries begin with the
 * preferred one and go round. */
int dns_upstreams_connect(const struct dns_upstreams *u, size_t attempt, int type);
void dns_upstreams_prefer(struct dns_upstreams *u, size_t attempt); /* the server of this try has answered */
