/* listener.h - TCP and Unix sockets: listening, accepting, connecting without blocking. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/str.h"
#include "io/loop.h"

struct err;

struct listener {
        struct io io;
        void (*on_conn)(struct listener *ln, int fd); /* the fd is the callee's: close-on-exec, non-blocking */
        void *arg;
        struct timer pause; /* armed while out of fds: accepting goes on later instead of spinning */
};

/* "127.0.0.1:3000", "[::1]:3000" (both: socket_is_local), ":3000" (all addresses), port 0: the kernel picks.  -> listening fd */
int listen_tcp(struct str addr, bool reuse_port, int *ret_fd, struct err *err);
/* A stream socket at path (an old file there is removed first), mode e.g. 0600. */
int listen_unix(const char *path, unsigned mode, int *ret_fd, struct err *err);
/* Connect at once or fail with a negative errno (-EAGAIN: the backlog is full); the fd is non-blocking. */
int connect_unix(const char *path, int *ret_fd);
/* Its peers are on this machine (for a listening socket: all who will connect; before a connect): what congestion control
 * the machine uses towards others, which may hold bytes back by timers, does not apply. */
void socket_is_local(int fd);
int socket_port(int fd, uint16_t *ret); /* local port of a bound socket */

/* Takes the fd on success only. */
int listener_start(struct listener *ln, struct loop *l, int fd, void (*on_conn)(struct listener *, int fd), void *arg);
void listener_stop(struct listener *ln); /* stops accepting; closes the fd */
