/* The end of a build: the last touches, the start command with all that it started, the image on disk, the row.
 *
 *   BEGIN → CONFIGURE → START, if there is a start or a ready command → COMMIT, with memory then → FLUSH → SYNC
 *
 * A build of the same template from the same chain with the same commands has the same image: it is taken from there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "control/build/build_run.h"
#include "control/catalogue/builds.h"
#include "control/catalogue/images.h"
#include "control/catalogue/layer_cache.h"
#include "control/catalogue/refs.h"
#include "model/conf.h"

#define READY_DEFAULT "sleep 20"
#define FLUSH_TIMEOUT_MS 900000
#define STEP "finalize"

void finalize_done(struct build_run *b)
{
        json_t *one = b->final_layers;

        if (b->box.ops)
                box_drop(&b->box);
        engine_call_cancel(&b->flush);
        durable_cancel(&b->synced);
        if (b->checkpoint[0])
                refs_release(b->all->o.refs, b->checkpoint, NULL);
        b->checkpoint[0] = b->image_of[0] = 0;
        json_decref(one);
        b->final_layers = NULL;
        json_decref(b->pulled);
        b->pulled = NULL;
        build_chain_done(&b->chain);
}

/* ---- what the image depends on ---- */

static const char *default_user(const struct build_run *b)
{
        return b->request.is_root_default ? "user" : build_chain_user(&b->chain);
}

static const char *default_workdir(const struct build_run *b)
{
        return b->request.is_root_default ? NULL : b->chain.workdir;
}

static int finalize_key(struct build_run *b)
{
        json_t *all = json_pack("[s,s?,s?,i,i,s,s?,O,b]", b->template_id, b->start_cmd, b->ready_cmd, (int)b->cpu_count,
                                (int)b->memory_mb, build_chain_user(&b->chain), b->chain.workdir, b->chain.env,
                                b->request.is_root_default);
        AUTO_FREE char *text = all ? json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

        json_decref(all);
        if (text)
                build_key_base("final", b->chain.key.hex, text, &b->final_key);
        return text ? 0 : -ENOMEM;
}

/* ---- the row ---- */

static void finalize_add_images(struct build_run *b)
{
        struct err err;
        json_t *v;
        size_t i;

        json_array_foreach (b->pulled, i, v) {
                struct image_row row = {
                        .name = (char *)(uintptr_t)json_string_value(json_object_get(v, "name")),
                        .digest = (char *)(uintptr_t)json_string_value(json_object_get(v, "digest")),
                        .source = (char *)(uintptr_t) "registry",
                        .layers = json_object_get(v, "layers"),
                        .config = json_object_get(v, "config"),
                        .bytes = json_integer_value(json_object_get(v, "bytes")),
                        .created_ns = b->all->o.now_ns(),
                };

                if (images_put(b->all->o.images, &row, &err) < 0)
                        log_warn("image.row", "image=%s failed=\"%s\"", row.name, err.msg);
        }
}

static void finalize_synced(struct durable_waiter *w, int result)
{
        struct build_run *b = CONTAINER_OF(w, struct build_run, synced);

        if (result < 0)
                log_warn("build.sync", "build=%s failed=\"%s\"", b->id, strerror(-result));
        build_ready(b);
}

/* Everything is on disk. */
static enum build_progress finalize_set_ready(struct build_run *b)
{
        struct build_entry *e = builds_find(b->all->o.rows, b->id);
        const struct build_result result = {.checkpoint = b->checkpoint,
                                            .layers = b->final_layers,
                                            .image_of = b->image_of,
                                            .image_secured = b->image_secured,
                                            .env = b->chain.env,
                                            .default_user = default_user(b),
                                            .default_workdir = default_workdir(b),
                                            .start_cmd = b->start_cmd,
                                            .ready_cmd = b->ready_cmd};
        int64_t took_ms = (b->all->o.now_ns() - b->began_ns) / 1000000;
        json_t *context;
        struct err err = {0};

        if (!e) {
                build_end(b);
                return BUILD_OVER;
        }
        build_say(b, BUILD_LOG_INFO, NULL, "Build finished, took %lld.%llds", (long long)(took_ms / 1000),
                  (long long)(took_ms % 1000 / 100));
        if (build_set_ready(b->all->o.rows, e, &result, &err) < 0)
                return build_trip(b, STEP, &err);
        context = json_pack("{s:s}", "build", b->id);
        if (context)
                (void)build_keep_add(&b->all->keep, b->team, &b->final_key, "", context);
        json_decref(context);
        build_keep_write(&b->all->keep, b->flushing);
        finalize_add_images(b);
        b->final = FINAL_SYNC;
        b->synced.on = finalize_synced;
        durable_wait(b->all->o.durable, &b->synced);
        return BUILD_WAITS;
}

/* ---- the image ---- */

static void finalize_flushed(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct build_run *b = CONTAINER_OF(c, struct build_run, flush);

        (void)answer;
        if ((err ? build_trip(b, STEP, err) : finalize_set_ready(b)) == BUILD_GOES_ON)
                build_advance(b);
}

/* One flush is for all layers of the build: those that were made before are on the same disk. */
static enum build_progress finalize_flush(struct build_run *b)
{
        const json_t *layer = json_array_get(b->final_layers, json_array_size(b->final_layers) - 1);

        b->final = FINAL_FLUSH;
        b->flushing = b->all->keep.last;
        b->flush.on = finalize_flushed;
        engine_call(b->all->o.engine, &b->flush,
                    json_pack("{s:s,s:s*,s:O}", "op", "flush", "checkpoint", b->checkpoint[0] ? b->checkpoint : NULL,
                              "layer", layer),
                    FLUSH_TIMEOUT_MS);
        return BUILD_WAITS;
}

static void finalize_on_image(struct build_box *box, const struct image *image, const struct err *err)
{
        struct build_run *b = CONTAINER_OF(box, struct build_run, box);

        if (!err && build_hold_layers(b, image->checkpoint, image->layers) < 0)
                err = &build_no_memory;
        if (err) {
                (void)build_trip(b, STEP, err);
                return;
        }
        b->final_layers = json_copy(image->layers);
        memcpy(b->checkpoint, image->checkpoint, sizeof(b->checkpoint));
        memcpy(b->image_of, image->image_of, sizeof(b->image_of));
        b->image_secured = image->image_secured;
        b->final = FINAL_FLUSH;
        build_go_on(b); /* the life has still to be ended */
}

/* ---- in the sandbox ---- */

static void finalize_on_log(struct build_box *box, const json_t *entries)
{
        struct build_run *b = CONTAINER_OF(box, struct build_run, box);

        build_log_add_all(b->all->o.logs, b->id, STEP, "", entries);
}

static enum build_progress finalize_commit(struct build_run *b)
{
        bool with_memory = b->start_cmd || b->ready_cmd;
        struct err err = {0};

        b->final = FINAL_COMMIT;
        if (with_memory)
                build_say(b, BUILD_LOG_DEBUG, STEP, "[finalize] Saving the memory of the running processes");
        if (box_commit(&b->box, &(struct life_commit){.with_memory = with_memory}, &err) < 0)
                return build_trip(b, STEP, &err);
        return BUILD_WAITS;
}

static enum build_progress finalize_start(struct build_run *b)
{
        struct box_base base = build_box_base(b, b->chain.layers);
        json_t *step = json_pack("{s:s,s:s*,s:s*,s:s,s:o,s:O,s:i}", "kind", "start", "start_cmd", b->start_cmd,
                                 "ready_cmd", b->ready_cmd, "user", default_user(b), "workdir",
                                 default_workdir(b) ? json_string(default_workdir(b)) : json_null(), "env",
                                 b->chain.env, "ready_timeout_s", (int)b->all->o.conf->build_ready_timeout_s);

        b->final = FINAL_START;
        if (b->start_cmd)
                build_say(b, BUILD_LOG_INFO, STEP, "Running start command: %s", b->start_cmd);
        if (b->ready_cmd)
                build_say(b, BUILD_LOG_INFO, STEP, "Waiting for template to be ready: %s", b->ready_cmd);
        box_run(&b->box, &base, step, -1, 2);
        return BUILD_WAITS;
}

static void finalize_on_step(struct build_box *box, const json_t *answer, const struct err *err)
{
        struct build_run *b = CONTAINER_OF(box, struct build_run, box);
        enum build_progress p;

        (void)answer;
        if (err)
                p = build_trip(b, STEP, err);
        else if (b->final == FINAL_CONFIGURE && (b->start_cmd || b->ready_cmd))
                p = finalize_start(b);
        else {
                if (b->final == FINAL_START)
                        build_say(b, BUILD_LOG_INFO, STEP, "Template is ready");
                p = finalize_commit(b);
        }
        if (p == BUILD_GOES_ON)
                build_advance(b);
}

const struct box_ops finalize_box_ops = {
        .on_step = finalize_on_step, .on_image = finalize_on_image, .on_log = finalize_on_log};

/* ---- the beginning ---- */

/* 1: a build before had the same image. */
static int finalize_from_cache(struct build_run *b, struct err *err)
{
        struct cached_step found = {0};
        const struct build_entry *e = NULL;
        const char *id;
        int r = 0;

        if (!b->chain.is_forced)
                r = build_keep_find(&b->all->keep, b->team, &b->final_key, &found, err);
        id = json_string_value(json_object_get(found.context, "build"));
        if (r == 1 && id)
                e = builds_find(b->all->o.rows, id);
        cached_step_done(&found);
        if (r < 0 || !e || e->build.status != BUILD_READY)
                return r < 0 ? r : 0;
        if (build_hold_layers(b, e->build.checkpoint, e->build.layers) < 0)
                return err_sys(err, -ENOMEM, "finalize");
        b->final_layers = json_copy(e->build.layers);
        memcpy(b->checkpoint, e->build.checkpoint, sizeof(b->checkpoint));
        memcpy(b->image_of, e->build.image_of, sizeof(b->image_of));
        b->image_secured = e->build.image_secured;
        b->flushing = 0;
        build_say(b, BUILD_LOG_INFO, STEP, "CACHED [finalize]");
        return 1;
}

static enum build_progress finalize_configure(struct build_run *b)
{
        const struct builds_run_options *o = &b->all->o;
        struct box_base base = build_box_base(b, b->chain.layers);

        b->final = FINAL_CONFIGURE;
        build_say(b, BUILD_LOG_INFO, STEP, "[finalize] Configuring the template");
        box_init(&b->box, o->lives, o->engine, &b->all->builder, o->tokens, &finalize_box_ops);
        box_run(&b->box, &base,
                json_pack("{s:s,s:s,s:s,s:s}", "kind", "configure", "template_id", b->template_id, "build_id", b->id,
                          "user", default_user(b)),
                -1, 1);
        return BUILD_WAITS;
}

static enum build_progress finalize_begin(struct build_run *b)
{
        struct err err = {0};
        int r;

        if (build_chain_copy(&b->stages[b->request.stage_count - 1], &b->chain) < 0)
                return build_trip(b, STEP, &build_no_memory);
        b->start_cmd = b->request.start_cmd ? b->request.start_cmd : b->chain.start_cmd;
        b->ready_cmd = b->request.ready_cmd ? b->request.ready_cmd : b->chain.ready_cmd;
        if (b->start_cmd && !b->ready_cmd)
                b->ready_cmd = READY_DEFAULT;
        if (finalize_key(b) < 0)
                return build_trip(b, STEP, &build_no_memory);
        r = finalize_from_cache(b, &err);
        if (r < 0)
                return build_trip(b, STEP, &err);
        return r == 1 ? finalize_set_ready(b) : finalize_configure(b);
}

enum build_progress finalize_advance(struct build_run *b)
{
        switch (b->final) {
        case FINAL_BEGIN: return finalize_begin(b);
        case FINAL_FLUSH: return finalize_flush(b);
        case FINAL_CONFIGURE:
        case FINAL_START:
        case FINAL_COMMIT:
        case FINAL_SYNC: break;
        }
        return BUILD_WAITS;
}
