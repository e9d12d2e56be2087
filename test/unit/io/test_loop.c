#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/loop.h"

static struct loop *loop;

static void stop_timer(struct timer *t)
{
        (void)t;
        loop_stop(loop);
}

/* Run the loop for a few rounds: tasks posted from tasks count the iterations. */
struct rounds {
        struct task task;
        unsigned left;
};
static void next_round(struct task *t)
{
        struct rounds *r = CONTAINER_OF(t, struct rounds, task);

        if (r->left-- == 0)
                loop_stop(loop);
        else
                loop_post(loop, t);
}
static void run_rounds(unsigned n)
{
        struct rounds r = {.task.run = next_round, .left = n};

        loop_post(loop, &r.task);
        (void)loop_run(loop);
}

struct pipe_end {
        struct io io;
        unsigned calls;
        uint32_t last;
        struct pipe_end *victim; /* deleted by the callback */
};
static void note(struct io *io, uint32_t events)
{
        struct pipe_end *e = CONTAINER_OF(io, struct pipe_end, io);

        e->calls++;
        e->last = events;
        if (e->victim)
                loop_del(&e->victim->io);
}

static void readiness_is_level_triggered(void)
{
        int p[2];
        struct pipe_end e = {.io.on = note};

        CHECK(pipe2(p, O_CLOEXEC | O_NONBLOCK) == 0);
        e.io.fd = p[0];
        CHECK_INT(loop_add(loop, &e.io, EPOLLIN), ==, 0);
        run_rounds(3);
        CHECK_INT(e.calls, ==, 0);
        CHECK(write(p[1], "x", 1) == 1);
        run_rounds(3);
        CHECK_INT(e.calls, >=, 3);
        CHECK_INT(e.last, ==, EPOLLIN);
        e.calls = 0;
        loop_want(&e.io, 0);
        run_rounds(3);
        CHECK_INT(e.calls, ==, 0);
        loop_want(&e.io, EPOLLIN);
        run_rounds(1);
        CHECK_INT(e.calls, >=, 1);
        loop_del(&e.io);
        loop_del(&e.io);
        e.calls = 0;
        run_rounds(2);
        CHECK_INT(e.calls, ==, 0);
        close(p[0]);
        close(p[1]);
}

static void a_deleted_io_is_not_called_for_a_fetched_event(void)
{
        int a[2], b[2];
        struct pipe_end x = {.io.on = note}, y = {.io.on = note, .victim = &x};

        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, a) == 0);
        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, b) == 0);
        x.victim = &y;
        x.io.fd = a[0];
        y.io.fd = b[0];
        CHECK_INT(loop_add(loop, &x.io, EPOLLIN), ==, 0);
        CHECK_INT(loop_add(loop, &y.io, EPOLLIN), ==, 0);
        CHECK(write(a[1], "x", 1) == 1 && write(b[1], "x", 1) == 1);
        run_rounds(0); /* one iteration: both events are fetched, whoever comes first deletes the other */
        CHECK_INT(x.calls + y.calls, ==, 1);
        loop_del(&x.io);
        loop_del(&y.io);
        close(a[0]), close(a[1]), close(b[0]), close(b[1]);
}

static void a_hangup_arrives_unasked(void)
{
        int a[2];
        struct pipe_end x = {.io.on = note};

        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, a) == 0);
        x.io.fd = a[0];
        CHECK_INT(loop_add(loop, &x.io, 0), ==, 0);
        close(a[1]);
        run_rounds(1);
        CHECK(x.last & EPOLLHUP);
        loop_del(&x.io);
        close(a[0]);
}

static void an_fd_epoll_cannot_watch_is_refused(void)
{
        struct pipe_end x = {.io.on = note};

        x.io.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        CHECK_INT(loop_add(loop, &x.io, EPOLLIN), <, 0);
        CHECK(!x.io.loop);
        close(x.io.fd);
}

#define TIMERS 300
static struct numbered {
        struct timer t;
        unsigned number;
} timers[TIMERS];
static unsigned fired[TIMERS + 8], fired_count;
static void an_fd_that_was_closed_by_others_is_told(void)
{
        struct pipe_end e = {.io.on = note}, twice;
        int p[2];

        CHECK(pipe2(p, O_CLOEXEC) == 0);
        e.io.fd = p[1];
        CHECK_INT(loop_add(loop, &e.io, 0), ==, 0);
        twice = e;
        CHECK_INT(loop_add(loop, &twice.io, 0), ==, -EEXIST);
        (void)close(p[1]);
        loop_want(&e.io, EPOLLOUT);
        run_rounds(3);
        CHECK_INT(e.calls, ==, 1);
        CHECK_INT(e.last, ==, EPOLLERR);
        loop_del(&e.io);
        (void)close(p[0]);
}

static void note_timer(struct timer *t)
{
        fired[fired_count++ % TIMERS] = CONTAINER_OF(t, struct numbered, t)->number;
}

static void timers_fire_in_order_and_cleared_ones_never(void)
{
        struct timer end = {.on = stop_timer};
        unsigned last = 0;

        fired_count = 0;
        for (unsigned i = 0; i < TIMERS; i++) {
                unsigned ms = i * 7919 % 41;

                timers[i] = (struct numbered){.t.on = note_timer, .number = ms};
                timer_set(loop, &timers[i].t, ms);
        }
        for (unsigned i = 0; i < TIMERS; i += 3)
                timer_clear(&timers[i].t);
        for (unsigned i = 1; i < TIMERS; i += 3) /* re-arming moves */
                timer_set(loop, &timers[i].t, timers[i].number);
        timer_set(loop, &end, 45);
        CHECK_INT(loop_run(loop), ==, 0);
        CHECK_INT(fired_count, ==, TIMERS - TIMERS / 3);
        for (unsigned i = 0; i < fired_count; i++) {
                CHECK_INT(fired[i] + 2, >=, last); /* setting them took a moment, too */
                last = fired[i] > last ? fired[i] : last;
        }
        for (unsigned i = 0; i < TIMERS; i++)
                CHECK(!timer_is_armed(&timers[i].t));
}

static void a_timer_is_never_early(void)
{
        struct timer end = {.on = stop_timer};

        for (unsigned i = 0; i < 5; i++) {
                uint64_t before = clock_mono_us();

                timer_set(loop, &end, 3);
                CHECK_INT(loop_run(loop), ==, 0);
                CHECK_INT(clock_mono_us() - before, >=, 3000);
        }
}

static unsigned rearmed;
static void rearm(struct timer *t)
{
        rearmed++;
        timer_set(loop, t, 0);
}
static void a_timer_that_rearms_itself_does_not_keep_the_loop(void)
{
        struct timer again = {.on = rearm}, end = {.on = stop_timer};

        rearmed = 0;
        timer_set(loop, &again, 0);
        timer_set(loop, &end, 5);
        CHECK_INT(loop_run(loop), ==, 0);
        CHECK_INT(rearmed, >=, 2);
        timer_clear(&again);
        timer_clear(&again);
}

struct counted {
        struct task t;
        unsigned runs;
};
/* ---- a callback that takes long ---- */

static char heard[8];

struct slow {
        struct io io;
        int other; /* where an answer comes meanwhile */
        struct timer *due;
};

static void hear_slowly(struct io *io, uint32_t events)
{
        struct slow *s = CONTAINER_OF(io, struct slow, io);

        (void)events;
        loop_del(io);
        while (clock_mono_ms() <= s->due->due_ms)
                continue;
        (void)!write(s->other, "x", 1);
}

static void hear_answer(struct io *io, uint32_t events)
{
        (void)events;
        loop_del(io);
        (void)snprintf(heard + strlen(heard), sizeof(heard) - strlen(heard), "a");
}

static void hear_timer(struct timer *t)
{
        (void)t;
        (void)snprintf(heard + strlen(heard), sizeof(heard) - strlen(heard), "t");
        loop_stop(loop);
}

static void what_came_during_a_long_callback_goes_before_timers(void)
{
        struct timer due = {.on = hear_timer};
        struct io answer = {.on = hear_answer};
        int first[2], second[2];
        struct slow slow = {.io.on = hear_slowly, .due = &due};

        CHECK(pipe2(first, O_CLOEXEC | O_NONBLOCK) == 0 && pipe2(second, O_CLOEXEC | O_NONBLOCK) == 0);
        slow.io.fd = first[0];
        slow.other = second[1];
        answer.fd = second[0];
        CHECK(loop_add(loop, &slow.io, EPOLLIN) == 0 && loop_add(loop, &answer, EPOLLIN) == 0);
        CHECK_INT(write(first[1], "x", 1), ==, 1);
        timer_set(loop, &due, 5);
        (void)loop_run(loop);
        CHECK_STR(heard, "at");
        for (int i = 0; i < 2; i++) {
                (void)close(first[i]);
                (void)close(second[i]);
        }
}

static void count_task(struct task *t)
{
        CONTAINER_OF(t, struct counted, t)->runs++;
}
static void tasks_run_once_per_post_and_unposted_ones_never(void)
{
        struct counted a = {.t.run = count_task}, b = {.t.run = count_task};

        loop_post(loop, &a.t);
        loop_post(loop, &a.t);
        loop_post(loop, &b.t);
        loop_unpost(&b.t);
        run_rounds(2);
        CHECK_INT(a.runs, ==, 1);
        CHECK_INT(b.runs, ==, 0);
        loop_post(loop, &a.t);
        run_rounds(0);
        CHECK_INT(a.runs, ==, 2);
}

static int got_signal;
static void on_signal(int signo, void *arg)
{
        got_signal = signo;
        loop_stop(arg);
}
static void signals_arrive_as_calls(void)
{
        static const int signals[] = {SIGUSR1, SIGCHLD, 0};

        CHECK_INT(loop_signals(loop, signals, on_signal, loop), ==, 0);
        CHECK(raise(SIGUSR1) == 0);
        CHECK_INT(loop_run(loop), ==, 0);
        CHECK_INT(got_signal, ==, SIGUSR1);
}

static void freeing_the_loop_disarms_what_is_left(void)
{
        struct loop *l = NULL;
        struct timer t = {.on = stop_timer};
        struct counted c = {.t.run = count_task};

        CHECK_INT(loop_create(&l), ==, 0);
        timer_set(l, &t, 1000);
        loop_post(l, &c.t);
        l = loop_free(l);
        CHECK(!timer_is_armed(&t));
        timer_clear(&t);
        loop_unpost(&c.t);
        CHECK(loop_free(NULL) == NULL);
}

int main(void)
{
        if (loop_create(&loop) < 0)
                return 1;
        RUN(readiness_is_level_triggered);
        RUN(a_deleted_io_is_not_called_for_a_fetched_event);
        RUN(a_hangup_arrives_unasked);
        RUN(an_fd_epoll_cannot_watch_is_refused);
        RUN(an_fd_that_was_closed_by_others_is_told);
        RUN(timers_fire_in_order_and_cleared_ones_never);
        RUN(a_timer_is_never_early);
        RUN(a_timer_that_rearms_itself_does_not_keep_the_loop);
        RUN(what_came_during_a_long_callback_goes_before_timers);
        RUN(tasks_run_once_per_post_and_unposted_ones_never);
        RUN(signals_arrive_as_calls);
        RUN(freeing_the_loop_disarms_what_is_left);
        loop = loop_free(loop);
        return tap_done();
}
