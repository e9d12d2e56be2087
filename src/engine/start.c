#include "engine/start.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/janitor.h"
#include "engine/origin.h"
#include "model/envd_init.h"
#include "sys/fs.h"
#include "sys/scm.h"

#define READY_MS 15000u /* for envd to take its root and answer */

static void free_memory(struct task *t)
{
        free(CONTAINER_OF(t, struct start, free_task));
}

struct start *start_free(struct start *st)
{
        struct engine *e;
        struct pool *p;

        if (!st)
                return NULL;
        e = st->guest->engine;
        p = &e->pool;
        pool_cancel(p, &st->waiter);
        timer_clear(&st->deadline);
        loop_del(&st->sock);
        close_fd(&st->rootfs.mount);
        slots_close_later(&p->slots, st->rootfs.later, st->rootfs.later_count);
        slots_close_later(&p->slots, st->cell.fd, CELL_FDS);
        close_fd(&st->dir);
        buf_done(&st->out);
        plan_done(&st->plan);
        st->free_task.run = free_memory; /* we may be inside one of its callbacks */
        loop_post(e->loop, &st->free_task);
        return NULL;
}

/* ------------------------------------------------------------- the end: envd answers */

static void start_done(struct start *st)
{
        struct guest *s = st->guest;
        uint64_t us = clock_mono_us() - st->began_us;

        guest_go(s, GUEST_RUNNING);
        s->engine->alive++;
        if (s->was_resting)
                (void)still_remove(st->dir); /* with it, a crash would end its processes: no more than that */
        s->was_resting = false;
        s->still = (struct still){0};
        ask_ok(TAKE_PTR(st->ask),
               json_pack("{s:i,s:I,s:s}", "pid", (int)s->record.pid, "create_us", (json_int_t)us, "from", "cell"), -1);
        log_info("sandbox.started", "sandbox=%s slot=%u pid=%d create_us=%llu", s->record.id, s->record.slot,
                 s->record.pid, (unsigned long long)us);
        s->start = start_free(st);
        pool_refill(&s->engine->pool);
}

static void on_envd(struct start *st)
{
        char text[201];
        ssize_t n = recv(st->sock.fd, text, sizeof(text) - 1, 0);
        struct err err = {0};

        if (n < 0 && errno == EAGAIN)
                return;
        if (n >= 1 && text[0] == ENVD_CELL_READY) {
                start_done(st);
                return;
        }
        text[n > 0 ? n : 0] = '\0';
        if (n > 1 && text[0] == ENVD_CELL_FAILED) {
                char clean[LOG_ESCAPED_MAX];

                (void)err_set(&err, ERR_INTERNAL, "envd: %s", log_escape(str_of(text + 1), clean));
        } else
                (void)err_set(&err, ERR_INTERNAL, "envd ended while starting");
        guest_fail(st->guest, &err);
}

/* ------------------------------------------------------------- sending the init message */

static int send_some(struct start *st)
{
        while (st->out.len > 0) {
                ssize_t n = scm_send(st->sock.fd, buf_at(&st->out), st->out.len, &st->rootfs.mount, !st->is_root_sent);

                if (n == -EAGAIN)
                        break;
                if (n < 0)
                        return (int)n;
                st->is_root_sent = true;
                buf_consume(&st->out, (size_t)n);
        }
        loop_want(&st->sock, st->out.len > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
        return 0;
}

static void on_sock(struct io *io, uint32_t events)
{
        struct start *st = CONTAINER_OF(io, struct start, sock);
        struct err err = {0};
        int r;

        if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
                on_envd(st);
                return;
        }
        r = send_some(st);
        if (r < 0) {
                (void)err_sys(&err, r, "send to envd");
                guest_fail(st->guest, &err);
        }
}

static void on_deadline(struct timer *t)
{
        struct err err = {0};

        (void)err_set(&err, ERR_TIMEOUT, "envd was not ready in %u ms", READY_MS);
        guest_fail(CONTAINER_OF(t, struct start, deadline)->guest, &err);
}

static int write_init(struct start *st)
{
        AUTO_FREE char *text = json_dumps(st->plan.init, JSON_COMPACT);
        size_t len = text ? strlen(text) : 0;
        uint8_t head[4] = {(uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len};
        int r;

        if (!text)
                return -ENOMEM;
        buf_init(&st->out, ENVD_INIT_MAX + sizeof(head));
        r = buf_add(&st->out, head, sizeof(head));
        return r < 0 ? r : buf_add(&st->out, text, len);
}

static int step_send(struct start *st, struct err *err)
{
        int sock = st->cell.fd[CELL_SOCK], r;

        if (fcntl(sock, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
                return err_sys(err, -errno, "set up socket");
        st->sock = (struct io){.fd = sock, .on = on_sock};
        r = loop_add(st->guest->engine->loop, &st->sock, EPOLLIN);
        if (r == 0)
                r = write_init(st);
        if (r == 0)
                r = send_some(st);
        if (r < 0)
                return err_sys(err, r, "send to envd");
        st->deadline.on = on_deadline;
        timer_set(st->guest->engine->loop, &st->deadline, READY_MS);
        return 0;
}

/* ------------------------------------------------------------- the steps before it */

static int step_limits(struct start *st, struct err *err)
{
        struct engine *e = st->guest->engine;

        return cgroups_limit(&e->cgroups, st->cell.slot, &e->default_limits, &st->plan.limits, err);
}

static int step_filter(struct start *st, struct err *err)
{
        return guest_set_net(st->guest, &st->plan.net, err);
}

static int step_dir(struct start *st, struct err *err)
{
        struct engine *e = st->guest->engine;
        int r;

        if (!st->guest->was_resting && mkdirat(e->sandboxes_dir, st->plan.id, 0700) < 0)
                return err_sys(err, -errno, "make directory of sandbox %s", st->plan.id);
        r = sys_open_dir(e->sandboxes_dir, st->plan.id);
        if (r < 0)
                return err_sys(err, r, "open directory of sandbox %s", st->plan.id);
        st->dir = r;
        return 0;
}

static int step_rootfs(struct start *st, struct err *err)
{
        struct engine *e = st->guest->engine;
        struct rootfs_dirs dirs = {e->layers_dir, e->sealed_dir, st->dir, e->trash_dir};

        int r = rootfs_build(&st->rootfs, &dirs, &st->plan, &st->cell, err);

        if (r == 0 && st->plan.is_upper_kept) {
                rootfs_renew_boot_id(&st->rootfs, st->cell.uid_base);
                sweeper_call(&e->sweeper); /* the old work directory */
        }
        return r;
}

/* After the message is on its way, so that envd works meanwhile; before the answer, so that no sandbox that anybody knows
 * of is without a record.  One that a crash leaves without is ended by the next engine. */
static int step_record(struct start *st, struct err *err)
{
        struct guest *s = st->guest;

        origin_write(st->dir, s->record.id, st->plan.origin);
        s->record.started_ns = clock_real_ns();
        memcpy(s->record.envd, s->engine->envd_hash, sizeof(s->record.envd));
        return record_write(st->dir, &s->record, err);
}

/* Once it runs, memory that is kept of it does not fit its files any more.  That it is at rest stays written until envd
 * is ready: a crash before that leaves it there. */
static int step_forget_memory(struct start *st, struct err *err)
{
        struct guest *s = st->guest;
        struct still files = s->still;
        int r;

        if (!s->was_resting || !s->still.checkpoint[0])
                return 0;
        files.checkpoint[0] = '\0';
        r = still_write(st->dir, st->plan.id, &files, true, err);
        if (r == 0)
                s->still = files;
        return r;
}

typedef int start_step(struct start *st, struct err *err);
static start_step *const steps[] = {step_limits,        step_filter, step_dir,   step_rootfs,
                                    step_forget_memory, step_send,   step_record};

/* The sandbox now has a process: from here on its death is watched, and undoing begins with killing it. */
static int adopt_cell(struct start *st, struct cell *c, struct err *err)
{
        struct guest *s = st->guest;
        int r;

        st->cell = *c;
        s->record.slot = c->slot;
        s->record.uid_base = c->uid_base;
        s->record.pid = c->pid;
        s->record.start_time = c->start_time;
        s->netns = TAKE_FD(st->cell.fd[CELL_NETNS]);
        guest_go(s, GUEST_STARTING);
        r = guest_watch(s, TAKE_FD(st->cell.fd[CELL_PIDFD]));
        return r < 0 ? err_sys(err, r, "watch process") : 0;
}

static void start_with(struct start *st, struct cell *c)
{
        struct err err = {0};
        int r = adopt_cell(st, c, &err);

        for (size_t i = 0; i < ARRAY_LEN(steps) && r == 0; i++)
                r = steps[i](st, &err);
        if (r < 0)
                guest_fail(st->guest, &err);
}

static void on_cell(struct pool_waiter *w, struct cell *c)
{
        start_with(CONTAINER_OF(w, struct start, waiter), c);
}

static void on_no_cell(struct pool_waiter *w, const struct err *err)
{
        guest_fail(CONTAINER_OF(w, struct start, waiter)->guest, err);
}

/* Nobody would know of it, and nobody would ever end it. */
static void on_orphan(struct ask *a)
{
        struct start *st = a->arg;
        struct err err = {0};

        (void)err_set(&err, ERR_CONFLICT, "who asked for it is gone");
        guest_fail(st->guest, &err);
}

void start_begin(struct guest *s, struct plan_create *plan, struct ask *a)
{
        struct start *st = calloc(1, sizeof(*st));
        struct err err = {0};
        struct cell c;

        if (!st) {
                (void)err_sys(&err, -ENOMEM, "create");
                plan_done(plan);
                ask_fail(a, &err);
                guest_fail(s, &err);
                return;
        }
        *st = (struct start){.guest = s, .plan = *plan, .ask = a, .began_us = clock_mono_us(), .dir = -1};
        *plan = (struct plan_create){0};
        cell_init(&st->cell);
        rootfs_init(&st->rootfs);
        st->waiter.on_cell = on_cell;
        st->waiter.on_fail = on_no_cell;
        a->on_orphan = on_orphan;
        a->arg = st;
        s->start = st;
        if (pool_take(&s->engine->pool, &c))
                start_with(st, &c);
        else if (pool_wait(&s->engine->pool, &st->waiter, &err) < 0)
                guest_fail(st->guest, &err);
}
