/* What is asked of one sandbox: get, kill, timeout, refreshes; and GET /health. */
#include "control/handlers.h"

#include <stdint.h>

#include "base/err.h"
#include "control/control.h"
#include "control/exchange.h"
#include "control/life_time.h"
#include "control/show.h"
#include "model/conf.h"
#include "model/json_field.h"
#include "model/lifetime.h"

#define HEALTH_TIMEOUT_MS 5000
#define HEALTH_WAITERS_MAX 64

static void on_engine_up(struct engine_call *call, const json_t *answer, const struct err *err)
{
        struct exchange *x = CONTAINER_OF(call, struct exchange, call);

        (void)answer;
        if (err)
                answer_err(x, err);
        else
                answer_empty(x, 204);
}

/* Healthy is who can make a sandbox.  While the engine is (re)connecting the answer waits for it: that is how the
 * supervisor knows, without asking twice, when everything is up.  The route is open, so not everybody may wait. */
void handle_health(struct exchange *x)
{
        struct engine_link *engine = &x->control->engine;

        if (engine->state == ENGINE_UP) {
                answer_empty(x, 204);
        } else if (engine->call_count >= HEALTH_WAITERS_MAX) {
                answer_error(x, 503, NULL, "The engine is not connected");
        } else {
                x->call.on = on_engine_up;
                engine_call(engine, &x->call, json_pack("{s:s}", "op", "info"), HEALTH_TIMEOUT_MS);
        }
}

void handle_get(struct exchange *x)
{
        struct life *l = lives_find_of(&x->control->lives, x->id, x->team);

        if (!l || !sandbox_is_visible(&l->sandbox))
                answer_no_sandbox(x);
        else
                answer_json(x, 200, show_detail(x->control, &l->sandbox));
}

static void on_gone(struct life_waiter *w, enum sandbox_state reached, const struct err *err)
{
        struct exchange *x = CONTAINER_OF(w, struct exchange, waiter);

        (void)reached;
        if (err)
                answer_err(x, err);
        else
                answer_empty(x, 204);
}

void handle_kill(struct exchange *x)
{
        struct life *l = lives_find_of(&x->control->lives, x->id, x->team);

        if (!l) {
                answer_no_sandbox(x);
                return;
        }
        x->waiter.on = on_gone;
        life_kill(l, "request", &x->waiter);
}

/* The running sandbox of the path; NULL: answered. */
static struct life *running(struct exchange *x)
{
        struct life *l = lives_find_of(&x->control->lives, x->id, x->team);

        if (l && (l->sandbox.state == SANDBOX_RUNNING || l->sandbox.state == SANDBOX_COPYING))
                return l;
        if (!l || l->sandbox.state == SANDBOX_PAUSED || l->sandbox.state == SANDBOX_SHIFTING)
                answer_no_sandbox(x);
        else
                answer_in_transition(x, l);
        return NULL;
}

void handle_timeout(struct exchange *x)
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
        l = running(x);
        if (!l)
                return;
        life = life_lifetime(l, x->control->conf->timeout_max_s);
        r = lifetime_set(&life, lives_real_ns(&x->control->lives), timeout_s, &end_ns, &err);
        if (r == 0)
                r = life_set_end(l, end_ns, &err);
        if (r < 0)
                answer_err(x, &err);
        else
                answer_empty(x, 204);
}

void handle_refresh(struct exchange *x)
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
        l = running(x);
        if (!l)
                return;
        if (duration_s < LIFETIME_REFRESH_MIN_S)
                duration_s = LIFETIME_REFRESH_MIN_S;
        r = life_extend(l, duration_s, x->control->conf->timeout_max_s, &err);
        if (r < 0)
                answer_err(x, &err);
        else
                answer_empty(x, 204);
}
