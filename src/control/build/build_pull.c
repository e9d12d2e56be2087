/* An image of a registry: pulled by the puller, and unpacked layer after layer in sandboxes, each on the layers before it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "control/build/build_run.h"
#include "control/build/image_layers.h"
#include "control/catalogue/layer_cache.h"
#include "control/catalogue/templates.h"

#define PROGRESS_STEP (16u << 20) /* bytes between two lines of the log */

void pull_done(struct build_pull *p)
{
        role_call_abort(&p->call);
        json_decref(p->answer);
        p->answer = NULL;
}

static const json_t *layer_now(const struct build_frame *f)
{
        return json_array_get(json_object_get(f->pull.answer, "layers"), f->pull.next);
}

static const char *text_of(const json_t *obj, const char *key)
{
        const char *text = json_string_value(json_object_get(obj, key));

        return text ? text : "";
}

/* The key of the layer under way: it stands for all layers below it, too. */
static void pull_key(struct build_frame *f)
{
        if (!f->chain.layers)
                scratch_key(&f->key);
        else
                image_layer_key(&f->chain.key, text_of(layer_now(f), "diff_id"), &f->key);
}

static int pull_add_layer(struct build_frame *f, const char *layer)
{
        f->chain.key = f->key;
        if (f->chain.layers) {
                f->pull.next++;
                return build_chain_add_layer(&f->chain, layer);
        }
        f->chain.layers = json_pack("[s]", layer);
        return f->chain.layers ? 0 : -ENOMEM;
}

enum build_progress pull_unpacked(struct build_frame *f, const char *layer)
{
        json_t *none = json_object();
        int r = none ? build_keep_add(&f->build->all->keep, LAYER_CACHE_SHARED, &f->key, layer, none) : -ENOMEM;

        json_decref(none);
        if (r == 0)
                r = pull_add_layer(f, layer);
        return r < 0 ? frame_trip(f, &build_no_memory) : BUILD_GOES_ON;
}

/* ---- unpacking ---- */

static enum build_progress pull_make_scratch(struct build_frame *f)
{
        const struct template_ref ref = {.name = "base"};
        const struct template *t;
        struct box_base base;
        struct err err = {0};
        json_t *layers;

        if (templates_find(f->build->all->o.templates, &ref, "", &t, &err) < 0)
                return build_fail(f->build, "base", "%s", err.msg);
        layers = json_array();
        for (size_t i = 0; i < t->layer_count; i++)
                (void)json_array_append_new(layers, json_string(t->layers[i]));
        base = build_box_base(f->build, layers);
        f->pull.below = &RECIPE_ROOT[1];
        box_run(&f->box, &base,
                json_pack("{s:s,s:s,s:s,s:s,s:{},s:i}", "kind", "run", "cmd", SCRATCH_COMMAND, "user", "root",
                          "workdir", "/", "env", "timeout_s", 60),
                -1, 1);
        json_decref(layers);
        return BUILD_WAITS;
}

static void pull_opened(struct role_call *c, const json_t *answer, int *fd, const struct err *err)
{
        struct build_frame *f = CONTAINER_OF(c, struct build_frame, pull.call);
        struct build_run *b = f->build;
        struct box_base base = build_box_base(b, f->chain.layers);

        (void)answer;
        if (err || !fd) {
                if (frame_trip(f, err ? err : &build_no_memory) == BUILD_GOES_ON)
                        build_advance(b);
                return;
        }
        build_say(b, BUILD_LOG_DEBUG, "base", "[base] Unpacking %.19s", text_of(layer_now(f), "digest"));
        box_run(&f->box, &base, json_pack("{s:s,s:s}", "kind", "unpack", "diff_id", text_of(layer_now(f), "diff_id")),
                TAKE_FD(*fd), 1);
}

static enum build_progress pull_unpack(struct build_frame *f)
{
        f->pull.below = NULL;
        f->pull.call.on = pull_opened;
        f->pull.call.on_event = NULL;
        role_call(&f->build->all->puller, &f->pull.call,
                  json_pack("{s:s,s:s}", "op", "open", "digest", text_of(layer_now(f), "digest")), NULL, 0);
        return BUILD_WAITS;
}

/* ---- the whole image ---- */

static void forgotten(struct role_call *c, const json_t *answer, int *fd, const struct err *err)
{
        (void)answer, (void)fd, (void)err;
        free(c);
}

/* The downloads are not needed any more. */
static void pull_forget(struct build_frame *f)
{
        struct role_call *c = calloc(1, sizeof(*c));
        json_t *digests = json_array(), *v;
        size_t i;

        json_array_foreach (json_object_get(f->pull.answer, "layers"), i, v)
                (void)json_array_append(digests, json_object_get(v, "digest"));
        if (!c) {
                json_decref(digests);
                return;
        }
        c->on = forgotten;
        role_call(&f->build->all->puller, c, json_pack("{s:s,s:o}", "op", "forget", "digests", digests), NULL, 0);
}

/* The image gets its row when its layers are on disk (build_finalize.c).  One that needed credentials is not for everybody. */
static void pull_note_image(struct build_frame *f)
{
        const json_t *a = f->pull.answer;
        json_int_t bytes = 0;
        size_t i;
        json_t *v;

        json_array_foreach (json_object_get(a, "layers"), i, v)
                bytes += json_integer_value(json_object_get(v, "bytes"));
        if (f->build->request.registry)
                return;
        if (!f->build->pulled)
                f->build->pulled = json_array();
        (void)json_array_append_new(f->build->pulled,
                                    json_pack("{s:s,s:s,s:o,s:O,s:I}", "name", text_of(a, "name"), "digest",
                                              text_of(a, "digest"), "layers", json_copy(f->chain.layers), "config",
                                              json_object_get(a, "config"), "bytes", bytes));
}

static enum build_progress pull_complete(struct build_frame *f)
{
        pull_note_image(f);
        pull_forget(f);
        return base_is_image(f, f->chain.layers, text_of(f->pull.answer, "digest"),
                             json_object_get(f->pull.answer, "config"));
}

static void pull_progress(struct role_call *c, const json_t *event)
{
        struct build_frame *f = CONTAINER_OF(c, struct build_frame, pull.call);
        uint64_t done = (uint64_t)json_integer_value(json_object_get(event, "done"));
        uint64_t total = (uint64_t)json_integer_value(json_object_get(event, "total"));

        if (done < f->pull.shown + PROGRESS_STEP && done != total)
                return;
        f->pull.shown = done;
        build_say(f->build, BUILD_LOG_DEBUG, "base", "[base] Pulling: %llu of %llu MB",
                  (unsigned long long)(done >> 20), (unsigned long long)(total >> 20));
}

static void pull_pulled(struct role_call *c, const json_t *answer, int *fd, const struct err *err)
{
        struct build_frame *f = CONTAINER_OF(c, struct build_frame, pull.call);
        struct build_run *b = f->build;
        enum build_progress p;

        (void)fd;
        f->pull.answer = json_deep_copy(answer);
        if (err && err->kind == ERR_UNAVAILABLE && strstr(err->msg, "ended before")) /* the puller itself */
                p = frame_trip(f, err);
        else if (err)
                p = build_fail(b, "base", "%s", err->msg);
        else
                p = f->pull.answer ? BUILD_GOES_ON : frame_trip(f, &build_no_memory);
        if (p == BUILD_GOES_ON)
                build_advance(b);
}

enum build_progress pull_take(struct build_frame *f)
{
        struct build_run *b = f->build;
        struct cached_step found = {0};
        struct err err = {0};
        json_t *one;
        int r = 0;

        if (!f->pull.answer) {
                f->pull.call.on = pull_pulled;
                f->pull.call.on_event = pull_progress;
                role_call(
                        &b->all->puller, &f->pull.call,
                        json_pack("{s:s,s:s,s:O*}", "op", "pull", "image", f->stage->from, "auth", b->request.registry),
                        NULL, 0);
                return BUILD_WAITS;
        }
        if (f->chain.layers && !layer_now(f))
                return pull_complete(f);
        if (f->chain.layers && frame_shorten(f) == BUILD_WAITS)
                return BUILD_WAITS;
        pull_key(f);
        if (!b->request.force || !f->chain.layers)
                r = build_keep_find(&b->all->keep, LAYER_CACHE_SHARED, &f->key, &found, &err);
        if (r < 0)
                return frame_trip(f, &err);
        if (r == 0)
                return f->chain.layers ? pull_unpack(f) : pull_make_scratch(f);
        one = json_pack("[s]", found.layer);
        r = one && build_hold_layers(b, "", one) == 0 ? pull_add_layer(f, found.layer) : -ENOMEM;
        json_decref(one);
        cached_step_done(&found);
        return r < 0 ? frame_trip(f, &build_no_memory) : BUILD_GOES_ON;
}
