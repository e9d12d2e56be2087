#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/build/build_run.h"
#include "control/catalogue/layer_cache.h"
#include "control/catalogue/refs.h"

#define MERGE_TIMEOUT_MS 900000

struct build_frame *frame_push(struct build_run *b, enum frame_kind kind, const struct build_stage *stage,
                               size_t stage_index)
{
        const struct builds_run_options *o = &b->all->o;
        struct build_frame *f = calloc(1, sizeof(*f));

        if (!f)
                return NULL;
        f->build = b;
        f->kind = kind;
        f->stage = stage;
        f->stage_index = stage_index;
        f->team = kind == FRAME_RECIPE ? LAYER_CACHE_SHARED : b->team;
        f->archive = -1;
        box_init(&f->box, o->lives, o->engine, &b->all->builder, o->tokens, &frame_box_ops);
        f->below = b->top;
        b->top = f;
        return f;
}

static void merge_release(struct build_frame *f)
{
        json_t *one = f->merging[0] ? json_pack("[s]", f->merging) : NULL;

        refs_release(f->build->all->o.refs, "", one);
        json_decref(one);
        f->merging[0] = 0;
}

void frame_free(struct build_frame *f)
{
        box_drop(&f->box);
        pull_done(&f->pull);
        engine_call_cancel(&f->merge);
        merge_release(f);
        build_chain_done(&f->chain);
        build_chain_done(&f->made);
        build_request_done(&f->own);
        recipe_done(&f->recipe);
        json_decref(f->env);
        close_fd(&f->archive);
        free(f);
}

const char *frame_step_name(const struct build_frame *f, char room[16])
{
        if (f->kind != FRAME_STAGE || f->stage_index + 1 != f->build->request.stage_count || !f->has_user)
                return "base";
        (void)snprintf(room, 16, "%zu", f->next + 1);
        return room;
}

enum build_progress frame_trip(struct build_frame *f, const struct err *err)
{
        char room[16];

        return build_trip(f->build, frame_step_name(f, room), err);
}

/* The chain is complete: it belongs to the frame below, and to all others that begin with the same stage. */
static enum build_progress frame_finish(struct build_frame *f)
{
        struct build_run *b = f->build;
        struct build_chain *to = f->stage_index != STAGE_NONE ? &b->stages[f->stage_index] : &f->below->made;

        build_chain_done(to);
        *to = f->chain;
        f->chain = (struct build_chain){0};
        b->top = f->below;
        frame_free(f);
        return BUILD_GOES_ON;
}

enum build_progress frame_advance(struct build_frame *f)
{
        enum build_progress p;

        if (!f->has_base || !f->has_user)
                return base_take(f);
        if (f->next < f->stage->step_count)
                return step_take(f);
        if (f->kind == FRAME_RECIPE && base_apply_recipe(f) < 0)
                return frame_trip(f, &build_no_memory);
        p = frame_shorten(f);
        return p == BUILD_GOES_ON ? frame_finish(f) : p;
}

/* ---- what its box tells ---- */

static enum build_progress frame_took(struct build_frame *f, const json_t *answer)
{
        if (f->has_base && f->has_user)
                return step_answered(f, answer);
        return base_answered(f, answer);
}

void frame_on_step(struct build_box *box, const json_t *answer, const struct err *err)
{
        struct build_frame *f = CONTAINER_OF(box, struct build_frame, box);
        struct build_run *b = f->build;

        if ((err ? frame_trip(f, err) : frame_took(f, answer)) == BUILD_GOES_ON)
                build_advance(b);
}

void frame_on_image(struct build_box *box, const struct image *image, const struct err *err)
{
        struct build_frame *f = CONTAINER_OF(box, struct build_frame, box);
        struct build_run *b = f->build;
        size_t n = image ? json_array_size(image->layers) : 0;
        const char *layer = json_string_value(json_array_get(image ? image->layers : NULL, n - 1));
        json_t *one = layer ? json_pack("[s]", layer) : NULL;
        enum build_progress p;

        if (!err && (!one || build_hold_layers(b, "", one) < 0))
                err = &build_no_memory;
        if (err)
                p = frame_trip(f, err);
        else if (f->has_base && f->has_user)
                p = step_committed(f, layer);
        else
                p = base_committed(f, layer);
        json_decref(one);
        if (p == BUILD_GOES_ON)
                build_go_on(b); /* the life has still to be ended */
}

void frame_on_log(struct build_box *box, const json_t *entries)
{
        struct build_frame *f = CONTAINER_OF(box, struct build_frame, box);
        char label[160], room[16];

        step_label(f, label, sizeof(label));
        build_log_add_all(f->build->all->o.logs, f->build->id, frame_step_name(f, room), label, entries);
}

const struct box_ops frame_box_ops = {.on_step = frame_on_step, .on_image = frame_on_image, .on_log = frame_on_log};

/* ---- too many layers ---- */

/* The sealed layers of the chain; layers of templates cannot be merged. */
static json_t *sealed_part(const json_t *layers)
{
        json_t *out = json_array(), *v;
        size_t i;

        json_array_foreach ((json_t *)(uintptr_t)layers, i, v)
                if (layer_id_is_sealed(json_string_value(v)))
                        (void)json_array_append(out, v);
        return out;
}

/* The chain with `layer` in place of all its sealed layers. */
static int frame_replace_layers(struct build_frame *f, const char *layer)
{
        json_t *out = json_array(), *v;
        size_t i;

        json_array_foreach (f->chain.layers, i, v)
                if (!layer_id_is_sealed(json_string_value(v)))
                        (void)json_array_append(out, v);
        if (!out || json_array_append_new(out, json_string(layer)) < 0) {
                json_decref(out);
                return -ENOMEM;
        }
        json_decref(f->chain.layers);
        f->chain.layers = out;
        return 0;
}

static void merge_key(const struct build_frame *f, struct build_key *ret)
{
        build_key_base("merged", f->chain.key.hex, "", ret);
}

static void frame_merged(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct build_frame *f = CONTAINER_OF(c, struct build_frame, merge);
        struct build_run *b = f->build;
        json_t *one = json_pack("[s]", f->merging), *context = json_object();
        struct build_key key;
        enum build_progress p = BUILD_GOES_ON;

        (void)answer;
        merge_key(f, &key);
        if (!err && (!one || !context || build_hold_layers(b, "", one) < 0 || frame_replace_layers(f, f->merging) < 0 ||
                     build_keep_add(&b->all->keep, f->team, &key, f->merging, context) < 0))
                err = &build_no_memory;
        if (err)
                p = frame_trip(f, err);
        else
                merge_release(f);
        json_decref(one);
        json_decref(context);
        if (p == BUILD_GOES_ON)
                build_advance(b);
}

enum build_progress frame_shorten(struct build_frame *f)
{
        struct build_run *b = f->build;
        struct cached_step known = {0};
        struct build_key key;
        struct err err = {0};
        json_t *one;
        int r;

        if (json_array_size(f->chain.layers) < BUILD_LAYERS_MAX)
                return BUILD_GOES_ON;
        merge_key(f, &key);
        r = build_keep_find(&b->all->keep, f->team, &key, &known, &err);
        if (r == 1 && known.layer[0]) {
                one = json_pack("[s]", known.layer);
                r = one && build_hold_layers(b, "", one) == 0 ? frame_replace_layers(f, known.layer) : -ENOMEM;
                json_decref(one);
                cached_step_done(&known);
                return r < 0 ? frame_trip(f, &build_no_memory) : BUILD_GOES_ON;
        }
        cached_step_done(&known);
        sealed_id_make(f->merging);
        one = json_pack("[s]", f->merging);
        r = one ? refs_make(b->all->o.refs, "", one, &err) : err_sys(&err, -ENOMEM, "merge layers");
        json_decref(one);
        if (r < 0) {
                f->merging[0] = 0;
                return frame_trip(f, &err);
        }
        build_say(b, BUILD_LOG_DEBUG, NULL, "Merging %zu layers", json_array_size(f->chain.layers));
        f->merge.on = frame_merged;
        engine_call(
                b->all->o.engine, &f->merge,
                json_pack("{s:s,s:o,s:s}", "op", "merge", "layers", sealed_part(f->chain.layers), "into", f->merging),
                MERGE_TIMEOUT_MS);
        return BUILD_WAITS;
}
