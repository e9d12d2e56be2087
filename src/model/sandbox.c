#include "model/sandbox.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TO(s) (1u << (s))
#define ENDS (TO(SANDBOX_KILLING) | TO(SANDBOX_GONE))
static const unsigned sandbox_may[] = {
        [SANDBOX_STARTING] = TO(SANDBOX_RUNNING) | ENDS,
        [SANDBOX_RUNNING] =
                TO(SANDBOX_PAUSING) | TO(SANDBOX_PAUSED) | TO(SANDBOX_COPYING) | TO(SANDBOX_ROLLING_BACK) | ENDS,
        [SANDBOX_COPYING] = TO(SANDBOX_RUNNING) | TO(SANDBOX_SNAPSHOTTING) | ENDS,
        [SANDBOX_PAUSING] = TO(SANDBOX_PAUSED) | TO(SANDBOX_RUNNING) | ENDS,
        [SANDBOX_PAUSED] = TO(SANDBOX_RESUMING) | TO(SANDBOX_COPYING_PAUSED) | TO(SANDBOX_ROLLING_BACK_PAUSED) | ENDS,
        [SANDBOX_RESUMING] = TO(SANDBOX_RUNNING) | TO(SANDBOX_PAUSED) | ENDS,
        [SANDBOX_SNAPSHOTTING] = TO(SANDBOX_RUNNING) | TO(SANDBOX_PAUSED) | ENDS,
        [SANDBOX_ROLLING_BACK] = TO(SANDBOX_RUNNING) | TO(SANDBOX_PAUSED) | ENDS,
        [SANDBOX_COPYING_PAUSED] = TO(SANDBOX_PAUSED) | ENDS,
        [SANDBOX_ROLLING_BACK_PAUSED] = TO(SANDBOX_PAUSED) | ENDS,
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
        free(s->default_user);
        free(s->default_workdir);
        json_decref(s->metadata);
        json_decref(s->network);
        json_decref(s->mcp);
        json_decref(s->layers);
        json_decref(s->env);
        s->alias = s->default_user = s->default_workdir = NULL;
        s->metadata = s->network = s->mcp = s->layers = s->env = NULL;
}

bool sandbox_is_public(const struct sandbox *s)
{
        return !json_is_false(json_object_get(s->network, "allowPublicTraffic"));
}

const char *sandbox_mask_host(const struct sandbox *s)
{
        return json_string_value(json_object_get(s->network, "maskRequestHost"));
}

bool sandbox_resumes_on_traffic(const struct sandbox *s)
{
        return s->auto_resume && s->checkpoint[0];
}

bool sandbox_is_paused(const struct sandbox *s)
{
        return s->state == SANDBOX_PAUSED || s->state == SANDBOX_COPYING_PAUSED ||
               s->state == SANDBOX_ROLLING_BACK_PAUSED;
}

static const struct {
        bool is_visible, is_running, is_counted;
        const char *name, *deed;
} looks[] = {
        [SANDBOX_STARTING] = {false, true, true, "starting", "is being started"},
        [SANDBOX_RUNNING] = {true, true, true, "running", "is running"},
        [SANDBOX_PAUSING] = {true, false, true, "pausing", "is being paused"},
        [SANDBOX_PAUSED] = {true, false, false, "paused", "is paused"},
        [SANDBOX_RESUMING] = {true, false, true, "resuming", "is being resumed"},
        [SANDBOX_COPYING] = {true, true, true, "snapshotting", "is being snapshotted"},
        [SANDBOX_SNAPSHOTTING] = {true, true, true, "snapshotting", "is being snapshotted"},
        [SANDBOX_ROLLING_BACK] = {true, true, true, "rolling back", "is being rolled back"},
        [SANDBOX_COPYING_PAUSED] = {true, false, false, "snapshotting", "is being snapshotted"},
        [SANDBOX_ROLLING_BACK_PAUSED] = {true, false, false, "rolling back", "is being rolled back"},
        [SANDBOX_KILLING] = {false, false, false, "killing", "is being killed"},
        [SANDBOX_GONE] = {false, false, false, "killed", "is gone"},
};

bool sandbox_is_visible(const struct sandbox *s)
{
        return looks[s->state].is_visible && !s->is_missing && s->purpose == SANDBOX_FOR_CLIENT;
}

bool sandbox_is_shown_running(const struct sandbox *s)
{
        return looks[s->state].is_running;
}

bool sandbox_is_counted(const struct sandbox *s)
{
        return looks[s->state].is_counted && s->purpose == SANDBOX_FOR_CLIENT;
}

const char *sandbox_state_name(enum sandbox_state state)
{
        return looks[state].name;
}

const char *sandbox_state_deed(enum sandbox_state state)
{
        return looks[state].deed;
}

size_t layers_sealed(const json_t *layers)
{
        size_t i, n = 0;
        json_t *v;

        json_array_foreach (layers, i, v)
                n += layer_id_is_sealed(json_string_value(v));
        return n;
}

static json_t *part(const json_t *layers, size_t first, size_t end, json_t *out)
{
        for (size_t i = first; out && i < end; i++)
                if (json_array_append(out, json_array_get(layers, i)) < 0) {
                        json_decref(out);
                        out = NULL;
                }
        return out;
}

static json_t *sandbox_add_field(json_t *out, const char *layer)
{
        if (out && json_array_append_new(out, json_string(layer)) < 0) {
                json_decref(out);
                out = NULL;
        }
        return out;
}

json_t *layers_with(const json_t *layers, const char *more)
{
        return sandbox_add_field(part(layers, 0, json_array_size(layers), json_array()), more);
}

json_t *layers_merged(const json_t *layers, size_t first, size_t count, const char *into)
{
        json_t *out = sandbox_add_field(part(layers, 0, first, json_array()), into);

        return part(layers, first + count, json_array_size(layers), out);
}

int layers_find(const json_t *layers, const json_t *run)
{
        size_t n = json_array_size(layers), want = json_array_size(run), same;

        for (size_t at = 0; want && at + want <= n; at++) {
                for (same = 0; same < want; same++)
                        if (!json_equal(json_array_get(layers, at + same), json_array_get(run, same)))
                                break;
                if (same == want)
                        return (int)at;
        }
        return -1;
}
