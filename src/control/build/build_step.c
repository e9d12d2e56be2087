/* The steps of a stage: each is taken from the cache, or run in a sandbox whose files then become a layer. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "control/build/build_env.h"
#include "control/build/build_run.h"
#include "control/catalogue/layer_cache.h"
#include "control/catalogue/uploads.h"
#include "model/conf.h"

#define SHOWN_MAX 1000 /* bytes of a step in the log */

static const struct build_step *step_now(const struct build_frame *f)
{
        return &f->stage->steps[f->next];
}

/* ---- its words ---- */

void step_label(const struct build_frame *f, char *out, size_t size)
{
        const struct build_run *b = f->build;
        const char *name = f->kind != FRAME_STAGE                         ? "base"
                           : f->stage_index + 1 != b->request.stage_count ? f->stage->name
                                                                          : "builder";

        if (f->has_base && f->has_user && f->next < f->stage->step_count)
                (void)snprintf(out, size, "[%.100s %zu/%zu] ", name, f->next + 1, f->stage->step_count);
        else
                (void)snprintf(out, size, "[base] ");
}

static void step_announce(struct build_frame *f, bool is_cached)
{
        const struct build_step *s = step_now(f);
        AUTO_BUF struct buf text = BUF_INIT(2 * SHOWN_MAX);
        char label[160], room[16];
        size_t i;
        json_t *v;

        step_label(f, label, sizeof(label));
        json_array_foreach (s->args, i, v) {
                size_t n = f->kind == FRAME_RECIPE ? strcspn(json_string_value(v), "\n") : SHOWN_MAX;

                if (text.len < SHOWN_MAX && json_string_length(v))
                        (void)buf_addf(&text, " %.*s%s", (int)n, json_string_value(v),
                                       n < json_string_length(v) ? "..." : "");
        }
        build_say(f->build, BUILD_LOG_INFO, frame_step_name(f, room), "%s%s%s%.*s [%.12s]", is_cached ? "CACHED " : "",
                  label, build_step_name(s->type), (int)text.len, (const char *)buf_at(&text), f->key.hex);
}

/* ---- its end ---- */

/* The context of the chain is the one after the step. */
static enum build_progress step_finish(struct build_frame *f, const char *layer)
{
        struct build_run *b = f->build;
        json_t *context = build_chain_context(&f->chain);
        int r = context ? 0 : -ENOMEM;

        f->chain.key = f->key;
        if (r == 0 && layer[0])
                r = build_chain_add_layer(&f->chain, layer);
        if (r == 0)
                r = build_keep_add(&b->all->keep, f->team, &f->key, layer, context);
        json_decref(context);
        if (r < 0)
                return frame_trip(f, &build_no_memory);
        build_chain_done(&f->made);
        f->next++;
        return BUILD_GOES_ON;
}

enum build_progress step_committed(struct build_frame *f, const char *layer)
{
        json_t *one;

        if (!f->recipe.suite)
                return step_finish(f, layer);
        one = json_pack("[s]", layer); /* a root file system: nothing is below it */
        if (!one || build_keep_add(&f->build->all->keep, f->team, &f->key, layer, one) < 0) {
                json_decref(one);
                return frame_trip(f, &build_no_memory);
        }
        json_decref(f->chain.layers);
        f->chain.layers = one;
        f->chain.key = f->key;
        f->next = f->stage->step_count;
        return BUILD_GOES_ON;
}

static enum build_progress step_commit(struct build_frame *f, const char *below)
{
        struct err err = {0};

        if (box_commit(&f->box, &(struct life_commit){.below = below}, &err) < 0)
                return frame_trip(f, &err);
        return BUILD_WAITS;
}

/* ---- running it ---- */

static json_t *step_context(const struct build_frame *f, json_t *step, const char *user)
{
        const struct build_chain *c = &f->chain;

        if (!step)
                return NULL;
        if (json_object_set_new(step, "user", json_string(user)) < 0 || json_object_set(step, "env", c->env) < 0 ||
            json_object_set_new(step, "workdir", c->workdir ? json_string(c->workdir) : json_null()) < 0) {
                json_decref(step);
                return NULL;
        }
        return step;
}

static enum build_progress step_box(struct build_frame *f, json_t *step, int file)
{
        struct box_base base = build_box_base(f->build, f->chain.layers);

        box_run(&f->box, &base, step, file, 1);
        return BUILD_WAITS;
}

static enum build_progress step_run_command(struct build_frame *f)
{
        const struct build_step *s = step_now(f);
        const char *user = build_step_arg(s, 1)[0] ? build_step_arg(s, 1) : build_chain_user(&f->chain);
        json_t *step = json_pack("{s:s,s:s,s:I,s:O*}", "kind", "run", "cmd", build_step_arg(s, 0), "timeout_s",
                                 (json_int_t)f->build->all->o.conf->build_timeout_s, "shell", s->shell);

        return step_box(f, step_context(f, step, user), -1);
}

static enum build_progress step_run_workdir(struct build_frame *f)
{
        AUTO_FREE char *path = build_chain_path(&f->chain, build_step_arg(step_now(f), 0));

        return step_box(
                f,
                path ? json_pack("{s:s,s:s,s:s}", "kind", "workdir", "path", path, "user", build_chain_user(&f->chain))
                     : NULL,
                -1);
}

static enum build_progress step_run_env(struct build_frame *f)
{
        struct err err = {0};
        json_t *env;

        if (build_env_apply(f->chain.env, step_now(f), build_chain_user(&f->chain), &env, &err) < 0)
                return frame_trip(f, &err);
        json_decref(f->chain.env);
        f->chain.env = env;
        return step_finish(f, "");
}

/* ---- COPY ---- */

/* The chain that a COPY takes from; NULL: it takes from the client's files. */
static const struct build_chain *step_source(const struct build_frame *f)
{
        const struct build_step *s = step_now(f);

        if (s->from_stage)
                return &f->build->stages[s->from_stage_index];
        return s->from_image ? &f->made : NULL;
}

static enum build_progress step_make_source(struct build_frame *f)
{
        struct build_run *b = f->build;
        const struct build_step *s = step_now(f);
        struct build_frame *above;
        struct err err = {0};
        json_t *body;
        int r = 0;

        if (s->from_stage) {
                above = frame_push(b, FRAME_STAGE, &b->request.stages[s->from_stage_index], s->from_stage_index);
                return above ? BUILD_GOES_ON : frame_trip(f, &build_no_memory);
        }
        above = frame_push(b, FRAME_IMAGE, NULL, STAGE_NONE);
        body = json_pack("{s:s,s:[]}", "fromImage", s->from_image, "steps");
        if (above && body)
                r = build_request_decode(body, &above->own, &err);
        json_decref(body);
        if (!above || !body)
                return frame_trip(f, &build_no_memory);
        if (r < 0)
                return frame_trip(f, &err);
        above->stage = build_request_final(&above->own);
        return BUILD_GOES_ON;
}

/* A file without a name, on the disk of the builds. */
static int open_archive(const struct build_run *b)
{
        AUTO_FREE char *dir = conf_path(b->all->o.conf, "builds");
        int fd = dir ? open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;

        return fd < 0 ? -errno : fd;
}

/* First the files are packed, in a sandbox on the layers they are in. */
static enum build_progress step_pack(struct build_frame *f, const struct build_chain *source)
{
        struct box_base base = build_box_base(f->build, source->layers);
        AUTO_CLOSE int copy = -1;
        struct err err;

        box_drop(&f->box);
        f->archive = open_archive(f->build);
        copy = f->archive < 0 ? -1 : fcntl(f->archive, F_DUPFD_CLOEXEC, 3);
        if (copy < 0) {
                (void)err_sys(&err, f->archive < 0 ? f->archive : -errno, "make an archive");
                f->archive = -1;
                return frame_trip(f, &err);
        }
        f->is_archiving = true;
        box_run(&f->box, &base, json_pack("{s:s,s:s}", "kind", "archive", "path", build_step_arg(step_now(f), 0)),
                TAKE_FD(copy), 1);
        return BUILD_WAITS;
}

/* The last part of a path, as the archive of that path names it; "." for all of "/".  The caller's; NULL: no memory. */
static char *name_in_archive(const char *path)
{
        size_t end = strlen(path), begin;

        while (end > 0 && path[end - 1] == '/')
                end--;
        for (begin = end; begin > 0 && path[begin - 1] != '/';)
                begin--;
        return end > begin ? strndup(path + begin, end - begin) : strdup(".");
}

static enum build_progress step_run_copy(struct build_frame *f)
{
        const struct build_step *s = step_now(f);
        const struct build_chain *source = step_source(f);
        const char *src = build_step_arg(s, 0);
        AUTO_FREE char *name = NULL;
        struct err err = {0};
        char room[16];
        json_t *step;
        int file = -1;

        if (source && f->archive < 0)
                return step_pack(f, source);
        if (source) {
                name = name_in_archive(src);
                if (!name)
                        return frame_trip(f, &build_no_memory);
                src = name;
                file = TAKE_FD(f->archive);
        } else if (!s->files_hash) {
                return build_fail(f->build, frame_step_name(f, room), "COPY requires files hash to be set");
        } else if (uploads_open(f->build->all->o.uploads, f->build->team, s->files_hash, &file, &err) < 0) {
                return build_fail(f->build, frame_step_name(f, room), "COPY %.100s: %s", src, err.msg);
        }
        step = json_pack("{s:s,s:s,s:s,s:s,s:s}", "kind", "copy", "src", src, "dest", build_step_arg(s, 1), "owner",
                         build_step_arg(s, 2), "mode", build_step_arg(s, 3));
        return step_box(f, step_context(f, step, build_chain_user(&f->chain)), file);
}

/* ---- all kinds ---- */

static enum build_progress step_run(struct build_frame *f)
{
        const struct build_step *s = step_now(f);

        switch (s->type) {
        case STEP_RUN: return step_run_command(f);
        case STEP_COPY: return step_run_copy(f);
        case STEP_WORKDIR: return step_run_workdir(f);
        case STEP_USER: return step_box(f, json_pack("{s:s,s:s}", "kind", "user", "name", build_step_arg(s, 0)), -1);
        case STEP_ENV: return step_run_env(f);
        }
        return BUILD_WAITS;
}

/* 1: taken from the cache. */
static int step_from_cache(struct build_frame *f, struct err *err)
{
        struct build_run *b = f->build;
        struct cached_step found = {0};
        json_t *one = NULL;
        int r = build_keep_find(&b->all->keep, f->team, &f->key, &found, err);

        if (r <= 0)
                return r;
        if (found.layer[0]) {
                one = json_pack("[s]", found.layer);
                r = one && build_hold_layers(b, "", one) == 0 ? build_chain_add_layer(&f->chain, found.layer) : -ENOMEM;
                json_decref(one);
                box_drop(&f->box); /* it is on other layers */
        }
        if (r >= 0)
                r = build_chain_set_context(&f->chain, found.context);
        cached_step_done(&found);
        if (r < 0)
                return err_sys(err, r, "take a step from the cache");
        step_announce(f, true);
        f->chain.key = f->key;
        build_chain_done(&f->made);
        f->next++;
        return 1;
}

/* All steps of a recipe that makes a root file system count as one. */
static enum build_progress suite_take(struct build_frame *f)
{
        struct build_key key = f->chain.key;
        struct cached_step found = {0};
        struct err err = {0};
        json_t *one;
        int r = 0;

        if (f->next > 0) {
                step_announce(f, false);
                return step_run(f);
        }
        for (size_t i = 0; i < f->stage->step_count; i++)
                build_key_step(&key, &f->stage->steps[i], "suite", &key);
        f->key = key;
        if (!f->chain.is_forced)
                r = build_keep_find(&f->build->all->keep, f->team, &f->key, &found, &err);
        one = r == 1 ? json_pack("[s]", found.layer) : NULL;
        cached_step_done(&found);
        if (r < 0 || (r == 1 && (!one || build_hold_layers(f->build, "", one) < 0))) {
                json_decref(one);
                return frame_trip(f, r < 0 ? &err : &build_no_memory);
        }
        if (r == 0) {
                step_announce(f, false);
                return step_run(f);
        }
        step_announce(f, true);
        json_decref(f->chain.layers);
        f->chain.layers = one;
        f->chain.key = f->key;
        f->next = f->stage->step_count;
        return BUILD_GOES_ON;
}

enum build_progress step_take(struct build_frame *f)
{
        const struct build_step *s = step_now(f);
        const struct build_chain *source = step_source(f);
        enum build_progress p;
        struct err err = {0};
        int r = 0;

        if (f->archive >= 0) /* it was announced before its files were packed */
                return step_run(f);
        if (f->recipe.suite)
                return suite_take(f);
        if (source && !source->layers)
                return step_make_source(f);
        build_key_step(&f->chain.key, s, source ? source->key.hex : NULL, &f->key);
        f->chain.is_forced = f->chain.is_forced || s->force || (source && source->is_forced);
        if (!f->chain.is_forced)
                r = step_from_cache(f, &err);
        if (r < 0)
                return frame_trip(f, &err);
        if (r == 1)
                return BUILD_GOES_ON;
        p = s->type != STEP_ENV && box_is_empty(&f->box) ? frame_shorten(f) : BUILD_GOES_ON;
        if (p != BUILD_GOES_ON)
                return p;
        step_announce(f, false);
        return step_run(f);
}

enum build_progress step_answered(struct build_frame *f, const json_t *answer)
{
        const struct build_step *s = step_now(f);
        bool is_created = json_is_true(json_object_get(answer, "created"));
        AUTO_FREE char *path = NULL;
        const char *name;

        if (f->is_archiving) {
                f->is_archiving = false;
                box_drop(&f->box);
                return lseek(f->archive, 0, SEEK_SET) < 0 ? frame_trip(f, &build_no_memory) : BUILD_GOES_ON;
        }
        if (f->recipe.suite) {
                if (f->next + 1 == f->stage->step_count)
                        return step_commit(f, &RECIPE_ROOT[1]);
                f->next++;
                return BUILD_GOES_ON;
        }
        switch (s->type) {
        case STEP_WORKDIR:
                path = build_chain_path(&f->chain, build_step_arg(s, 0));
                if (!path || build_chain_set_text(&f->chain.workdir, path) < 0)
                        return frame_trip(f, &build_no_memory);
                return is_created ? step_commit(f, NULL) : step_finish(f, "");
        case STEP_USER:
                name = json_string_value(json_object_get(answer, "name")); /* of a number, or without its group */
                if (build_chain_set_text(&f->chain.user, name ? name : build_step_arg(s, 0)) < 0)
                        return frame_trip(f, &build_no_memory);
                return is_created ? step_commit(f, NULL) : step_finish(f, "");
        case STEP_RUN:
        case STEP_COPY:
        case STEP_ENV: break;
        }
        return step_commit(f, NULL);
}
