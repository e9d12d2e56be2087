/* mount_ways.h - mounts that kernels make in two ways: which one this kernel knows, and the one call that makes them.
 *
 * Everything else is mounted in one way on every kernel from 6.1 on.  Which way is found by trying it, never by a version. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

struct mount_ways {
        bool proc_by_option; /* proc of another PID namespace by the option pidns= (6.17); else by a process in it */
        bool has_overlay_uuid; /* an overlay can be told to note no uuid in its upper directory (6.6); older ones never do */
        bool overlay_by_fds; /* layers by descriptors of detached mounts (6.15); else by names on a stage (mount_stage.h) */
};

/* Try both, in a process and a mount namespace of their own; once, since a running kernel keeps its ways.  ERR_UNAVAILABLE: neither way of one of them works. */
int mount_ways_find(struct mount_ways *ret, struct err *err);
void mount_ways_describe(const struct mount_ways *w, char *out, size_t size);

/* Can owners of files below this directory be mapped to a sandbox's?  The directory is attached in our mount namespace.
 * ERR_UNAVAILABLE: no, with what to do. */
int mount_ways_check_owners(int proc_dir, int dir, const char *name, struct err *err);

/* A detached proc of the PID namespace that process is in.  For processes with one thread. */
int mount_ways_proc(const struct mount_ways *w, int proc_dir, pid_t pid);
