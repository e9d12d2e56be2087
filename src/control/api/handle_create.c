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
#include "control/build/first_use.h"
#include "control/catalogue/builds.h"
#include "control/catalogue/sources.h"
#include "control/catalogue/standby_wishes.h"
#include "control/catalogue/template_rows.h"
#include "control/life/lives.h"
#include "model/conf.h"
#include "model/request/create_request.h"

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

/* The template's environment, and the client's on top of it. */
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

static int create_fill_from(const struct create_request *want, const struct source_base *from, struct sandbox *s,
                            struct err *err)
{
        bool ok = true;

        memcpy(s->template_id, from->template_id, sizeof(s->template_id));
        memcpy(s->checkpoint, from->checkpoint, sizeof(s->checkpoint));
        memcpy(s->image_of, from->image_of, sizeof(s->image_of));
        s->image_secured = from->image_secured;
        s->cpu_count = want->cpu_count ? want->cpu_count : from->cpu_count;
        s->memory_mb = want->memory_mb ? want->memory_mb : from->memory_mb;
        s->disk_mb = from->disk_mb;
        s->alias = dup_or_null(from->alias, &ok);
        s->default_user = dup_or_null(from->default_user, &ok);
        s->default_workdir = dup_or_null(from->default_workdir, &ok);
        s->layers = json_incref(from->layers);
        return ok ? create_merge_env(from->env, want->env, &s->env, err) : err_sys(err, -ENOMEM, "create sandbox");
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

/* What there is, for a client that asked for something else. */
static void answer_no_template(struct api_exchange *x, const struct err *err)
{
        AUTO_BUF struct buf names = BUF_INIT(240), ready = BUF_INIT(240);
        const char *there, *made;

        sources_names(&x->api->sources, x->team, &names);
        if (x->api->first_use)
                first_use_names(x->api->first_use, &ready);
        there = names.len ? buf_cstr(&names) : NULL;
        made = ready.len ? buf_cstr(&ready) : NULL;
        answer_error(x, 404, NULL, "%s%s%s%s%s", err->msg, there ? ". There are: " : "", there ? there : "",
                     made ? "; ready-made, built at their first use: " : "", made ? made : "");
}

static void create_note_use(struct api_exchange *x, const struct create_request *want,
                            const struct template_source *from)
{
        template_row_spawned(x->api->template_rows, from->row);
        if (from->build->build.checkpoint[0])
                standby_wishes_used(x->api->standby_wishes, from->row, want->template.tag);
}

static int create_start(struct api_exchange *x, struct create_request *want, const struct template_source *from,
                        struct err *err)
{
        AUTO(source_base_done) struct source_base base = {0};
        struct sandbox s = {0};
        int r;

        create_fill_wishes(x, want, &s);
        if (source_base_of(from, &base) < 0)
                r = err_sys(err, -ENOMEM, "create sandbox");
        else
                r = create_fill_from(want, &base, &s, err);
        if (r == 0) {
                memcpy(x->id, s.id, sizeof(s.id));
                x->on_over = create_over;
                r = lives_start(x->api->lives, &s, create_started, x, err);
                if (r < 0)
                        x->on_over = NULL;
                else if (from->row)
                        create_note_use(x, want, from);
        }
        sandbox_done(&s);
        return r;
}

#define MEMORY_LEAST_MB 128u

/* ---- ready-made templates, at their first use ---- */

#define FIRST_USE_MS 50000  /* clients wait for a minute */
#define FIRST_USE_AGAIN_S 1 /* the next request waits here, too */

struct first_use_job {
        struct first_use_waiter waiter;
        struct timer patience;
        struct api_exchange *x;
        enum create_version version;
        char name[TEMPLATE_REF_MAX + 1];
};

static void create_handle(struct api_exchange *x, enum create_version version);

static void first_use_over(struct api_exchange *x, bool is_complete)
{
        struct first_use_job *job = x->job;

        (void)is_complete;
        x->job = NULL;
        first_use_cancel(&job->waiter);
        timer_clear(&job->patience);
        free(job);
}

static void first_use_built(struct first_use_waiter *w)
{
        struct first_use_job *job = CONTAINER_OF(w, struct first_use_job, waiter);
        const struct build_entry *e = builds_find(job->x->api->template_rows, w->build);
        struct api_exchange *x = job->x;
        enum create_version version = job->version;
        const char *why = e ? json_string_value(json_object_get(e->build.reason, "message")) : NULL;

        if (!e || e->build.status != BUILD_READY) {
                answer_error(x, 503, NULL, "template '%s' could not be built: %s (`sandglass template logs %s`)",
                             job->name, why ? why : "its build was cancelled", job->name);
                return;
        }
        x->on_over = NULL;
        first_use_over(x, false);
        create_handle(x, version);
}

static void first_use_late(struct timer *t)
{
        struct first_use_job *job = CONTAINER_OF(t, struct first_use_job, patience);

        answer_later(job->x, FIRST_USE_AGAIN_S,
                     "template '%s' is being built for its first use, and can be used in a few minutes "
                     "(`sandglass template logs %s` shows how far it is)",
                     job->name, job->name);
}

/* false: it is no ready-made template. */
static bool create_first_use(struct api_exchange *x, const struct template_ref *ref, enum create_version version)
{
        struct first_use_job *job;
        struct err err = {0};

        if (!x->api->first_use || !first_use_knows(x->api->first_use, ref))
                return false;
        if (strcmp(x->api->conf->first_use, "wait") != 0) {
                answer_error(x, 404, NULL, "template '%s' is not built yet: `sandglass template build %s` builds it",
                             ref->name, ref->name);
                return true;
        }
        job = calloc(1, sizeof(*job));
        if (!job) {
                answer_error(x, 503, NULL, "out of memory");
                return true;
        }
        *job = (struct first_use_job){
                .waiter.on = first_use_built, .patience.on = first_use_late, .x = x, .version = version};
        memcpy(job->name, ref->name, sizeof(job->name));
        x->job = job;
        x->on_over = first_use_over;
        timer_set(x->api->loop, &job->patience, FIRST_USE_MS);
        if (first_use_begin(x->api->first_use, ref->name, &job->waiter, &err) < 0)
                answer_err(x, &err);
        return true;
}

/* What a template may have at most, a sandbox may, too. */
static int create_check_size(const struct conf *c, const struct create_request *want, struct err *err)
{
        if (want->cpu_count > c->template_cpus_max)
                return err_set(err, ERR_INVALID, "validation error: field 'cpuCount' must be from 1 to %u",
                               c->template_cpus_max);
        if (want->memory_mb && (want->memory_mb < MEMORY_LEAST_MB || want->memory_mb > c->template_memory_max_mb))
                return err_set(err, ERR_INVALID, "validation error: field 'memoryMB' must be from %u to %u",
                               MEMORY_LEAST_MB, c->template_memory_max_mb);
        return 0;
}

static void create_handle(struct api_exchange *x, enum create_version version)
{
        const struct conf *conf = x->api->conf;
        AUTO(create_request_done) struct create_request want = {0};
        struct template_source from = {0};
        bool is_known = false;
        struct err err = {0};
        int r;

        r = create_request_decode(x->body, version, conf->timeout_max_s, &want, &err);
        if (r == 0)
                r = create_check_size(conf, &want, &err);
        if (r == 0) {
                r = sources_find(&x->api->sources, &want.template, x->team, &from, &err);
                is_known = from.row || from.snapshot || from.manifest;
        }
        if (r < 0 && err.kind == ERR_NOT_FOUND && create_first_use(x, &want.template, version)) {
                return; /* it is built first */
        } else if (r < 0 && err.kind == ERR_NOT_FOUND && !is_known) {
                answer_no_template(x, &err);
        } else if (r < 0) {
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
