#include "control/build/image_import.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "control/build/image_layers.h"
#include "control/catalogue/images.h"
#include "control/catalogue/layer_cache.h"
#include "control/catalogue/refs.h"
#include "control/catalogue/templates.h"
#include "model/conf.h"
#include "model/plan.h"
#include "model/recipe/recipe.h"

#define BOX_DISK_MB 20480
#define FLUSH_TIMEOUT_MS 900000

static const struct err no_memory = {.kind = ERR_LIMIT, .msg = "out of memory"};

static void import_go_on(struct image_import *im);

static const json_t *image_now(const struct image_import *im)
{
        return json_array_get(im->images, im->image);
}

static const json_t *layer_now(const struct image_import *im)
{
        return json_array_get(json_object_get(image_now(im), "layers"), im->layer);
}

static const char *text_of(const json_t *obj, const char *name)
{
        const char *text = json_string_value(json_object_get(obj, name));

        return text ? text : "";
}

/* ---- the end ---- */

void image_import_cancel(struct image_import *im)
{
        if (!im->all)
                return;
        role_call_abort(&im->call);
        if (im->box.ops)
                box_drop(&im->box);
        engine_call_cancel(&im->flush);
        durable_cancel(&im->synced);
        loop_unpost(&im->advance);
        refs_release(im->all->o.refs, "", im->held);
        json_decref(im->images);
        json_decref(im->rows);
        json_decref(im->layers);
        json_decref(im->held);
        im->images = im->rows = im->layers = im->held = NULL;
        im->all = NULL;
}

static void forgotten(struct role_call *c, const json_t *answer, int *fd, const struct err *err)
{
        (void)answer, (void)fd, (void)err;
        free(c);
}

/* The downloads are not needed any more. */
static void forget_blobs(const struct image_import *im)
{
        struct role_call *c = calloc(1, sizeof(*c));
        json_t *digests = json_array(), *image, *layer;
        size_t i, k;

        json_array_foreach (im->images, i, image)
                json_array_foreach (json_object_get(image, "layers"), k, layer)
                        (void)json_array_append(digests, json_object_get(layer, "digest"));
        if (!c) {
                json_decref(digests);
                return;
        }
        c->on = forgotten;
        role_call(&im->all->puller, c, json_pack("{s:s,s:o}", "op", "forget", "digests", digests), NULL, 0);
}

static void import_end(struct image_import *im, const struct err *err)
{
        json_t *rows = json_incref(im->rows);
        struct err why = err ? *err : (struct err){0};

        if (!err)
                forget_blobs(im);
        image_import_cancel(im);
        im->on_done(im, err ? NULL : rows, err ? &why : NULL);
        json_decref(rows);
}

/* ---- rows ---- */

static void on_synced(struct durable_waiter *w, int result)
{
        struct image_import *im = CONTAINER_OF(w, struct image_import, synced);
        struct err err = {0};

        if (result < 0)
                (void)err_sys(&err, result, "write the image to disk");
        import_end(im, result < 0 ? &err : NULL);
}

static int put_row(struct image_import *im, const json_t *row, struct err *err)
{
        const struct image_row r = {.name = (char *)(uintptr_t)text_of(row, "name"),
                                    .digest = (char *)(uintptr_t)text_of(row, "digest"),
                                    .source = (char *)(uintptr_t)im->source,
                                    .layers = json_object_get(row, "layers"),
                                    .config = json_object_get(row, "config"),
                                    .bytes = json_integer_value(json_object_get(row, "bytes")),
                                    .created_ns = im->all->o.now_ns()};

        return images_put(im->all->o.images, &r, err);
}

static void on_flushed(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct image_import *im = CONTAINER_OF(c, struct image_import, flush);
        struct err why = {0};
        json_t *row;
        size_t i;

        (void)answer;
        if (err) {
                import_end(im, err);
                return;
        }
        build_keep_write(&im->all->keep, im->flushing);
        json_array_foreach (im->rows, i, row)
                if (put_row(im, row, &why) < 0) {
                        import_end(im, &why);
                        return;
                }
        im->synced.on = on_synced;
        durable_wait(im->all->o.durable, &im->synced);
}

/* One flush covers every layer that was made before it. */
static void import_flush(struct image_import *im)
{
        const json_t *row = json_array_get(im->rows, json_array_size(im->rows) - 1);
        const json_t *layers = json_object_get(row, "layers");

        im->flushing = im->all->keep.last;
        im->flush.on = on_flushed;
        engine_call(im->all->o.engine, &im->flush,
                    json_pack("{s:s,s:O}", "op", "flush", "layer", json_array_get(layers, json_array_size(layers) - 1)),
                    FLUSH_TIMEOUT_MS);
}

static int finish_image(struct image_import *im)
{
        const json_t *image = image_now(im), *config = json_object_get(image, "config");
        const char *name = text_of(image, "name");
        json_int_t bytes = 0;
        size_t i;
        json_t *layer;

        json_array_foreach (json_object_get(image, "layers"), i, layer)
                bytes += json_integer_value(json_object_get(layer, "bytes"));
        if (json_array_append_new(im->rows,
                                  json_pack("{s:s,s:s,s:O,s:O,s:I}", "name", name[0] ? name : text_of(image, "digest"),
                                            "digest", text_of(image, "digest"), "layers", im->layers, "config", config,
                                            "bytes", bytes)) < 0)
                return -ENOMEM;
        json_decref(im->layers);
        im->layers = NULL;
        im->layer = 0;
        im->image++;
        return 0;
}

/* ---- layers ---- */

/* `layer` is held by somebody until the loop goes on. */
static int add_layer(struct image_import *im, const char *layer)
{
        json_t *one = json_pack("[s]", layer);
        int r = one ? refs_hold(im->all->o.refs, "", one) : -ENOMEM;

        json_decref(one);
        if (r < 0)
                return r;
        (void)json_array_append_new(im->held, json_string(layer)); /* not noted: held until the next start */
        if (im->layers)
                im->layer++;
        else
                im->layers = json_array();
        im->below = im->key;
        return im->layers && json_array_append_new(im->layers, json_string(layer)) == 0 ? 0 : -ENOMEM;
}

static void on_image(struct build_box *box, const struct image *image, const struct err *err)
{
        struct image_import *im = CONTAINER_OF(box, struct image_import, box);
        size_t n = image ? json_array_size(image->layers) : 0;
        const char *layer = n ? json_string_value(json_array_get(image->layers, n - 1)) : NULL;
        json_t *none = json_object();
        int r = 0;

        if (!err) {
                r = layer && none ? add_layer(im, layer) : -ENOMEM;
                if (r == 0)
                        r = build_keep_add(&im->all->keep, LAYER_CACHE_SHARED, &im->key, layer, none);
        }
        json_decref(none);
        if (err || r < 0)
                import_end(im, err ? err : &no_memory);
        else
                import_go_on(im); /* the life has still to be ended */
}

static void on_step(struct build_box *box, const json_t *answer, const struct err *err)
{
        struct image_import *im = CONTAINER_OF(box, struct image_import, box);
        struct err why = {0};

        (void)answer;
        if (!err && box_commit(&im->box, &(struct life_commit){.below = im->commits}, &why) < 0)
                err = &why;
        if (err)
                import_end(im, err);
}

static void on_log(struct build_box *box, const json_t *entries)
{
        (void)box, (void)entries; /* what unpacking says without failing interests nobody */
}

static const struct box_ops import_box_ops = {.on_step = on_step, .on_image = on_image, .on_log = on_log};

static struct box_base box_base_on(const struct image_import *im, const json_t *layers)
{
        const struct conf *c = im->all->o.conf;

        return (struct box_base){.team = im->team,
                                 .template_id = "base",
                                 .layers = layers,
                                 .cpu_count = c->default_cpus,
                                 .memory_mb = c->default_memory_mb,
                                 .disk_mb = BOX_DISK_MB};
}

static void make_scratch(struct image_import *im)
{
        const struct template_ref ref = {.name = "base"};
        json_t *layers = json_array();
        const struct template *t;
        struct box_base base;
        struct err err = {0};

        if (templates_find(im->all->o.templates, &ref, "", &t, &err) < 0) {
                json_decref(layers);
                import_end(im, &err);
                return;
        }
        for (size_t i = 0; i < t->layer_count; i++)
                (void)json_array_append_new(layers, json_string(t->layers[i]));
        base = box_base_on(im, layers);
        im->commits = &RECIPE_ROOT[1];
        box_run(&im->box, &base,
                json_pack("{s:s,s:s,s:s,s:s,s:{},s:i}", "kind", "run", "cmd", SCRATCH_COMMAND, "user", "root",
                          "workdir", "/", "env", "timeout_s", 60),
                -1, 1);
        json_decref(layers);
}

static void on_opened(struct role_call *c, const json_t *answer, int *fd, const struct err *err)
{
        struct image_import *im = CONTAINER_OF(c, struct image_import, call);
        struct box_base base = box_base_on(im, im->layers);

        (void)answer;
        if (err || !fd) {
                import_end(im, err ? err : &no_memory);
                return;
        }
        box_run(&im->box, &base, json_pack("{s:s,s:s}", "kind", "unpack", "diff_id", text_of(layer_now(im), "diff_id")),
                TAKE_FD(*fd), 1);
}

static void unpack(struct image_import *im)
{
        json_t *fact = json_pack("{s:I,s:I,s:s}", "unpacking", (json_int_t)im->layer + 1, "of",
                                 (json_int_t)json_array_size(json_object_get(image_now(im), "layers")), "image",
                                 text_of(image_now(im), "name"));

        if (fact)
                im->on_progress(im, fact);
        json_decref(fact);
        im->commits = NULL;
        im->call.on = on_opened;
        im->call.on_event = NULL;
        role_call(&im->all->puller, &im->call,
                  json_pack("{s:s,s:s}", "op", "open", "digest", text_of(layer_now(im), "digest")), NULL, 0);
}

/* The next layer: from the cache, or unpacked. */
static void import_layer(struct image_import *im)
{
        struct cached_step found = {0};
        struct err err = {0};
        int r;

        if (im->layers)
                image_layer_key(&im->below, text_of(layer_now(im), "diff_id"), &im->key);
        else
                scratch_key(&im->key);
        r = build_keep_find(&im->all->keep, LAYER_CACHE_SHARED, &im->key, &found, &err);
        if (r == 1) {
                r = add_layer(im, found.layer);
                cached_step_done(&found);
                if (r < 0)
                        import_end(im, &no_memory);
                else
                        import_go_on(im);
        } else if (r < 0) {
                import_end(im, &err);
        } else if (im->layers) {
                unpack(im);
        } else {
                make_scratch(im);
        }
}

static void import_advance(struct task *t)
{
        struct image_import *im = CONTAINER_OF(t, struct image_import, advance);

        if (im->image == json_array_size(im->images))
                import_flush(im);
        else if (!im->layers || layer_now(im))
                import_layer(im);
        else if (finish_image(im) < 0)
                import_end(im, &no_memory);
        else
                import_go_on(im);
}

static void import_go_on(struct image_import *im)
{
        im->advance.run = import_advance;
        loop_post(im->all->o.loop, &im->advance);
}

/* ---- the beginning ---- */

static int check_images(const struct image_import *im, struct err *err)
{
        const json_t *image;
        size_t i, layers;

        if (json_array_size(im->images) == 0)
                return err_set(err, ERR_INTERNAL, "the puller found no image");
        for (i = 0; (image = json_array_get(im->images, i)); i++) {
                layers = json_array_size(json_object_get(image, "layers"));
                if (layers + 1 >= PLAN_LAYERS_MAX)
                        return err_set(err, ERR_INVALID, "image '%.100s' has %zu layers; at most %d can be imported",
                                       text_of(image, "name"), layers, PLAN_LAYERS_MAX - 2);
        }
        return 0;
}

static void on_fetched(struct role_call *c, const json_t *answer, int *fd, const struct err *err)
{
        struct image_import *im = CONTAINER_OF(c, struct image_import, call);
        json_t *images = json_object_get(answer, "images");
        struct err why = {0};

        (void)fd;
        if (err) {
                import_end(im, err);
                return;
        }
        im->images = images ? json_deep_copy(images) : json_pack("[o]", json_deep_copy(answer));
        im->rows = json_array();
        im->held = json_array();
        if (!im->images || !im->rows || !im->held)
                import_end(im, &no_memory);
        else if (check_images(im, &why) < 0)
                import_end(im, &why);
        else
                import_go_on(im);
}

static void on_event(struct role_call *c, const json_t *event)
{
        struct image_import *im = CONTAINER_OF(c, struct image_import, call);
        json_t *fact = json_pack("{s:O,s:O}", "done", json_object_get(event, "done"), "total",
                                 json_object_get(event, "total"));

        if (fact)
                im->on_progress(im, fact);
        json_decref(fact);
}

static void begin(struct image_import *im, json_t *msg, const int *fds, size_t nfds)
{
        const struct builds_run_options *o = &im->all->o;

        box_init(&im->box, o->lives, o->engine, &im->all->builder, o->tokens, &import_box_ops);
        im->call.on = on_fetched;
        im->call.on_event = on_event;
        role_call(&im->all->puller, &im->call, msg, fds, nfds);
}

void image_import_pull(struct image_import *im, const char *image, const json_t *auth)
{
        begin(im, json_pack("{s:s,s:s,s:O*}", "op", "pull", "image", image, "auth", auth), NULL, 0);
}

void image_import_load(struct image_import *im, int fd)
{
        begin(im, json_pack("{s:s}", "op", "load"), &fd, 1);
}
