#include "cli/agent/agent_resumed.h"

#include <poll.h>

#define AGAIN_MS 300 /* for a request to resume that is on its way */

static bool is_nothing_of_ours(const struct sg_error *why)
{
        return why->kind == SG_NOT_FOUND || why->kind == SG_DENIED || why->kind == SG_INVALID;
}

static bool is_paused(struct sg_client *client, const char *id, const struct sg_call *call)
{
        struct sg_info *info = NULL;
        bool is = sg_sandbox_get(client, id, call, &info, NULL) == 0 && info->state == SG_STATE_PAUSED;

        sg_free(info);
        return is;
}

/* SG_CONFLICT: it is paused already, maybe because it is not resumed yet, or it cannot be paused. */
static int pause_it(struct sg_client *client, const char *id, const struct sg_call *call, struct sg_error *err)
{
        int r = sg_sandbox_pause(client, id, false, call, err);

        if (r < 0 && err->kind == SG_CONFLICT) {
                (void)poll(NULL, 0, AGAIN_MS);
                r = sg_sandbox_pause(client, id, false, call, err);
        }
        return r < 0 && err->kind == SG_CONFLICT && is_paused(client, id, call) ? 0 : r;
}

int agent_resumed_end(struct sg_client *client, const char *id, enum sg_close how, const struct sg_call *call,
                      struct sg_error *err)
{
        int r;

        if (how == SG_CLOSE_KEEP)
                return 0;
        r = how == SG_CLOSE_KILL ? sg_sandbox_kill(client, id, call, err) : pause_it(client, id, call, err);
        if (r < 0)
                return is_nothing_of_ours(err) ? 0 : r;
        return 1;
}
