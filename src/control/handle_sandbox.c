/* What is asked of one sandbox: get, kill, timeout, refreshes, connect; and GET /health. */
#include "control/handlers.h"

#include <stdint.h>

#include "base/err.h"
#include "control/control.h"
#include "control/exchange.h"
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

        if (!l || l->sandbox.state != SANDBOX_RUNNING)
                answer_no_sandbox(x);
        else
                answer_json(x, 200, show_detail(x->control, &l->sandbox));
}

static void on_gone(struct life_waiter *w, const struct err *err)
{
        struct exchange *x = CONTAINER_OF(w, struct exchange, waiter);

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

        if (l && l->sandbox.state == SANDBOX_RUNNING)
                return l;
        if (l)
                answer_error(x, 409, NULL, "Sandbox \"%s\" is being killed", x->id);
        else
                answer_no_sandbox(x);
        return NULL;
}

static struct lifetime lifetime_of(const struct life *l, const struct exchange *x)
{
        return (struct lifetime){l->sandbox.started_ns, l->sandbox.end_ns, x->control->conf->timeout_max_s};
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
        life = lifetime_of(l, x);
        r = lifetime_set(&life, x->control->now_ns(), timeout_s, &end_ns, &err);
        if (r == 0)
                r = life_set_end(l, end_ns, &err);
        if (r < 0)
                answer_err(x, &err);
        else
                answer_empty(x, 204);
}

/* Move the end of l, but never forward. */
static int extend(struct exchange *x, struct life *l, int64_t timeout_s, struct err *err)
{
        struct lifetime life = lifetime_of(l, x);
        int64_t end_ns = lifetime_extend(&life, x->control->now_ns(), timeout_s);

        return end_ns == l->sandbox.end_ns ? 0 : life_set_end(l, end_ns, err);
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
        r = extend(x, l, duration_s, &err);
        if (r < 0)
                answer_err(x, &err);
        else
                answer_empty(x, 204);
}

static void reconnect(struct exchange *x, int64_t default_s)
{
        uint32_t max_s = x->control->conf->timeout_max_s;
        int64_t timeout_s = default_s < max_s ? default_s : max_s;
        bool keeps_memory = true; /* says how to wake a paused one; a running one goes on as it is */
        struct err err = {0};
        struct life *l;
        int r;

        r = json_field_int(x->body, "timeout", 0, INT32_MAX, &timeout_s, &err);
        if (r == 0)
                r = json_field_bool(x->body, "memory", &keeps_memory, &err);
        if (r == 0 && timeout_s < 0)
                r = err_set(&err, ERR_INVALID, "validation error: field 'timeout' is required");
        if (r == 0)
                r = lifetime_check_max(timeout_s, max_s, &err);
        if (r < 0) {
                answer_err(x, &err);
                return;
        }
        l = running(x);
        if (!l)
                return;
        r = extend(x, l, timeout_s, &err);
        if (r < 0)
                answer_err(x, &err);
        else
                answer_json(x, 200, show_sandbox(x->control, &l->sandbox));
}

void handle_connect_v1(struct exchange *x)
{
        reconnect(x, -1);
}

void handle_connect_v2(struct exchange *x)
{
        reconnect(x, LIFETIME_DEFAULT_S);
}
