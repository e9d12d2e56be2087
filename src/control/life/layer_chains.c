#include "control/life/layer_chains.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "control/catalogue/refs.h"
#include "control/catalogue/snapshots.h"
#include "control/life/life.h"

#define MERGE_TIMEOUT_MS 900000
#define RETRY_MS 60000
#define NOTE_TIMEOUT_MS 60000
#define KEEP 4 /* the newest layers are not merged: they are the least shared */

/* The sealed layers without the newest few; NULL: the list is short enough, or memory is short. */
static json_t *run_to_merge(const json_t *layers)
{
        size_t sealed = layers_sealed(layers), first = json_array_size(layers) - sealed;
        json_t *run;

        if (sealed <= LAYERS_SEALED_MAX)
                return NULL;
        run = json_array();
        for (size_t i = first; i < first + sealed - KEEP; i++) {
                const char *layer = json_string_value(json_array_get(layers, i));

                if (!layer_id_is_sealed(layer) || json_array_append(run, json_array_get(layers, i)) < 0) {
                        json_decref(run); /* sealed layers come last in every list; this one is broken */
                        return NULL;
                }
        }
        return run;
}

static const json_t *life_merged_layers(const struct life *l)
{
        return l->merged_layers ? l->merged_layers : l->sandbox.layers;
}

/* Runs that failed since the last long wait are left out, so that the others get their turn. */
static json_t *run_to_try(const struct layer_chains *ch, const json_t *layers)
{
        json_t *run = run_to_merge(layers);

        if (!run || !json_object_get(ch->failed, json_string_value(json_array_get(run, 0))))
                return run;
        json_decref(run);
        return NULL;
}

static json_t *layer_chains_find_run(const struct layer_chains *ch)
{
        json_t *run = NULL;

        LIST_EACH (node, &ch->snapshots->all)
                if ((run = run_to_try(ch, LIST_ENTRY(node, struct snapshot_entry, node)->snapshot.layers)))
                        return run;
        LIST_EACH (node, &ch->lives->all)
                if ((run = run_to_try(ch, life_merged_layers(LIST_ENTRY(node, struct life, node)))))
                        return run;
        return NULL;
}

/* ---- taking the merged layer ---- */

static json_t *with_run_merged(const struct layer_chains *ch, const json_t *layers)
{
        int at = layers_find(layers, ch->run);

        return at < 0 ? NULL
                      : layers_merged(layers, (size_t)at, json_array_size(ch->run),
                                      json_string_value(json_array_get(ch->into, 0)));
}

struct layer_note {
        struct list node;
        struct engine_call call;
};

static void layer_note_free(struct layer_note *n)
{
        engine_call_cancel(&n->call);
        list_remove(&n->node);
        free(n);
}

static void layer_note_sent(struct engine_call *c, const json_t *answer, const struct err *err)
{
        (void)answer;
        if (err) /* the note matters only if the store is lost */
                log_warn("layers.note", "failed=\"%s\"", err->msg);
        layer_note_free(CONTAINER_OF(c, struct layer_note, call));
}

/* The origin beside the files (origins.h) names layers that are about to be dropped. */
static void layer_chains_note(struct layer_chains *ch, const char *sandbox, const char *checkpoint, json_t *layers)
{
        struct layer_note *n = calloc(1, sizeof(*n));

        if (!n)
                return;
        n->call.on = layer_note_sent;
        list_push_back(&ch->notes, &n->node);
        engine_call(ch->engine, &n->call,
                    json_pack("{s:s,s:s*,s:s*,s:{s:O}}", "op", "origin", "id", sandbox, "checkpoint",
                              checkpoint[0] ? checkpoint : NULL, "changes", "layers", layers),
                    NOTE_TIMEOUT_MS);
}

static void layer_chains_shorten_snapshot(struct layer_chains *ch, struct snapshot *sn)
{
        json_t *layers = with_run_merged(ch, sn->layers);
        struct err err;

        if (layers && snapshot_set_layers(ch->snapshots, sn, layers, &err) < 0)
                log_warn("layers.merge", "snapshot=%s failed=\"%s\"", sn->id, err.msg);
        else if (layers)
                layer_chains_note(ch, NULL, sn->checkpoint, layers);
        json_decref(layers);
}

static void layer_chains_shorten_life(struct layer_chains *ch, struct life *l)
{
        json_t *layers = with_run_merged(ch, life_merged_layers(l));
        struct life_row row = life_row_of(l);
        struct err err;

        if (!layers)
                return;
        row.layers = layers;
        if (l->sandbox.state == SANDBOX_PAUSED && !l->sandbox.upper_kept) {
                if (life_record(l, &row, &err) < 0)
                        log_warn("layers.merge", "sandbox=%s failed=\"%s\"", l->sandbox.id, err.msg);
                else
                        layer_chains_note(ch, l->sandbox.id, l->sandbox.checkpoint, layers);
                life_forget_merged_layers(l);
        } else if (refs_hold(ch->refs, "", layers) == 0) {
                life_forget_merged_layers(l);
                l->merged_layers = json_incref(layers);
        }
        json_decref(layers);
}

static void layer_chains_forget_run(struct layer_chains *ch)
{
        refs_release(ch->refs, "", ch->run);
        refs_release(ch->refs, "", ch->into);
        json_decref(ch->run);
        json_decref(ch->into);
        ch->run = ch->into = NULL;
}

static void layer_chains_merged(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct layer_chains *ch = CONTAINER_OF(c, struct layer_chains, merge);

        (void)answer;
        if (err) {
                log_warn("layers.merge", "failed=\"%s\", trying again later", err->msg);
                if (json_object_set_new(ch->failed, json_string_value(json_array_get(ch->run, 0)), json_true()) < 0)
                        timer_set(ch->loop, &ch->retry,
                                  RETRY_MS); /* no memory to remember the failure: all runs wait */
                layer_chains_forget_run(ch);
                layer_chains_look(ch);
                return;
        }
        log_info("layers.merged", "layers=%zu", json_array_size(ch->run));
        refs_set_flushed(ch->refs, json_string_value(json_array_get(ch->into, 0)));
        LIST_EACH (node, &ch->snapshots->all)
                layer_chains_shorten_snapshot(ch, &LIST_ENTRY(node, struct snapshot_entry, node)->snapshot);
        LIST_EACH (node, &ch->lives->all)
                layer_chains_shorten_life(ch, LIST_ENTRY(node, struct life, node));
        layer_chains_forget_run(ch);
        layer_chains_look(ch);
}

/* ---- finding something to do ---- */

static bool layer_chains_hold_run(struct layer_chains *ch)
{
        char into[SEALED_ID_MAX];
        struct err err;

        sealed_id_make(into);
        ch->into = json_pack("[s]", into);
        if (ch->into && refs_hold(ch->refs, "", ch->run) == 0) {
                if (refs_make(ch->refs, "", ch->into, &err) == 0)
                        return true;
                log_warn("layers.merge", "failed=\"%s\"", err.msg);
                refs_release(ch->refs, "", ch->run);
        }
        json_decref(ch->run);
        json_decref(ch->into);
        ch->run = ch->into = NULL;
        return false;
}

static void layer_chains_go(struct task *t)
{
        struct layer_chains *ch = CONTAINER_OF(t, struct layer_chains, go);

        if (ch->run || timer_is_armed(&ch->retry))
                return;
        ch->run = layer_chains_find_run(ch);
        if (!ch->run && json_object_size(ch->failed) > 0) {
                (void)json_object_clear(ch->failed);
                timer_set(ch->loop, &ch->retry, RETRY_MS);
        }
        if (!ch->run || !layer_chains_hold_run(ch))
                return;
        log_info("layers.merge", "layers=%zu", json_array_size(ch->run));
        engine_call(ch->engine, &ch->merge,
                    json_pack("{s:s,s:O,s:O}", "op", "merge", "layers", ch->run, "into", json_array_get(ch->into, 0)),
                    MERGE_TIMEOUT_MS);
}

static void layer_chains_retry(struct timer *t)
{
        layer_chains_look(CONTAINER_OF(t, struct layer_chains, retry));
}

void layer_chains_look(struct layer_chains *ch)
{
        loop_post(ch->loop, &ch->go);
}

void layer_chains_init(struct layer_chains *ch, struct loop *loop, struct engine_link *engine, struct refs *refs,
                       struct lives *lives, struct snapshots *snapshots)
{
        *ch = (struct layer_chains){.loop = loop,
                                    .engine = engine,
                                    .refs = refs,
                                    .lives = lives,
                                    .snapshots = snapshots,
                                    .failed = json_object(),
                                    .go.run = layer_chains_go,
                                    .retry.on = layer_chains_retry,
                                    .merge.on = layer_chains_merged};
        list_init(&ch->notes);
}

void layer_chains_done(struct layer_chains *ch)
{
        if (!ch->loop)
                return;
        engine_call_cancel(&ch->merge);
        while (!list_is_empty(&ch->notes))
                layer_note_free(LIST_ENTRY(ch->notes.next, struct layer_note, node));
        loop_unpost(&ch->go);
        timer_clear(&ch->retry);
        json_decref(ch->run);
        json_decref(ch->into);
        json_decref(ch->failed);
        ch->loop = NULL;
}
