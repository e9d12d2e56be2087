#include "control/chains.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "control/life.h"
#include "control/refs.h"
#include "control/snapshots.h"

#define MERGE_TIMEOUT_MS 900000
#define RETRY_MS 60000
#define NOTE_TIMEOUT_MS 60000
#define KEEP 4 /* of the newest layers, which are the least shared */

/* The oldest sealed layers but the newest few; NULL: the list is short enough (or memory is short). */
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
                        json_decref(run); /* they all come last, whatever made this list */
                        return NULL;
                }
        }
        return run;
}

static const json_t *layers_of(const struct life *l)
{
        return l->flat ? l->flat : l->sandbox.layers;
}

/* Of those that did not fail since the last pause for breath: whatever is wrong with one, the others get their turn. */
static json_t *run_to_try(const struct chains *ch, const json_t *layers)
{
        json_t *run = run_to_merge(layers);

        if (!run || !json_object_get(ch->failed, json_string_value(json_array_get(run, 0))))
                return run;
        json_decref(run);
        return NULL;
}

static json_t *find_run(const struct chains *ch)
{
        json_t *run = NULL;

        LIST_EACH (node, &ch->snapshots->all)
                if ((run = run_to_try(ch, LIST_ENTRY(node, struct snapshot_entry, node)->snapshot.layers)))
                        return run;
        LIST_EACH (node, &ch->lives->all)
                if ((run = run_to_try(ch, layers_of(LIST_ENTRY(node, struct life, node)))))
                        return run;
        return NULL;
}

/* ---- taking the merged one ---- */

static json_t *merged(const struct chains *ch, const json_t *layers)
{
        int at = layers_find(layers, ch->run);

        return at < 0 ? NULL
                      : layers_merged(layers, (size_t)at, json_array_size(ch->run),
                                      json_string_value(json_array_get(ch->into, 0)));
}

struct chain_note {
        struct list node;
        struct engine_call call;
};

static void note_free(struct chain_note *n)
{
        engine_call_cancel(&n->call);
        list_remove(&n->node);
        free(n);
}

static void on_noted(struct engine_call *c, const json_t *answer, const struct err *err)
{
        (void)answer;
        if (err) /* it matters only if the store is lost, too */
                log_warn("chain.note", "failed=\"%s\"", err->msg);
        note_free(CONTAINER_OF(c, struct chain_note, call));
}

/* What is noted beside the files names layers that are about to go. */
static void note_layers(struct chains *ch, const char *sandbox, const char *checkpoint, json_t *layers)
{
        struct chain_note *n = calloc(1, sizeof(*n));

        if (!n)
                return;
        n->call.on = on_noted;
        list_push_back(&ch->notes, &n->node);
        engine_call(ch->engine, &n->call,
                    json_pack("{s:s,s:s*,s:s*,s:{s:O}}", "op", "origin", "id", sandbox, "checkpoint",
                              checkpoint[0] ? checkpoint : NULL, "changes", "layers", layers),
                    NOTE_TIMEOUT_MS);
}

static void shorten_snapshot(struct chains *ch, struct snapshot *sn)
{
        json_t *layers = merged(ch, sn->layers);
        struct err err;

        if (layers && snapshot_set_layers(ch->snapshots, sn, layers, &err) < 0)
                log_warn("chain.merge", "snapshot=%s failed=\"%s\"", sn->id, err.msg);
        else if (layers)
                note_layers(ch, NULL, sn->checkpoint, layers);
        json_decref(layers);
}

static void shorten_life(struct chains *ch, struct life *l)
{
        json_t *layers = merged(ch, layers_of(l));
        struct life_row row = life_row_of(l);
        struct err err;

        if (!layers)
                return;
        row.layers = layers;
        if (l->sandbox.state == SANDBOX_PAUSED && !l->sandbox.upper_kept) {
                if (life_record(l, &row, &err) < 0)
                        log_warn("chain.merge", "sandbox=%s failed=\"%s\"", l->sandbox.id, err.msg);
                else
                        note_layers(ch, l->sandbox.id, l->sandbox.checkpoint, layers);
                life_forget_flat(l);
        } else if (refs_hold(ch->refs, "", layers) == 0) {
                life_forget_flat(l);
                l->flat = json_incref(layers);
        }
        json_decref(layers);
}

static void forget_run(struct chains *ch)
{
        refs_release(ch->refs, "", ch->run);
        refs_release(ch->refs, "", ch->into);
        json_decref(ch->run);
        json_decref(ch->into);
        ch->run = ch->into = NULL;
}

static void on_merged(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct chains *ch = CONTAINER_OF(c, struct chains, merge);

        (void)answer;
        if (err) {
                log_warn("chain.merge", "failed=\"%s\", trying again later", err->msg);
                if (json_object_set_new(ch->failed, json_string_value(json_array_get(ch->run, 0)), json_true()) < 0)
                        timer_set(ch->loop, &ch->retry, RETRY_MS); /* no memory to remember it: all wait */
                forget_run(ch);
                chains_look(ch);
                return;
        }
        log_info("chain.merged", "layers=%zu", json_array_size(ch->run));
        refs_set_flushed(ch->refs, json_string_value(json_array_get(ch->into, 0)));
        LIST_EACH (node, &ch->snapshots->all)
                shorten_snapshot(ch, &LIST_ENTRY(node, struct snapshot_entry, node)->snapshot);
        LIST_EACH (node, &ch->lives->all)
                shorten_life(ch, LIST_ENTRY(node, struct life, node));
        forget_run(ch);
        chains_look(ch);
}

/* ---- finding something to do ---- */

static bool hold_run(struct chains *ch)
{
        char into[SEALED_ID_MAX];
        struct err err;

        sealed_id_make(into);
        ch->into = json_pack("[s]", into);
        if (ch->into && refs_hold(ch->refs, "", ch->run) == 0) {
                if (refs_make(ch->refs, "", ch->into, &err) == 0)
                        return true;
                log_warn("chain.merge", "failed=\"%s\"", err.msg);
                refs_release(ch->refs, "", ch->run);
        }
        json_decref(ch->run);
        json_decref(ch->into);
        ch->run = ch->into = NULL;
        return false;
}

static void on_go(struct task *t)
{
        struct chains *ch = CONTAINER_OF(t, struct chains, go);

        if (ch->run || timer_is_armed(&ch->retry))
                return;
        ch->run = find_run(ch);
        if (!ch->run && json_object_size(ch->failed) > 0) {
                (void)json_object_clear(ch->failed);
                timer_set(ch->loop, &ch->retry, RETRY_MS);
        }
        if (!ch->run || !hold_run(ch))
                return;
        log_info("chain.merge", "layers=%zu", json_array_size(ch->run));
        engine_call(ch->engine, &ch->merge,
                    json_pack("{s:s,s:O,s:O}", "op", "merge", "layers", ch->run, "into", json_array_get(ch->into, 0)),
                    MERGE_TIMEOUT_MS);
}

static void on_retry(struct timer *t)
{
        chains_look(CONTAINER_OF(t, struct chains, retry));
}

void chains_look(struct chains *ch)
{
        loop_post(ch->loop, &ch->go);
}

void chains_init(struct chains *ch, struct loop *loop, struct engine_link *engine, struct refs *refs,
                 struct lives *lives, struct snapshots *snapshots)
{
        *ch = (struct chains){.loop = loop,
                              .engine = engine,
                              .refs = refs,
                              .lives = lives,
                              .snapshots = snapshots,
                              .failed = json_object(),
                              .go.run = on_go,
                              .retry.on = on_retry,
                              .merge.on = on_merged};
        list_init(&ch->notes);
}

void chains_done(struct chains *ch)
{
        if (!ch->loop)
                return;
        engine_call_cancel(&ch->merge);
        while (!list_is_empty(&ch->notes))
                note_free(LIST_ENTRY(ch->notes.next, struct chain_note, node));
        loop_unpost(&ch->go);
        timer_clear(&ch->retry);
        json_decref(ch->run);
        json_decref(ch->into);
        json_decref(ch->failed);
        ch->loop = NULL;
}
