/* POST /sandboxes and POST /v2/sandboxes. */
#include "control/api/handlers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "control/access/keys.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/api/show.h"
#include "control/catalogue/snapshots.h"
#include "control/catalogue/templates.h"
#include "control/life/lives.h"
#include "model/conf.h"
#include "model/request/create_request.h"

static json_t *template_layers(const struct template *t)
{
        json_t *layers = json_array();

        for (size_t i = 0; layers && i < t->layer_count; i++)
                if (json_array_append_new(layers, json_string(t->layers[i])) < 0) {
                        json_decref(layers);
                        return NULL;
                }
        return layers;
}

static char *dup_or_null(const char *s, bool *ok)
{
        char *copy = s ? strdup(s) : NULL;

        *ok = *ok && (!s || copy);
        return copy;
}

/* The part of a sandbox that the client chose. */
static void create_fill_wishes(const struct api_exchange *x, const struct create_request *want, struct sandbox *s)
{
        s->team = x->team->no;
        s->is_secured = want->is_secured;
        s->internet = want->internet;
        s->auto_pause = want->auto_pause;
        s->auto_pause_memory = want->auto_pause_memory;
        s->auto_resume = want->auto_resume;
        s->timeout_s = (uint32_t)want->timeout_s;
        s->metadata = json_incref(want->metadata);
        s->network = json_incref(want->network.shown);
        s->mcp = json_incref(want->mcp);
        sandbox_id_make(s->id);
}

static int create_fill_from_template(const struct create_request *want, const struct template *t, struct sandbox *s,
                                     struct err *err)
{
        bool ok = true;

        memcpy(s->template_id, t->id, sizeof(s->template_id));
        s->cpu_count = t->cpu_count;
        s->memory_mb = t->memory_mb;
        s->disk_mb = t->disk_mb;
        s->alias = dup_or_null(t->alias, &ok);
        s->default_user = dup_or_null(t->default_user, &ok);
        s->default_workdir = dup_or_null(t->default_workdir, &ok);
        s->layers = template_layers(t);
        s->env = json_incref(want->env);
        return ok && s->layers ? 0 : err_sys(err, -ENOMEM, "create sandbox");
}

/* The snapshot's environment, and the client's on top of it. */
static int create_merge_env(json_t *first, json_t *second, json_t **ret, struct err *err)
{
        json_t *env;

        if (!first || !second) {
                *ret = json_incref(first ? first : second);
                return 0;
        }
        env = json_copy(first);
        if (!env || json_object_update(env, second) < 0) {
                json_decref(env);
                return err_sys(err, -ENOMEM, "create sandbox");
        }
        *ret = env;
        return 0;
}

static int create_fill_from_snapshot(const struct create_request *want, const struct snapshot *sn, struct sandbox *s,
                                     struct err *err)
{
        bool ok = true;

        memcpy(s->template_id, sn->template_id, sizeof(s->template_id));
        memcpy(s->checkpoint, sn->checkpoint, sizeof(s->checkpoint));
        memcpy(s->image_of, sn->image_of, sizeof(s->image_of));
        s->image_secured = sn->image_secured;
        s->cpu_count = sn->cpu_count;
        s->memory_mb = sn->memory_mb;
        s->disk_mb = sn->disk_mb;
        s->alias = dup_or_null(sn->name, &ok);
        s->default_user = dup_or_null(sn->default_user, &ok);
        s->default_workdir = dup_or_null(sn->default_workdir, &ok);
        s->layers = json_incref(sn->layers);
        return ok ? create_merge_env(sn->env, want->env, &s->env, err) : err_sys(err, -ENOMEM, "create sandbox");
}

static void create_started(struct life *l, const struct err *err, void *arg)
{
        struct api_exchange *x = arg;

        if (!err) {
                answer_json(x, 201, show_sandbox(x->api, &l->sandbox));
                return;
        }
        x->on_over = NULL;
        answer_start_error(x, err);
}

/* A client that did not get the whole answer does not know the id, and no other client does. */
static void create_over(struct api_exchange *x, bool is_complete)
{
        if (!is_complete)
                lives_abandon(x->api->lives, x->id);
}

struct create_source { /* one of the two; the other is NULL */
        const struct template *template;
        const struct snapshot *snapshot;
};

static int create_find_source(struct api_exchange *x, const struct create_request *want, struct create_source *ret,
                              struct err *err)
{
        struct err why = {0};
        int r;

        r = templates_find(x->api->templates, &want->template, x->team->slug, &ret->template, err);
        if (r == 0 || templates_has(x->api->templates, want->template.name))
                return r;
        if (snapshots_find(x->api->snapshots, &want->template, x->team, &ret->snapshot, &why) == 0)
                return 0;
        *err = why;
        return r;
}

static int create_start(struct api_exchange *x, struct create_request *want, const struct create_source *from,
                        struct err *err)
{
        struct sandbox s = {0};
        int r;

        create_fill_wishes(x, want, &s);
        r = from->template ? create_fill_from_template(want, from->template, &s, err)
                           : create_fill_from_snapshot(want, from->snapshot, &s, err);
        if (r == 0) {
                memcpy(x->id, s.id, sizeof(s.id));
                x->on_over = create_over;
                r = lives_start(x->api->lives, &s, create_started, x, err);
                if (r < 0)
                        x->on_over = NULL;
        }
        sandbox_done(&s);
        return r;
}

static void create_handle(struct api_exchange *x, enum create_version version)
{
        const struct conf *conf = x->api->conf;
        AUTO(create_request_done) struct create_request want = {0};
        struct create_source from = {0};
        struct err err = {0};
        int r;

        r = create_request_decode(x->body, version, conf->timeout_max_s, &want, &err);
        if (r == 0)
                r = create_find_source(x, &want, &from, &err);
        if (r < 0) {
                answer_err(x, &err);
        } else if (lives_check_limit(x->api->lives, x->team, &err) < 0) {
                answer_too_many(x, &err);
        } else if (create_start(x, &want, &from, &err) < 0) {
                if (err.kind == ERR_INVALID)
                        answer_err(x, &err);
                else
                        answer_start_error(x, &err);
        }
}

void handle_create_v1(struct api_exchange *x)
{
        create_handle(x, CREATE_V1);
}

void handle_create_v2(struct api_exchange *x)
{
        create_handle(x, CREATE_V2);
}
