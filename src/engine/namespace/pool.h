/* pool.h - cells made ahead: keeps some ready, hands them out, has more made.
 *
 * The cell maker makes them, in slots (slots.h). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/namespace/cell.h"
#include "engine/host/helper.h"
#include "engine/namespace/cell_maker.h"
#include "engine/net/slots.h"
#include "io/loop.h"

struct err;

struct pool_waiter { /* a start that waits for a cell; embedded */
        struct list node;
        void (*on_cell)(struct pool_waiter *w, struct cell *c); /* takes what is in c */
        void (*on_fail)(struct pool_waiter *w, const struct err *err);
};

struct pool {
        struct loop *loop;
        struct instance *instance; /* borrowed, as are conf's members */
        struct cell_maker_conf conf;
        struct helper cell_maker;
        struct slots slots;
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

void pool_init(struct pool *p, struct loop *l, struct instance *in, unsigned target);
/* Cell maker and slot cleaner; slots of adopted sandboxes have been marked by then. */
int pool_start(struct pool *p, const struct cell_maker_conf *conf, struct err *err);
void pool_done(struct pool *p); /* ready cells end */

bool pool_take(struct pool *p, struct cell *ret); /* false: none is ready */
/* Called back when one is; ERR_UNAVAILABLE: too many wait already. */
int pool_wait(struct pool *p, struct pool_waiter *w, struct err *err);
void pool_cancel(struct pool *p, struct pool_waiter *w); /* fine when not waiting */

void pool_refill(struct pool *p); /* bring it back to its target */
