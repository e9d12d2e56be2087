/* cgroups.h - the control groups of one instance: a parent directory, and below it one per slot.
 *
 * In each hierarchy that has a controller (cgroup_mounts.h); in v2 at the place of the instance (cgroup_place.h).  A sandbox
 * is born in its v2 directory (free of charge); v1 directories are joined afterwards, which may take 8 ms, so only the
 * cell maker does it.  Freezing uses v2 where there is one, since a process frozen by v1 cannot even be killed. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/host/cgroup_mounts.h"
#include "model/plan.h"

struct err;

struct cgroups {
        int v2;                      /* parent's directory fd, -1: no v2 hierarchy */
        int v1[CGROUP_CONTROLS];     /* parent's directory fd where v1 has the controller, else -1 */
        bool in_v2[CGROUP_CONTROLS]; /* v2 has it */
};

#define CGROUPS_FDS_MAX (1 + CGROUP_CONTROLS)

/* Find the hierarchies and open (make) `parent` in each.  ERR_UNAVAILABLE names the controller that is nowhere. */
int cgroups_open(const char *parent, struct cgroups *ret, struct err *err);
void cgroups_done(struct cgroups *c);
void cgroups_describe(const struct cgroups *c, char *out, size_t size); /* for people: which kind, and where */
int cgroups_remove_parent(const char *parent);                          /* when empty */
bool cgroups_is_used(const char *parent);                               /* does any slot below it have a process? */
int cgroups_open_own(void); /* the v2 group of the calling process, for others to join; negative: there is none */
unsigned cgroups_fds(const struct cgroups *c, int out[CGROUPS_FDS_MAX]);
/* Call fn for every slot that has a directory. */
void cgroups_each(const struct cgroups *c, void (*fn)(unsigned slot, void *arg), void *arg);

/* ---- one slot (cgroup_slot.c) ---- */

/* All of a slot's directories, with limits.  *ret_v2 (may come back -1) is the one to be born in.  On failure nothing
 * is left. */
int cgroups_make(const struct cgroups *c, unsigned slot, const struct plan_limits *l, int *ret_v2, struct err *err);
/* From limits `old` (NULL: none are set) to l; what does not change is not written, since the kernel goes through all
 * groups of the machine for some of it. */
int cgroups_limit(const struct cgroups *c, unsigned slot, const struct plan_limits *old, const struct plan_limits *l,
                  struct err *err);
int cgroups_join_v1(const struct cgroups *c, unsigned slot, pid_t pid, struct err *err);
/* This thread alone, for those it makes: the kernel need not stop all that begins or ends on the machine for it (10 ms).
 * Into v2 one is born. */
int cgroups_join_thread_v1(const struct cgroups *c, unsigned slot, struct err *err);
/* Everything in it is to stop, or to go on.  -EOPNOTSUPP: this host has no v2 hierarchy. */
int cgroups_freeze(const struct cgroups *c, unsigned slot, bool is_frozen);
/* Its processes, `max` of them at most, and how many there are. */
int cgroups_processes(const struct cgroups *c, unsigned slot, pid_t *out, size_t max, size_t *ret_count);
int cgroups_wait_frozen(const struct cgroups *c, unsigned slot, int timeout_ms); /* blocks; -ETIMEDOUT */
char *cgroups_v2_path(const struct cgroups *c, unsigned slot);                   /* absolute, malloc'd; NULL: none */
/* SIGKILL to everything in it, frozen or not, as far as the hierarchies offer it; never waits. */
void cgroups_kill(const struct cgroups *c, unsigned slot);
/* As cgroups_remove(), but the memory group of v1 stays for the slot's next sandbox: ending one makes the kernel look at
 * every mounted file system of the machine under a lock of its own, and each sandbox has several. */
int cgroups_recycle(const struct cgroups *c, unsigned slot);
int cgroups_remove(const struct cgroups *c, unsigned slot); /* 0 when gone; -EBUSY: not yet empty */

struct cgroup_usage {
        uint64_t memory_bytes, memory_limit, cpu_us, pids;
        uint64_t memory_cache; /* of memory_bytes: what files are read from */
};
int cgroups_usage(const struct cgroups *c, unsigned slot, struct cgroup_usage *ret, struct err *err);
