/* POST /sandboxes/{sandboxID}/fork. */
#include "control/api/handlers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/api/show.h"
#include "control/api/start_error.h"
#include "control/life/lives.h"
#include "model/conf.h"
#include "model/json_field.h"
#include "model/lifetime.h"
#include "store/store.h"

#define COUNT_MAX 100

struct fork_copy {
        struct fork_job *job;
        char id[SANDBOX_ID_MAX];
        json_t *entry; /* in the answer; owned; NULL: not known yet */
};

struct fork_job {
        struct api_exchange *x; /* the request that waits; the job ends with it */
        size_t count, left;
        uint32_t timeout_s;
        struct fork_copy copies[];
};

/* A client that did not get the whole answer does not know the ids, and no other client does. */
static void fork_over(struct api_exchange *x, bool is_complete)
{
        struct fork_job *job = x->job;

        for (size_t i = 0; i < job->count; i++) {
                if (!is_complete && job->copies[i].id[0])
                        lives_abandon(x->api->lives, job->copies[i].id);
                json_decref(job->copies[i].entry);
        }
        free(job);
}

/* ---- the copies ---- */

static void fork_answer(struct fork_job *job)
{
        json_t *list = json_array();

        for (size_t i = 0; i < job->count; i++)
                (void)json_array_append(list, job->copies[i].entry);
        answer_json(job->x, 201, list);
}

static json_t *fork_error_entry(unsigned status, const char *before, const char *msg)
{
        return json_pack("{s:{s:i,s:o}}", "error", "code", (int)status, "message", json_sprintf("%s%s", before, msg));
}

static json_t *fork_start_error_entry(const struct err *err)
{
        struct start_error e = start_error_of(err);

        return fork_error_entry(e.status, e.before, err->msg);
}

static void fork_copy_done(struct fork_copy *copy, json_t *entry)
{
        struct fork_job *job = copy->job;

        copy->entry = entry;
        if (--job->left == 0)
                fork_answer(job);
}

static void fork_copy_started(struct life *l, const struct err *err, void *arg)
{
        struct fork_copy *copy = arg;

        if (err)
                copy->id[0] = 0;
        fork_copy_done(copy, err ? fork_start_error_entry(err)
                                 : json_pack("{s:o}", "sandbox", show_sandbox(copy->job->x->api, &l->sandbox)));
}

static char *dup_or_null(const char *s, bool *ok)
{
        char *copy = s ? strdup(s) : NULL;

        *ok = *ok && (!s || copy);
        return copy;
}

/* The copy has everything of the original but its identity. */
static int fork_fill_sandbox(const struct fork_job *job, const struct sandbox *o, const struct image *image,
                             json_t *env, struct sandbox *s, struct err *err)
{
        bool ok = true;

        *s = (struct sandbox){.team = o->team,
                              .cpu_count = o->cpu_count,
                              .memory_mb = o->memory_mb,
                              .disk_mb = o->disk_mb,
                              .is_secured = o->is_secured,
                              .internet = o->internet,
                              .auto_pause = o->auto_pause,
                              .auto_pause_memory = o->auto_pause_memory,
                              .auto_resume = o->auto_resume,
                              .timeout_s = job->timeout_s,
                              .image_secured = image->image_secured};
        sandbox_id_make(s->id);
        memcpy(s->template_id, o->template_id, sizeof(s->template_id));
        memcpy(s->checkpoint, image->checkpoint, sizeof(s->checkpoint));
        memcpy(s->image_of, image->image_of, sizeof(s->image_of));
        s->alias = dup_or_null(o->alias, &ok);
        s->default_user = dup_or_null(o->default_user, &ok);
        s->default_workdir = dup_or_null(o->default_workdir, &ok);
        s->metadata = json_incref(o->metadata);
        s->network = json_incref(o->network);
        s->layers = json_incref(image->layers);
        s->env = json_incref(env);
        return ok ? 0 : err_sys(err, -ENOMEM, "fork sandbox");
}

/* The entry of a copy that cannot be started.  NULL: the copy is being started. */
static json_t *fork_start_copy(struct fork_copy *copy, const struct sandbox *o, const struct image *image, json_t *env)
{
        struct api_exchange *x = copy->job->x;
        struct sandbox s = {0};
        struct err err = {0};
        int r;

        if (lives_check_limit(x->api->lives, x->team, &err) < 0)
                return fork_error_entry(429, "", err.msg);
        r = fork_fill_sandbox(copy->job, o, image, env, &s, &err);
        if (r == 0) {
                memcpy(copy->id, s.id, sizeof(copy->id));
                r = lives_start(x->api->lives, &s, fork_copy_started, copy, &err);
        }
        sandbox_done(&s);
        if (r == 0)
                return NULL;
        copy->id[0] = 0;
        return fork_start_error_entry(&err);
}

static void fork_image_taken(struct image_taker *t, const struct image *image, const struct err *err)
{
        struct api_exchange *x = CONTAINER_OF(t, struct api_exchange, taker);
        struct life *l = lives_find(x->api->lives, x->id);
        struct fork_job *job = x->job;
        json_t *env = NULL, *entry;
        struct err why = {0};

        if (!err && l && store_sandbox_env(x->api->store, x->id, &env, &why) < 0)
                err = &why;
        if (err || !l) {
                answer_copy_error(x, err ? err : &(struct err){.kind = ERR_GONE});
                return;
        }
        job->left = job->count + 1; /* one more, so that the answer is not given inside this loop */
        for (size_t i = 0; i < job->count; i++) {
                entry = fork_start_copy(&job->copies[i], &l->sandbox, image, env);
                if (entry)
                        fork_copy_done(&job->copies[i], entry);
        }
        json_decref(env);
        if (--job->left == 0)
                fork_answer(job);
}

/* ---- waiting for the sandbox ---- */

static void fork_try(struct api_exchange *x);

static void fork_turn_came(struct life_waiter *w, enum sandbox_state reached, const struct err *err)
{
        (void)reached, (void)err;
        fork_try(CONTAINER_OF(w, struct api_exchange, waiter));
}

static void fork_try(struct api_exchange *x)
{
        struct life *l = lives_find_of(x->api->lives, x->id, x->team);
        struct err err = {0};

        if (!l) {
                answer_no_sandbox(x);
                return;
        }
        switch (l->sandbox.state) {
        case SANDBOX_RUNNING:
        case SANDBOX_PAUSED:
                x->taker.on = fork_image_taken;
                if (life_take_image(l, &x->taker, &err) < 0)
                        answer_copy_error(x, &err);
                break;
        case SANDBOX_PAUSING:
        case SANDBOX_KILLING: answer_in_transition(x, l); break;
        default:
                x->waiter.on = fork_turn_came;
                life_wait(l, &x->waiter);
                break;
        }
}

static int fork_decode(const struct api_exchange *x, int64_t *ret_count, int64_t *ret_timeout_s, struct err *err)
{
        const struct conf *conf = x->api->conf;
        int r;

        *ret_count = 1;
        *ret_timeout_s = LIFETIME_DEFAULT_S < conf->timeout_max_s ? LIFETIME_DEFAULT_S : conf->timeout_max_s;
        r = json_field_int(x->body, "count", INT32_MIN, INT32_MAX, ret_count, err);
        if (r == 0)
                r = json_field_int(x->body, "timeout", INT32_MIN, INT32_MAX, ret_timeout_s, err);
        if (r < 0)
                return r;
        if (*ret_count < 1)
                return err_set(err, ERR_INVALID, "Count must be at least 1");
        if (*ret_count > COUNT_MAX)
                return err_set(err, ERR_INVALID, "Count cannot be greater than %d", COUNT_MAX);
        if (*ret_count >= conf->sandboxes_max)
                return err_set(err, ERR_INVALID,
                               "Count must be lower than the maximum number of concurrent sandboxes (%u)",
                               conf->sandboxes_max);
        if (*ret_timeout_s <= 0)
                return err_set(err, ERR_INVALID, "Timeout must be greater than 0");
        return lifetime_check_max(*ret_timeout_s, conf->timeout_max_s, err);
}

void handle_fork(struct api_exchange *x)
{
        int64_t count, timeout_s;
        struct fork_job *job;
        struct err err = {0};

        if (fork_decode(x, &count, &timeout_s, &err) < 0) {
                answer_err(x, &err);
                return;
        }
        job = calloc(1, sizeof(*job) + (size_t)count * sizeof(job->copies[0]));
        if (!job) {
                answer_error(x, 503, NULL, "out of memory");
                return;
        }
        job->x = x;
        job->count = (size_t)count;
        job->timeout_s = (uint32_t)timeout_s;
        for (size_t i = 0; i < job->count; i++)
                job->copies[i].job = job;
        x->job = job;
        x->on_over = fork_over;
        fork_try(x);
}
