/* loop_impl.h - what loop.c and timer.c share. */
#pragma once
#include "io/loop.h"

#define LOOP_EVENTS_MAX 64

struct loop {
        int epfd;
        bool is_stopping;
        struct list pending; /* io: events not yet delivered, fetched or of an fd that is lost */
        struct list tasks;
        struct timer *timers;   /* root of the heap: the next one due */
        uint64_t timers_run_ms; /* while timers run: the time they run for, else 0 */
        uint64_t fetched_ms;    /* when events were fetched the last time */
        struct io signals;
        void (*on_signal)(int signo, void *arg);
        void *signal_arg;
        struct epoll_event events[LOOP_EVENTS_MAX];
};

/* Call every timer that was due when events were fetched: if a callback took long, what came meanwhile is delivered first, and
 * nobody is told that an answer is late which is there. */
void timers_run(struct loop *l);
/* Milliseconds to the next one, 0 when one is due, -1 when there is none. */
int timers_wait_ms(const struct loop *l);
