#include "cli/patience.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

#define TELL_MS 40000u /* the server holds a request for 50 s: each of its answers is told */

static void tell(struct patience *p, uint64_t now, const char *words)
{
        if (p->told_ms && now - p->told_ms < TELL_MS)
                return;
        (void)fprintf(stderr, "%s%s: waiting: %s\n", p->clears_line && isatty(STDERR_FILENO) ? "\r\033[K" : "", p->who,
                      words);
        p->told_ms = now;
}

bool patience_wait(struct patience *p, const struct sg_error *why)
{
        uint64_t now = clock_mono_ms(), until = now + why->retry_after_s * UINT64_C(1000);
        struct pollfd fd = {.fd = p->cancel_fd, .events = POLLIN};

        if (why->http_status != 503 || !why->retry_after_s || until >= p->deadline_ms)
                return false;
        tell(p, now, why->message);
        for (; now < until; now = clock_mono_ms())
                if (poll(&fd, 1, (int)(until - now)) > 0)
                        break;
        return true;
}
