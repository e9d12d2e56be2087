#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

#define SHOW_AFTER_MS 300u
#define TICK_MS 100u
#define BAR_MS 100u /* between two drawings of a bar */
#define BAR_CELLS 30
#define PATIENCE_MS (30u * 60 * 1000) /* a large memory on a slow disk */

static void progress_show(void *arg)
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

void progress_start(struct progress *p, struct cli_api *api, const char *doing, const char *what)
{
        *p = (struct progress){.api = api, .doing = doing, .what = what, .since_ms = clock_mono_ms()};
        api_set_patience(api, PATIENCE_MS);
        if (!isatty(STDERR_FILENO))
                return;
        api->on_tick = progress_show;
        api->tick_arg = p;
        api->tick_ms = TICK_MS;
}

void progress_end(struct progress *p)
{
        p->api->on_tick = NULL;
        api_set_patience(p->api, 0);
        if (p->is_shown)
                (void)fputs("\r\033[K", stderr);
        p->is_shown = false;
}

/* ---- a bar ---- */

void progress_bar_begin(struct progress_bar *b, const char *doing, const char *what)
{
        *b = (struct progress_bar){.doing = doing, .what = what, .is_terminal = isatty(STDERR_FILENO)};
}

static void bar_draw(struct progress_bar *b, uint64_t done, uint64_t total)
{
        char cells[BAR_CELLS + 1];
        int full = total ? (int)(done * BAR_CELLS / total) : 0;

        for (int i = 0; i < BAR_CELLS; i++)
                cells[i] = i < full ? '=' : i == full ? '>' : ' ';
        cells[BAR_CELLS] = 0;
        b->is_shown = true;
        if (total)
                (void)fprintf(stderr, "\r\033[K%s %s [%s] %3u %%  %.1f of %.1f MB", b->doing, b->what, cells,
                              (unsigned)(done * 100 / total), (double)done / 1e6, (double)total / 1e6);
        else
                (void)fprintf(stderr, "\r\033[K%s %s %.1f MB", b->doing, b->what, (double)done / 1e6);
        (void)fflush(stderr);
}

void progress_bar_show(struct progress_bar *b, uint64_t done, uint64_t total)
{
        uint64_t now = clock_mono_ms();
        unsigned tenths = total ? (unsigned)(done * 10 / total) : 0;

        if (done > total && total)
                done = total;
        if (b->is_terminal && now - b->shown_ms >= BAR_MS) {
                b->shown_ms = now;
                bar_draw(b, done, total);
        } else if (!b->is_terminal && tenths > b->tenths) {
                b->tenths = tenths;
                (void)fprintf(stderr, "%s %s: %.1f of %.1f MB\n", b->doing, b->what, (double)done / 1e6,
                              (double)total / 1e6);
        }
}

void progress_bar_say(struct progress_bar *b, const char *doing)
{
        (void)fprintf(stderr, b->is_terminal ? "\r\033[K%s %s" : "%s %s\n", doing, b->what);
        (void)fflush(stderr);
        b->is_shown = b->is_terminal;
}

void progress_bar_end(struct progress_bar *b)
{
        if (b->is_shown)
                (void)fputs("\r\033[K", stderr);
        b->is_shown = false;
}
