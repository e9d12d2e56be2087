#include "control/routes/sandbox_route.h"

#include <string.h>

#include "base/clock.h"
#include "control/access/tokens.h"
#include "model/route.h"
#include "model/sandbox.h"

/* May requests to a sandbox that does not run wait until it does?  One that is on its way to running lets all of them wait, a
 * paused one those that may resume it. */
static bool sandbox_lets_requests_wait(const struct sandbox *s)
{
        switch (s->state) {
        case SANDBOX_RESUMING:
        case SANDBOX_SNAPSHOTTING:
        case SANDBOX_ROLLING_BACK: return true;
        default: return sandbox_resumes_on_traffic(s);
        }
}

json_t *sandbox_route_encode(const struct tokens *tokens, const struct sandbox *s)
{
        struct route r = {.is_running = s->state == SANDBOX_RUNNING || s->state == SANDBOX_COPYING,
                          .mask_host = (char *)sandbox_mask_host(s)}; /* borrowed for the call, as the token */
        char token[TOKEN_MAX];

        if (!sandbox_is_public(s)) {
                token_traffic(tokens, s->id, token);
                r.traffic_token = token;
        }
        memcpy(r.id, s->id, sizeof(r.id));
        r.resumes = !r.is_running && sandbox_lets_requests_wait(s);
        r.at_us = clock_mono_us();
        return route_encode(&r, r.is_running ? "running" : "paused");
}
