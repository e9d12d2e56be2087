#include "engine/pool.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/janitor.h"
#include "model/envd_init.h"
#include "sys/proc.h"

#define ASKED_MAX NURSERY_BATCH
#define WARM_MS 10000u      /* from a cell's start until envd waits */
#define WAITING_MAX 4096u   /* creates that wait for a cell */
#define IDLE_NETNS_MAX 128u /* kept beyond the pool's target; each costs a quarter of a MiB */
#define RETRY_MIN_MS 100u
#define RETRY_MAX_MS 5000u

#define TO(s) (1u << (s))
static const unsigned slot_may[] = {
        [SLOT_FREE] = TO(SLOT_ASKED) | TO(SLOT_USED) | TO(SLOT_DIRTY),
        [SLOT_ASKED] = TO(SLOT_WARMING) | TO(SLOT_DIRTY),
        [SLOT_WARMING] = TO(SLOT_READY) | TO(SLOT_DIRTY),
        [SLOT_READY] = TO(SLOT_USED) | TO(SLOT_DIRTY),
        [SLOT_USED] = TO(SLOT_DIRTY),
        [SLOT_DIRTY] = TO(SLOT_FREE),
};

struct pooled { /* a cell nobody has taken yet */
        struct list node;
        struct pool *pool;
        struct cell cell;
        struct io watch; /* of its socket: envd says once that it waits; it closes when the cell dies */
        struct timer deadline;
        struct task free_task;
};

static void slot_go(struct pool *p, unsigned slot, enum slot_state next)
{
        struct slot *s = &p->slots[slot];

        assert(slot_may[s->state] & TO(next));
        s->state = next;
}

/* ------------------------------------------------------------- slots */

static void push(struct slot_stack *s, unsigned slot)
{
        s->at[s->count++] = (uint16_t)slot;
}

static bool remove_slot(struct slot_stack *s, unsigned slot)
{
        for (unsigned i = 0; i < s->count; i++)
                if (s->at[i] == slot) {
                        s->at[i] = s->at[--s->count];
                        return true;
                }
        return false;
}

static unsigned free_count(const struct pool *p)
{
        return p->networked.count + p->bare.count;
}

static void slot_is_clean(struct pool *p, unsigned slot, bool was_online)
{
        int *netns = &p->slots[slot].netns;

        slot_go(p, slot, SLOT_FREE);
        if (*netns >= 0 && (was_online || p->networked.count >= p->target + IDLE_NETNS_MAX))
                pool_close_later(p, netns, 1);
        push(*netns >= 0 ? &p->networked : &p->bare, slot);
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
        p->slots[slot].netns = netns;
        clean_slot(p, slot);
}

bool pool_mark_used(struct pool *p, unsigned slot)
{
        if (p->slots[slot].state != SLOT_FREE || !remove_slot(&p->bare, slot))
                return false;
        slot_go(p, slot, SLOT_USED);
        return true;
}

void pool_mark_dirty(struct pool *p, unsigned slot)
{
        if (p->slots[slot].state != SLOT_FREE || !remove_slot(&p->bare, slot))
                return;
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
        slot_is_clean(p, done->slot, done->was_online);
        pool_refill(p);
}

/* ------------------------------------------------------------- cells */

static void pause_asking(struct pool *p)
{
        uint64_t ms = (uint64_t)RETRY_MIN_MS << (p->failures < 10 ? p->failures : 10);

        p->failures++;
        timer_set(p->loop, &p->retry, ms > RETRY_MAX_MS ? RETRY_MAX_MS : ms);
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

static void free_pooled(struct task *t)
{
        free(CONTAINER_OF(t, struct pooled, free_task));
}

/* Out of the pool; what is in its cell is then the caller's. */
static void unhook(struct pooled *c)
{
        struct pool *p = c->pool;

        loop_del(&c->watch);
        timer_clear(&c->deadline);
        list_remove(&c->node);
        if (p->slots[c->cell.slot].state == SLOT_READY)
                p->ready_count--;
        else
                p->warming_count--;
        c->free_task.run = free_pooled;
        loop_post(p->loop, &c->free_task);
}

static void drop_cell(struct pool *p, struct cell *c)
{
        int netns = TAKE_FD(c->fd[CELL_NETNS]);

        (void)sys_pidfd_kill(c->fd[CELL_PIDFD], SIGKILL); /* if it is not dead yet */
        pool_close_later(p, c->fd, CELL_FDS);
        pool_return(p, c->slot, netns);
}

static void hand_over(struct pool *p, struct pooled *c)
{
        struct pool_waiter *w = LIST_ENTRY(list_pop_front(&p->waiting), struct pool_waiter, node);

        p->waiting_count--;
        unhook(c);
        slot_go(p, c->cell.slot, SLOT_USED);
        w->on_cell(w, &c->cell);
}

static void on_warm(struct pooled *c)
{
        struct pool *p = c->pool;

        timer_clear(&c->deadline);
        list_remove(&c->node);
        slot_go(p, c->cell.slot, SLOT_READY);
        p->warming_count--;
        p->ready_count++;
        list_push_back(&p->ready, &c->node);
        p->failures = 0;
        if (!list_is_empty(&p->waiting))
                hand_over(p, c);
}

static void on_warming_failed(struct pooled *c, const char *why)
{
        struct pool *p = c->pool;
        char clean[LOG_ESCAPED_MAX];
        struct err err = {0};

        (void)err_set(&err, ERR_UNAVAILABLE, "make cell: %s", log_escape(str_of(why), clean));
        log_error("cell.failed", "slot=%u error=\"%s\"", c->cell.slot, err.msg);
        unhook(c);
        drop_cell(p, &c->cell);
        pause_asking(p);
        fail_waiting(p, &err);
}

static void on_ready_died(struct pooled *c)
{
        log_warn("cell.died", "slot=%u pid=%d, making another", c->cell.slot, c->cell.pid);
        unhook(c);
        drop_cell(c->pool, &c->cell);
        pool_refill(c->pool);
}

static void on_pooled(struct io *io, uint32_t events)
{
        struct pooled *c = CONTAINER_OF(io, struct pooled, watch);
        char text[201];
        ssize_t n;

        (void)events;
        if (c->pool->slots[c->cell.slot].state == SLOT_READY) {
                on_ready_died(c); /* a waiting cell says nothing: anything is its end */
                return;
        }
        n = recv(io->fd, text, sizeof(text) - 1, MSG_DONTWAIT);
        text[n > 0 ? n : 0] = '\0';
        if (n == 1 && text[0] == ENVD_CELL_WAITING)
                on_warm(c);
        else
                on_warming_failed(c, n > 1 && text[0] == ENVD_CELL_FAILED ? text + 1 : "envd ended");
}

static void on_too_slow(struct timer *t)
{
        on_warming_failed(CONTAINER_OF(t, struct pooled, deadline), "envd did not start in time");
}

static int add_warming(struct pool *p, const struct cell *cell)
{
        struct pooled *c = calloc(1, sizeof(*c));
        int r;

        if (!c)
                return -ENOMEM;
        c->pool = p;
        c->cell = *cell;
        c->watch = (struct io){.fd = cell->fd[CELL_SOCK], .on = on_pooled};
        c->deadline.on = on_too_slow;
        r = loop_add(p->loop, &c->watch, EPOLLIN);
        if (r < 0) {
                free(c);
                return r;
        }
        timer_set(p->loop, &c->deadline, WARM_MS);
        slot_go(p, cell->slot, SLOT_WARMING);
        list_push_back(&p->warming, &c->node);
        p->warming_count++;
        return 0;
}

bool pool_take(struct pool *p, struct cell *ret)
{
        struct pooled *c;

        if (list_is_empty(&p->ready)) {
                p->misses++;
                return false;
        }
        c = LIST_ENTRY(p->ready.next, struct pooled, node);
        unhook(c);
        slot_go(p, c->cell.slot, SLOT_USED);
        *ret = c->cell;
        p->hits++;
        return true;
}

int pool_wait(struct pool *p, struct pool_waiter *w, struct err *err)
{
        if (p->waiting_count >= WAITING_MAX)
                return err_set(err, ERR_UNAVAILABLE, "%u sandboxes are waiting to be made already", WAITING_MAX);
        if (free_count(p) + p->asked_count + p->warming_count == 0)
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
        c = (struct cell){.slot = a.slot, .uid_base = a.uid_base, .pid = a.pid};
        memcpy(c.fd, fds, sizeof(c.fd));
        if (p->is_stopped || add_warming(p, &c) < 0)
                drop_cell(p, &c);
        pool_refill(p);
}

static bool ask_for_cell(struct pool *p)
{
        struct slot_stack *from = p->networked.count > 0 ? &p->networked : &p->bare;
        unsigned slot = from->at[from->count - 1];
        struct nursery_ask ask = {.slot = slot};
        struct err err = {0};
        AUTO_CLOSE int netns = -1;

        if (instance_uid_base(p->instance, slot, &ask.uid_base, &err) < 0) {
                log_error("cell.failed", "slot=%u error=\"%s\"", slot, err.msg);
                pause_asking(p);
                fail_waiting(p, &err);
                return false;
        }
        from->count--;
        slot_go(p, slot, SLOT_ASKED);
        netns = TAKE_FD(p->slots[slot].netns);
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
        while (p->asked_count < ASKED_MAX && free_count(p) > 0 &&
               p->ready_count + p->warming_count + p->asked_count < p->target + p->waiting_count)
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

        r = janitor_fork(p->conf.cgroups, p->conf.has_link ? p->conf.instance : NULL, &sock, err);
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
        list_init(&p->warming);
        list_init(&p->ready);
        list_init(&p->waiting);
        for (unsigned slot = 0; slot < SLOTS_MAX; slot++)
                p->slots[slot].netns = -1;
        for (unsigned slot = SLOTS_MAX - 1; slot >= SLOT_FIRST; slot--)
                push(&p->bare, slot);
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

static void end_all(struct list *cells)
{
        while (!list_is_empty(cells)) {
                struct pooled *c = LIST_ENTRY(cells->next, struct pooled, node);

                loop_del(&c->watch);
                timer_clear(&c->deadline);
                list_remove(&c->node);
                (void)sys_pidfd_kill(c->cell.fd[CELL_PIDFD], SIGKILL);
                cell_close(&c->cell);
                free(c);
        }
}

void pool_done(struct pool *p)
{
        p->is_stopped = true;
        timer_clear(&p->retry);
        end_all(&p->warming);
        end_all(&p->ready);
        helper_stop(&p->nursery);
        helper_stop(&p->janitor);
        for (unsigned slot = 0; slot < SLOTS_MAX; slot++)
                close_fd(&p->slots[slot].netns);
}
