/* cell.h - everything about a sandbox that does not depend on its template, made ahead.
 *
 * A cell is a process in namespaces of its own, in its slot's cgroups and network, that runs `envd --cell` in an empty
 * root and waits for one message (model/envd_init.h); and the mounts that its root will need, detached.
 * cell_make() runs in the nursery and blocks. */
#pragma once
#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/cgroups.h"
#include "engine/instance.h"

struct err;

enum cell_fd {
        CELL_PIDFD,
        CELL_SOCK,   /* the other end of the cell's fd 3 */
        CELL_USERNS, /* for idmapped mounts */
        CELL_NETNS,
        CELL_PROC, /* detached mounts from here on */
        CELL_SYS,
        CELL_DEV, /* with pts, shm and mqueue on it */
        CELL_FDS,
};

struct cell {
        unsigned slot;
        uint32_t uid_base;
        pid_t pid;
        int fd[CELL_FDS]; /* owned; -1: none */
};

void cell_init(struct cell *c);
void cell_close(struct cell *c); /* closes what is open; a waiting cell then ends by itself */

struct cell_maker { /* the nursery's tools */
        const struct instance *instance;
        const struct cgroups *cgroups;
        struct plan_limits limits; /* what a cell starts with */
        struct sock_fprog filter;
        bool has_link;
        int proc_dir; /* host's /proc */
        int host_netns, host_ipcns;
        int host_netlink; /* -1 without links */
        int dev;          /* devfs.h */
        int sys;          /* sysfs of an empty network namespace, read-only */
};

/* netns: the slot's, from its last sandbox; -1: make one.  It is used up in any case. */
int cell_make(const struct cell_maker *m, unsigned slot, uint32_t uid_base, int netns, struct cell *ret,
              struct err *err);
