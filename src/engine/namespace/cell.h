/* cell.h - everything about a sandbox that does not depend on its template, made ahead.
 *
 * A cell is a process in namespaces of its own, in its slot's cgroups and network, that runs `envd --cell` in an empty
 * root and waits for one message (model/envd_init.h).  /proc, /sys and /dev of the sandbox hang in that root already.
 * Making one runs in the cell maker and blocks. */
#pragma once
#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/host/cgroups.h"
#include "engine/host/devices.h"
#include "engine/host/instance.h"
#include "engine/host/mount_ways.h"

struct err;

enum cell_fd {
        CELL_PIDFD,
        CELL_SOCK,   /* the other end of the cell's fd 3 */
        CELL_USERNS, /* for idmapped mounts */
        CELL_NETNS,
        CELL_FDS,
};

enum cell_mount { /* in the order in which the cell hangs them up */
                  CELL_PROC,
                  CELL_SYS,
                  CELL_DEV,
                  CELL_PTS,
                  CELL_SHM,
                  CELL_MQUEUE,
                  CELL_MOUNTS,
};

struct cell {
        unsigned slot;
        uint32_t uid_base;
        pid_t pid;
        uint64_t start_time;    /* with pid: this process and no later one */
        int fd[CELL_FDS];       /* owned; -1: none */
        int mount[CELL_MOUNTS]; /* owned, detached; -1: none.  In the cell maker, until the cell has them */
};

void cell_init(struct cell *c);
void cell_close(struct cell *c); /* closes what is open; a waiting cell then ends by itself */

struct cell_tools { /* the cell maker's tools */
        const struct instance *instance;
        const struct cgroups *cgroups;
        struct plan_limits limits; /* what a cell starts with */
        struct sock_fprog filter;
        bool has_link;
        int proc_dir; /* host's /proc */
        int host_netns, host_ipcns;
        int host_netlink; /* -1 without links */
        struct mount_ways ways;
        struct devices devices;
        int sys; /* sysfs of an empty network namespace, read-only; attached */
};

/* The three steps, in this order; after a failure cell_undo() takes back what was done.  When several cells are made at a
 * time, the second step of all goes together: the first process to join a v1 cgroup pays for a grace period (8 ms), those
 * right behind it do not.
 *
 * begin: a process in its namespaces, which waits.  netns: the slot's, from its last sandbox; -1: make one.  It is used up
 * in any case. */
int cell_begin(const struct cell_tools *m, unsigned slot, uint32_t uid_base, int netns, struct cell *ret,
               struct err *err);
int cell_join(const struct cell_tools *m, struct cell *c, struct err *err);
/* Its mounts; and off it goes: it hangs them up, and ENVD_CELL_WAITING will come on its socket. */
int cell_finish(const struct cell_tools *m, struct cell *c, struct err *err);
void cell_undo(const struct cell_tools *m, struct cell *c);
