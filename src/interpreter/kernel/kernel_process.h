/* kernel_process.h - the process of a kernel: its connection file, its start, its output, its end.
 *
 * A kernel is the leader of a session of its own, so that an interrupt reaches what it started in its group, and it is
 * killed by the Linux kernel when the service ends.  What it writes to stdout and stderr is read and dropped, except for
 * the last bytes, which explain why it did not start. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/str.h"
#include "io/loop.h"

struct err;
struct kernelspec;

#define KERNEL_TAIL_BYTES 2048

struct kernel_ports {
        uint16_t shell, control, iopub, stdin_, heartbeat;
};

struct kernel_process {
        pid_t pid;        /* 0: not running */
        char *file;       /* the connection file; owned, removed by kernel_process_done() */
        struct io output; /* fd -1: not open */
        char tail[KERNEL_TAIL_BYTES];
        size_t tail_len;
};

struct kernel_process_options {
        struct loop *loop;
        const struct kernelspec *spec;
        const char *runtime_dir; /* for the connection file; made when it is missing */
        const char *name;        /* of the connection file, unique */
        const char *key;         /* of the signatures */
        const char *cwd, *home;  /* begins in cwd, or else in home */
        struct rlimit files;     /* how many files it may open */
};

/* Choose ports, write the connection file and start the kernel.  On failure nothing is left. */
int kernel_process_start(struct kernel_process *p, const struct kernel_process_options *opt,
                         struct kernel_ports *ret_ports, struct err *err);
/* To the whole group of the kernel.  Nothing when it does not run. */
void kernel_process_signal(const struct kernel_process *p, int signo);
/* What it wrote last, as text: bytes beyond printable ASCII are replaced; "" when nothing. */
struct str kernel_process_tail(struct kernel_process *p);
/* The process must be gone. */
void kernel_process_done(struct kernel_process *p);
