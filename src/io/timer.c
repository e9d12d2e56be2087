/* Timers of a loop in a pairing heap.  `back` is the pointer that points at the node (the root pointer, its parent's
 * child or its elder sibling's next), so any node can be unhooked on its own. */
#include <limits.h>

#include "base/clock.h"
#include "io/loop_impl.h"

/* Two unhooked heaps into one; either may be NULL.  The result's `back` is the caller's to set. */
static struct timer *meld(struct timer *a, struct timer *b)
{
        struct timer *t;

        if (!a || !b)
                return a ? a : b;
        if (b->due_ms < a->due_ms)
                t = a, a = b, b = t;
        b->next = a->child;
        if (b->next)
                b->next->back = &b->next;
        b->back = &a->child;
        a->child = b;
        a->next = NULL;
        return a;
}

/* The children of an unhooked node as one heap: meld in pairs, then the pairs from the last to the first. */
static struct timer *meld_children(struct timer *first)
{
        struct timer *pairs = NULL, *all = NULL;

        while (first) {
                struct timer *a = first, *b = a->next, *pair;

                first = b ? b->next : NULL;
                a->next = NULL;
                if (b)
                        b->next = NULL;
                pair = meld(a, b);
                pair->next = pairs;
                pairs = pair;
        }
        while (pairs) {
                struct timer *pair = pairs;

                pairs = pair->next;
                pair->next = NULL;
                all = meld(all, pair);
        }
        return all;
}

static void insert(struct loop *l, struct timer *heap)
{
        l->timers = meld(l->timers, heap);
        if (l->timers)
                l->timers->back = &l->timers;
}

void timer_clear(struct timer *t)
{
        struct loop *l = t->loop;
        struct timer *children;

        if (!l)
                return;
        *t->back = t->next;
        if (t->next)
                t->next->back = t->back;
        children = meld_children(t->child);
        t->child = t->next = NULL;
        t->back = NULL;
        t->loop = NULL;
        insert(l, children);
}

void timer_set(struct loop *l, struct timer *t, uint64_t ms_from_now)
{
        uint64_t now_us = clock_mono_us();

        timer_clear(t);
        /* Rounded up: never early. */
        t->due_ms = ms_from_now ? (now_us + 999) / 1000 + ms_from_now : now_us / 1000;
        if (t->due_ms <= l->timers_run_ms) /* set by a timer: a later round, so that it cannot keep the loop */
                t->due_ms = l->timers_run_ms + 1;
        t->loop = l;
        t->child = t->next = NULL;
        insert(l, t);
}

void timers_run(struct loop *l)
{
        if (!l->timers)
                return;
        l->timers_run_ms = l->fetched_ms;
        while (l->timers && l->timers->due_ms <= l->timers_run_ms) {
                struct timer *t = l->timers;

                timer_clear(t);
                t->on(t);
        }
        l->timers_run_ms = 0;
}

int timers_wait_ms(const struct loop *l)
{
        uint64_t now, wait;

        if (!l->timers)
                return -1;
        now = clock_mono_ms();
        wait = l->timers->due_ms > now ? l->timers->due_ms - now : 0;
        return wait < INT_MAX ? (int)wait : INT_MAX;
}
