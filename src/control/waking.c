#include "control/waking.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "control/control.h"
#include "control/show.h"
#include "control/start_error.h"
#include "control/tokens.h"
#include "model/conf.h"
#include "model/lifetime.h"

#define WAIT_MS_MAX 60000 /* for what is under way; resuming itself is waited for as long as the edge does */

struct wake_job {
        struct control *control;
        struct feed_wake *wake;
        struct life_waiter waiter;
        struct timer timer;
        char id[SANDBOX_ID_MAX];
        bool is_envd;   /* the daemon's port */
        bool has_token; /* the right one */
        bool is_begun;  /* it is being resumed */
};

static struct feed_wake *job_free(struct wake_job *job)
{
        struct feed_wake *w = job->wake;

        list_remove(&job->waiter.node);
        timer_clear(&job->timer);
        w->job = NULL;
        free(job);
        return w;
}

static void refuse(struct wake_job *job, enum err_kind kind, const char *why)
{
        struct err err;

        err_set(&err, kind, "%s", why);
        feed_wake_answer(job_free(job), NULL, &err);
}

static void try_wake(struct wake_job *job);

static void on_reached(struct life_waiter *w, enum sandbox_state reached, const struct err *err)
{
        struct wake_job *job = CONTAINER_OF(w, struct wake_job, waiter);

        if (job->is_begun && err && reached == SANDBOX_PAUSED)
                refuse(job, err->kind == ERR_NOT_FOUND ? ERR_INTERNAL : err->kind, err->msg);
        else
                try_wake(job);
}

static void on_timeout(struct timer *t)
{
        refuse(CONTAINER_OF(t, struct wake_job, timer), ERR_CONFLICT, "it is still transitioning");
}

/* As long as it was meant to live at first, within bounds. */
static uint32_t lifetime_after_wake(const struct sandbox *s, uint32_t max_s)
{
        uint32_t timeout_s = s->timeout_s > LIFETIME_DEFAULT_S ? s->timeout_s : LIFETIME_DEFAULT_S;

        return timeout_s < max_s ? timeout_s : max_s;
}

static void resume(struct wake_job *job, struct life *l)
{
        const struct conf *conf = job->control->conf;
        const struct life_resume how = {.with_memory = true,
                                        .timeout_s = lifetime_after_wake(&l->sandbox, conf->timeout_max_s)};
        char limit[START_LIMIT_MAX];
        struct err err = {0};

        if (!sandbox_wakes(&l->sandbox)) {
                refuse(job, ERR_NOT_FOUND, "it is paused, and traffic does not wake it");
        } else if (job->is_envd && l->sandbox.is_secured && !job->has_token) {
                refuse(job, ERR_DENIED, "the access token is missing or wrong");
        } else if (l->team && l->team->sandbox_count >= conf->sandboxes_max) {
                start_limit_text(conf, limit);
                refuse(job, ERR_LIMIT, limit);
        } else if (life_resume(l, &how, &err) < 0) {
                refuse(job, err.kind, err.msg);
        } else {
                job->is_begun = true;
                timer_clear(&job->timer);
                life_wait(l, &job->waiter);
        }
}

static void try_wake(struct wake_job *job)
{
        struct control *c = job->control;
        struct life *l = lives_find(&c->lives, job->id);

        if (!l || !sandbox_is_visible(&l->sandbox)) {
                refuse(job, ERR_NOT_FOUND, "no such sandbox");
                return;
        }
        switch (l->sandbox.state) {
        case SANDBOX_RUNNING:
        case SANDBOX_COPYING: feed_wake_answer(job_free(job), show_route(c, &l->sandbox), NULL); break;
        case SANDBOX_PAUSED: resume(job, l); break;
        case SANDBOX_RESUMING:
                job->is_begun = true;
                timer_clear(&job->timer);
                life_wait(l, &job->waiter);
                break;
        default: life_wait(l, &job->waiter); break;
        }
}

static bool is_token_of(const struct control *c, const char *id, const json_t *given)
{
        char token[TOKEN_MAX];
        unsigned diff = 0;

        if (!json_is_string(given) || json_string_length(given) != SHA256_HEX_LEN)
                return false;
        token_envd(c->seed, id, token);
        for (size_t i = 0; i < SHA256_HEX_LEN; i++)
                diff |= (unsigned)(token[i] ^ json_string_value(given)[i]);
        return diff == 0;
}

void waking_begin(struct control *c, struct feed_wake *w, const json_t *msg)
{
        const char *id = json_string_value(json_object_get(msg, "id"));
        struct wake_job *job = sandbox_id_is_valid(str_of(id)) ? calloc(1, sizeof(*job)) : NULL;
        struct err err;

        if (!job) {
                err_set(&err, ERR_NOT_FOUND, "no such sandbox");
                feed_wake_answer(w, NULL, &err);
                return;
        }
        job->control = c;
        job->wake = w;
        job->waiter.on = on_reached;
        job->timer.on = on_timeout;
        memcpy(job->id, id, sizeof(job->id));
        job->is_envd = json_integer_value(json_object_get(msg, "port")) == ENVD_PORT;
        job->has_token = is_token_of(c, id, json_object_get(msg, "access_token"));
        w->job = job;
        timer_set(c->loop, &job->timer, WAIT_MS_MAX);
        try_wake(job);
}

void waking_forget(struct feed_wake *w)
{
        if (w->job)
                (void)job_free(w->job);
}
