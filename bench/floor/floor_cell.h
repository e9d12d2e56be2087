/* floor_cell.h - a sandbox from nothing but system calls: what the kernel itself charges for one.
 *
 * All namespaces, an overlay on idmapped layers, a network namespace taken from a pool, four cgroups (memory, pids and
 * cpu of v1, and v2; one on a machine with v2 only), proc, a shared read-only /dev, /dev/shm, a seccomp filter, a tiny
 * PID 1.  No HTTP, no JSON, no store, no log: the floor under any engine of this kind.
 * Any failure ends the program with a message. */
#pragma once
#include <sys/types.h>

#define FLOOR_HIERARCHIES_MAX 4

struct floor {
        const char *root; /* lower layer, absolute */
        const char *work; /* scratch directory, absolute */
        int agent;        /* executable of PID 1 */
        int proc, host_mnt, tiny_mnt, host_net, dev;
        int cgroups[FLOOR_HIERARCHIES_MAX]; /* our directory in each hierarchy, v2 last */
        size_t cgroup_count;
        int *nets; /* owned: the pool */
        size_t net_count;
        int later[2]; /* helper mounts to be closed when nobody waits */
};

struct floor_cell {
        pid_t pid;
        int pidfd, sock;
        char name[16];
};

void floor_open(struct floor *f, const char *root, const char *work, const char *agent, size_t pool);
void floor_close(struct floor *f);
/* Returns when PID 1 has said that it runs. */
void floor_make(struct floor *f, unsigned number, struct floor_cell *ret);
void floor_ask(const struct floor_cell *c, char what); /* send one byte, wait for it to come back */
void floor_kill(struct floor_cell *c);                 /* until it is reaped */
void floor_remove(struct floor *f, struct floor_cell *c);
