#include "engine/net/slots.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/net/slot_cleaner.h"

#define TO(s) (1u << (s))
static const unsigned slot_may[] = {
        [SLOT_FREE] = TO(SLOT_ASKED) | TO(SLOT_USED) | TO(SLOT_DIRTY),
        [SLOT_ASKED] = TO(SLOT_WARMING) | TO(SLOT_DIRTY),
        [SLOT_WARMING] = TO(SLOT_READY) | TO(SLOT_DIRTY),
        [SLOT_READY] = TO(SLOT_USED) | TO(SLOT_DIRTY),
        [SLOT_USED] = TO(SLOT_DIRTY),
        [SLOT_DIRTY] = TO(SLOT_FREE),
};

void slots_go(struct slots *s, unsigned slot, enum slot_state next) /* the only writer of a state */
{
        assert(slot_may[s->state[slot]] & TO(next));
        s->state[slot] = next;
}

static void push(struct slot_stack *k, unsigned slot)
{
        k->at[k->count++] = (uint16_t)slot;
}

static bool pick(struct slot_stack *k, unsigned slot)
{
        for (unsigned i = 0; i < k->count; i++)
                if (k->at[i] == slot) {
                        k->at[i] = k->at[--k->count];
                        return true;
                }
        return false;
}

unsigned slots_free_count(const struct slots *s)
{
        return s->networked.count + s->bare.count;
}

unsigned slots_take(struct slots *s, int *ret_netns)
{
        struct slot_stack *from = s->networked.count > 0 ? &s->networked : &s->bare;
        unsigned slot;

        assert(from->count > 0);
        slot = from->at[--from->count];
        slots_go(s, slot, SLOT_ASKED);
        s->group_count -= s->has_group[slot];
        s->has_group[slot] = false;
        *ret_netns = TAKE_FD(s->netns[slot]);
        return slot;
}

unsigned slots_take_bare(struct slots *s)
{
        struct slot_stack *from = s->bare.count > 0 ? &s->bare : &s->networked;
        unsigned slot;

        if (from->count == 0)
                return 0;
        slot = from->at[--from->count];
        slots_go(s, slot, SLOT_USED);
        s->group_count -= s->has_group[slot];
        s->has_group[slot] = false;
        slots_close_later(s, &s->netns[slot], 1);
        return slot;
}

bool slots_mark_used(struct slots *s, unsigned slot)
{
        if (s->state[slot] != SLOT_FREE || !pick(&s->bare, slot))
                return false;
        slots_go(s, slot, SLOT_USED);
        return true;
}

/* ------------------------------------------------------------- cleaning */

static void clean(struct slots *s, unsigned slot)
{
        struct slot_cleaner_order job = {.slot = slot, .keeps_group = s->group_count < s->networked_max};
        int r = helper_send(&s->slot_cleaner, &job, sizeof(job), NULL, 0);

        if (r == -EPIPE)
                return; /* the next slot cleaner gets all that are dirty */
        if (r < 0)
                log_error("slot.lost", "slot=%u error=\"%s\", until the engine starts again", slot, strerror(-r));
}

void slots_return(struct slots *s, unsigned slot, int netns)
{
        slots_go(s, slot, SLOT_DIRTY);
        s->netns[slot] = netns;
        clean(s, slot);
}

void slots_mark_dirty(struct slots *s, unsigned slot)
{
        if (s->state[slot] == SLOT_FREE && pick(&s->bare, slot))
                slots_return(s, slot, -1);
}

static void is_clean(struct slots *s, const struct slot_cleaner_result *done)
{
        unsigned slot = done->slot;
        int *netns = &s->netns[slot];

        slots_go(s, slot, SLOT_FREE);
        s->has_group[slot] = done->kept_group;
        s->group_count += s->has_group[slot];
        if (*netns >= 0 && (done->was_online || s->networked.count >= s->networked_max))
                slots_close_later(s, netns, 1);
        push(*netns >= 0 ? &s->networked : &s->bare, slot);
        s->on_free(s);
}

static void on_cleaned(struct helper *h, const void *msg, size_t n, int *fds, size_t nfds)
{
        struct slots *s = CONTAINER_OF(h, struct slots, slot_cleaner);
        const struct slot_cleaner_result *done = msg;

        for (size_t i = 0; i < nfds; i++)
                close_fd(&fds[i]);
        if (n != sizeof(*done) || done->slot >= SLOTS_MAX || s->state[done->slot] != SLOT_DIRTY)
                return;
        if (done->r < 0)
                log_error("slot.lost", "slot=%u error=\"%s\", until the engine starts again", done->slot,
                          strerror(-done->r));
        else
                is_clean(s, done);
}

void slots_close_later(struct slots *s, int *fds, size_t n)
{
        struct slot_cleaner_order none = {0};
        int some[HELPER_FDS_MAX];
        size_t have = 0;

        for (size_t i = 0; i < n; i++) {
                if (fds[i] >= 0)
                        some[have++] = TAKE_FD(fds[i]);
                if (have == 0 || (have < HELPER_FDS_MAX && i + 1 < n))
                        continue;
                (void)helper_send(&s->slot_cleaner, &none, sizeof(none), some, have); /* else we pay the wait here */
                while (have > 0)
                        (void)close(some[--have]);
        }
}

static void on_slot_cleaner_gone(struct helper *h)
{
        struct slots *s = CONTAINER_OF(h, struct slots, slot_cleaner);

        s->on_slot_cleaner_gone(s);
}

int slots_start_cleaner(struct slots *s, struct loop *l, const struct cgroups *cg, const struct instance *in,
                        struct err *err)
{
        int sock, r;

        r = slot_cleaner_fork(cg, in, &sock, err);
        if (r < 0)
                return r;
        r = helper_start(&s->slot_cleaner, l, sock);
        if (r < 0)
                return err_sys(err, r, "watch slot cleaner");
        for (unsigned slot = SLOT_FIRST; slot < SLOTS_MAX; slot++)
                if (s->state[slot] == SLOT_DIRTY)
                        clean(s, slot);
        return 0;
}

void slots_init(struct slots *s, unsigned networked_max)
{
        *s = (struct slots){.networked_max = networked_max};
        s->slot_cleaner.on_message = on_cleaned;
        s->slot_cleaner.on_gone = on_slot_cleaner_gone;
        for (unsigned slot = 0; slot < SLOTS_MAX; slot++)
                s->netns[slot] = -1;
        for (unsigned slot = SLOTS_MAX - 1; slot >= SLOT_FIRST; slot--)
                push(&s->bare, slot);
}

void slots_done(struct slots *s)
{
        helper_stop(&s->slot_cleaner);
        for (unsigned slot = 0; slot < SLOTS_MAX; slot++)
                close_fd(&s->netns[slot]);
}
