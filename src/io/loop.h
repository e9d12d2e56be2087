/* loop.h - one epoll loop per process: readiness, timers, posted tasks.
 *
 * Runs in: one thread.  Callbacks note what happened, advance their object, and return; nothing blocks.
 * An object is freed by a task it posts (loop_post), never inside one of its own callbacks: events of the same
 * iteration may still name it.  loop_del() guarantees that the io's callback is not called any more, even for an
 * event that was already fetched. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/list.h"

struct loop; /* opaque */

struct io { /* embedded in its owner; set fd and on before loop_add() */
        int fd;
        void (*on)(struct io *io, uint32_t events); /* EPOLL* bits */
        uint32_t want;                              /* what is registered now; read only */
        struct loop *loop;                          /* NULL: not in a loop */
        struct list pending;                        /* loop's own */
        uint32_t fired;                             /* loop's own */
};

struct timer { /* embedded; set on before timer_set(); zeroed is fine */
        void (*on)(struct timer *t);
        uint64_t due_ms;                    /* on the monotonic clock */
        struct loop *loop;                  /* NULL: not armed */
        struct timer *child, *next, **back; /* loop's own: a pairing heap, so that arming never needs memory */
};

struct task { /* embedded; zeroed is fine */
        void (*run)(struct task *t);
        struct list node;
};

/* 0 or negative errno.  Ignores SIGPIPE for the whole process: sendfile(2) and TLS writes have no flag against it.  Who
 * executes another program sets it back to its default in the child. */
int loop_create(struct loop **ret);
/* The same for a library, which leaves signals to the program: its streams are those of clients, which raise none. */
int loop_create_quietly(struct loop **ret);
int loop_fd(const struct loop *l); /* readable when there are events; timers and tasks do not count */
struct loop *loop_free(struct loop *l);

/* Register; 0 or negative errno, -EEXIST: it is registered.  `want` is EPOLLIN and/or EPOLLOUT (level-triggered); errors and hang-ups always
 * arrive.  want 0 parks the fd. */
int loop_add(struct loop *l, struct io *io, uint32_t want);
/* No system call when nothing changes.  An fd that somebody else has closed is told as EPOLLERR. */
void loop_want(struct io *io, uint32_t want);
void loop_del(struct io *io); /* does not close the fd; fine when not added */

void timer_set(struct loop *l, struct timer *t, uint64_t ms_from_now); /* re-arming moves it */
void timer_clear(struct timer *t);                                     /* fine when not armed */
static inline bool timer_is_armed(const struct timer *t)
{
        return t->loop != NULL;
}

/* Run the task after the events of this iteration.  Posting a posted task changes nothing. */
void loop_post(struct loop *l, struct task *t); /* what a task posts runs in the next iteration */
void loop_unpost(struct task *t);

bool loop_has_tasks(const struct loop *l);

/* Iterate until loop_stop(); 0, or negative errno when epoll itself fails. */
int loop_run(struct loop *l);
void loop_stop(struct loop *l);

/* Deliver these signals (NSIG-terminated by 0) as calls in the loop instead of asynchronously.  One set per loop. */
int loop_signals(struct loop *l, const int *signals, void (*on)(int signo, void *arg), void *arg);
