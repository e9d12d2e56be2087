/* cgroup_processes.h - the processes of a group, as cgroup.procs lists them, however many they are.
 *
 * Runs in: whatever may read a small file of the kernel; never waits. */
#pragma once
#include <sys/types.h>

/* Calls on_process() for each process in dir/path; below 0 ends the list.  0, or what on_process() said last, or a negative errno. */
int cgroup_each_process(int dir, const char *path, int (*on_process)(pid_t pid, void *arg), void *arg);
