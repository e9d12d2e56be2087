/* running.h - a sandbox that must run: found by its id. */
#pragma once
#include "base/err.h"
#include "cli/api.h"

/* ERR_CONFLICT: the sandbox is paused; the message says what helps. */
static inline int api_get_running(struct cli_api *api, const char *id, struct api_sandbox *ret, struct err *err)
{
        int r = api_get(api, id, ret, err);

        if (r == 0 && ret->is_paused)
                return err_set(err, ERR_CONFLICT, "%s is paused: `sandglass resume %s` lets it run again", id, id);
        return r;
}
