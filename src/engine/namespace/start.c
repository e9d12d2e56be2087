#include "engine/namespace/start.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/namespace/rules.h"
#include "engine/storage/disk.h"
#include "engine/storage/trash_remover.h"
#include "model/envd_init.h"
#include "sys/scm.h"

#define READY_MS 15000u /* for envd to take its root and answer */
#define DISK_MS 25000u  /* for all of it, on a disk that stalls: before control gives it up */

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
        p = &e->namespaces->pool;
        pool_cancel(p, &st->waiter);
        disk_forget(st->files);
        timer_clear(&st->disk_deadline);
        timer_clear(&st->envd_deadline);
        loop_del(&st->sock);
        slots_close_later(&p->slots, st->rootfs.parts, ROOTFS_PARTS_MAX);
        rootfs_done(&st->rootfs);
        slots_close_later(&p->slots, st->cell.fd, CELL_FDS);
        buf_done(&st->out);
        plan_done(&st->plan);
        st->free_task.run = free_memory; /* we may be inside one of its callbacks */
        loop_post(e->loop, &st->free_task);
        return NULL;
}

/* ------------------------------------------------------------- the end: envd answers */

static void start_done(struct start *st)
{
        struct guest *g = st->guest;

        guest_started(g, TAKE_PTR(st->ask), st->began_us, "cell", NULL);
        namespace_of(g)->start = start_free(st);
        pool_refill(&g->engine->namespaces->pool);
}

static void on_awake(void *arg, const struct err *err)
{
        struct start *st = arg;

        (void)err; /* with paused.json, a crash would end its processes: no more than that */
        st->files = NULL;
        start_done(st);
}

/* envd is ready, and the record is written. */
static void start_finish(struct start *st)
{
        struct guest *s = st->guest;

        timer_clear(&st->envd_deadline);
        if (s->source == GUEST_WAS_PAUSED)
                st->files = disk_note_running(&s->engine->disk, s->record.id, on_awake, st);
        if (!st->files)
                start_done(st);
}

static void on_envd(struct start *st)
{
        char text[201];
        ssize_t n = recv(st->sock.fd, text, sizeof(text) - 1, 0);
        struct err err = {0};

        if (n < 0 && errno == EAGAIN)
                return;
        if (n >= 1 && text[0] == ENVD_CELL_READY && !st->is_ready) {
                st->is_ready = true;
                loop_del(&st->sock); /* it says nothing more; its death is heard of otherwise */
                if (st->is_recorded)
                        start_finish(st);
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
                const int fds[] = {st->rootfs.mount, st->rootfs.boot_id};
                size_t nfds = st->is_root_sent ? 0 : st->rootfs.boot_id < 0 ? 1 : 2;
                ssize_t n = scm_send(st->sock.fd, buf_at(&st->out), st->out.len, fds, nfds);

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

static void on_envd_deadline(struct timer *t)
{
        struct start *st = CONTAINER_OF(t, struct start, envd_deadline);
        struct err err = {0};

        if (st->is_ready)
                return; /* the disk is what it waits for */
        (void)err_set(&err, ERR_TIMEOUT, "envd was not ready in %u ms", READY_MS);
        guest_fail(st->guest, &err);
}

/* Answered before it is undone: that needs the disk as well. */
static void on_disk_deadline(struct timer *t)
{
        struct start *st = CONTAINER_OF(t, struct start, disk_deadline);
        struct err err = {0};

        (void)err_set(&err, ERR_TIMEOUT, "%s in %u s",
                      list_is_hooked(&st->waiter.node) ? "no cell was made" : "the disk did not answer",
                      DISK_MS / 1000);
        ask_fail(TAKE_PTR(st->ask), &err);
        guest_fail(st->guest, &err);
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
        st->envd_deadline.on = on_envd_deadline;
        timer_set(st->guest->engine->loop, &st->envd_deadline, READY_MS);
        return 0;
}

/* ------------------------------------------------------------- the steps before it */

static int step_limits(struct start *st, struct err *err)
{
        struct engine *e = st->guest->engine;

        return cgroups_limit(&e->namespaces->cgroups, st->cell.slot, &e->default_limits, &st->plan.limits, err);
}

static int step_rules(struct start *st, struct err *err)
{
        return rules_set(st->guest, &st->plan.net, err);
}

/* The tree is there: envd works with it while its record is written. */
static void on_tree(void *arg, struct rootfs *tree)
{
        struct start *st = arg;
        struct err err = {0};

        st->rootfs = *tree;
        rootfs_init(tree);
        st->guest->paused.checkpoint[0] = '\0'; /* given up, on disk as well: disk_serve.c */
        if (st->plan.is_upper_kept)
                trash_remover_call(&st->guest->engine->trash_remover); /* the old work directory */
        if (step_send(st, &err) < 0)
                guest_fail(st->guest, &err);
}

static void on_recorded(void *arg, const struct err *err)
{
        struct start *st = arg;

        st->files = NULL;
        st->is_recorded = true;
        if (err->kind != ERR_NONE)
                guest_fail(st->guest, err);
        else if (st->is_ready)
                start_finish(st);
}

static int step_files(struct start *st, struct err *err)
{
        struct guest *s = st->guest;
        struct disk_make m = {.id = st->plan.id,
                              .plan = &st->plan,
                              .uid_base = st->cell.uid_base,
                              .userns = st->cell.fd[CELL_USERNS],
                              .record = &s->record,
                              .is_paused = s->source == GUEST_WAS_PAUSED,
                              .paused = s->paused,
                              .on_tree = on_tree};

        s->record.started_ns = clock_real_ns();
        memcpy(s->record.envd, s->engine->envd_hash, sizeof(s->record.envd));
        st->files = disk_make(&s->engine->disk, &m, on_recorded, st);
        if (!st->files)
                return err_sys(err, -ENOMEM, "make sandbox %s", st->plan.id);
        return 0;
}

typedef int start_step(struct start *st, struct err *err);
static start_step *const steps[] = {step_limits, step_rules, step_files};

/* The sandbox now has a process: from here on its death is watched, and undoing begins with killing it. */
static int adopt_cell(struct start *st, struct cell *c, struct err *err)
{
        struct guest *s = st->guest;
        int r;

        st->cell = *c;
        s->record.facts.namespace = (struct namespace_facts){.slot = c->slot, .uid_base = c->uid_base};
        s->record.pid = c->pid;
        s->record.start_time = c->start_time;
        namespace_of(s)->netns = TAKE_FD(st->cell.fd[CELL_NETNS]);
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
static void start_orphaned(struct ask *a)
{
        struct start *st = a->arg;
        struct err err = {0};

        (void)err_set(&err, ERR_CONFLICT, "the caller is gone");
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
        *st = (struct start){.guest = s, .plan = *plan, .ask = a, .began_us = clock_mono_us()};
        *plan = (struct plan_create){0};
        cell_init(&st->cell);
        rootfs_init(&st->rootfs);
        st->waiter.on_cell = on_cell;
        st->waiter.on_fail = on_no_cell;
        a->on_orphan = start_orphaned;
        a->arg = st;
        namespace_of(s)->start = st;
        st->disk_deadline.on = on_disk_deadline;
        timer_set(s->engine->loop, &st->disk_deadline, DISK_MS);
        if (!a->client)
                start_orphaned(a); /* while it waited for its turn */
        else if (pool_take(&s->engine->namespaces->pool, &c))
                start_with(st, &c);
        else if (pool_wait(&s->engine->namespaces->pool, &st->waiter, &err) < 0)
                guest_fail(st->guest, &err);
}
