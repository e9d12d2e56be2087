#include "model/sandbox.h"

#include <assert.h>
#include <stdlib.h>

#define TO(s) (1u << (s))
static const unsigned sandbox_may[] = {
        [SANDBOX_STARTING] = TO(SANDBOX_RUNNING) | TO(SANDBOX_KILLING) | TO(SANDBOX_GONE),
        [SANDBOX_RUNNING] = TO(SANDBOX_KILLING) | TO(SANDBOX_GONE),
        [SANDBOX_KILLING] = TO(SANDBOX_GONE),
        [SANDBOX_GONE] = 0,
};

void sandbox_go(struct sandbox *s, enum sandbox_state next)
{
        assert(sandbox_may[s->state] & TO(next));
        s->state = next;
}

void sandbox_done(struct sandbox *s)
{
        free(s->alias);
        json_decref(s->metadata);
        json_decref(s->network);
        json_decref(s->mcp);
        s->alias = NULL;
        s->metadata = s->network = s->mcp = NULL;
}

bool sandbox_is_public(const struct sandbox *s)
{
        return !json_is_false(json_object_get(s->network, "allowPublicTraffic"));
}

const char *sandbox_mask_host(const struct sandbox *s)
{
        return json_string_value(json_object_get(s->network, "maskRequestHost"));
}
