/* Taking a copy of a sandbox, for snapshots and forks.
 *
 *   running  COPYING, in memory only → engine: copy → the taker has its image.  The sandbox runs all the time: row, edges
 *            and streams know nothing of the copy
 *   large    its files are too many to be copied: row SNAPSHOTTING, with the checkpoint to be made → edges → engine: pause,
 *            not yet on disk → seal: its upper directory becomes a layer → row: that layer → engine: create, from checkpoint
 *            and layers → the taker has its image; running
 *   paused   COPYING_PAUSED, in memory only → seal, if there is an upper directory of its own → flush → row → on disk → the image
 *
 * Whatever fails, a sandbox that ran runs on or is begun again; if that fails twice, it is left paused. */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "control/catalogue/refs.h"
#include "control/life/life.h"
#include "model/plan.h"

#define FLUSH_RETRY_MS_MAX 10000

void image_taker_cancel(struct image_taker *t)
{
        if (t->life)
                t->life->taker = NULL;
        t->life = NULL;
}

void life_give(struct life *l, const struct image *image, const struct err *err)
{
        struct image_taker *t = TAKE_PTR(l->taker);

        if (!t)
                return;
        t->life = NULL;
        t->on(t, err ? NULL : image, err);
}

void life_give_image(struct life *l, const struct err *err)
{
        struct image image = {.layers = l->sandbox.layers, .image_secured = l->sandbox.image_secured};

        memcpy(image.checkpoint, l->sandbox.checkpoint, sizeof(image.checkpoint));
        memcpy(image.image_of, l->sandbox.image_of, sizeof(image.image_of));
        life_give(l, &image, err);
}

void life_drop_sealing(struct life *l)
{
        json_t *one = l->sealing[0] ? json_pack("[s]", l->sealing) : NULL;

        refs_release(l->lives->o.refs, l->copying, one);
        json_decref(one);
        l->sealing[0] = l->copying[0] = 0;
}

int life_pick_copy_names(struct life *l, bool with_checkpoint, struct err *err)
{
        json_t *one;
        int r = -ENOMEM;

        sealed_id_make(l->sealing);
        if (with_checkpoint)
                checkpoint_id_make(l->copying);
        one = json_pack("[s]", l->sealing);
        if (one)
                r = refs_make(l->lives->o.refs, l->copying, one, err);
        else
                err_sys(err, r, "copy sandbox");
        json_decref(one);
        if (r < 0)
                l->sealing[0] = l->copying[0] = 0;
        return r;
}

void life_forget_merged_layers(struct life *l)
{
        refs_release(l->lives->o.refs, "", l->merged_layers);
        json_decref(l->merged_layers);
        l->merged_layers = NULL;
}

/* ---- what both ways share ---- */

/* Of sandboxes that begin from its layers and the layer that is being made. */
static json_t *life_origin_of_copy(struct life *l)
{
        json_t *layers = layers_with(l->merged_layers ? l->merged_layers : l->sandbox.layers, l->sealing);
        json_t *origin = layers ? life_origin(l, layers) : NULL;

        json_decref(layers);
        return origin;
}

static void life_seal(struct life *l)
{
        life_call(l, STEP_SEAL,
                  json_pack("{s:s,s:s,s:s,s:o*}", "op", "seal", "id", l->sandbox.id, "layer", l->sealing, "origin",
                            life_origin_of_copy(l)),
                  SEAL_TIMEOUT_MS);
}

/* Its row gets the sealed layer; its upper directory is a new one. */
static int life_record_sealed(struct life *l, const char *layer, enum sandbox_state state, struct err *err)
{
        struct life_row row = life_row_of(l);
        json_t *layers;
        int r;

        row.state = state;
        layers = layers_with(l->merged_layers ? l->merged_layers : row.layers, layer);
        if (!layers)
                return err_sys(err, -ENOMEM, "copy sandbox");
        row.layers = layers;
        row.upper_kept = false;
        r = life_record_fact(l, &row, err);
        json_decref(layers);
        life_forget_merged_layers(l);
        if (layers_sealed(l->sandbox.layers) > LAYERS_SEALED_MAX)
                l->lives->o.on_many_layers(l->lives->o.arg);
        return r;
}

void life_apply_sealed(struct life *l, const char *layer)
{
        enum sandbox_state state = l->sandbox.state;
        struct err err;

        log_info("sandbox.sealed", "sandbox=%s layer=%s", l->sandbox.id, layer);
        (void)life_record_sealed(l, layer, state == SANDBOX_COPYING_PAUSED ? SANDBOX_PAUSED : state, &err);
}

/* ---- a running sandbox that goes on running ---- */

static void life_copy_running(struct life *l)
{
        life_go(l, SANDBOX_COPYING);
        life_call(l, STEP_TAKE_COPY,
                  json_pack("{s:s,s:s,s:s,s:s,s:o*}", "op", "copy", "id", l->sandbox.id, "checkpoint", l->copying,
                            "layer", l->sealing, "origin", life_origin_of_copy(l)),
                  COPY_TIMEOUT_MS);
}

static void life_give_copy(struct life *l)
{
        struct image image = {.image_secured = l->sandbox.is_secured};
        const struct err no_memory = {.kind = ERR_INTERNAL, .msg = "out of memory"};

        image.layers = layers_with(l->merged_layers ? l->merged_layers : l->sandbox.layers, l->sealing);
        memcpy(image.checkpoint, l->copying, sizeof(image.checkpoint));
        memcpy(image.image_of, l->sandbox.id, sizeof(image.image_of));
        life_give(l, &image, image.layers ? NULL : &no_memory);
        if (layers_sealed(image.layers) > LAYERS_SEALED_MAX)
                l->lives->o.on_many_layers(l->lives->o.arg);
        json_decref(image.layers);
}

/* It runs on; its deadline did not count meanwhile. */
static void life_copy_done(struct life *l)
{
        life_drop_sealing(l);
        life_go(l, SANDBOX_RUNNING);
        if (life_set_deadline(l, l->sandbox.end_ns) < 0)
                life_kill(l, "no memory for its deadline", NULL);
        else
                life_transition_done(l, NULL);
}

static int life_stop_for_copy(struct life *l, struct err *err);

void life_fail_copy(struct life *l, const struct err *err)
{
        log_warn("sandbox.copy", "sandbox=%s failed=\"%s\"", l->sandbox.id, err->msg);
        life_give(l, NULL, err);
        life_copy_done(l);
}

void life_on_copied(struct life *l, const struct err *err)
{
        struct err why;

        if (life_step_is_unknown(l, err))
                return;
        if (!err) {
                life_give_copy(l);
                life_copy_done(l);
        } else if (err->kind == ERR_GONE) {
                life_exited(l);
        } else if (err->kind != ERR_TOO_LARGE ||
                   !l->taker) { /* no taker any more: the sandbox is not stopped for a copy */
                life_fail_copy(l, err);
        } else if (life_stop_for_copy(l, &why) < 0) {
                life_fail_copy(l, &why);
        }
}

/* ---- a running sandbox that has to be begun again ---- */

static int life_check_layers(const struct life *l, struct err *err)
{
        const json_t *layers = l->merged_layers ? l->merged_layers : l->sandbox.layers;

        if (!l->sandbox.layers)
                return err_set(err, ERR_CONFLICT,
                               "sandbox '%s' was started by an older version of this server and cannot be copied",
                               l->sandbox.id);
        if (json_array_size(layers) < PLAN_LAYERS_MAX)
                return 0;
        l->lives->o.on_many_layers(l->lives->o.arg);
        return err_set(err, ERR_UNAVAILABLE,
                       "sandbox '%s' has been copied %d times, and its layers are being merged: try again in a moment",
                       l->sandbox.id, PLAN_LAYERS_MAX);
}

/* The checkpoint that is made is the sandbox's own, until the sandbox is begun again. */
static int life_stop_for_copy(struct life *l, struct err *err)
{
        char checkpoint[CHECKPOINT_ID_MAX];
        struct life_row row = life_row_of(l);
        int r;

        memcpy(checkpoint, l->copying, sizeof(checkpoint));
        row.state = SANDBOX_SNAPSHOTTING;
        row.checkpoint = checkpoint;
        row.image_of = l->sandbox.id;
        row.image_secured = l->sandbox.is_secured;
        row.upper_kept = true;
        r = life_record(l, &row, err);
        if (r < 0)
                return r;
        refs_release(l->lives->o.refs, l->copying, NULL);
        l->copying[0] = 0;
        life_go(l, SANDBOX_SNAPSHOTTING);
        l->was_paused = true;
        life_show(l);
        life_call(l, STEP_PAUSE,
                  json_pack("{s:s,s:s,s:s,s:b,s:o*}", "op", "pause", "id", l->sandbox.id, "checkpoint", checkpoint,
                            "durable", 0, "origin", life_origin(l, l->sandbox.layers)),
                  PAUSE_TIMEOUT_MS);
        return 0;
}

/* It is paused and was not meant to stay paused. */
void life_begin_again(struct life *l)
{
        struct err err;

        life_drop_sealing(l);
        if (life_call_create(l, true, &err) < 0)
                life_on_snapshotted(l, &err);
}

static void life_copy_stopped(struct life *l, const struct err *err)
{
        if (!err) {
                life_seal(l);
        } else if (err->kind == ERR_GONE) {
                life_exited(l);
        } else {
                log_warn("sandbox.copy", "sandbox=%s failed=\"%s\"", l->sandbox.id, err->msg);
                life_drop_sealing(l);
                life_now_running(l, l->sandbox.started_ns, l->sandbox.end_ns);
                life_give_image(l, err);
                life_transition_done(l, NULL);
        }
}

/* The original goes on first, and alone; the taker is told when it runs.  Copies that start beside it would slow it down. */
static void life_copy_sealed(struct life *l, const struct err *err)
{
        struct err why;

        if (!err && life_record_sealed(l, l->sealing, SANDBOX_SNAPSHOTTING, &why) < 0)
                err = &why;
        if (err)
                life_give_image(l, err);
        life_begin_again(l);
}

static void life_keep_paused(struct life *l)
{
        life_call(l, STEP_KEEP, json_pack("{s:s,s:s}", "op", "keep", "id", l->sandbox.id), FLUSH_TIMEOUT_MS);
}

/* Its upper directory is the last of its layers. */
static void life_flush_image(struct life *l)
{
        const json_t *layer = json_array_get(l->sandbox.layers, json_array_size(l->sandbox.layers) - 1);

        life_call(l, STEP_KEEP,
                  json_pack("{s:s,s:s*,s:O*}", "op", "flush", "checkpoint",
                            l->sandbox.checkpoint[0] ? l->sandbox.checkpoint : NULL, "layer", layer),
                  FLUSH_TIMEOUT_MS);
}

static void life_copy_begun_again(struct life *l, const struct err *err)
{
        if (!err) {
                life_give_image(l, NULL); /* while its row still has the names of the image */
                life_now_running(l, l->sandbox.started_ns, l->sandbox.end_ns);
                life_transition_done(l, NULL);
                return;
        }
        log_warn("sandbox.copy", "sandbox=%s could not be begun again: \"%s\", %s", l->sandbox.id, err->msg,
                 l->is_retried ? "leaving it paused" : "trying once more");
        if (!l->is_retried) {
                l->is_retried = true;
                life_begin_again(l);
                return;
        }
        life_give_image(l, NULL); /* the copies may start all the same */
        l->failure = *err;
        life_keep_paused(l);
}

static void life_keep_again(struct timer *t)
{
        life_keep_paused(CONTAINER_OF(t, struct life, retry));
}

/* The sandbox was not meant to stay paused, so its pause was not on disk before.  It is called paused when all of it is there: until
 * then the next boot would take it for ended. */
static void life_copy_kept(struct life *l, const struct err *err)
{
        const struct err failure = l->failure;

        if (!err) {
                life_now_paused(l, l->sandbox.started_ns, lives_now(l->lives), &failure);
        } else if (err->kind == ERR_GONE && l->sandbox.upper_kept) {
                life_exited(l);
        } else if (err->kind ==
                   ERR_GONE) { /* what had begun on a new upper directory ended: the image is all there is */
                life_flush_image(l);
        } else {
                log_error("sandbox.copy", "sandbox=%s could not be written to disk: \"%s\", trying again in %u ms",
                          l->sandbox.id, err->msg, l->retry_ms);
                l->retry.on = life_keep_again;
                timer_set(l->lives->o.loop, &l->retry, l->retry_ms);
                l->retry_ms = l->retry_ms * 2 < FLUSH_RETRY_MS_MAX ? l->retry_ms * 2 : FLUSH_RETRY_MS_MAX;
        }
}

void life_on_snapshotted(struct life *l, const struct err *err)
{
        if (life_step_is_unknown(l, err))
                return;
        switch (l->step) {
        case STEP_PAUSE: life_copy_stopped(l, err); break;
        case STEP_SEAL: life_copy_sealed(l, err); break;
        case STEP_KEEP: life_copy_kept(l, err); break;
        default: life_copy_begun_again(l, err); break;
        }
}

/* ---- a paused sandbox ---- */

static void life_copy_paused(struct life *l)
{
        life_go(l, SANDBOX_COPYING_PAUSED);
        if (l->sandbox.upper_kept)
                life_seal(l);
        else
                life_sync(l); /* nothing to change, but the taker is never told before this returns */
}

static void life_copy_paused_done(struct life *l, const struct err *err)
{
        life_drop_sealing(l);
        life_go(l, SANDBOX_PAUSED);
        life_give_image(l, err);
        life_transition_done(l, err);
}

static void life_flush_sealed(struct life *l)
{
        life_call(l, STEP_FLUSH, json_pack("{s:s,s:s}", "op", "flush", "layer", l->sealing), FLUSH_TIMEOUT_MS);
}

static void life_flush_again(struct timer *t)
{
        life_flush_sealed(CONTAINER_OF(t, struct life, retry));
}

/* The upper directory is the layer by now.  No row names the layer before it is on disk, and until then the life holds the
 * name: a layer without row and hold is dropped.  The taker of the copy does not wait for further tries. */
static bool life_flush_failed(struct life *l, const struct err *err)
{
        if (!err || l->step != STEP_FLUSH)
                return false;
        log_warn("sandbox.copy", "sandbox=%s layer=%s could not be flushed: \"%s\", trying again in %u ms",
                 l->sandbox.id, l->sealing, err->msg, l->retry_ms);
        life_give_image(l, err);
        l->retry.on = life_flush_again;
        timer_set(l->lives->o.loop, &l->retry, l->retry_ms);
        l->retry_ms = l->retry_ms * 2 < FLUSH_RETRY_MS_MAX ? l->retry_ms * 2 : FLUSH_RETRY_MS_MAX;
        return true;
}

void life_on_copied_paused(struct life *l, const struct err *err)
{
        struct err why;

        if (life_step_is_unknown(l, err) || life_flush_failed(l, err))
                return;
        if (err) {
                log_warn("sandbox.copy", "sandbox=%s failed=\"%s\"", l->sandbox.id, err->msg);
                life_copy_paused_done(l, err);
                return;
        }
        switch (l->step) {
        case STEP_SEAL: life_flush_sealed(l); break;
        case STEP_FLUSH:
                if (life_record_sealed(l, l->sealing, SANDBOX_PAUSED, &why) < 0)
                        life_copy_paused_done(l, &why);
                else
                        life_sync(l);
                break;
        default: life_copy_paused_done(l, NULL); break;
        }
}

int life_take_image(struct life *l, struct image_taker *t, struct err *err)
{
        bool is_running = l->sandbox.state == SANDBOX_RUNNING;
        int r = life_check_layers(l, err);

        if (r == 0)
                r = life_pick_copy_names(l, is_running, err);
        if (r < 0)
                return r;
        if (is_running)
                life_copy_running(l);
        else
                life_copy_paused(l);
        l->taker = t;
        t->life = l;
        return 0;
}
