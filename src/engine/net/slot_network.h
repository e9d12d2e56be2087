/* slot_network.h - the network of one slot: a namespace of the host's with a point-to-point link to it.
 *
 * The namespace belongs to the initial user namespace: root inside can use it and change nothing in it, so once its
 * processes are gone it serves the next sandbox.  Runs in the cell maker; blocks (netlink round trips). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct err;
struct instance;

/* Make the namespace and stay in it.  *ret_netns is the caller's.  With has_link it gets "eth0", its address, a default
 * route and permanent neighbours; without, only loopback. */
int slot_network_make(const struct instance *in, unsigned slot, bool has_link, int host_netlink, int proc_dir,
                      int *ret_netns, struct err *err);
/* Enter a namespace that is there already, with nothing but a loopback that is down, and set it up the same way, with
 * settings.  old_address: one it had elsewhere, to which sockets in it may be bound still; 0: none. */
int slot_network_furnish(const struct instance *in, unsigned slot, bool has_link, int host_netlink, int netns,
                         uint32_t old_address, struct err *err);
/* Settings of the namespace we are in.  Through a fresh proc: the kernel keeps one directory entry per namespace for each
 * setting in a proc mount that all use, and walks through all of them for the next. */
int slot_network_set_up(int fresh_proc, struct err *err);
