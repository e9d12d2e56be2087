/* channel.h - messages between our own processes over a Unix stream socket: JSON objects, with fds.
 *
 * Frame: 4 bytes length (big endian), 1 byte number of fds, then that many bytes of JSON.  The fds ride on the frame's
 * first byte.  Both ends are ours, but the receiver still checks: size, JSON, object, fds announced = fds received;
 * anything else closes the channel.  Sending never blocks: what the socket does not take waits in a bounded queue. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "io/loop.h"

#define CHANNEL_FDS_MAX 12
#define CHANNEL_MESSAGE_MAX (4u << 20)
#define CHANNEL_QUEUE_MAX (16u << 20)

struct channel; /* opaque */

struct channel_ops {
        /* msg is borrowed for the call; fds are the callee's to take: set those you keep to -1, the rest is closed. */
        void (*on_message)(struct channel *ch, json_t *msg, int *fds, size_t nfds, void *arg);
        /* The peer is gone, or the channel was closed for `reason`.  Called once, from the loop; the callee calls
         * channel_free() (directly, here). */
        void (*on_close)(struct channel *ch, const char *reason, void *arg);
};

/* Takes the fd (connected, any blocking mode). */
int channel_create(struct loop *l, int fd, const struct channel_ops *ops, void *arg, struct channel **ret);
struct channel *channel_free(struct channel *ch);

/* Steals the reference to msg, also on failure.  fds are duplicated by the kernel when sent; when they must wait in the
 * queue they are dup'd, so the caller keeps its own in any case.  0; -EPIPE closed; -ENOBUFS queue full; -E2BIG. */
int channel_send(struct channel *ch, json_t *msg, const int *fds, size_t nfds);
