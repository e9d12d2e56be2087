/* kernel_socket.h - ZeroMQ sockets to a kernel, on the loop.  The only code that knows libzmq.
 *
 * libzmq has a thread of its own for the connections; it reconnects by itself.  Its readiness is edge-triggered: the fd
 * says only that something changed.  So after each event, each send and each release from hold the socket is read until it
 * has nothing more (kernel_socket_drain).
 * Memory is bounded: a socket queues few messages (RECEIVED_MAX); when these are not taken, libzmq stops reading from the
 * kernel, and the kernel has to wait.  A frame that is much too large is not read: libzmq closes the connection, and, since
 * it takes this for a breach of the protocol, makes no other one.  A feed makes it again, and tells. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "io/loop.h"

struct kernel_socket; /* opaque */
struct zmq_threads;   /* opaque: libzmq's context */

int zmq_threads_create(struct zmq_threads **ret);            /* negative errno */
struct zmq_threads *zmq_threads_free(struct zmq_threads *z); /* after all sockets */
const char *zmq_version_text(void);

enum kernel_socket_kind {
        KERNEL_SOCKET_REQUESTS, /* shell, control */
        KERNEL_SOCKET_FEED,     /* iopub: everything that the kernel publishes */
};

struct kernel_socket_options {
        struct zmq_threads *threads;
        struct loop *loop;
        enum kernel_socket_kind kind;
        uint16_t port;    /* on 127.0.0.1 */
        size_t bytes_max; /* of one message; a larger one is dropped, and not even read when one frame has twice as much */
        const char *identity; /* of requests: the kernel answers to it, also over a new connection */
        /* A whole message; the frames are valid for the call.  May hold or free the socket. */
        void (*on_message)(const struct str *frames, size_t count, void *arg);
        void (*on_too_large)(size_t bytes,
                             void *arg); /* a message was dropped; 0 bytes: nobody knows how many it had */
        void *arg;
};

int kernel_socket_create(const struct kernel_socket_options *opt, struct kernel_socket **ret); /* negative errno */
struct kernel_socket *kernel_socket_free(struct kernel_socket *s); /* no callback after this */
/* Copies.  0, or -EAGAIN: there is no connection, or its queue is full; other negative errno. */
int kernel_socket_send(struct kernel_socket *s, const struct str *frames, size_t count);
/* While held, nothing is read and no on_message comes. */
void kernel_socket_hold(struct kernel_socket *s, bool is_held);
bool kernel_socket_is_held(const struct kernel_socket *s);
