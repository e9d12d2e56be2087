/* syscall_filter.h - the system calls a sandbox must not make: one table with reasons, compiled once per engine. */
#pragma once
#include <linux/filter.h>

struct err;

/* Compile the table.  *ret.filter is the caller's, to be freed. */
int syscall_filter_compile(struct sock_fprog *ret, struct err *err);
/* Install it in the calling process; needs CAP_SYS_ADMIN in its user namespace.  Negative errno. */
int syscall_filter_install(const struct sock_fprog *prog);
