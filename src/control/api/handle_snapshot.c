/* POST /sandboxes/{sandboxID}/snapshots. */
#include "control/api/handlers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "control/access/keys.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/api/show.h"
#include "control/catalogue/durable.h"
#include "control/catalogue/refs.h"
#include "control/catalogue/snapshots.h"
#include "control/catalogue/template_rows.h"
#include "control/catalogue/templates.h"
#include "control/engine_link/engine_link.h"
#include "control/life/layer_chains.h"
#include "control/life/lives.h"
#include "model/json_field.h"
#include "store/store.h"

#define FLUSH_TIMEOUT_MS 900000

/* ---- a snapshot that is being made, from the image to the disk ---- */

struct snapshot_job {
        struct api_exchange *x; /* the request that waits; the job ends with it */
        struct snapshot snapshot;
        bool is_held; /* the job holds the names in it, until the list of snapshots has it */
        size_t next;  /* what is to be flushed next: 0 the checkpoint, n the layer n-1 */
        struct engine_call flush;
        struct durable_waiter synced;
};

static void snapshot_job_free(struct snapshot_job *job)
{
        if (!job)
                return;
        engine_call_cancel(&job->flush);
        durable_cancel(&job->synced);
        if (job->is_held)
                refs_release(job->x->api->refs, job->snapshot.checkpoint, job->snapshot.layers);
        snapshot_done(&job->snapshot);
        free(job);
}

static void snapshot_over(struct api_exchange *x, bool is_complete)
{
        (void)is_complete; /* a snapshot in the list stays; otherwise nothing is left of it */
        snapshot_job_free(x->job);
}

static void snapshot_synced(struct durable_waiter *w, int result)
{
        struct snapshot_job *job = CONTAINER_OF(w, struct snapshot_job, synced);
        struct api_exchange *x = job->x;
        json_t *shown = show_snapshot(x->team->slug, &job->snapshot);

        if (result == 0) {
                answer_json(x, 201, shown);
                return;
        }
        json_decref(shown);
        answer_error(x, 500, NULL, "the snapshot could not be written to disk");
}

/* Copy what the answer shows. */
static int snapshot_copy_names(const struct snapshot *sn, struct snapshot *ret)
{
        memcpy(ret->template_id, sn->template_id, sizeof(ret->template_id));
        ret->name = sn->name ? strdup(sn->name) : NULL;
        ret->tag = strdup(sn->tag);
        return ret->tag && (!sn->name || ret->name) ? 0 : -ENOMEM;
}

/* All its files are on disk: now it may be listed. */
static void snapshot_list(struct snapshot_job *job)
{
        struct api_exchange *x = job->x;
        struct snapshot shown = {0};
        char checkpoint[CHECKPOINT_ID_MAX];
        json_t *layers = json_incref(job->snapshot.layers);
        struct err err = {0};
        int r;

        memcpy(checkpoint, job->snapshot.checkpoint, sizeof(checkpoint));
        r = snapshot_copy_names(&job->snapshot, &shown);
        if (r < 0)
                err_sys(&err, r, "snapshot");
        else
                r = snapshots_add(x->api->snapshots, &job->snapshot, &err);
        if (r == 0 && layers_sealed(layers) > LAYERS_SEALED_MAX)
                layer_chains_look(x->api->layer_chains);
        refs_release(x->api->refs, checkpoint, layers);
        json_decref(layers);
        job->is_held = false;
        snapshot_done(&job->snapshot);
        job->snapshot = shown;
        if (r < 0)
                answer_copy_error(x, &err);
        else
                durable_wait(x->api->durable, &job->synced);
}

static void snapshot_flush_next(struct snapshot_job *job);

static void snapshot_flushed(struct engine_call *c, const json_t *answer, const struct err *err)
{
        struct snapshot_job *job = CONTAINER_OF(c, struct snapshot_job, flush);
        struct api *api = job->x->api;

        (void)answer;
        if (err && err->kind == ERR_UNAVAILABLE && api->engine->state != ENGINE_UP) {
                snapshot_flush_next(job); /* the files are still there when the engine is back */
                return;
        }
        if (err) {
                answer_copy_error(job->x, err);
                return;
        }
        if (job->next > 0)
                refs_set_flushed(api->refs, json_string_value(json_array_get(job->snapshot.layers, job->next - 1)));
        job->next++;
        snapshot_flush_next(job);
}

/* The checkpoint first, then every layer that is not known to be on disk. */
static void snapshot_flush_next(struct snapshot_job *job)
{
        struct api *api = job->x->api;
        const struct snapshot *sn = &job->snapshot;
        const char *layer = NULL;

        for (; job->next > 0 && job->next <= json_array_size(sn->layers); job->next++) {
                layer = json_string_value(json_array_get(sn->layers, job->next - 1));
                if (!refs_is_flushed(api->refs, layer))
                        break;
        }
        if (job->next > json_array_size(sn->layers)) {
                snapshot_list(job);
                return;
        }
        job->flush.on = snapshot_flushed;
        engine_call(
                api->engine, &job->flush,
                json_pack("{s:s,s:s}", "op", "flush", layer ? "layer" : "checkpoint", layer ? layer : sn->checkpoint),
                FLUSH_TIMEOUT_MS);
}

static int snapshot_fill(struct snapshot *sn, const struct api *api, const struct life *l, const struct image *image,
                         struct err *err)
{
        const struct sandbox *s = &l->sandbox;

        uuid_make(sn->id);
        sn->team = s->team;
        memcpy(sn->source, s->id, sizeof(sn->source));
        sn->created_ns = api->now_ns() / 1000 * 1000;
        memcpy(sn->checkpoint, image->checkpoint, sizeof(sn->checkpoint));
        memcpy(sn->image_of, image->image_of, sizeof(sn->image_of));
        sn->image_secured = image->image_secured;
        sn->layers = json_incref(image->layers);
        sn->cpu_count = s->cpu_count;
        sn->memory_mb = s->memory_mb;
        sn->disk_mb = s->disk_mb;
        sn->default_user = s->default_user ? strdup(s->default_user) : NULL;
        sn->default_workdir = s->default_workdir ? strdup(s->default_workdir) : NULL;
        if ((s->default_user && !sn->default_user) || (s->default_workdir && !sn->default_workdir))
                return err_sys(err, -ENOMEM, "snapshot");
        return store_sandbox_env(api->store, s->id, &sn->env, err);
}

static void snapshot_image_taken(struct image_taker *t, const struct image *image, const struct err *err)
{
        struct api_exchange *x = CONTAINER_OF(t, struct api_exchange, taker);
        struct life *l = lives_find(x->api->lives, x->id);
        struct snapshot_job *job = x->job;
        struct err why = {0};

        if (err || !l) {
                answer_copy_error(x, err ? err : &(struct err){.kind = ERR_GONE});
        } else if (snapshot_fill(&job->snapshot, x->api, l, image, &why) < 0) {
                answer_copy_error(x, &why);
        } else if (refs_hold(x->api->refs, image->checkpoint, image->layers) < 0) {
                answer_error(x, 503, NULL, "out of memory");
        } else {
                job->is_held = true;
                job->synced.on = snapshot_synced;
                snapshot_flush_next(job);
        }
}

/* ---- waiting for the sandbox ---- */

static void snapshot_try(struct api_exchange *x);

static void snapshot_turn_came(struct life_waiter *w, enum sandbox_state reached, const struct err *err)
{
        (void)reached, (void)err;
        snapshot_try(CONTAINER_OF(w, struct api_exchange, waiter));
}

static void snapshot_try(struct api_exchange *x)
{
        struct life *l = lives_find_of(x->api->lives, x->id, x->team);
        struct err err = {0};

        if (!l || sandbox_is_paused(&l->sandbox)) {
                answer_no_sandbox(x);
        } else if (l->sandbox.state == SANDBOX_RUNNING) {
                x->taker.on = snapshot_image_taken;
                if (life_take_image(l, &x->taker, &err) < 0)
                        answer_copy_error(x, &err);
        } else if (l->sandbox.state == SANDBOX_PAUSING || l->sandbox.state == SANDBOX_KILLING) {
                answer_error(x, 409, NULL, "Sandbox '%s' cannot be snapshotted while in '%s' state", x->id,
                             sandbox_state_name(l->sandbox.state));
        } else {
                x->waiter.on = snapshot_turn_came;
                life_wait(l, &x->waiter);
        }
}

/* "[namespace/]name[:tag]", or nothing. */
static int snapshot_choose_name(struct api_exchange *x, struct snapshot *sn, struct err *err)
{
        const char *text = NULL, *known = NULL;
        struct template_ref ref = {0};
        struct err why = {0};
        int r;

        r = json_field_text(x->body, "name", &text, err);
        if (r < 0)
                return r;
        if (text && text[0]) {
                if (template_ref_parse(str_of(text), &ref, &why) < 0)
                        return err_set(err, ERR_INVALID, "Invalid name: %s", why.msg);
                if (ref.ns[0] && strcmp(ref.ns, x->team->slug) != 0)
                        return err_set(err, ERR_INVALID, "Invalid name: namespace '%s' is not yours", ref.ns);
                if (templates_has(x->api->templates, ref.name) ||
                    template_rows_by_alias(x->api->template_rows, x->team->no, ref.name))
                        return err_set(err, ERR_INVALID, "Invalid name: '%s' is a template", ref.name);
                known = snapshots_template_of(x->api->snapshots, ref.name, x->team);
        }
        if (known)
                memcpy(sn->template_id, known, sizeof(sn->template_id));
        else
                random_id(sn->template_id, TEMPLATE_ID_MAX - 1);
        sn->name = ref.name[0] ? strdup(ref.name) : NULL;
        sn->tag = strdup(ref.tag[0] && strcmp(ref.tag, "latest") != 0 ? ref.tag : "default");
        return sn->tag && (!ref.name[0] || sn->name) ? 0 : err_sys(err, -ENOMEM, "snapshot");
}

void handle_snapshot(struct api_exchange *x)
{
        struct snapshot_job *job = calloc(1, sizeof(*job));
        struct err err = {0};

        if (!job) {
                answer_error(x, 503, NULL, "out of memory");
                return;
        }
        job->x = x;
        x->job = job;
        x->on_over = snapshot_over;
        if (snapshot_choose_name(x, &job->snapshot, &err) < 0)
                answer_err(x, &err);
        else
                snapshot_try(x);
}
