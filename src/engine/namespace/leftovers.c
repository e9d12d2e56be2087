#include "engine/namespace/leftovers.h"

#include <errno.h>
#include <time.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/namespace/namespaces.h"
#include "engine/net/firewall.h"
#include "engine/net/passage.h"

#define ROUNDS_MAX 400u /* of 10 ms */

static void return_one(unsigned slot, void *arg)
{
        struct namespaces *n = arg;

        if (slot < SLOT_FIRST || slot >= SLOTS_MAX || n->pool.slots.state[slot] != SLOT_FREE)
                return;
        log_info("slot.leftover", "slot=%u", slot);
        cgroups_kill(&n->cgroups, slot);
        slots_mark_dirty(&n->pool.slots, slot);
}

void leftovers_return(struct namespaces *n)
{
        cgroups_each(&n->cgroups, return_one, n);
}

struct clearing {
        const struct cgroups *cgroups;
        bool (*keep)(unsigned slot, void *arg);
        void *arg;
        unsigned left;
};

static void clear_one(unsigned slot, void *arg)
{
        struct clearing *c = arg;

        if (c->keep && c->keep(slot, c->arg))
                return;
        cgroups_kill(c->cgroups, slot);
        if (cgroups_remove(c->cgroups, slot) < 0)
                c->left++;
}

unsigned leftovers_clear(const struct cgroups *c, bool (*keep)(unsigned slot, void *arg), void *arg)
{
        const struct timespec pause = {.tv_nsec = 10000000};
        struct clearing k = {.cgroups = c, .keep = keep, .arg = arg};

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
        const struct namespaces *n = arg;

        return slot < SLOTS_MAX && n->pool.slots.state[slot] == SLOT_USED;
}

void leftovers_remove(struct namespaces *n)
{
        unsigned left = leftovers_clear(&n->cgroups, is_used, n);
        struct err err = {0};

        if (left > 0)
                log_warn("slots.left", "count=%u, for the next start", left);
        MAP_EACH (slot, &n->engine->sandboxes) {
                const struct guest *s = slot->value;

                if (s->ops == &namespace_ops && guest_slot(s))
                        return; /* it lives on, under our name and rules */
        }
        (void)cgroups_remove_parent(n->instance.name); /* not empty: for the next start */
        if (!n->firewall)
                return;
        passage_close(&n->instance);
        if (firewall_remove_table(&n->instance, &err) < 0)
                log_warn("firewall.left", "error=\"%s\"", err.msg);
}
