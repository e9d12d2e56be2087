#include "fault.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "tap.h"

#define LIVE_MAX (1u << 16)
#define RUNS_MAX 20000u

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
int __real_epoll_create1(int flags);
int __real_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
char *__wrap_strdup(const char *s);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);

static struct {
        unsigned left; /* attempts until the failing one; 0: none fails */
        bool is_hit;
        unsigned paused;
        size_t live_count;
        const void *live[LIVE_MAX]; /* a set: memory from elsewhere may come to free(), too */
} fault;

/* ---- the set of live allocations: open addressing, deletion by moving back ---- */

static size_t place(const void *p)
{
        return (size_t)(((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15u >> 48) & (LIVE_MAX - 1);
}

static void remember(const void *p)
{
        size_t i = place(p);

        if (!p)
                return;
        if (++fault.live_count > LIVE_MAX / 2)
                abort();
        while (fault.live[i])
                i = (i + 1) & (LIVE_MAX - 1);
        fault.live[i] = p;
}

static void forget(const void *p)
{
        size_t i = place(p);

        while (fault.live[i] && fault.live[i] != p)
                i = (i + 1) & (LIVE_MAX - 1);
        if (!p || !fault.live[i])
                return;
        fault.live[i] = NULL;
        fault.live_count--;
        for (i = (i + 1) & (LIVE_MAX - 1); fault.live[i]; i = (i + 1) & (LIVE_MAX - 1)) {
                const void *moved = fault.live[i];

                fault.live[i] = NULL;
                fault.live_count--;
                remember(moved);
        }
}

/* ---- what fails ---- */

static bool fails_now(void)
{
        if (fault.paused || fault.left == 0 || --fault.left > 0)
                return false;
        fault.is_hit = true;
        return true;
}

void *__wrap_malloc(size_t n)
{
        void *p = fails_now() ? NULL : __real_malloc(n);

        remember(p);
        return p;
}

void *__wrap_calloc(size_t n, size_t size)
{
        void *p = fails_now() ? NULL : __real_calloc(n, size);

        remember(p);
        return p;
}

void *__wrap_realloc(void *old, size_t n)
{
        void *p;

        if (fails_now())
                return NULL;
        forget(old);
        p = __real_realloc(old, n);
        remember(p);
        return p;
}

void *__wrap_reallocarray(void *old, size_t n, size_t size)
{
        return size && n > SIZE_MAX / size ? NULL : __wrap_realloc(old, n * size);
}

char *__wrap_strdup(const char *s)
{
        size_t n = strlen(s) + 1;
        char *copy = __wrap_malloc(n);

        return copy ? memcpy(copy, s, n) : NULL;
}

void __wrap_free(void *p)
{
        forget(p);
        __real_free(p);
}

int __wrap_epoll_create1(int flags)
{
        if (fails_now()) {
                errno = EMFILE;
                return -1;
        }
        return __real_epoll_create1(flags);
}

int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
        if (op == EPOLL_CTL_ADD && fails_now()) {
                errno = ENOSPC;
                return -1;
        }
        return __real_epoll_ctl(epfd, op, fd, ev);
}

/* ---- running ---- */

int fault_broken(const char *file, int line, const char *what)
{
        printf("# %s:%d: not so: %s\n", file, line, what);
        return 1;
}

bool fault_was_hit(void)
{
        return fault.is_hit;
}

void fault_pause(void)
{
        fault.paused++;
}

void fault_resume(void)
{
        fault.paused--;
}

static size_t open_fds(void)
{
        DIR *d = opendir("/proc/self/fd");
        size_t n = 0;

        while (d && readdir(d))
                n++;
        (void)closedir(d);
        return n;
}

static int (*current)(void);
static bool current_needs_memory; /* -ENOMEM is the only way for it to fail, and it cannot but fail */

/* One run, the n-th attempt failing: *ret_more says whether there was an n-th. */
static void run_once(unsigned n, bool *ret_more)
{
        size_t live = fault.live_count, fds = open_fds();
        int r;

        fault.left = n;
        fault.is_hit = false;
        fault.paused = 0;
        r = current();
        fault.left = 0;
        *ret_more = fault.is_hit;
        if (r > 0 || (!fault.is_hit && r < 0) || fault.live_count != live || open_fds() != fds)
                printf("# attempt %u: result %d, allocations %zu -> %zu, fds %zu -> %zu\n", n, r, live,
                       fault.live_count, fds, open_fds());
        CHECK_INT(r, <=, 0);
        if (!fault.is_hit)
                CHECK_INT(r, ==, 0);
        else if (current_needs_memory)
                CHECK_INT(r, ==, -ENOMEM);
        CHECK_INT(fault.live_count, ==, live);
        CHECK_INT(open_fds(), ==, fds);
}

static void run_all(void)
{
        bool has_more = true;
        unsigned n;

        for (n = 1; has_more && n < RUNS_MAX && !tap_case_failed; n++)
                run_once(n, &has_more);
        if (!tap_case_failed)
                printf("# %u attempts\n", n - 2);
        CHECK_INT(n, <, RUNS_MAX);
        CHECK_INT(n, >, 2); /* a scenario without a single attempt tests nothing */
}

void fault_each_enomem(const char *name, int (*scenario)(void))
{
        current_needs_memory = true;
        fault_each(name, scenario);
        current_needs_memory = false;
}

void fault_each(const char *name, int (*scenario)(void))
{
        json_set_alloc_funcs(__wrap_malloc, __wrap_free);
        current = scenario;
        tap_run(name, run_all);
}

int fault_done(void)
{
        return tap_done();
}
