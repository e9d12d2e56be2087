#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

#define SHOW_AFTER_MS 300u
#define PATIENCE_MS (30u * 60 * 1000) /* a large memory on a slow disk */

static void on_tick(void *arg)
{
        struct progress *p = arg;
        uint64_t ms = clock_mono_ms() - p->since_ms;

        if (ms < SHOW_AFTER_MS)
                return;
        p->is_shown = true;
        (void)fprintf(stderr, "\r\033[K%s %s ... %u.%u s", p->doing, p->what, (unsigned)(ms / 1000),
                      (unsigned)(ms % 1000 / 100));
        (void)fflush(stderr);
}

void progress_start(struct progress *p, struct client *client, const char *doing, const char *what)
{
        *p = (struct progress){.client = client, .doing = doing, .what = what, .since_ms = clock_mono_ms()};
        client->patience_ms = PATIENCE_MS;
        if (!isatty(STDERR_FILENO))
                return;
        client->on_tick = on_tick;
        client->tick_arg = p;
}

void progress_end(struct progress *p)
{
        p->client->patience_ms = 0;
        p->client->on_tick = NULL;
        if (p->is_shown)
                (void)fputs("\r\033[K", stderr);
        p->is_shown = false;
}
