#include "engine/namespace/leftovers.h"

#include <errno.h>
#include <time.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/guest/guest.h"

#define ROUNDS_MAX 400u /* of 10 ms */

static void return_one(unsigned slot, void *arg)
{
        struct engine *e = arg;

        if (slot < SLOT_FIRST || slot >= SLOTS_MAX || e->pool.slots.state[slot] != SLOT_FREE)
                return;
        log_info("slot.leftover", "slot=%u", slot);
        cgroups_kill(&e->cgroups, slot);
        slots_mark_dirty(&e->pool.slots, slot);
}

void leftovers_return(struct engine *e)
{
        cgroups_each(&e->cgroups, return_one, e);
}

struct clearing {
        const struct cgroups *cgroups;
        bool (*keep)(unsigned slot, void *arg);
        void *arg;
        bool kill;
        unsigned left;
};

static void clear_one(unsigned slot, void *arg)
{
        struct clearing *c = arg;

        if (c->keep && c->keep(slot, c->arg))
                return;
        if (c->kill)
                cgroups_kill(c->cgroups, slot);
        if (cgroups_remove(c->cgroups, slot) < 0)
                c->left++;
}

unsigned leftovers_clear(const struct cgroups *c, bool (*keep)(unsigned slot, void *arg), void *arg)
{
        const struct timespec pause = {.tv_nsec = 10000000};
        struct clearing k = {.cgroups = c, .keep = keep, .arg = arg, .kill = true};

        cgroups_each(c, clear_one, &k);
        for (unsigned i = 0; k.left > 0 && i < ROUNDS_MAX; i++) {
                (void)nanosleep(&pause, NULL); /* v1 has no event for an empty cgroup */
                k.left = 0;
                cgroups_each(c, clear_one, &k);
        }
        return k.left;
}

static bool is_used(unsigned slot, void *arg)
{
        const struct engine *e = arg;

        return slot < SLOTS_MAX && e->pool.slots.state[slot] == SLOT_USED;
}

void leftovers_remove(struct engine *e)
{
        unsigned left = leftovers_clear(&e->cgroups, is_used, e);
        struct err err = {0};

        if (left > 0)
                log_warn("slots.left", "count=%u, for the next start", left);
        MAP_EACH (slot, &e->sandboxes) {
                const struct guest *s = slot->value;

                if (s->record.slot)
                        return; /* it lives on, under our name and rules */
        }
        (void)cgroups_remove_parent(e->instance.name); /* not empty: for the next start */
        if (e->firewall && firewall_remove_table(&e->instance, &err) < 0)
                log_warn("filter.left", "error=\"%s\"", err.msg);
}
