/* cgroup_place.h - where in the v2 hierarchy an instance has its groups: a path from the top, "" for the top itself.
 *
 * The place is the group above the server's own, if a service manager delegated that group to us: systemd from version 254 on
 * does so with Delegate= and DelegateSubgroup=.  Everywhere else the place is the top.  The server's own group would not do:
 * with sandboxes and their limits below, the kernel lets no process into a group, so that a server whose sandboxes live on
 * could not be started there again.
 *
 * A note in /run/sandglass says which place an instance has: `down` and `doctor` run in groups of their own. */
#pragma once
#include <stdbool.h>

#define CGROUP_PLACE_MAX 512 /* bytes of a path, with its NUL */

/* own: the server's group, from the top ("/a/b").  is_delegated is asked about one path at most. */
void cgroup_place_choose(const char *own, bool (*is_delegated)(const char *path, void *arg), void *arg,
                         char out[CGROUP_PLACE_MAX]);
/* The v2 line of /proc/PID/cgroup; false: there is none, or its path is too long. */
bool cgroup_place_parse(const char *text, char out[CGROUP_PLACE_MAX]);

/* Where the groups of `parent` are, or are to be. */
void cgroup_place_find(int v2, const char *parent, char out[CGROUP_PLACE_MAX]);
int cgroup_place_note(const char *parent, const char *place); /* for those that ask later */
void cgroup_place_forget(const char *parent);
bool cgroup_place_noted(char out[CGROUP_PLACE_MAX]); /* some instance's, for people; false: all are at the top */
