/* cgroup_mounts.h - the control group hierarchies of this machine: one of v2, and those of v1 with a controller we use.
 *
 * Hosts have v2 alone, v1 alone, or a mixture.  Where no v2 hierarchy is mounted we mount one in /run/sandglass: v2 without a
 * single controller still freezes, kills and counts, and a sandbox can be born in it. */
#pragma once

enum cgroup_control { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_FREEZER, CGROUP_CONTROLS };
extern const char *const cgroup_control_names[CGROUP_CONTROLS];

struct cgroup_mounts {
        int v2, v1[CGROUP_CONTROLS]; /* fds of the mount points; -1: there is none */
};

int cgroup_mounts_open(struct cgroup_mounts *ret); /* 0 or a negative errno */
void cgroup_mounts_done(struct cgroup_mounts *m);
