#include "engine/net/slot_network.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "engine/host/instance.h"
#include "sys/fs.h"
#include "sys/mnt.h"
#include "sys/netlink.h"
#include "sys/proc.h"

#define INSIDE "eth0"

/* Locally administered; the last bytes tell the side. */
static void make_mac(uint8_t mac[6], const struct instance *in, unsigned slot, uint8_t side)
{
        const uint8_t bytes[6] = {0x02, 0x5a, (uint8_t)in->number, (uint8_t)(slot >> 8), (uint8_t)slot, side};

        memcpy(mac, bytes, 6);
}

int slot_network_set_up(int fresh_proc, struct err *err)
{
        static const struct {
                const char *path, *value;
        } settings[] = {
                {"sys/net/ipv4/ip_unprivileged_port_start", "0"},  /* anyone inside may listen on port 80 */
                {"sys/net/ipv4/ping_group_range", "0 2147483647"}, /* group numbers are those of the host */
        };

        for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
                int r = sys_write_at(fresh_proc, settings[i].path, settings[i].value);

                if (r < 0)
                        return err_sys(err, r, "set %s", settings[i].path);
        }
        return 0;
}

static int set_up_inside(int nl, uint32_t addr, const uint8_t host_mac[6])
{
        struct netlink_route out = {.gateway = INSTANCE_GATEWAY};
        int index = netlink_link_index(nl, INSIDE), r;

        if (index < 0)
                return index;
        out.index = index;
        (void)netlink_link_no_ip6_address(nl, index); /* a host without IPv6 refuses, and needs it not */
        if ((r = netlink_link_up(nl, index)) < 0 || (r = netlink_address_add(nl, index, addr, 32)) < 0 ||
            (r = netlink_neighbour_add(nl, index, INSTANCE_GATEWAY, host_mac)) < 0)
                return r;
        return netlink_route_add(nl, &out);
}

static int set_up_outside(int nl, const char *name, uint32_t addr, const uint8_t mac[6])
{
        struct netlink_route in = {.dst = addr, .prefix = 32};
        int index = netlink_link_index(nl, name), r;

        if (index < 0)
                return index;
        in.index = index;
        (void)netlink_link_no_ip6_address(nl, index);
        if ((r = netlink_link_up(nl, index)) < 0 || (r = netlink_neighbour_add(nl, index, addr, mac)) < 0)
                return r;
        return netlink_route_add(nl, &in);
}

static int make_link(const struct instance *in, unsigned slot, int host_nl, int nl, int netns, struct err *err)
{
        uint32_t addr = instance_address(in, slot);
        uint8_t host_mac[6], mac[6];
        char name[INSTANCE_LINK_MAX];
        struct netlink_veth v = {.name = name, .peer = INSIDE, .peer_netns = netns, .mac = host_mac, .peer_mac = mac};
        int r;

        instance_link_name(in, slot, name);
        make_mac(host_mac, in, slot, 0);
        make_mac(mac, in, slot, 1);
        r = netlink_veth_create(host_nl, &v);
        if (r == -EEXIST) { /* of a namespace the kernel is still taking down */
                (void)netlink_link_delete(host_nl, name);
                r = netlink_veth_create(host_nl, &v);
        }
        if (r < 0)
                return err_sys(err, r, "make link %s", name);
        r = set_up_inside(nl, addr, host_mac);
        if (r == 0)
                r = set_up_outside(host_nl, name, addr, mac);
        if (r < 0) {
                (void)netlink_link_delete(host_nl, name);
                return err_sys(err, r, "set up link %s", name);
        }
        return 0;
}

static int set_up_loopback(int nl, uint32_t old_address, struct err *err)
{
        int lo = netlink_link_index(nl, "lo"), r = lo < 0 ? lo : netlink_link_up(nl, lo);

        if (r == 0 && old_address)
                r = netlink_address_add(nl, lo, old_address, 32);
        return r < 0 ? err_sys(err, r, "bring loopback up") : 0;
}

static int make_proc(struct err *err)
{
        AUTO_CLOSE int fs = sys_fsopen("proc");
        int r = fs < 0 ? fs : sys_fs_create(fs);

        if (r == 0)
                r = sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
        return r < 0 ? err_sys(err, r, "mount proc") : r;
}

int slot_network_furnish(const struct instance *in, unsigned slot, bool has_link, int host_netlink, int netns,
                         uint32_t old_address, struct err *err)
{
        AUTO_CLOSE int nl = -1, proc = -1;
        int r;

        if (setns(netns, CLONE_NEWNET) < 0)
                return err_sys(err, -errno, "enter network namespace");
        nl = netlink_open();
        if (nl < 0)
                return err_sys(err, nl, "open netlink");
        if (has_link && old_address == instance_address(in, slot))
                old_address = 0;
        r = set_up_loopback(nl, old_address, err);
        if (r == 0 && has_link)
                r = make_link(in, slot, host_netlink, nl, netns, err);
        if (r < 0)
                return r;
        proc = make_proc(err);
        return proc < 0 ? proc : slot_network_set_up(proc, err);
}

int slot_network_make(const struct instance *in, unsigned slot, bool has_link, int host_netlink, int proc_dir,
                      int *ret_netns, struct err *err)
{
        AUTO_CLOSE int netns = -1, nl = -1;
        int r;

        if (unshare(CLONE_NEWNET) < 0)
                return err_sys(err, -errno, "make network namespace");
        netns = sys_ns_open(proc_dir, 0, "net");
        if (netns < 0)
                return err_sys(err, netns, "open network namespace");
        nl = netlink_open();
        if (nl < 0)
                return err_sys(err, nl, "open netlink");
        r = set_up_loopback(nl, 0, err);
        if (r < 0)
                return r;
        if (has_link) {
                r = make_link(in, slot, host_netlink, nl, netns, err);
                if (r < 0)
                        return r;
        }
        *ret_netns = TAKE_FD(netns);
        return 0;
}
