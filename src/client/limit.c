#include "client/limit.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

#define TICK_MIN_MS 10u

/* ---- cancelling ---- */

struct sg_cancel {
        int event; /* owned: an eventfd */
        int any;   /* owned: an epoll fd of it and the caller's fd; -1: there is no such fd */
};

int cancel_fd(const struct sg_cancel *cancel)
{
        return !cancel ? -1 : cancel->any >= 0 ? cancel->any : cancel->event;
}

static int watch(int epoll, int fd)
{
        struct epoll_event event = {.events = EPOLLIN};

        return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int cancel_create(int fd, struct sg_cancel **ret, struct sg_error *err)
{
        struct sg_cancel *c = calloc(1, sizeof(*c));
        int r = 0;

        if (!c)
                return error_no_memory(err);
        *c = (struct sg_cancel){.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                .any = fd >= 0 ? epoll_create1(EPOLL_CLOEXEC) : -1};
        if (c->event < 0 || (fd >= 0 && c->any < 0))
                r = -errno;
        if (r == 0 && fd >= 0)
                r = watch(c->any, c->event);
        if (r == 0 && fd >= 0)
                r = watch(c->any, fd);
        if (r < 0) {
                sg_cancel_free(c);
                return error_sys(err, r, "prepare to cancel");
        }
        *ret = c;
        return 0;
}

int sg_cancel_create(struct sg_cancel **ret, struct sg_error *err)
{
        return cancel_create(-1, ret, err);
}

int sg_cancel_create_fd(int fd, struct sg_cancel **ret, struct sg_error *err)
{
        return fd < 0 ? error_set(err, SG_INVALID, "%d is no file descriptor", fd) : cancel_create(fd, ret, err);
}

void sg_cancel_now(struct sg_cancel *cancel)
{
        const uint64_t one = 1;
        int before = errno;

        (void)!write(cancel->event, &one, sizeof(one)); /* full: then it is set already */
        errno = before;
}

void sg_cancel_reset(struct sg_cancel *cancel)
{
        uint64_t count;

        (void)!read(cancel->event, &count, sizeof(count)); /* nothing there: as it should be */
}

void sg_cancel_free(struct sg_cancel *cancel)
{
        if (!cancel)
                return;
        close_fd(&cancel->event);
        close_fd(&cancel->any);
        free(cancel);
}

/* ---- limits ---- */

static const struct sg_call usual_call;

int limit_begin(struct limit *l, const struct sg_call *call, uint32_t usual_ms, struct sg_error *err)
{
        uint32_t ms = call && call->timeout_ms ? call->timeout_ms : usual_ms;
        uint64_t now = clock_mono_ms();

        if (call && (call->reserved[0] || call->reserved[1]))
                return error_set(err, SG_INVALID, "a reserved field of the call is not zero");
        if (call && call->on_tick && call->tick_ms < TICK_MIN_MS)
                return error_set(err, SG_INVALID, "tick_ms must be at least %u", TICK_MIN_MS);
        *l = (struct limit){.call = call ? call : &usual_call,
                            .deadline_ms = ms == SG_NO_TIMEOUT ? UINT64_MAX : now + ms,
                            .limit_ms = ms,
                            .next_tick_ms = call && call->on_tick ? now + call->tick_ms : UINT64_MAX};
        return limit_check(l, err);
}

static int limit_cancelled(struct sg_error *err)
{
        return error_set(err, SG_CANCELLED, "cancelled");
}

static int limit_passed(const struct limit *l, struct sg_error *err)
{
        return error_set(err, SG_TIMEOUT, "it took longer than %g s", (double)l->limit_ms / 1e3);
}

int limit_check(const struct limit *l, struct sg_error *err)
{
        struct pollfd p = {.fd = cancel_fd(l->call->cancel), .events = POLLIN};

        return p.fd >= 0 && poll(&p, 1, 0) > 0 ? limit_cancelled(err) : 0;
}

uint32_t limit_left_ms(const struct limit *l)
{
        uint64_t now = clock_mono_ms();

        if (l->deadline_ms == UINT64_MAX)
                return SG_NO_TIMEOUT;
        return l->deadline_ms > now ? (uint32_t)(l->deadline_ms - now) : 1;
}

static void limit_tick(struct limit *l)
{
        l->next_tick_ms = clock_mono_ms() + l->call->tick_ms;
        l->call->on_tick(l->call->tick_arg);
}

/* ---- on a loop ---- */

struct limit_run {
        struct limit *limit;
        struct loop *loop;
        struct timer deadline, tick;
        struct io cancel;
        bool is_late, is_cancelled;
};

static void run_is_late(struct timer *t)
{
        struct limit_run *run = CONTAINER_OF(t, struct limit_run, deadline);

        run->is_late = true;
        loop_stop(run->loop);
}

static void run_ticks(struct timer *t)
{
        struct limit_run *run = CONTAINER_OF(t, struct limit_run, tick);

        limit_tick(run->limit);
        timer_set(run->loop, t, run->limit->call->tick_ms);
}

static void run_is_cancelled(struct io *io, uint32_t events)
{
        struct limit_run *run = CONTAINER_OF(io, struct limit_run, cancel);

        (void)events;
        run->is_cancelled = true;
        loop_del(io);
        loop_stop(run->loop);
}

static uint64_t until(uint64_t due_ms)
{
        uint64_t now = clock_mono_ms();

        return due_ms > now ? due_ms - now : 0;
}

int limit_run(struct limit *l, struct loop *loop, struct sg_error *err)
{
        struct limit_run run = {.limit = l,
                                .loop = loop,
                                .deadline = {.on = run_is_late},
                                .tick = {.on = run_ticks},
                                .cancel = {.fd = cancel_fd(l->call->cancel), .on = run_is_cancelled}};
        int r = run.cancel.fd >= 0 ? loop_add(loop, &run.cancel, EPOLLIN) : 0;

        if (r < 0)
                return error_sys(err, r, "wait");
        if (l->deadline_ms != UINT64_MAX)
                timer_set(loop, &run.deadline, until(l->deadline_ms));
        if (l->next_tick_ms != UINT64_MAX)
                timer_set(loop, &run.tick, until(l->next_tick_ms));
        r = loop_run(loop);
        timer_clear(&run.deadline);
        timer_clear(&run.tick);
        loop_del(&run.cancel);
        if (r < 0)
                return error_sys(err, r, "wait");
        if (run.is_cancelled)
                return limit_cancelled(err);
        return run.is_late ? limit_passed(l, err) : 0;
}

/* ---- without a loop ---- */

static int wait_ms(uint64_t due_ms)
{
        uint64_t ms = due_ms == UINT64_MAX ? UINT64_MAX : until(due_ms);

        return ms > 60000 ? 60000 : (int)ms;
}

/* Until fd (-1: none) is readable or due_ms comes. */
static int limit_poll(struct limit *l, int fd, uint64_t due_ms, struct sg_error *err)
{
        struct pollfd fds[] = {{.fd = cancel_fd(l->call->cancel), .events = POLLIN}, {.fd = fd, .events = POLLIN}};

        for (;;) {
                uint64_t next = due_ms < l->next_tick_ms ? due_ms : l->next_tick_ms;
                int n;

                if (clock_mono_ms() >= due_ms)
                        return 0;
                n = poll(fds, ARRAY_LEN(fds), wait_ms(next));
                if (n < 0 && errno != EINTR)
                        return error_sys(err, -errno, "wait");
                if (n > 0 && fds[0].revents)
                        return limit_cancelled(err);
                if (n > 0 && fds[1].revents)
                        return 1;
                if (clock_mono_ms() >= l->next_tick_ms)
                        limit_tick(l);
        }
}

int limit_wait_fd(struct limit *l, int fd, struct sg_error *err)
{
        int r = limit_poll(l, fd, l->deadline_ms, err);

        return r > 0 ? 0 : r < 0 ? r : limit_passed(l, err);
}

int limit_sleep(struct limit *l, uint64_t ms, struct sg_error *err)
{
        uint64_t due = clock_mono_ms() + ms;

        if (due >= l->deadline_ms)
                return limit_passed(l, err);
        return limit_poll(l, -1, due, err);
}
