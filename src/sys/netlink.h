/* netlink.h - links, addresses, routes and neighbours by rtnetlink, one acknowledged request at a time.
 *
 * A netlink socket belongs to the network namespace it was opened in, whatever namespace the caller is in later.
 * Addresses are IPv4 in host byte order.  Negative errno on failure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

int netlink_open(void);
int netlink_link_index(int nl, const char *name); /* > 0 */
int netlink_link_up(int nl, int index);
int netlink_link_delete(int nl, const char *name);
int netlink_link_no_ip6_address(int nl, int index); /* no link-local address when it comes up */

struct netlink_veth {
        const char *name;   /* in the socket's namespace */
        const char *peer;   /* in peer_netns */
        int peer_netns;     /* fd */
        const uint8_t *mac; /* 6 bytes each */
        const uint8_t *peer_mac;
        uint32_t mtu; /* 0: the usual */
};
int netlink_veth_create(int nl, const struct netlink_veth *v);

int netlink_address_add(int nl, int index, uint32_t addr, uint8_t prefix);
struct netlink_route {
        uint32_t dst;
        uint8_t prefix;
        uint32_t gateway; /* 0: directly on the link; else reached on that link without further question */
        int index;
};
int netlink_route_add(int nl, const struct netlink_route *route);
int netlink_neighbour_add(int nl, int index, uint32_t addr, const uint8_t mac[6]); /* permanent */

int netlink_open_netfilter(void);
/* Connections that began at addr, out of the namespace's table of connections.  nl: from netlink_open_netfilter(). */
int netlink_flows_forget(int nl, uint32_t addr);
int netlink_open_table_events(void); /* readable when somebody changes nftables; what can be read does not matter */
int netlink_table_exists(const char *name); /* of family inet: 0 or 1 */
