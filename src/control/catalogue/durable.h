/* durable.h - waiting until the store's writes are on disk, without the loop waiting for the disk.
 *
 * One thread, started at the first use, does nothing but fdatasync() of the store's log.  Waiters that come while a flush is
 * under way share the next flush. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"
#include "io/loop.h"

struct durable_waiter { /* embedded; zeroed: waits for nothing */
        struct list node;
        /* Called once, from the loop, never before durable_wait() returns.  result: 0 or negative errno. */
        void (*on)(struct durable_waiter *w, int result);
};

struct durable {
        struct loop *loop;
        int fd;                       /* of the store's log; borrowed */
        struct list waiting, covered; /* waiters: of the next flush, of the flush under way */
        bool is_busy, has_thread;
        pthread_t thread;
        int ask_fd;     /* eventfd: the thread waits on it */
        struct io done; /* eventfd: the loop waits on it */
        struct task go;
        atomic_int result;
        atomic_bool is_over;
};

int durable_init(struct durable *d, struct loop *loop, int fd);
void durable_done(struct durable *d); /* also zeroed; waiters are not called */

void durable_wait(struct durable *d, struct durable_waiter *w);
void durable_cancel(struct durable_waiter *w);
static inline bool durable_is_waiting(const struct durable_waiter *w)
{
        return list_is_hooked(&w->node);
}
