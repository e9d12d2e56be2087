#include "io/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/loop_impl.h"

int loop_create_quietly(struct loop **ret)
{
        struct loop *l;

        l = calloc(1, sizeof(*l));
        if (!l)
                return -ENOMEM;
        l->epfd = epoll_create1(EPOLL_CLOEXEC);
        if (l->epfd < 0) {
                int r = -errno;

                free(l);
                return r;
        }
        list_init(&l->pending);
        list_init(&l->tasks);
        l->signals.fd = -1;
        *ret = l;
        return 0;
}

int loop_create(struct loop **ret)
{
        int r = loop_create_quietly(ret);

        if (r == 0)
                (void)signal(SIGPIPE, SIG_IGN);
        return r;
}

struct loop *loop_free(struct loop *l)
{
        if (!l)
                return NULL;
        loop_del(&l->signals);
        close_fd(&l->signals.fd);
        close_fd(&l->epfd);
        /* Whoever outlives the loop must not find pointers into it. */
        while (l->timers)
                timer_clear(l->timers);
        while (!list_is_empty(&l->tasks))
                (void)list_pop_front(&l->tasks);
        free(l);
        return NULL;
}

int loop_fd(const struct loop *l)
{
        return l->epfd;
}

int loop_add(struct loop *l, struct io *io, uint32_t want)
{
        struct epoll_event ev = {.events = want, .data.ptr = io};

        if (io->loop)
                return -EEXIST;
        if (epoll_ctl(l->epfd, EPOLL_CTL_ADD, io->fd, &ev) < 0)
                return -errno;
        io->loop = l;
        io->want = want;
        io->fired = 0;
        list_init(&io->pending);
        return 0;
}

static void fire(struct loop *l, struct io *io, uint32_t events)
{
        if (list_is_hooked(&io->pending)) {
                io->fired |= events;
                return;
        }
        io->fired = events;
        list_push_back(&l->pending, &io->pending);
}

void loop_want(struct io *io, uint32_t want)
{
        struct epoll_event ev = {.events = want, .data.ptr = io};

        if (!io->loop || io->want == want)
                return;
        io->want = want;
        /* Fails only for an fd that is not there (any more): then its owner is to find that out. */
        if (epoll_ctl(io->loop->epfd, EPOLL_CTL_MOD, io->fd, &ev) < 0)
                fire(io->loop, io, EPOLLERR);
}

void loop_del(struct io *io)
{
        if (!io->loop)
                return;
        list_remove(&io->pending);
        (void)epoll_ctl(io->loop->epfd, EPOLL_CTL_DEL, io->fd, NULL);
        io->loop = NULL;
        io->want = 0;
}

void loop_post(struct loop *l, struct task *t)
{
        if (!list_is_hooked(&t->node))
                list_push_back(&l->tasks, &t->node);
}

void loop_unpost(struct task *t)
{
        list_remove(&t->node);
}

bool loop_has_tasks(const struct loop *l)
{
        return !list_is_empty(&l->tasks);
}

static int fetch_events(struct loop *l)
{
        int n, wait;

        wait = list_is_empty(&l->tasks) && list_is_empty(&l->pending) ? timers_wait_ms(l) : 0;
        n = epoll_wait(l->epfd, l->events, LOOP_EVENTS_MAX, wait);
        l->fetched_ms = clock_mono_ms();
        if (n < 0)
                return errno == EINTR ? 0 : -errno;
        for (int i = 0; i < n; i++)
                fire(l, l->events[i].data.ptr, l->events[i].events);
        return 0;
}

static void deliver_events(struct loop *l)
{
        struct list *node;

        while ((node = list_pop_front(&l->pending))) {
                struct io *io = LIST_ENTRY(node, struct io, pending);
                /* What an earlier callback stopped waiting for is not delivered. */
                uint32_t events = io->fired & (io->want | EPOLLERR | EPOLLHUP);

                if (events)
                        io->on(io, events);
        }
}

static void run_tasks(struct loop *l)
{
        struct list now;

        if (list_is_empty(&l->tasks))
                return;
        list_insert(&l->tasks, &now); /* take over the whole ring; what is posted from here on waits its turn */
        list_remove(&l->tasks);
        while (!list_is_empty(&now)) {
                struct task *t = LIST_ENTRY(list_pop_front(&now), struct task, node);

                t->run(t);
        }
}

int loop_run(struct loop *l)
{
        while (!l->is_stopping) {
                int r = fetch_events(l);

                if (r < 0)
                        return r;
                deliver_events(l);
                timers_run(l);
                run_tasks(l);
        }
        l->is_stopping = false;
        return 0;
}

void loop_stop(struct loop *l)
{
        l->is_stopping = true;
}

static void on_signals(struct io *io, uint32_t events)
{
        struct loop *l = CONTAINER_OF(io, struct loop, signals);
        struct signalfd_siginfo info[8];
        ssize_t n;

        (void)events;
        n = read(io->fd, info, sizeof(info));
        for (ssize_t i = 0; i < n / (ssize_t)sizeof(*info); i++)
                l->on_signal((int)info[i].ssi_signo, l->signal_arg);
}

int loop_signals(struct loop *l, const int *signals, void (*on)(int signo, void *arg), void *arg)
{
        AUTO_CLOSE int fd = -1;
        sigset_t set;
        int r;

        if (l->signals.fd >= 0)
                return -EEXIST;
        (void)sigemptyset(&set);
        for (; *signals; signals++)
                if (sigaddset(&set, *signals) < 0)
                        return -errno;
        fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (fd < 0)
                return -errno;
        l->on_signal = on;
        l->signal_arg = arg;
        l->signals = (struct io){.fd = fd, .on = on_signals};
        r = loop_add(l, &l->signals, EPOLLIN);
        if (r < 0) {
                l->signals.fd = -1;
                return r;
        }
        (void)TAKE_FD(fd);
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        return 0;
}
