/* slots.h - the numbers sandboxes live under, and the slot cleaner that makes them fit for use again.
 *
 * A slot stands for a uid range, an address, cgroup names and (once made) a network namespace.  Its way:
 *
 *     FREE --ask--> ASKED --cell comes--> WARMING --envd waits--> READY --take--> USED --all dead--> DIRTY --cleaned--> FREE
 *
 * ASKED, WARMING and READY may also turn DIRTY (the cell failed or died).  Invariant: a slot is used again only after all
 * its processes are dead and its cgroups are gone, but for the memory group that may be kept for it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/host/helper.h"
#include "engine/host/instance.h"

struct err;
struct cgroups;

enum slot_state { SLOT_FREE, SLOT_ASKED, SLOT_WARMING, SLOT_READY, SLOT_USED, SLOT_DIRTY };

struct slot_stack {
        uint16_t at[SLOTS_MAX];
        unsigned count;
};

struct slots {
        enum slot_state state[SLOTS_MAX];
        int netns[SLOTS_MAX];              /* while FREE or DIRTY; -1: none */
        struct slot_stack networked, bare; /* free slots with a network and without; the one used last is used next */
        unsigned networked_max;            /* more free networks are not kept: each costs a quarter of a MiB */
        bool has_group[SLOTS_MAX];         /* while FREE: its memory cgroup was kept */
        unsigned group_count;              /* at most networked_max and those that are being cleaned */
        struct helper slot_cleaner;
        void (*on_free)(struct slots *s); /* another one is free */
        void (*on_slot_cleaner_gone)(struct slots *s);
};

/* All are free. */
void slots_init(struct slots *s, unsigned networked_max);
void slots_done(struct slots *s);
/* in: as for slot_cleaner_fork(). */
int slots_start_cleaner(struct slots *s, struct loop *l, const struct cgroups *cg, const struct instance *in,
                        struct err *err);

unsigned slots_free_count(const struct slots *s);
/* Take a free one, ASKED now; one with a network first, whose namespace is the caller's.  Only when there is one. */
unsigned slots_take(struct slots *s, int *ret_netns);
/* Take a free one for a sandbox that brings its own network, USED now; 0: there is none. */
unsigned slots_take_bare(struct slots *s);
bool slots_mark_used(struct slots *s, unsigned slot);  /* FREE -> USED; false: it is not free */
void slots_mark_dirty(struct slots *s, unsigned slot); /* FREE -> DIRTY: left over from before */
void slots_go(struct slots *s, unsigned slot, enum slot_state next);
/* Its processes are dead (or were told to be): clean it and use it again.  Takes netns (-1: none). */
void slots_return(struct slots *s, unsigned slot, int netns);

/* Close fds where the wait does not hurt; those >= 0 are set to -1. */
void slots_close_later(struct slots *s, int *fds, size_t n);
