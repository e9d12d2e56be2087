#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

#define SHOW_AFTER_MS 300u
#define TICK_MS 100u
#define PATIENCE_MS (30u * 60 * 1000) /* a large memory on a slow disk */

static void progress_show(struct timer *t)
{
        struct progress *p = CONTAINER_OF(t, struct progress, tick);
        uint64_t ms = clock_mono_ms() - p->since_ms;

        timer_set(http_client_loop(p->api->control), t, TICK_MS);
        if (ms < SHOW_AFTER_MS)
                return;
        p->is_shown = true;
        (void)fprintf(stderr, "\r\033[K%s %s ... %u.%u s", p->doing, p->what, (unsigned)(ms / 1000),
                      (unsigned)(ms % 1000 / 100));
        (void)fflush(stderr);
}

void progress_start(struct progress *p, struct cli_api *api, const char *doing, const char *what)
{
        *p = (struct progress){
                .api = api, .doing = doing, .what = what, .since_ms = clock_mono_ms(), .tick = {.on = progress_show}};
        api_set_patience(api, PATIENCE_MS);
        if (isatty(STDERR_FILENO))
                timer_set(http_client_loop(api->control), &p->tick, TICK_MS);
}

void progress_end(struct progress *p)
{
        timer_clear(&p->tick);
        api_set_patience(p->api, 0);
        if (p->is_shown)
                (void)fputs("\r\033[K", stderr);
        p->is_shown = false;
}
