/* command.h - run one program to its end, line by line, in namespaces of its own.
 *
 * The program is pid 1 of a new pid namespace, in a new mount namespace: when it ends, is interrupted, or we are killed,
 * the kernel ends all its descendants and undoes all its mounts.  Needs root, and SIGINT, SIGTERM, SIGHUP blocked: they
 * end the program and the call. */
#pragma once
#include <stdbool.h>

#include "base/str.h"

struct err;

struct command {
        const char *const *argv;                     /* NULL-terminated; argv[0] is looked up in PATH */
        const char *root;                            /* chroot there first; NULL: no */
        void (*on_line)(struct str line, void *arg); /* of stdout and stderr; NULL: dropped */
        void *arg;
        bool skip_flushes; /* what it writes is flushed to disk by the caller, or thrown away (sys/nosync.h) */
};

/* 0 when it exited with 0.  ERR_UNAVAILABLE: interrupted.  ERR_NOT_FOUND: no such program. */
int command_run(const struct command *c, struct err *err);
