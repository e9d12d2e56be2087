#include "engine/namespace/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/namespace/namespaces.h"
#include "io/listener.h"

#define CONNECT_MS 5000u /* a full backlog lets the connection hang; the sandbox need not be around any more then */

struct dialing {
        struct engine *engine;
        struct ask *ask;
        uint16_t port;
        uint64_t began_us; /* the sandbox was running then */
        int second;        /* a socket for [::1], made while we were inside; -1: used up */
        struct io io;
        struct timer deadline;
        struct task free_task;
};

static int make_sockets(struct engine *e, int netns, int *ret4, int *ret6)
{
        int r = 0;

        if (setns(netns, CLONE_NEWNET) < 0)
                return -errno;
        *ret4 = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (*ret4 < 0)
                r = -errno;
        *ret6 = r < 0 ? -1 : socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (setns(e->namespaces->host_netns, CLONE_NEWNET) < 0)
                abort(); /* going on in a sandbox's network would be worse than starting again */
        return r;
}

static void free_dialing(struct task *t)
{
        free(CONTAINER_OF(t, struct dialing, free_task));
}

static void dial_end(struct dialing *d)
{
        timer_clear(&d->deadline);
        loop_del(&d->io);
        close_fd(&d->io.fd);
        close_fd(&d->second);
        d->free_task.run = free_dialing;
        loop_post(d->engine->loop, &d->free_task);
}

static void dial_fail(struct dialing *d, int r)
{
        struct err err = {0};

        if (r == -ECONNREFUSED)
                (void)err_set(&err, ERR_UNAVAILABLE, "nothing listens on port %u", d->port);
        else {
                (void)err_sys(&err, r, "connect to port %u", d->port);
                err.kind = ERR_UNAVAILABLE;
        }
        ask_fail(TAKE_PTR(d->ask), &err);
        dial_end(d);
}

static int start_connect(struct dialing *d)
{
        union {
                struct sockaddr any;
                struct sockaddr_in in;
                struct sockaddr_in6 in6;
        } to = {0};
        socklen_t len = sizeof(to.in);

        if (d->second >= 0) {
                to.in.sin_family = AF_INET;
                to.in.sin_port = htons(d->port);
                to.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        } else {
                to.in6.sin6_family = AF_INET6;
                to.in6.sin6_port = htons(d->port);
                to.in6.sin6_addr = in6addr_loopback;
                len = sizeof(to.in6);
        }
        socket_is_local(d->io.fd);
        if (connect(d->io.fd, &to.any, len) == 0)
                return 0;
        return -errno;
}

static void dial_advance(struct dialing *d, int r) /* r: how the attempt stands */
{
        while (r == -ECONNREFUSED && d->second >= 0) {
                loop_del(&d->io);
                (void)close(d->io.fd);
                d->io.fd = TAKE_FD(d->second);
                r = start_connect(d);
        }
        if (r == -EINPROGRESS) {
                if (!d->io.loop)
                        r = loop_add(d->engine->loop, &d->io, EPOLLOUT);
                if (r == -EINPROGRESS || r == 0)
                        return;
        }
        if (r < 0) {
                dial_fail(d, r);
                return;
        }
        loop_del(&d->io);
        ask_ok(TAKE_PTR(d->ask), json_pack("{s:I}", "at", (json_int_t)d->began_us), d->io.fd);
        dial_end(d);
}

static void on_connected(struct io *io, uint32_t events)
{
        struct dialing *d = CONTAINER_OF(io, struct dialing, io);
        socklen_t len = sizeof(int);
        int e = 0;

        (void)events;
        if (getsockopt(io->fd, SOL_SOCKET, SO_ERROR, &e, &len) < 0)
                e = errno;
        dial_advance(d, -e);
}

static void on_dial_deadline(struct timer *t)
{
        dial_fail(CONTAINER_OF(t, struct dialing, deadline), -ETIMEDOUT);
}

void dial(struct guest *s, uint16_t port, struct ask *a)
{
        struct dialing *d = calloc(1, sizeof(*d));
        struct err err = {0};
        int r;

        if (!d) {
                (void)err_sys(&err, -ENOMEM, "dial");
                ask_fail(a, &err);
                return;
        }
        *d = (struct dialing){.engine = s->engine, .ask = a, .port = port, .began_us = clock_mono_us(), .second = -1};
        d->io = (struct io){.fd = -1, .on = on_connected};
        d->deadline.on = on_dial_deadline;
        r = make_sockets(s->engine, namespace_of(s)->netns, &d->io.fd, &d->second);
        if (r < 0) {
                dial_fail(d, r);
                return;
        }
        timer_set(s->engine->loop, &d->deadline, CONNECT_MS);
        dial_advance(d, start_connect(d));
}
