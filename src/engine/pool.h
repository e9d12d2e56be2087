/* pool.h - slots and the cells made ahead in them.
 *
 * A slot is a number that stands for a uid range, an address, cgroup names and (once made) a network namespace.  Its way:
 *
 *     FREE --ask--> ASKED --cell comes--> WARMING --envd waits--> READY --take--> USED --all dead--> DIRTY --cleaned--> FREE
 *
 * ASKED, WARMING and READY may also turn DIRTY (the cell failed or died).  Invariant: a slot is used again only after all its
 * processes are dead and its cgroups are gone. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/cell.h"
#include "engine/helper.h"
#include "engine/nursery.h"
#include "io/loop.h"

struct err;

enum slot_state { SLOT_FREE, SLOT_ASKED, SLOT_WARMING, SLOT_READY, SLOT_USED, SLOT_DIRTY };

struct pool_waiter { /* someone who wants a cell; embedded */
        struct list node;
        void (*on_cell)(struct pool_waiter *w, struct cell *c); /* takes what is in c */
        void (*on_fail)(struct pool_waiter *w, const struct err *err);
};

struct slot {
        enum slot_state state;
        int netns; /* while it is FREE or DIRTY; -1: none (yet) */
};

struct pool {
        struct loop *loop;
        struct instance *instance; /* borrowed, as are conf's members */
        struct nursery_conf conf;
        struct helper nursery, janitor;
        struct slot slots[SLOTS_MAX];
        struct slot_stack {
                uint16_t at[SLOTS_MAX];
                unsigned count;
        } networked, bare;          /* free slots with a network and without; the one used last is used next */
        struct list warming, ready; /* struct pooled */
        unsigned warming_count, ready_count, asked_count;
        struct list waiting; /* struct pool_waiter, oldest first */
        unsigned waiting_count;
        unsigned target;
        uint64_t hits, misses;
        struct timer retry; /* armed after a failure: no cells are asked for until it fires */
        unsigned failures;  /* in a row */
        bool is_stopped;
};

/* All slots are free; mark those of adopted sandboxes, then start. */
void pool_init(struct pool *p, struct loop *l, struct instance *in, unsigned target);
bool pool_mark_used(struct pool *p, unsigned slot);                               /* false: it is used already */
int pool_start(struct pool *p, const struct nursery_conf *conf, struct err *err); /* nursery and janitor */
void pool_mark_dirty(struct pool *p, unsigned slot); /* left over from before: to be cleaned */
void pool_done(struct pool *p);                      /* ready cells end */

bool pool_take(struct pool *p, struct cell *ret); /* false: none is ready */
/* Called back when one is; ERR_UNAVAILABLE: too many wait already. */
int pool_wait(struct pool *p, struct pool_waiter *w, struct err *err);
void pool_cancel(struct pool *p, struct pool_waiter *w); /* fine when not waiting */

/* The slot's processes are dead: clean it and use it again.  Takes netns (-1: none). */
void pool_return(struct pool *p, unsigned slot, int netns);
void pool_refill(struct pool *p); /* bring it back to its target */
/* Close fds where the wait does not hurt.  They are the pool's from here on. */
void pool_close_later(struct pool *p, int *fds, size_t n);
