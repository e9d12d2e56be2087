/* role.h - starting one role: `sandglass role NAME` as its user, with its configuration on fd 3 and its sockets behind.
 *
 * Runs in: the supervisor, single-threaded, between fork and exec nothing is shared that could be left locked. */
#pragma once
#include <sys/types.h>

#include "model/conf.h"

struct err;

#define ROLE_CONF_FD 3

struct role_spec {
        const char *name;        /* "edge" */
        const struct conf *conf; /* fds in it are not looked at */
        struct conf_fds fds;     /* the supervisor's numbers; -1: none */
        uint32_t uid;            /* 0: stays root */
        int exe;                 /* our own program, opened: a role need not be able to reach its path */
};

int role_start(const struct role_spec *spec, pid_t *ret_pid, struct err *err);

/* The other end: the configuration that role_start() put on fd 3.  Closes fd 3. */
int role_conf(struct conf *ret, struct err *err);

/* A sealed, readable-by-all copy of a file in memory, so that a key can be 0600 root and still reach the edge. */
int file_to_memfd(const char *path, int *ret_fd, struct err *err);
