/* Requests about one sandbox: get, kill, timeout, refreshes; and GET /health. */
#include "control/api/handlers.h"

#include <stdint.h>

#include "base/err.h"
#include "control/access/keys.h"
#include "control/api/api.h"
#include "control/api/api_exchange.h"
#include "control/api/show.h"
#include "control/engine_link/engine_link.h"
#include "control/life/life_time.h"
#include "control/life/lives.h"
#include "model/conf.h"
#include "model/json_field.h"
#include "model/lifetime.h"

#define HEALTH_TIMEOUT_MS 5000
#define HEALTH_WAITERS_MAX 64

static void health_engine_up(struct engine_call *call, const json_t *answer, const struct err *err)
{
        struct api_exchange *x = CONTAINER_OF(call, struct api_exchange, call);

        (void)answer;
        if (err)
                answer_err(x, err);
        else
                answer_empty(x, 204);
}

/* A healthy server can make a sandbox.  While control connects to the engine the answer waits: so the supervisor learns with
 * one request when everything is up.  The route needs no key, so only a few requests may wait. */
void handle_health(struct api_exchange *x)
{
        struct engine_link *engine = x->api->engine;

        if (engine->state == ENGINE_UP) {
                answer_empty(x, 204);
        } else if (engine->call_count >= HEALTH_WAITERS_MAX) {
                answer_error(x, 503, NULL, "The engine is not connected");
        } else {
                x->call.on = health_engine_up;
                engine_call(engine, &x->call, json_pack("{s:s}", "op", "info"), HEALTH_TIMEOUT_MS);
        }
}

void handle_get(struct api_exchange *x)
{
        struct life *l = lives_find_of(x->api->lives, x->id, x->team);

        if (!l || !sandbox_is_visible(&l->sandbox))
                answer_no_sandbox(x);
        else
                answer_json(x, 200, json_with_text(show_detail(x->api, &l->sandbox), "teamID", x->team->id));
}

static void kill_waited(struct life_waiter *w, enum sandbox_state reached, const struct err *err)
{
        struct api_exchange *x = CONTAINER_OF(w, struct api_exchange, waiter);

        (void)reached;
        if (err)
                answer_err(x, err);
        else
                answer_empty(x, 204);
}

void handle_kill(struct api_exchange *x)
{
        struct life *l = lives_find_of(x->api->lives, x->id, x->team);

        if (!l) {
                answer_no_sandbox(x);
                return;
        }
        x->waiter.on = kill_waited;
        life_kill(l, "request", &x->waiter);
}

/* The running sandbox that the path names.  NULL: there is none, and the request is answered. */
static struct life *find_running_or_answer(struct api_exchange *x)
{
        struct life *l = lives_find_of(x->api->lives, x->id, x->team);

        if (l && (l->sandbox.state == SANDBOX_RUNNING || l->sandbox.state == SANDBOX_COPYING))
                return l;
        if (!l || sandbox_is_paused(&l->sandbox))
                answer_no_sandbox(x);
        else
                answer_in_transition(x, l);
        return NULL;
}

void handle_timeout(struct api_exchange *x)
{
        int64_t timeout_s = -1, end_ns = 0;
        struct lifetime life;
        struct err err = {0};
        struct life *l;
        int r;

        r = json_field_int(x->body, "timeout", 0, INT32_MAX, &timeout_s, &err);
        if (r == 0 && timeout_s < 0)
                r = err_set(&err, ERR_INVALID, "validation error: field 'timeout' is required");
        if (r < 0) {
                answer_err(x, &err);
                return;
        }
        l = find_running_or_answer(x);
        if (!l)
                return;
        life = life_lifetime(l, x->api->conf->timeout_max_s);
        r = lifetime_set(&life, lives_real_ns(x->api->lives), timeout_s, &end_ns, &err);
        if (r == 0)
                r = life_set_end(l, end_ns, &err);
        if (r < 0)
                answer_err(x, &err);
        else
                answer_empty(x, 204);
}

void handle_refresh(struct api_exchange *x)
{
        int64_t duration_s = 0;
        struct err err = {0};
        struct life *l;
        int r;

        r = json_field_int(x->body, "duration", 0, LIFETIME_REFRESH_MAX_S, &duration_s, &err);
        if (r < 0) {
                answer_err(x, &err);
                return;
        }
        l = find_running_or_answer(x);
        if (!l)
                return;
        if (duration_s < LIFETIME_REFRESH_MIN_S)
                duration_s = LIFETIME_REFRESH_MIN_S;
        r = life_extend(l, duration_s, x->api->conf->timeout_max_s, &err);
        if (r < 0)
                answer_err(x, &err);
        else
                answer_empty(x, 204);
}
