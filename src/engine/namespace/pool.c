#include "engine/namespace/pool.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/log.h"
#include "model/envd_init.h"
#include "sys/proc.h"

#define ASKED_MAX CELL_MAKER_BATCH
#define WARM_MS 10000u      /* from a cell's start until envd waits */
#define WAITING_MAX 4096u   /* creates that wait for a cell */
#define IDLE_NETNS_MAX 128u /* kept beyond the pool's target; each costs a quarter of a MiB */
#define FINISH_MS 3000
#define RETRY_MIN_MS 100u
#define RETRY_MAX_MS 5000u

struct pooled { /* a cell nobody has taken yet */
        struct list node;
        struct pool *pool;
        struct cell cell;
        struct io watch; /* of its socket: envd says once that it waits; it closes when the cell dies */
        struct timer deadline;
        struct task free_task;
};

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
        if (p->slots.state[c->cell.slot] == SLOT_READY)
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
        slots_close_later(&p->slots, c->fd, CELL_FDS);
        slots_return(&p->slots, c->slot, netns);
}

static void hand_over(struct pool *p, struct pooled *c)
{
        struct pool_waiter *w = LIST_ENTRY(list_pop_front(&p->waiting), struct pool_waiter, node);

        p->waiting_count--;
        unhook(c);
        slots_go(&p->slots, c->cell.slot, SLOT_USED);
        w->on_cell(w, &c->cell);
}

static void on_warm(struct pooled *c)
{
        struct pool *p = c->pool;

        timer_clear(&c->deadline);
        list_remove(&c->node);
        slots_go(&p->slots, c->cell.slot, SLOT_READY);
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
        if (c->pool->slots.state[c->cell.slot] == SLOT_READY) {
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
        slots_go(&p->slots, cell->slot, SLOT_WARMING);
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
        slots_go(&p->slots, c->cell.slot, SLOT_USED);
        *ret = c->cell;
        p->hits++;
        return true;
}

int pool_wait(struct pool *p, struct pool_waiter *w, struct err *err)
{
        if (p->waiting_count >= WAITING_MAX)
                return err_set(err, ERR_UNAVAILABLE, "%u sandboxes are waiting to be made already", WAITING_MAX);
        if (slots_free_count(&p->slots) + p->asked_count + p->warming_count == 0)
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

/* ------------------------------------------------------------- the cell maker */

static void cell_failed(struct pool *p, const struct cell_maker_answer *a)
{
        struct err err = {.kind = a->kind == ERR_LIMIT ? ERR_LIMIT : ERR_UNAVAILABLE};

        (void)snprintf(err.msg, sizeof(err.msg), "make cell: %.200s", a->why);
        log_error("cell.failed", "slot=%u error=\"%.200s\"", a->slot, a->why);
        slots_return(&p->slots, a->slot, -1);
        pause_asking(p);
        fail_waiting(p, &err);
}

static void on_answer(struct helper *h, const void *msg, size_t n, int *fds, size_t nfds)
{
        struct pool *p = CONTAINER_OF(h, struct pool, cell_maker);
        struct cell_maker_answer a;
        struct cell c;

        if (n != sizeof(a) || (memcpy(&a, msg, sizeof(a)), a.slot >= SLOTS_MAX) ||
            p->slots.state[a.slot] != SLOT_ASKED || (a.pid != 0 && nfds != CELL_FDS)) {
                for (size_t i = 0; i < nfds; i++)
                        close_fd(&fds[i]);
                return;
        }
        p->asked_count--;
        if (a.pid == 0) {
                cell_failed(p, &a);
                return;
        }
        c = (struct cell){.slot = a.slot, .uid_base = a.uid_base, .pid = a.pid, .start_time = a.start_time};
        memcpy(c.fd, fds, sizeof(c.fd));
        if (p->is_stopped || add_warming(p, &c) < 0)
                drop_cell(p, &c);
        pool_refill(p);
}

static bool ask_for_cell(struct pool *p)
{
        AUTO_CLOSE int netns = -1;
        struct cell_maker_ask ask = {.slot = slots_take(&p->slots, &netns)};
        struct err err = {0};
        int r = instance_uid_base(p->instance, ask.slot, &ask.uid_base, &err);

        if (r == 0)
                r = helper_send(&p->cell_maker, &ask, sizeof(ask), &netns, netns >= 0);
        if (r == 0) {
                p->asked_count++;
                return true;
        }
        slots_return(&p->slots, ask.slot, TAKE_FD(netns));
        if (r == -EPIPE)
                return false; /* it died a moment ago, which we are about to hear: on_cell_maker_gone() */
        if (err.kind == ERR_NONE)
                (void)err_sys(&err, r, "ask for a cell");
        log_error("cell.failed", "slot=%u error=\"%s\"", ask.slot, err.msg);
        pause_asking(p);
        fail_waiting(p, &err);
        return false;
}

void pool_refill(struct pool *p)
{
        if (!helper_is_running(&p->cell_maker) || timer_is_armed(&p->retry) || p->is_stopped)
                return;
        while (p->asked_count < ASKED_MAX && slots_free_count(&p->slots) > 0 &&
               p->ready_count + p->warming_count + p->asked_count < p->target + p->waiting_count)
                if (!ask_for_cell(p))
                        return;
}

static int start_slot_cleaner(struct pool *p, struct err *err)
{
        return slots_start_cleaner(&p->slots, p->loop, p->conf.cgroups, p->conf.has_link ? p->conf.instance : NULL,
                                   err);
}

static int start_cell_maker(struct pool *p, struct err *err)
{
        int sock, r;

        r = cell_maker_fork(&p->conf, &sock, err);
        if (r < 0)
                return r;
        r = helper_start(&p->cell_maker, p->loop, sock);
        return r < 0 ? err_sys(err, r, "watch cell maker") : 0;
}

/* Cells it was making end with it; their slots are cleaned and used again. */
static void on_cell_maker_gone(struct helper *h)
{
        struct pool *p = CONTAINER_OF(h, struct pool, cell_maker);

        if (p->is_stopped)
                return;
        log_error("cell_maker.died", "asked=%u, starting another", p->asked_count);
        for (unsigned slot = SLOT_FIRST; slot < SLOTS_MAX; slot++)
                if (p->slots.state[slot] == SLOT_ASKED)
                        slots_return(&p->slots, slot, -1);
        p->asked_count = 0;
        pause_asking(p);
}

static void on_slot_cleaner_gone(struct slots *s)
{
        struct pool *p = CONTAINER_OF(s, struct pool, slots);

        if (p->is_stopped)
                return;
        log_error("slot_cleaner.died", "starting another");
        pause_asking(p);
}

static void on_slot_free(struct slots *s)
{
        pool_refill(CONTAINER_OF(s, struct pool, slots));
}

static void on_retry(struct timer *t)
{
        struct pool *p = CONTAINER_OF(t, struct pool, retry);
        struct err err = {0};
        int r = 0;

        if (!helper_is_running(&p->slots.slot_cleaner))
                r = start_slot_cleaner(p, &err);
        if (r == 0 && !helper_is_running(&p->cell_maker))
                r = start_cell_maker(p, &err);
        if (r == 0) {
                pool_refill(p);
                return;
        }
        log_error("helper.failed", "error=\"%s\"", err.msg);
        pause_asking(p);
        fail_waiting(p, &err);
}

void pool_init(struct pool *p, struct loop *l, struct instance *in, unsigned target)
{
        *p = (struct pool){.loop = l, .instance = in, .target = target};
        slots_init(&p->slots, target + IDLE_NETNS_MAX);
        p->slots.on_free = on_slot_free;
        p->slots.on_slot_cleaner_gone = on_slot_cleaner_gone;
        list_init(&p->warming);
        list_init(&p->ready);
        list_init(&p->waiting);
        p->cell_maker.on_message = on_answer;
        p->cell_maker.on_gone = on_cell_maker_gone;
        p->retry.on = on_retry;
}

int pool_start(struct pool *p, const struct cell_maker_conf *conf, struct err *err)
{
        int r;

        p->conf = *conf;
        r = start_cell_maker(p, err);
        return r < 0 ? r : start_slot_cleaner(p, err);
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
        helper_finish(&p->cell_maker, FINISH_MS); /* so that it makes nothing more behind our back */
        slots_done(&p->slots);
}
