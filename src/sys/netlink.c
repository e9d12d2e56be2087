#include "sys/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"

#define MESSAGE_MAX 1024u

struct message {
        union {
                struct nlmsghdr head;
                uint8_t bytes[MESSAGE_MAX];
        };
        int broken; /* something did not fit */
};

static void message_start(struct message *m, uint16_t type, uint16_t flags, const void *body, size_t len)
{
        memset(m, 0, sizeof(*m));
        m->head.nlmsg_type = type;
        m->head.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
        m->head.nlmsg_len = (uint32_t)NLMSG_LENGTH(len);
        memcpy(NLMSG_DATA(&m->head), body, len);
}

static struct rtattr *put(struct message *m, unsigned short type, const void *p, size_t n)
{
        size_t at = NLMSG_ALIGN(m->head.nlmsg_len);
        struct rtattr *a = (struct rtattr *)(void *)(m->bytes + at);

        if (at + RTA_SPACE(n) > MESSAGE_MAX) {
                m->broken = 1;
                return (struct rtattr *)(void *)m->bytes;
        }
        a->rta_type = type;
        a->rta_len = (unsigned short)RTA_LENGTH(n);
        if (n > 0)
                memcpy(RTA_DATA(a), p, n);
        m->head.nlmsg_len = (uint32_t)(at + RTA_SPACE(n));
        return a;
}

static struct rtattr *nest(struct message *m, unsigned short type)
{
        return put(m, type, NULL, 0);
}

static void unnest(struct message *m, struct rtattr *a)
{
        if (!m->broken)
                a->rta_len = (unsigned short)(m->bytes + m->head.nlmsg_len - (uint8_t *)a);
}

static void put_u32(struct message *m, unsigned short type, uint32_t v)
{
        (void)put(m, type, &v, sizeof(v));
}

static void put_addr(struct message *m, unsigned short type, uint32_t host_order)
{
        put_u32(m, type, htonl(host_order));
}

static void put_text(struct message *m, unsigned short type, const char *s)
{
        (void)put(m, type, s, strlen(s) + 1);
}

/* Send and wait for the answer: the acknowledgement, or the first message of another type (copied to *ret_body). */
static int transact(int nl, struct message *m, void *ret_body, size_t body_len)
{
        union {
                struct nlmsghdr head;
                uint8_t bytes[8192];
        } in;
        const struct nlmsgerr *e;
        ssize_t n;

        if (m->broken)
                return -E2BIG;
        if (send(nl, m->bytes, m->head.nlmsg_len, 0) < 0)
                return -errno;
        do
                n = recv(nl, in.bytes, sizeof(in.bytes), 0);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        if ((size_t)n < sizeof(struct nlmsghdr) || in.head.nlmsg_len > (size_t)n)
                return -EBADMSG;
        if (in.head.nlmsg_type == NLMSG_ERROR) {
                if (in.head.nlmsg_len < NLMSG_LENGTH(sizeof(*e)))
                        return -EBADMSG;
                e = NLMSG_DATA(&in.head);
                return e->error;
        }
        if (!ret_body || in.head.nlmsg_len < NLMSG_LENGTH(body_len))
                return -EBADMSG;
        memcpy(ret_body, NLMSG_DATA(&in.head), body_len);
        return 0;
}

static int open_family(int family)
{
        struct sockaddr_nl self = {.nl_family = AF_NETLINK};
        AUTO_CLOSE int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, family);

        if (fd < 0)
                return -errno;
        if (bind(fd, (struct sockaddr *)(void *)&self, sizeof(self)) < 0 ||
            connect(fd, (struct sockaddr *)(void *)&self, sizeof(self)) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int netlink_open(void)
{
        return open_family(NETLINK_ROUTE);
}

int netlink_open_netfilter(void)
{
        return open_family(NETLINK_NETFILTER);
}

int netlink_link_index(int nl, const char *name)
{
        struct ifinfomsg info = {.ifi_family = AF_UNSPEC}, answer;
        struct message m;
        int r;

        message_start(&m, RTM_GETLINK, 0, &info, sizeof(info));
        m.head.nlmsg_flags = NLM_F_REQUEST; /* the answer is the acknowledgement */
        put_u32(&m, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
        put_text(&m, IFLA_IFNAME, name);
        r = transact(nl, &m, &answer, sizeof(answer));
        return r < 0 ? r : answer.ifi_index;
}

int netlink_link_up(int nl, int index)
{
        struct ifinfomsg info = {
                .ifi_family = AF_UNSPEC, .ifi_index = index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
        struct message m;

        message_start(&m, RTM_NEWLINK, 0, &info, sizeof(info));
        return transact(nl, &m, NULL, 0);
}

int netlink_link_delete(int nl, const char *name)
{
        struct ifinfomsg info = {.ifi_family = AF_UNSPEC};
        struct message m;

        message_start(&m, RTM_DELLINK, 0, &info, sizeof(info));
        put_text(&m, IFLA_IFNAME, name);
        return transact(nl, &m, NULL, 0);
}

int netlink_link_no_ip6_address(int nl, int index)
{
        struct ifinfomsg info = {.ifi_family = AF_UNSPEC, .ifi_index = index};
        uint8_t none = IN6_ADDR_GEN_MODE_NONE;
        struct rtattr *spec, *inet6;
        struct message m;

        message_start(&m, RTM_NEWLINK, 0, &info, sizeof(info));
        spec = nest(&m, IFLA_AF_SPEC);
        inet6 = nest(&m, AF_INET6);
        (void)put(&m, IFLA_INET6_ADDR_GEN_MODE, &none, sizeof(none));
        unnest(&m, inet6);
        unnest(&m, spec);
        return transact(nl, &m, NULL, 0);
}

int netlink_veth_create(int nl, const struct netlink_veth *v)
{
        struct ifinfomsg info = {.ifi_family = AF_UNSPEC};
        struct rtattr *link, *data, *peer;
        struct message m;

        message_start(&m, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &info, sizeof(info));
        put_text(&m, IFLA_IFNAME, v->name);
        (void)put(&m, IFLA_ADDRESS, v->mac, 6);
        if (v->mtu)
                put_u32(&m, IFLA_MTU, v->mtu);
        link = nest(&m, IFLA_LINKINFO);
        put_text(&m, IFLA_INFO_KIND, "veth");
        data = nest(&m, IFLA_INFO_DATA);
        peer = put(&m, VETH_INFO_PEER, &info, sizeof(info));
        put_text(&m, IFLA_IFNAME, v->peer);
        (void)put(&m, IFLA_ADDRESS, v->peer_mac, 6);
        put_u32(&m, IFLA_NET_NS_FD, (uint32_t)v->peer_netns);
        if (v->mtu)
                put_u32(&m, IFLA_MTU, v->mtu);
        unnest(&m, peer);
        unnest(&m, data);
        unnest(&m, link);
        return transact(nl, &m, NULL, 0);
}

int netlink_address_add(int nl, int index, uint32_t addr, uint8_t prefix)
{
        struct ifaddrmsg a = {.ifa_family = AF_INET,
                              .ifa_prefixlen = prefix,
                              .ifa_scope = RT_SCOPE_UNIVERSE,
                              .ifa_index = (uint32_t)index};
        struct message m;

        message_start(&m, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &a, sizeof(a));
        put_addr(&m, IFA_LOCAL, addr);
        put_addr(&m, IFA_ADDRESS, addr);
        return transact(nl, &m, NULL, 0);
}

int netlink_route_add(int nl, const struct netlink_route *route)
{
        struct rtmsg rt = {
                .rtm_family = AF_INET,
                .rtm_dst_len = route->prefix,
                .rtm_table = RT_TABLE_MAIN,
                .rtm_protocol = RTPROT_STATIC,
                .rtm_scope = route->gateway ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK,
                .rtm_type = RTN_UNICAST,
                .rtm_flags = route->gateway ? RTNH_F_ONLINK : 0,
        };
        struct message m;

        message_start(&m, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &rt, sizeof(rt));
        if (route->prefix > 0)
                put_addr(&m, RTA_DST, route->dst);
        if (route->gateway)
                put_addr(&m, RTA_GATEWAY, route->gateway);
        put_u32(&m, RTA_OIF, (uint32_t)route->index);
        return transact(nl, &m, NULL, 0);
}

int netlink_neighbour_add(int nl, int index, uint32_t addr, const uint8_t mac[6])
{
        struct ndmsg nd = {.ndm_family = AF_INET, .ndm_ifindex = index, .ndm_state = NUD_PERMANENT};
        struct message m;

        message_start(&m, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &nd, sizeof(nd));
        put_addr(&m, NDA_DST, addr);
        (void)put(&m, NDA_LLADDR, mac, 6);
        return transact(nl, &m, NULL, 0);
}

#define BY_SOURCE 1u /* the kernel's CTA_FILTER_F_CTA_IP_SRC */

int netlink_flows_forget(int nl, uint32_t addr)
{
        struct nfgenmsg gen = {.nfgen_family = AF_INET, .version = NFNETLINK_V0};
        struct rtattr *tuple, *ip, *filter;
        struct message m;

        message_start(&m, NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE, 0, &gen, sizeof(gen));
        tuple = nest(&m, CTA_TUPLE_ORIG | NLA_F_NESTED);
        ip = nest(&m, CTA_TUPLE_IP | NLA_F_NESTED);
        put_addr(&m, CTA_IP_V4_SRC, addr);
        unnest(&m, ip);
        unnest(&m, tuple);
        filter = nest(&m, CTA_FILTER | NLA_F_NESTED);
        put_u32(&m, CTA_FILTER_ORIG_FLAGS, BY_SOURCE);
        unnest(&m, filter);
        return transact(nl, &m, NULL, 0);
}

int netlink_open_table_events(void)
{
        struct sockaddr_nl self = {.nl_family = AF_NETLINK, .nl_groups = 1u << (NFNLGRP_NFTABLES - 1)};
        AUTO_CLOSE int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER);

        if (fd < 0 || bind(fd, (struct sockaddr *)(void *)&self, sizeof(self)) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int netlink_table_exists(const char *name)
{
        struct nfgenmsg gen = {.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0};
        AUTO_CLOSE int nl = netlink_open_netfilter(); /* each time: an answer of two messages leaves one behind */
        struct message m;
        int r;

        if (nl < 0)
                return nl;
        message_start(&m, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETTABLE, 0, &gen, sizeof(gen));
        put_text(&m, NFTA_TABLE_NAME, name);
        r = transact(nl, &m, &gen, sizeof(gen));
        return r == -ENOENT ? 0 : r < 0 ? r : 1;
}
