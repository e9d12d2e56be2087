/* What a stage begins with: another stage, a template or a snapshot, or an image; and its first user. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "control/access/keys.h"
#include "control/build/build_run.h"
#include "control/catalogue/images.h"
#include "control/catalogue/layer_cache.h"
#include "control/catalogue/sources.h"
#include "control/catalogue/templates.h"
#include "image/image_ref.h"
#include "model/conf.h"

#define FIRST_USER "user"

static void base_announce(struct build_frame *f)
{
        build_say(f->build, f->kind == FRAME_STAGE ? BUILD_LOG_INFO : BUILD_LOG_DEBUG, "base", "[base] FROM %s [%.12s]",
                  f->stage->from, f->chain.key.hex);
}

/* The base is complete; the frame's first user is still missing where has_user is not set. */
static enum build_progress base_complete(struct build_frame *f)
{
        f->has_base = true;
        f->chain.is_forced = f->chain.is_forced || f->build->request.force;
        base_announce(f);
        return build_hold_layers(f->build, "", f->chain.layers) < 0 ? frame_trip(f, &build_no_memory) : BUILD_GOES_ON;
}

/* ---- another stage ---- */

static enum build_progress base_stage(struct build_frame *f)
{
        struct build_run *b = f->build;
        size_t i = f->stage->from_stage_index;

        if (!b->stages[i].layers)
                return frame_push(b, FRAME_STAGE, &b->request.stages[i], i) ? BUILD_GOES_ON
                                                                            : frame_trip(f, &build_no_memory);
        if (build_chain_copy(&b->stages[i], &f->chain) < 0)
                return frame_trip(f, &build_no_memory);
        f->has_user = true;
        return base_complete(f);
}

/* ---- a template, or a snapshot ---- */

/* A recipe means the server's own base, whatever a team has built under that name. */
static int find_parent(const struct build_frame *f, struct source_base *ret, struct err *err)
{
        const struct builds_run_options *o = &f->build->all->o;
        const struct sources all = {
                .manifests = o->templates, .snapshots = o->snapshots, .rows = o->rows, .keys = o->keys};
        const struct team *team = keys_team(o->keys, f->build->team);
        struct template_source source = {0};
        struct template_ref ref;
        int r = template_ref_parse(str_of(f->stage->from), &ref, err);

        if (r == 0 && f->kind == FRAME_RECIPE)
                r = templates_find(o->templates, &ref, "", &source.manifest, err);
        else if (r == 0)
                r = team ? sources_find(&all, &ref, team, &source, err) : err_set(err, ERR_NOT_FOUND, "no such team");
        if (r == 0 && source_base_of(&source, ret) < 0)
                r = err_sys(err, -ENOMEM, "template");
        return r;
}

static enum build_progress base_template(struct build_frame *f)
{
        AUTO(source_base_done) struct source_base p = {0};
        struct build_chain *c = &f->chain;
        struct err err = {0};

        if (find_parent(f, &p, &err) < 0)
                return err.kind == ERR_LIMIT ? frame_trip(f, &err) : build_fail(f->build, "base", "%s", err.msg);
        build_key_base("template", p.id, "", &c->key);
        c->layers = json_copy(p.layers);
        c->env = p.env ? json_copy(p.env) : json_object();
        if (!c->layers || !c->env ||
            build_chain_set_text(&c->user, f->kind == FRAME_RECIPE ? NULL : p.default_user) < 0 ||
            build_chain_set_text(&c->workdir, f->kind == FRAME_RECIPE ? NULL : p.default_workdir) < 0 ||
            build_chain_set_text(&c->start_cmd, p.start_cmd) < 0 ||
            build_chain_set_text(&c->ready_cmd, p.ready_cmd) < 0)
                return frame_trip(f, &build_no_memory);
        if (!c->user && f->kind == FRAME_STAGE && build_chain_set_text(&c->user, FIRST_USER) < 0)
                return frame_trip(f, &build_no_memory);
        f->has_user = true;
        return base_complete(f);
}

/* ---- an image ---- */

/* "NAME=value" */
static int env_of_config(const json_t *config, json_t *to)
{
        const json_t *list = json_object_get(config, "env");
        size_t i;
        json_t *v;

        json_array_foreach ((json_t *)(uintptr_t)list, i, v) {
                const char *text = json_string_value(v), *equals = text ? strchr(text, '=') : NULL;
                AUTO_FREE char *name = equals ? strndup(text, (size_t)(equals - text)) : NULL;

                if (name && name[0] && json_object_set_new(to, name, json_string(equals + 1)) < 0)
                        return -ENOMEM;
        }
        return 0;
}

enum build_progress base_is_image(struct build_frame *f, json_t *layers, const char *id, const json_t *config)
{
        struct build_chain *c = &f->chain;

        build_key_base("image", id, "", &c->key);
        json_incref(layers);
        json_decref(c->layers);
        c->layers = json_copy(layers);
        json_decref(layers);
        json_decref(c->env);
        c->env = json_object();
        if (!c->layers || !c->env || env_of_config(config, c->env) < 0)
                return frame_trip(f, &build_no_memory);
        return base_complete(f);
}

/* What the recipe says the image has.  Its user and working directory are not taken over: a build that begins with an image has
 * its own first user (templates.md of the contract), and a recipe's frame is only that image. */
int base_apply_recipe(struct build_frame *f)
{
        return f->recipe.env && json_object_update(f->chain.env, f->recipe.env) < 0 ? -ENOMEM : 0;
}

static enum build_progress push_recipe(struct build_frame *f, struct recipe *recipe)
{
        struct build_frame *above = frame_push(f->build, FRAME_RECIPE, NULL, STAGE_NONE);
        bool is_template = strncmp(recipe->from, "template:", strlen("template:")) == 0;
        json_t *body =
                json_pack("{s:s,s:O}", is_template ? "fromTemplate" : "fromImage",
                          is_template ? recipe->from + strlen("template:") : recipe->from, "steps", recipe->steps);
        struct err err = {0};
        int r = 0;

        if (above) {
                above->recipe = *recipe;
                *recipe = (struct recipe){0};
                r = body ? build_request_decode(body, &above->own, &err) : err_set(&err, ERR_LIMIT, "out of memory");
        }
        json_decref(body);
        if (!above || r < 0)
                return frame_trip(f, above ? &err : &build_no_memory);
        above->stage = build_request_final(&above->own);
        build_say(f->build, BUILD_LOG_INFO, "base", "[base] %s", above->recipe.note);
        return BUILD_GOES_ON;
}

/* The recipe's chain is the image. */
static enum build_progress base_of_recipe(struct build_frame *f)
{
        json_t *env = json_incref(f->made.env);
        struct build_key key = f->made.key;

        f->chain = f->made;
        f->made = (struct build_chain){0};
        (void)build_chain_set_text(&f->chain.user, NULL);
        (void)build_chain_set_text(&f->chain.workdir, NULL);
        json_decref(env);
        build_key_base("image", key.hex, "", &f->chain.key);
        return base_complete(f);
}

static bool wants_registry(const struct build_run *b, const struct image_ref *ref)
{
        const struct conf *c = b->all->o.conf;

        return (c->registries && json_object_size(c->registries) > 0) || strcmp(ref->host, IMAGE_DEFAULT_HOST) != 0 ||
               b->request.registry;
}

/* Where the image comes from: one that is here, a registry, or a recipe. */
static enum build_progress base_image(struct build_frame *f)
{
        struct build_run *b = f->build;
        const char *source = b->all->o.conf->image_source;
        char name[IMAGE_NAME_MAX];
        const struct image_row *row;
        struct image_ref ref;
        struct recipe recipe = {0};
        struct err err = {0};
        enum build_progress p;

        if (f->made.layers)
                return base_of_recipe(f);
        if (f->pull.call.link || f->pull.answer)
                return pull_take(f);
        if (image_ref_parse(str_of(f->stage->from), &ref, &err) < 0)
                return build_fail(b, "base", "%s", err.msg);
        image_ref_name(&ref, name);
        row = b->request.force && f->kind == FRAME_STAGE ? NULL : images_find(b->all->o.images, name);
        if (row)
                return base_is_image(f, row->layers, row->digest, row->config);
        if (strcmp(source, "registry") == 0 || (strcmp(source, "auto") == 0 && wants_registry(b, &ref)))
                return pull_take(f);
        if (recipe_find(f->stage->from, &recipe, &err) < 0) {
                if (err.kind == ERR_NOT_FOUND && strcmp(source, "auto") == 0)
                        return pull_take(f); /* it may be reachable after all */
                return build_fail(b, "base", "%s", err.msg);
        }
        p = push_recipe(f, &recipe);
        recipe_done(&recipe);
        return p;
}

/* ---- the first user ---- */

static enum build_progress user_is_there(struct build_frame *f, const char *layer)
{
        json_t *context;
        int r = build_chain_set_text(&f->chain.user, FIRST_USER);

        f->chain.key = f->key;
        if (r == 0 && layer[0])
                r = build_chain_add_layer(&f->chain, layer);
        context = build_chain_context(&f->chain);
        if (r == 0)
                r = context ? build_keep_add(&f->build->all->keep, f->team, &f->key, layer, context) : -ENOMEM;
        json_decref(context);
        f->has_user = true;
        return r < 0 ? frame_trip(f, &build_no_memory) : BUILD_GOES_ON;
}

static enum build_progress base_user(struct build_frame *f)
{
        struct box_base base = build_box_base(f->build, f->chain.layers);
        struct cached_step found = {0};
        struct err err = {0};
        json_t *one;
        int r = 0;

        if (f->kind != FRAME_STAGE || f->build->request.is_root_default) {
                f->has_user = true;
                return BUILD_GOES_ON;
        }
        build_key_base("first user", f->chain.key.hex, FIRST_USER, &f->key);
        if (!f->build->request.force)
                r = build_keep_find(&f->build->all->keep, f->team, &f->key, &found, &err);
        if (r < 0)
                return frame_trip(f, &err);
        if (r == 0) {
                box_run(&f->box, &base, json_pack("{s:s,s:s}", "kind", "user", "name", FIRST_USER), -1, 1);
                return BUILD_WAITS;
        }
        one = found.layer[0] ? json_pack("[s]", found.layer) : NULL;
        r = build_hold_layers(f->build, "", one);
        if (r == 0 && one)
                r = build_chain_add_layer(&f->chain, found.layer);
        if (r == 0)
                r = build_chain_set_text(&f->chain.user, FIRST_USER);
        json_decref(one);
        cached_step_done(&found);
        f->chain.key = f->key;
        f->has_user = true;
        return r < 0 ? frame_trip(f, &build_no_memory) : BUILD_GOES_ON;
}

enum build_progress base_answered(struct build_frame *f, const json_t *answer)
{
        struct err err = {0};

        if (f->has_base && !json_is_true(json_object_get(answer, "created")))
                return user_is_there(f, "");
        if (box_commit(&f->box, &(struct life_commit){.below = f->pull.below}, &err) < 0)
                return frame_trip(f, &err);
        return BUILD_WAITS;
}

enum build_progress base_committed(struct build_frame *f, const char *layer)
{
        return f->has_base ? user_is_there(f, layer) : pull_unpacked(f, layer);
}

enum build_progress base_take(struct build_frame *f)
{
        if (f->has_base)
                return base_user(f);
        switch (f->stage->from_kind) {
        case FROM_STAGE: return base_stage(f);
        case FROM_TEMPLATE: return base_template(f);
        case FROM_IMAGE: break;
        }
        return base_image(f);
}
