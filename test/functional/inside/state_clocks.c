/* Timers, eventfd, epoll, and clocks that do not jump. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "state.h"

static int ticks_fd, far_fd, event_fd, poll_fd;
static volatile sig_atomic_t alarms, posix_alarms;
static timer_t posix_timer;

static void on_alarm(int signo)
{
        (void)signo;
        alarms++;
}
static void on_posix(int signo)
{
        (void)signo;
        posix_alarms++;
}

static const char *timers_make(void)
{
        struct itimerspec tick = {{0, 20000000}, {0, 20000000}}, far = {{0, 0}, {3600, 0}};
        struct itimerval often = {{0, 20000}, {0, 20000}};
        struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART},
                         sp = {.sa_handler = on_posix, .sa_flags = SA_RESTART};
        struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 5};

        NEED((ticks_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) >= 0);
        NEED(timerfd_settime(ticks_fd, 0, &tick, NULL) == 0);
        NEED((far_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) >= 0 &&
             timerfd_settime(far_fd, 0, &far, NULL) == 0);
        NEED(sigaction(SIGALRM, &sa, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
        NEED(sigaction(SIGRTMIN + 5, &sp, NULL) == 0 && timer_create(CLOCK_MONOTONIC, &ev, &posix_timer) == 0);
        NEED(timer_settime(posix_timer, 0, &tick, NULL) == 0);
        return NULL;
}
static const char *timers_check(void)
{
        struct pollfd p = {.fd = ticks_fd, .events = POLLIN};
        struct itimerspec left;
        uint64_t n;
        int before = alarms, posix_before = posix_alarms, r = -1;

        NEED(read(ticks_fd, &n, sizeof(n)) == sizeof(n) || errno == EAGAIN);
        for (int i = 0; i < 500 && r <= 0; i++)
                r = poll(&p, 1, 20); /* often interrupted by the others */
        NEED(r == 1 && read(ticks_fd, &n, sizeof(n)) == sizeof(n) && n >= 1);
        for (int i = 0; i < 5000 && (alarms == before || posix_alarms == posix_before); i++)
                (void)usleep(1000);
        NEED(alarms > before && posix_alarms > posix_before);
        NEED(timerfd_gettime(far_fd, &left) == 0 && left.it_value.tv_sec > 1800 && left.it_value.tv_sec <= 3600);
        return NULL;
}

static const char *epoll_make(void)
{
        struct epoll_event e = {.events = EPOLLIN, .data.u64 = 0x1234567890};

        NEED((event_fd = eventfd(5, EFD_NONBLOCK)) >= 0 && (poll_fd = epoll_create1(0)) >= 0);
        NEED(epoll_ctl(poll_fd, EPOLL_CTL_ADD, event_fd, &e) == 0);
        return NULL;
}
static const char *epoll_check(void)
{
        struct epoll_event e;
        uint64_t n;
        int r;

        while ((r = epoll_wait(poll_fd, &e, 1, 0)) < 0 && errno == EINTR)
                ;
        NEED(r == 1 && e.data.u64 == 0x1234567890);
        NEED(read(event_fd, &n, 8) == 8 && n == 5 && epoll_wait(poll_fd, &e, 1, 0) == 0 && write(event_fd, &n, 8) == 8);
        return NULL;
}

static struct timespec mono, boot, wall;
static double seconds(const struct timespec *a, const struct timespec *b)
{
        return (double)(b->tv_sec - a->tv_sec) + (double)(b->tv_nsec - a->tv_nsec) / 1e9;
}
static const char *clocks_make(void)
{
        NEED(clock_gettime(CLOCK_MONOTONIC, &mono) == 0 && clock_gettime(CLOCK_BOOTTIME, &boot) == 0);
        NEED(clock_gettime(CLOCK_REALTIME, &wall) == 0);
        return NULL;
}
static const char *clocks_check(void) /* since the last look: forward, and no faster than the wall clock */
{
        struct timespec m = mono, b = boot, w = wall;

        NEED(!clocks_make());
        NEED(seconds(&m, &mono) >= 0 && seconds(&b, &boot) >= 0);
        NEED(seconds(&m, &mono) <= seconds(&w, &wall) + 1.0 && seconds(&b, &boot) <= seconds(&w, &wall) + 1.0);
        return NULL;
}

const struct item clock_items[] = {
        {"timers", timers_make, timers_check},
        {"epoll and eventfd", epoll_make, epoll_check},
        {"clocks", clocks_make, clocks_check},
        {0},
};
