/* kernel_limits.h - numbers the kernel counts for the whole machine, out of the way of sandboxes.
 *
 * Each sandbox is held by limits of its own (processes and memory by cgroup, terminals by its devpts); where the
 * machine's number is small, a few sandboxes together would use it up for everyone, the server's own roles included. */
#pragma once

void kernel_limits_raise(int proc_dir); /* never lowers one; what cannot be raised is logged */
