/* caller_fd.h - a descriptor of the caller as the body of a call: read and written only when it is ready, so that the time limit
 * and cancelling of the call hold whatever the descriptor is, blocking or not. */
#pragma once
#include "base/str.h"
#include "http/client.h"

struct caller_fd {
        struct io io;           /* its wait on the loop of the call */
        struct http_call *call; /* borrowed: goes on when the fd is ready */
        int r;                  /* negative: why it cannot be read or written */
};

void caller_fd_init(struct caller_fd *c, int fd);
void caller_fd_done(struct caller_fd *c); /* before the call's loop is somebody else's; the fd stays open */

/* For on_send: how many bytes, 0: the end, -EAGAIN: it is waited for, another negative errno. */
ssize_t caller_fd_read(struct caller_fd *c, struct loop *loop, struct http_call *call, void *p, size_t n);
/* For on_data: how many bytes were taken; fewer than all: it is waited for, or has failed (c->r). */
size_t caller_fd_write(struct caller_fd *c, struct loop *loop, struct http_call *call, struct str piece);
