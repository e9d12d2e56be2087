/* supervisor.h - starts the roles, starts them again when they die, stops them in order.
 *
 * Builder and puller run only when they are needed: they are started when a connection waits at their socket, and end by
 * themselves (exit 0) when they had nothing to do for a while.
 *
 * Waits for signals and for such connections, and looks at the certificate's files now and then; reads nothing from
 * anyone.  Needs SIGCHLD, SIGTERM, SIGINT, SIGHUP blocked. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "model/conf.h"

struct err;
struct sockets;

struct supervisor_options {
        const struct conf *conf;       /* borrowed */
        const struct sockets *sockets; /* borrowed */
        /* The server answers for the first time (-1 ends it with this error), and later a child started by
         * on_ready ended. */
        int (*on_ready)(void *arg, pid_t *ret_child, struct err *err);
        int (*on_child)(void *arg, int status, struct err *err);
        void (*on_look)(void *arg); /* now and then: for files of the host that may have changed */
        void *arg;
};

/* Runs until a signal asks to end, and all roles are gone then.  Negative: it never became ready, or on_ready and
 * on_child said so. */
int supervisor_run(const struct supervisor_options *opt, struct err *err);
