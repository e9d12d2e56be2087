#include "control/routes/traffic_resume.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "control/access/tokens.h"
#include "control/life/lives.h"
#include "control/routes/route_server.h"
#include "control/routes/sandbox_route.h"
#include "model/conf.h"
#include "model/lifetime.h"

#define WAIT_MS_MAX 60000 /* for another transition to end; the resume itself is waited for as long as the edge waits */

struct traffic_resume {
        struct route_server *server;
        struct edge_resume *asked;
        struct life_waiter waiter;
        struct timer timer;
        char id[SANDBOX_ID_MAX];
        bool is_envd;   /* the request is for envd's port */
        bool has_token; /* with the right access token */
        bool is_begun;  /* the sandbox is being resumed */
};

static struct edge_resume *traffic_resume_free(struct traffic_resume *job)
{
        struct edge_resume *w = job->asked;

        list_remove(&job->waiter.node);
        timer_clear(&job->timer);
        w->job = NULL;
        free(job);
        return w;
}

static void traffic_resume_refuse(struct traffic_resume *job, enum err_kind kind, const char *why)
{
        struct err err;

        err_set(&err, kind, "%s", why);
        edge_resume_answer(traffic_resume_free(job), NULL, &err);
}

static void traffic_resume_try(struct traffic_resume *job);

static void traffic_resume_reached(struct life_waiter *w, enum sandbox_state reached, const struct err *err)
{
        struct traffic_resume *job = CONTAINER_OF(w, struct traffic_resume, waiter);

        if (job->is_begun && err && reached == SANDBOX_PAUSED)
                traffic_resume_refuse(job, err->kind == ERR_NOT_FOUND ? ERR_INTERNAL : err->kind, err->msg);
        else
                traffic_resume_try(job);
}

static void traffic_resume_timeout(struct timer *t)
{
        traffic_resume_refuse(CONTAINER_OF(t, struct traffic_resume, timer), ERR_CONFLICT, "it is still transitioning");
}

/* The time to live that it was created with, within bounds. */
static uint32_t lifetime_after_resume(const struct sandbox *s, uint32_t max_s)
{
        uint32_t timeout_s = s->timeout_s > LIFETIME_DEFAULT_S ? s->timeout_s : LIFETIME_DEFAULT_S;

        return timeout_s < max_s ? timeout_s : max_s;
}

static void traffic_resume_start(struct traffic_resume *job, struct life *l)
{
        const struct conf *conf = job->server->conf;
        const struct life_resume how = {.with_memory = true,
                                        .timeout_s = lifetime_after_resume(&l->sandbox, conf->timeout_max_s)};
        struct err err = {0};

        if (!sandbox_resumes_on_traffic(&l->sandbox)) {
                traffic_resume_refuse(job, ERR_NOT_FOUND, "it is paused, and traffic does not resume it");
        } else if (job->is_envd && l->sandbox.is_secured && !job->has_token) {
                traffic_resume_refuse(job, ERR_DENIED, "the access token is missing or wrong");
        } else if ((l->team && lives_check_limit(job->server->lives, l->team, &err) < 0) ||
                   life_resume(l, &how, &err) < 0) {
                traffic_resume_refuse(job, err.kind, err.msg);
        } else {
                job->is_begun = true;
                timer_clear(&job->timer);
                life_wait(l, &job->waiter);
        }
}

static void traffic_resume_try(struct traffic_resume *job)
{
        struct route_server *rs = job->server;
        struct life *l = lives_find(rs->lives, job->id);

        if (!l || !sandbox_is_visible(&l->sandbox)) {
                traffic_resume_refuse(job, ERR_NOT_FOUND, "no such sandbox");
                return;
        }
        switch (l->sandbox.state) {
        case SANDBOX_RUNNING:
        case SANDBOX_COPYING:
                edge_resume_answer(traffic_resume_free(job), sandbox_route_encode(rs->tokens, &l->sandbox), NULL);
                break;
        case SANDBOX_PAUSED: traffic_resume_start(job, l); break;
        case SANDBOX_RESUMING:
                job->is_begun = true;
                timer_clear(&job->timer);
                life_wait(l, &job->waiter);
                break;
        default: life_wait(l, &job->waiter); break;
        }
}

static bool is_token_of_sandbox(const struct tokens *tokens, const char *id, const json_t *given)
{
        char token[TOKEN_MAX];
        unsigned diff = 0;

        if (!json_is_string(given) || json_string_length(given) != SHA256_HEX_LEN)
                return false;
        token_envd(tokens, id, token);
        for (size_t i = 0; i < SHA256_HEX_LEN; i++)
                diff |= (unsigned)(token[i] ^ json_string_value(given)[i]);
        return diff == 0;
}

void traffic_resume_begin(struct route_server *rs, struct edge_resume *w, const json_t *msg)
{
        const char *id = json_string_value(json_object_get(msg, "id"));
        struct traffic_resume *job = sandbox_id_is_valid(str_of(id)) ? calloc(1, sizeof(*job)) : NULL;
        struct err err;

        if (!job) {
                err_set(&err, ERR_NOT_FOUND, "no such sandbox");
                edge_resume_answer(w, NULL, &err);
                return;
        }
        job->server = rs;
        job->asked = w;
        job->waiter.on = traffic_resume_reached;
        job->timer.on = traffic_resume_timeout;
        memcpy(job->id, id, sizeof(job->id));
        job->is_envd = json_integer_value(json_object_get(msg, "port")) == ENVD_PORT;
        job->has_token = is_token_of_sandbox(rs->tokens, id, json_object_get(msg, "access_token"));
        w->job = job;
        timer_set(rs->loop, &job->timer, WAIT_MS_MAX);
        traffic_resume_try(job);
}

void traffic_resume_forget(struct edge_resume *w)
{
        if (w->job)
                (void)traffic_resume_free(w->job);
}
