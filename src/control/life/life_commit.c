/* The end of a sandbox in which a step of a build has run.
 *
 *   RUNNING → PAUSING: engine: pause, not on disk → seal: its files become a layer → the taker has its image → KILLING
 *
 * Its row says STARTING all the time, until it says KILLING: control that starts again ends it in any case. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "control/life/life.h"

static const struct err engine_restarted = {.kind = ERR_UNAVAILABLE, .msg = "the engine restarted in the middle of it"};

int life_commit(struct life *l, const struct life_commit *how, struct image_taker *t, struct err *err)
{
        int r = life_pick_copy_names(l, how->with_memory, err);

        if (r < 0)
                return r;
        (void)snprintf(l->below, sizeof(l->below), "%s", how->below ? how->below : "");
        l->taker = t;
        t->life = l;
        life_go(l, SANDBOX_PAUSING);
        life_call(l, STEP_PAUSE,
                  json_pack("{s:s,s:s,s:o,s:b}", "op", "pause", "id", l->sandbox.id, "checkpoint",
                            how->with_memory ? json_string(l->copying) : json_null(), "durable", 0),
                  PAUSE_TIMEOUT_MS);
        return 0;
}

static void commit_seal(struct life *l)
{
        life_call(l, STEP_SEAL,
                  json_pack("{s:s,s:s,s:s,s:s*}", "op", "seal", "id", l->sandbox.id, "layer", l->sealing, "below",
                            l->below[0] ? l->below : NULL),
                  SEAL_TIMEOUT_MS);
}

static void commit_done(struct life *l)
{
        const struct err no_memory = {.kind = ERR_INTERNAL, .msg = "out of memory"};
        json_t *layers = layers_with(l->below[0] ? NULL : l->sandbox.layers, l->sealing);
        struct image image = {.layers = layers, .image_secured = l->copying[0] && l->sandbox.is_secured};

        memcpy(image.checkpoint, l->copying, sizeof(image.checkpoint));
        if (l->copying[0])
                memcpy(image.image_of, l->sandbox.id, sizeof(image.image_of));
        life_give(l, &image, layers ? NULL : &no_memory);
        json_decref(layers);
        life_drop_sealing(l);
        life_kill(l, "its step is done", NULL);
}

static void commit_failed(struct life *l, const struct err *err)
{
        life_give(l, NULL, err);
        life_drop_sealing(l);
        life_kill(l, "its step could not be kept", NULL);
}

void life_commit_lost(struct life *l)
{
        commit_failed(l, &engine_restarted);
}

void life_on_commit_step(struct life *l, const struct err *err)
{
        if (life_step_is_unknown(l, err))
                return;
        if (err && err->kind == ERR_GONE)
                life_exited(l);
        else if (err)
                commit_failed(l, err);
        else if (l->step == STEP_PAUSE)
                commit_seal(l);
        else
                commit_done(l);
}
