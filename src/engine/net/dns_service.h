/* dns_service.h - what the two halves of the DNS forwarder share: queries by UDP (dns_service.c) and by TCP
 * (dns_service_tcp.c). */
#pragma once
#include <netinet/in.h>

#include "engine/net/dns_forwarder.h"
#include "engine/net/dns_upstreams.h"
#include "io/listener.h"

struct dns_service {
        struct loop *loop;
        struct io udp, engine;
        struct listener tcp;
        uint32_t first_address;
        struct dns_upstreams upstreams;
        struct list queries, streams; /* under way */
        unsigned query_count, stream_count;
        uint16_t queries_of[SLOTS_MAX]; /* by slot: who asks */
        uint8_t streams_of[SLOTS_MAX];
};

/* Which sandbox an address belongs to; SLOTS_MAX: none of ours. */
unsigned dns_service_slot(const struct dns_service *s, const struct sockaddr_in *from);
void dns_service_on_stream(struct listener *ln, int fd);
