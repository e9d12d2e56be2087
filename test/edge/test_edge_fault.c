/* The edge with its first, second, third ... allocation failing: each client gets an answer or an end, the next one is
 * served as ever, and the edge ends in order. */
#include "h2client.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "tap.h"

#define ALLOCATIONS_MAX 600
#define ASK REQUEST("GET", "/", HOST_A("49983"), "")

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);

static long fail_at;   /* of the next run */
static long countdown; /* 0: none fails */
static bool was_hit;

static bool fails(void)
{
        if (countdown == 0 || --countdown > 0)
                return false;
        was_hit = true;
        errno = ENOMEM;
        return true;
}

void *__wrap_malloc(size_t n)
{
        return fails() ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t size)
{
        return fails() ? NULL : __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t n)
{
        return fails() ? NULL : __real_realloc(p, n);
}
char *__wrap_strdup(const char *s)
{
        return fails() ? NULL : __real_strdup(s);
}

static void exit_tells_of_hit(void)
{
        if (!was_hit)
                _exit(77); /* more would not help: there are not that many allocations */
}

static void arm(void)
{
        json_set_alloc_funcs(__wrap_malloc, free);
        (void)atexit(exit_tells_of_hit);
        countdown = fail_at;
}

enum outcome { OUTCOME_FINE, OUTCOME_NO_START, OUTCOME_NOT_HIT, OUTCOME_BROKEN };

/* A new client asks once: its status; 0 when it was merely cut off; -1 when nothing came at all. */
static int ask_once(struct world *w)
{
        AUTO_CLOSE int c = dial_client(w);
        char text[8192];
        const char *body;
        ssize_t n;
        int status;

        if (c < 0)
                return 0;
        if (say(c, ASK) < 0)
                return 0;
        if (!serve_until_heard(w, c))
                return -1;
        n = recv(c, text, 1, MSG_PEEK);
        if (n <= 0)
                return 0;
        status = hear_answer(c, text, sizeof(text), &body);
        return status < 0 ? 0 : status;
}

/* The same over HTTP/2, with a body, so that its blocks are needed, too. */
static int ask_once_by_h2(struct world *w)
{
        H2C c = h2c_open(w, NULL);
        int32_t id;

        if (!c || c->is_dead)
                return 0;
        id = h2c_ask(c, "POST", HOST_A("49983"), "/", NULL, "body");
        (void)h2c_push(c);
        while (!h2c_of(c, id)->is_closed && !c->is_dead) {
                if (!serve_until_heard(w, c->fd))
                        return -1;
                h2c_idle(c, 0);
        }
        return h2c_of(c, id)->status;
}

static enum outcome run(long n, int (*ask)(struct world *w))
{
        WORLD;
        int first, second = 0, status;

        fail_at = n;
        w.in_edge = arm;
        w.limits.wait_timeout_ms = 100;
        w.limits.dial_timeout_ms = 100;
        if (ask == ask_once_by_h2)
                w.https = -2;
        if (world_launch(&w) < 0)
                return OUTCOME_BROKEN;
        first = ask(&w);
        for (int i = 0; i < 3 && second != 200; i++)
                second = ask(&w); /* a lost route or socket is asked for again */
        status = world_stop(&w);
        if (status == 1 && first <= 0)
                return OUTCOME_NO_START;
        if (status == 77 && first == 200 && second == 200)
                return OUTCOME_NOT_HIT;
        if (status == 0 && first >= 0 && second == 200)
                return OUTCOME_FINE;
        printf("# allocation %ld: first %d, then %d, exit status %d\n", n, first, second, status);
        return OUTCOME_BROKEN;
}

static bool try_all(int (*ask)(struct world *w))
{
        int fine = 0, no_start = 0;

        for (long n = 1; n < ALLOCATIONS_MAX; n++) {
                enum outcome o = run(n, ask);

                if (o == OUTCOME_BROKEN)
                        return false;
                fine += o == OUTCOME_FINE;
                no_start += o == OUTCOME_NO_START;
                if (o == OUTCOME_NOT_HIT)
                        break;
        }
        printf("# %d survived, %d refused to start\n", fine, no_start);
        return fine > 10 && fine + no_start < ALLOCATIONS_MAX - 1; /* they were all tried */
}

static void every_allocation_may_fail(void)
{
        CHECK(try_all(ask_once));
}

static void every_allocation_may_fail_with_http2(void)
{
        CHECK(try_all(ask_once_by_h2));
}

int main(void)
{
        RUN(every_allocation_may_fail);
        RUN(every_allocation_may_fail_with_http2);
        return tap_done();
}
