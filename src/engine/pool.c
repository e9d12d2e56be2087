#include "engine/pool.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/janitor.h"
#include "sys/proc.h"

#define ASKED_MAX 4u        /* in the nursery's hands at a time */
#define WAITING_MAX 4096u   /* creates that wait for a cell */
#define IDLE_NETNS_MAX 128u /* kept beyond the pool's target; each costs a quarter of a MiB */
#define RETRY_MIN_MS 100u
#define RETRY_MAX_MS 5000u

#define TO(s) (1u << (s))
static const unsigned slot_may[] = {
        [SLOT_FREE] = TO(SLOT_ASKED) | TO(SLOT_USED) | TO(SLOT_DIRTY),
        [SLOT_ASKED] = TO(SLOT_READY) | TO(SLOT_DIRTY),
        [SLOT_READY] = TO(SLOT_USED) | TO(SLOT_DIRTY),
        [SLOT_USED] = TO(SLOT_DIRTY),
        [SLOT_DIRTY] = TO(SLOT_FREE),
};

struct ready_cell {
        struct list node;
        struct pool *pool;
        struct cell cell;
        struct io watch; /* of its socket: it closes when the cell dies */
        struct task free_task;
};

static void slot_go(struct pool *p, unsigned slot, enum slot_state next)
{
        struct slot *s = &p->slots[slot];

        assert(slot_may[s->state] & TO(next));
        s->state = next;
}

/* ------------------------------------------------------------- slots */

static void keep_netns(struct pool *p, unsigned slot, int netns)
{
        p->slots[slot].netns = netns;
        if (netns >= 0)
                p->idle_netns++;
}

static int take_netns(struct pool *p, unsigned slot)
{
        if (p->slots[slot].netns >= 0)
                p->idle_netns--;
        return TAKE_FD(p->slots[slot].netns);
}

static void slot_is_clean(struct pool *p, unsigned slot)
{
        slot_go(p, slot, SLOT_FREE);
        if (p->idle_netns > p->target + IDLE_NETNS_MAX) {
                int netns = take_netns(p, slot);

                pool_close_later(p, &netns, 1);
        }
        p->free[p->free_count++] = (uint16_t)slot;
}

static void clean_slot(struct pool *p, unsigned slot)
{
        struct janitor_job job = {slot};
        int r = helper_send(&p->janitor, &job, sizeof(job), NULL, 0);

        if (r == -EPIPE)
                return; /* the next janitor gets all that are dirty */
        if (r < 0)
                log_error("slot.lost", "slot=%u error=\"%s\", until the engine starts again", slot, strerror(-r));
}

void pool_return(struct pool *p, unsigned slot, int netns)
{
        slot_go(p, slot, SLOT_DIRTY);
        keep_netns(p, slot, netns);
        clean_slot(p, slot);
}

static void remove_from_free(struct pool *p, unsigned slot)
{
        for (unsigned i = 0; i < p->free_count; i++)
                if (p->free[i] == slot) {
                        p->free[i] = p->free[--p->free_count];
                        return;
                }
}

bool pool_mark_used(struct pool *p, unsigned slot)
{
        if (p->slots[slot].state != SLOT_FREE)
                return false;
        remove_from_free(p, slot);
        slot_go(p, slot, SLOT_USED);
        return true;
}

void pool_mark_dirty(struct pool *p, unsigned slot)
{
        if (p->slots[slot].state != SLOT_FREE)
                return;
        remove_from_free(p, slot);
        slot_go(p, slot, SLOT_DIRTY);
        clean_slot(p, slot);
}

void pool_close_later(struct pool *p, int *fds, size_t n)
{
        struct janitor_job none = {0};
        int some[HELPER_FDS_MAX];
        size_t have = 0;

        for (size_t i = 0; i < n; i++) {
                if (fds[i] >= 0)
                        some[have++] = TAKE_FD(fds[i]);
                if (have == 0 || (have < HELPER_FDS_MAX && i + 1 < n))
                        continue;
                (void)helper_send(&p->janitor, &none, sizeof(none), some, have); /* else we pay the wait here */
                while (have > 0)
                        (void)close(some[--have]);
        }
}

static void on_cleaned(struct helper *h, const void *msg, size_t n, int *fds, size_t nfds)
{
        struct pool *p = CONTAINER_OF(h, struct pool, janitor);
        const struct janitor_done *done = msg;

        for (size_t i = 0; i < nfds; i++)
                close_fd(&fds[i]);
        if (n != sizeof(*done) || done->slot >= SLOTS_MAX || p->slots[done->slot].state != SLOT_DIRTY)
                return;
        if (done->r < 0) {
                log_error("slot.lost", "slot=%u error=\"%s\", until the engine starts again", done->slot,
                          strerror(-done->r));
                return;
        }
        slot_is_clean(p, done->slot);
        pool_refill(p);
}

/* ------------------------------------------------------------- cells */

static void free_ready(struct task *t)
{
        free(CONTAINER_OF(t, struct ready_cell, free_task));
}

/* Out of the pool; what is in rc->cell is then the caller's. */
static void unhook_ready(struct ready_cell *rc)
{
        struct pool *p = rc->pool;

        loop_del(&rc->watch);
        list_remove(&rc->node);
        p->ready_count--;
        rc->free_task.run = free_ready;
        loop_post(p->loop, &rc->free_task);
}

static void drop_cell(struct pool *p, struct cell *c)
{
        int netns = TAKE_FD(c->fd[CELL_NETNS]);

        (void)sys_pidfd_kill(c->fd[CELL_PIDFD], SIGKILL); /* if it is not dead yet */
        pool_close_later(p, c->fd, CELL_FDS);
        pool_return(p, c->slot, netns);
}

static void on_ready_died(struct io *io, uint32_t events)
{
        struct ready_cell *rc = CONTAINER_OF(io, struct ready_cell, watch);

        (void)events;
        log_warn("cell.died", "slot=%u pid=%d, making another", rc->cell.slot, rc->cell.pid);
        unhook_ready(rc);
        drop_cell(rc->pool, &rc->cell);
        pool_refill(rc->pool);
}

static int add_ready(struct pool *p, struct cell *c)
{
        struct ready_cell *rc = calloc(1, sizeof(*rc));
        int r;

        if (!rc)
                return -ENOMEM;
        rc->pool = p;
        rc->cell = *c;
        rc->watch = (struct io){.fd = c->fd[CELL_SOCK], .on = on_ready_died};
        r = loop_add(p->loop, &rc->watch, EPOLLIN); /* a waiting cell says nothing: anything is its end */
        if (r < 0) {
                free(rc);
                return r;
        }
        slot_go(p, c->slot, SLOT_READY);
        list_push_back(&p->ready, &rc->node);
        p->ready_count++;
        return 0;
}

bool pool_take(struct pool *p, struct cell *ret)
{
        struct ready_cell *rc;

        if (list_is_empty(&p->ready)) {
                p->misses++;
                return false;
        }
        rc = LIST_ENTRY(p->ready.next, struct ready_cell, node);
        unhook_ready(rc);
        slot_go(p, rc->cell.slot, SLOT_USED);
        *ret = rc->cell;
        p->hits++;
        return true;
}

static void hand_over(struct pool *p, struct cell *c)
{
        struct pool_waiter *w = LIST_ENTRY(list_pop_front(&p->waiting), struct pool_waiter, node);

        p->waiting_count--;
        slot_go(p, c->slot, SLOT_READY);
        slot_go(p, c->slot, SLOT_USED);
        w->on_cell(w, c);
}

static void fail_waiting(struct pool *p, const struct err *err)
{
        struct list *node;

        while ((node = list_pop_front(&p->waiting))) {
                struct pool_waiter *w = LIST_ENTRY(node, struct pool_waiter, node);

                p->waiting_count--;
                w->on_fail(w, err);
        }
}

int pool_wait(struct pool *p, struct pool_waiter *w, struct err *err)
{
        if (p->waiting_count >= WAITING_MAX)
                return err_set(err, ERR_UNAVAILABLE, "%u sandboxes are waiting to be made already", WAITING_MAX);
        if (p->free_count == 0 && p->asked_count == 0)
                return err_set(err, ERR_LIMIT, "all %u slots of this server are in use", SLOTS_MAX - SLOT_FIRST);
        list_push_back(&p->waiting, &w->node);
        p->waiting_count++;
        pool_refill(p);
        return 0;
}

void pool_cancel(struct pool *p, struct pool_waiter *w)
{
        if (!list_is_hooked(&w->node))
                return;
        list_remove(&w->node);
        p->waiting_count--;
}

/* ------------------------------------------------------------- the nursery */

static void pause_asking(struct pool *p)
{
        uint64_t ms = (uint64_t)RETRY_MIN_MS << (p->failures < 10 ? p->failures : 10);

        p->failures++;
        timer_set(p->loop, &p->retry, ms > RETRY_MAX_MS ? RETRY_MAX_MS : ms);
}

static void cell_failed(struct pool *p, const struct nursery_answer *a)
{
        struct err err = {.kind = a->kind == ERR_LIMIT ? ERR_LIMIT : ERR_UNAVAILABLE};

        (void)snprintf(err.msg, sizeof(err.msg), "make cell: %.200s", a->why);
        log_error("cell.failed", "slot=%u error=\"%.200s\"", a->slot, a->why);
        pool_return(p, a->slot, -1);
        pause_asking(p);
        fail_waiting(p, &err);
}

static void on_answer(struct helper *h, const void *msg, size_t n, int *fds, size_t nfds)
{
        struct pool *p = CONTAINER_OF(h, struct pool, nursery);
        struct nursery_answer a;
        struct cell c;

        if (n != sizeof(a) || (memcpy(&a, msg, sizeof(a)), a.slot >= SLOTS_MAX) ||
            p->slots[a.slot].state != SLOT_ASKED || (a.pid != 0 && nfds != CELL_FDS)) {
                for (size_t i = 0; i < nfds; i++)
                        close_fd(&fds[i]);
                return;
        }
        p->asked_count--;
        if (a.pid == 0) {
                cell_failed(p, &a);
                return;
        }
        p->failures = 0;
        c = (struct cell){.slot = a.slot, .uid_base = a.uid_base, .pid = a.pid};
        memcpy(c.fd, fds, sizeof(c.fd));
        if (p->is_stopped)
                drop_cell(p, &c);
        else if (!list_is_empty(&p->waiting))
                hand_over(p, &c);
        else if (add_ready(p, &c) < 0)
                drop_cell(p, &c);
        pool_refill(p);
}

static bool ask_for_cell(struct pool *p)
{
        unsigned slot = p->free[p->free_count - 1];
        struct nursery_ask ask = {.slot = slot};
        struct err err = {0};
        AUTO_CLOSE int netns = -1;

        if (instance_uid_base(p->instance, slot, &ask.uid_base, &err) < 0) {
                log_error("cell.failed", "slot=%u error=\"%s\"", slot, err.msg);
                pause_asking(p);
                fail_waiting(p, &err);
                return false;
        }
        p->free_count--;
        slot_go(p, slot, SLOT_ASKED);
        netns = take_netns(p, slot);
        p->asked_count++;
        if (helper_send(&p->nursery, &ask, sizeof(ask), &netns, netns >= 0) == 0)
                return true;
        p->asked_count--;
        pool_return(p, slot, -1);
        return false;
}

void pool_refill(struct pool *p)
{
        if (!helper_is_running(&p->nursery) || timer_is_armed(&p->retry) || p->is_stopped)
                return;
        while (p->asked_count < ASKED_MAX && p->ready_count + p->asked_count < p->target + p->waiting_count &&
               p->free_count > 0)
                if (!ask_for_cell(p))
                        return;
}

static int start_nursery(struct pool *p, struct err *err)
{
        int sock, r;

        r = nursery_fork(&p->conf, &sock, err);
        if (r < 0)
                return r;
        r = helper_start(&p->nursery, p->loop, sock);
        return r < 0 ? err_sys(err, r, "watch nursery") : 0;
}

static int start_janitor(struct pool *p, struct err *err)
{
        int sock, r;

        r = janitor_fork(p->conf.cgroups, &sock, err);
        if (r < 0)
                return r;
        r = helper_start(&p->janitor, p->loop, sock);
        return r < 0 ? err_sys(err, r, "watch janitor") : 0;
}

/* Cells it was making end with it; their slots are cleaned and used again. */
static void on_nursery_gone(struct helper *h)
{
        struct pool *p = CONTAINER_OF(h, struct pool, nursery);

        if (p->is_stopped)
                return;
        log_error("nursery.died", "asked=%u, starting another", p->asked_count);
        for (unsigned slot = SLOT_FIRST; slot < SLOTS_MAX; slot++)
                if (p->slots[slot].state == SLOT_ASKED)
                        pool_return(p, slot, -1);
        p->asked_count = 0;
        pause_asking(p);
}

static void on_janitor_gone(struct helper *h)
{
        struct pool *p = CONTAINER_OF(h, struct pool, janitor);

        if (p->is_stopped)
                return;
        log_error("janitor.died", "starting another");
        pause_asking(p);
}

static void on_retry(struct timer *t)
{
        struct pool *p = CONTAINER_OF(t, struct pool, retry);
        struct err err = {0};

        if (!helper_is_running(&p->janitor)) {
                if (start_janitor(p, &err) == 0)
                        for (unsigned slot = SLOT_FIRST; slot < SLOTS_MAX; slot++)
                                if (p->slots[slot].state == SLOT_DIRTY)
                                        clean_slot(p, slot);
        }
        if (!helper_is_running(&p->nursery) && start_nursery(p, &err) < 0)
                fail_waiting(p, &err);
        if (err.kind != ERR_NONE) {
                log_error("helper.failed", "error=\"%s\"", err.msg);
                pause_asking(p);
                return;
        }
        pool_refill(p);
}

void pool_init(struct pool *p, struct loop *l, struct instance *in, unsigned target)
{
        *p = (struct pool){.loop = l, .instance = in, .target = target};
        list_init(&p->ready);
        list_init(&p->waiting);
        for (unsigned slot = 0; slot < SLOTS_MAX; slot++)
                p->slots[slot].netns = -1;
        for (unsigned slot = SLOTS_MAX - 1; slot >= SLOT_FIRST; slot--)
                p->free[p->free_count++] = (uint16_t)slot;
        p->nursery.on_message = on_answer;
        p->nursery.on_gone = on_nursery_gone;
        p->janitor.on_message = on_cleaned;
        p->janitor.on_gone = on_janitor_gone;
        p->retry.on = on_retry;
}

int pool_start(struct pool *p, const struct nursery_conf *conf, struct err *err)
{
        int r;

        p->conf = *conf;
        r = start_nursery(p, err);
        return r < 0 ? r : start_janitor(p, err);
}

void pool_done(struct pool *p)
{
        p->is_stopped = true;
        timer_clear(&p->retry);
        while (!list_is_empty(&p->ready)) {
                struct ready_cell *rc = LIST_ENTRY(p->ready.next, struct ready_cell, node);

                loop_del(&rc->watch);
                list_remove(&rc->node);
                (void)sys_pidfd_kill(rc->cell.fd[CELL_PIDFD], SIGKILL);
                cell_close(&rc->cell);
                free(rc);
        }
        helper_stop(&p->nursery);
        helper_stop(&p->janitor);
        for (unsigned slot = 0; slot < SLOTS_MAX; slot++)
                close_fd(&p->slots[slot].netns);
}
