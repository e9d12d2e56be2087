#include "control/catalogue/durable.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"

static void durable_flush(struct durable *d)
{
        atomic_store(&d->result, fdatasync(d->fd) < 0 ? -errno : 0);
}

static void *durable_thread(void *arg)
{
        struct durable *d = arg;
        uint64_t n;

        while (read(d->ask_fd, &n, sizeof(n)) == (ssize_t)sizeof(n) && !atomic_load(&d->is_over)) {
                durable_flush(d);
                n = 1;
                (void)!write(d->done.fd, &n, sizeof(n)); /* the eventfd's counter cannot overflow */
        }
        return NULL;
}

/* The thread takes no signals: they are the loop's. */
static bool durable_start_thread(struct durable *d)
{
        sigset_t all, before;

        if (d->has_thread)
                return true;
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        d->has_thread = pthread_create(&d->thread, NULL, durable_thread, d) == 0;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (!d->has_thread)
                log_warn("store.flush", "no thread for the flush, waiting for the disk in the loop");
        return d->has_thread;
}

static void durable_begin_flush(struct durable *d)
{
        const uint64_t one = 1;
        struct list *node;

        if (d->is_busy || list_is_empty(&d->waiting))
                return;
        while ((node = list_pop_front(&d->waiting)))
                list_push_back(&d->covered, node);
        d->is_busy = true;
        if (durable_start_thread(d)) {
                (void)!write(d->ask_fd, &one, sizeof(one));
                return;
        }
        durable_flush(d);
        (void)!write(d->done.fd, &one, sizeof(one));
}

static void durable_task(struct task *t)
{
        durable_begin_flush(CONTAINER_OF(t, struct durable, go));
}

static void durable_flushed(struct io *io, uint32_t events)
{
        struct durable *d = CONTAINER_OF(io, struct durable, done);
        int result = atomic_load(&d->result);
        struct list *node;
        uint64_t n;

        (void)events;
        if (read(io->fd, &n, sizeof(n)) != (ssize_t)sizeof(n))
                return;
        if (result < 0)
                log_error("store.flush", "failed=\"%s\"", strerror(-result));
        while ((node = list_pop_front(&d->covered))) {
                struct durable_waiter *w = LIST_ENTRY(node, struct durable_waiter, node);

                w->on(w, result);
        }
        d->is_busy = false;
        durable_begin_flush(d);
}

int durable_init(struct durable *d, struct loop *loop, int fd)
{
        *d = (struct durable){.loop = loop,
                              .fd = fd,
                              .ask_fd = -1,
                              .done = {.fd = -1, .on = durable_flushed},
                              .go.run = durable_task};
        list_init(&d->waiting);
        list_init(&d->covered);
        d->ask_fd = eventfd(0, EFD_CLOEXEC);
        d->done.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (d->ask_fd < 0 || d->done.fd < 0)
                return -errno;
        return loop_add(loop, &d->done, EPOLLIN);
}

void durable_done(struct durable *d)
{
        const uint64_t one = 1;

        if (!d->loop)
                return;
        if (d->has_thread) {
                atomic_store(&d->is_over, true);
                (void)!write(d->ask_fd, &one, sizeof(one));
                (void)pthread_join(d->thread, NULL);
        }
        while (list_pop_front(&d->waiting) || list_pop_front(&d->covered))
                ;
        loop_unpost(&d->go);
        loop_del(&d->done);
        close_fd(&d->done.fd);
        close_fd(&d->ask_fd);
        d->loop = NULL;
}

void durable_wait(struct durable *d, struct durable_waiter *w)
{
        list_push_back(&d->waiting, &w->node);
        loop_post(d->loop, &d->go);
}

void durable_cancel(struct durable_waiter *w)
{
        list_remove(&w->node);
}
